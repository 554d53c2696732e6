"""Compiled passes for the variances of ranges along an axis, of `spans.py`."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled
from residua.linalg.axis_kernels import stiffness

_compiled: Any = compiled


@_compiled
def cell_facts(links, left, right, values, q, p, starts, alone, room, found, out):
    """What one part is like in each cell of running sums; returns the square of the factor of m.

    A cell holds the sums C_{s−1}, …, C_{e−2} for neighbouring starts s, e (C_{−1} = 0 is the first of all). found: the
    least covariance of one of them with the last, Σ log φ at the last, m at the first and the last, (4, cells);
    where the first shall stand `alone`, all of that is of the first. out has the variances V of all sums, (n + 1,).
    """
    stiffness(links, right, values, q, p, room)
    k = values + p / q[0]
    extra = left / (1.0 + left * k * room[0] / (k + room[0]))
    v = m = log = least = 0.0
    cell, at = 0, 0
    for node in range(q.size + 1):
        if node:
            k = values + p / q[node - 1]
            t = 1.0 / (k + room[node - 1])
            phi = k * t
            if node > 1:
                log += np.log(phi)
            v = phi * phi * v + t
            m = phi * m + room[node - 1] * t
            least *= phi
        out[node] = v
        if node == starts[at]:
            cell, at, least = at, at + 1, v
            found[2, cell] = m
        least = min(least, v)
        if node == starts[cell] if alone else node + 1 == starts[at]:
            found[0, cell], found[1, cell], found[3, cell] = least, log, m
    return extra


@_compiled
def lower(facts, extra, weight, out):
    """Adds to `out`, (cells, cells), what one part takes from the sum of two variances, at the least: twice the
    covariance, without what the ends of the path add. Above the diagonal and on it."""
    cells = out.shape[0]
    for i in range(cells):
        for j in range(i, cells):
            apart = facts[3, j] - facts[2, i]
            shared = facts[0, i] * np.exp(facts[1, j] - facts[1, i])
            out[i, j] += weight * (2.0 * shared - extra * apart * apart)


@_compiled
def largest(highest, shared):
    """`max (highest_i + highest_j − shared_ij)` over i ≤ j for each i or j, (cells,)."""
    cells = highest.size
    found = np.zeros(cells)
    for i in range(cells):
        for j in range(i, cells):
            each = highest[i] + highest[j] - shared[i, j]
            found[i] = max(found[i], each)
            found[j] = max(found[j], each)
    return found
