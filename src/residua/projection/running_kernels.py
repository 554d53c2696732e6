"""Compiled loops over tables of running sums: the nearest that do not fall, fibre by fibre.

A table is (outer, n, inner) with its running sums along the middle axis, the last of them, the total, in place 0. The
nearest sums that do not fall are the means of blocks of neighbours, found in one pass, and raised to zero; above a
floor they are those of what is beside the floor.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled, compiled_inline

_compiled: Any = compiled
_inlined: Any = compiled_inline


@_inlined
def _nearest(sums, means, counts, out):
    """The nearest numbers that do not fall and are not negative."""
    n, blocks = len(sums), 0
    for i in range(n):
        mean, count = sums[i], 1
        while blocks > 0 and means[blocks - 1] >= mean:
            blocks -= 1
            mean = (means[blocks] * counts[blocks] + mean * count) / (counts[blocks] + count)
            count += counts[blocks]
        means[blocks], counts[blocks] = mean, count
        blocks += 1
    at = 0
    for block in range(blocks):
        mean = max(means[block], 0.0)
        for _ in range(counts[block]):
            out[at] = mean
            at += 1


@_compiled
def nearest_rising(w, even, floor):
    """The nearest tables to w, (tables, outer, n, inner), that keep `floor · even`, (outer, n, inner)."""
    n = w.shape[2]
    found = np.empty_like(w)
    sums, means, out, counts = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    for t in range(w.shape[0]):
        for a in range(w.shape[1]):
            for b in range(w.shape[3]):
                for i in range(n):
                    place = (i + 1) % n
                    sums[i] = w[t, a, place, b] - floor * even[a, place, b]
                _nearest(sums, means, counts, out)
                for i in range(n):
                    place = (i + 1) % n
                    found[t, a, place, b] = out[i] + floor * even[a, place, b]
    return found


@_compiled
def reflect_rising(m, w, even, floor, cell_weights, penalties, relax, norms):
    """As `kernels.reflect`, where what is allowed are running sums that do not fall."""
    n = w.shape[2]
    sums, means, counts = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    z, x = np.empty(n), np.empty(n)
    for t in range(w.shape[0]):
        apart, moved = 0.0, 0.0
        for a in range(w.shape[1]):
            for b in range(w.shape[3]):
                for i in range(n):
                    place = (i + 1) % n
                    sums[i] = w[t, a, place, b] - floor * even[a, place, b]
                _nearest(sums, means, counts, z)
                for i in range(n):
                    place = (i + 1) % n
                    sums[i] += relax * (m[t, a, place, b] - z[i] - floor * even[a, place, b])
                _nearest(sums, means, counts, x)
                for i in range(n):
                    place = (i + 1) % n
                    lowest, weight = floor * even[a, place, b], cell_weights[a, place, b]
                    apart += weight * (m[t, a, place, b] - x[i] - lowest) ** 2
                    moved += weight * (x[i] - z[i]) ** 2
                    w[t, a, place, b] = sums[i] + lowest
                    m[t, a, place, b] = (
                        penalties[t] * weight * (m[t, a, place, b] - 2.0 * (x[i] + lowest) + sums[i] + lowest)
                    )
        norms[t, 0], norms[t, 1] = penalties[t] * apart, penalties[t] * moved
