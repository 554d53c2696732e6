"""Compiled loops over tables in coordinates along axes: cells that are not negative, prefix sums that do not fall.

A table kept as prefix sums is (outer, n, inner) with its sums along the middle axis, the last of them, the total, in
place 0. The nearest sums that do not fall are the means of blocks of neighbours, found in one pass, and raised to zero;
above a floor they are those of what is beside the floor. Where a cell is impossible, its sum is that before it (zero
before the first), so that both are in one block from the start.

Fibres are copied a few at a time: they lie next to each other in memory, and what one of them reads is near to what the
others will.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import numpy as np

from residua.machine import compiled, compiled_inline, compiled_loosely

_TOGETHER = 8  # fibres: as many floats as a line of the cache holds
NO_ZEROS = np.zeros((0, 0, 0, 0), dtype=bool)


@compiled_inline
def _nearest(sums, tied, last, totals, weights, ends, out):
    """The nearest numbers that do not fall, are not negative, and are that before where `tied` says (if it does).

    All weigh 1 but the last.
    """
    n, blocks, i = len(sums), 0, 0
    while i < len(tied) and tied[i]:
        out[i] = 0.0
        i += 1
    at = i
    while i < n:
        weight = last if i == n - 1 else 1.0
        total = weight * sums[i]
        i += 1
        while i < len(tied) and tied[i]:
            own = last if i == n - 1 else 1.0
            total += own * sums[i]
            weight += own
            i += 1
        while blocks > 0 and totals[blocks - 1] * weight >= total * weights[blocks - 1]:
            blocks -= 1
            total += totals[blocks]
            weight += weights[blocks]
        totals[blocks], weights[blocks], ends[blocks] = total, weight, i
        blocks += 1
    for block in range(blocks):
        mean = max(totals[block] / weights[block], 0.0)
        while at < ends[block]:
            out[at] = mean
            at += 1


@compiled_inline
def _copy(w, zeros, even, floor, t, a, first, width, sums, tied):
    """Copies what a few fibres are above the floor, in the order of values, and which cells are impossible."""
    e, n = t if even.shape[0] > 1 else 0, w.shape[2]
    for i in range(zeros.shape[2]):
        for k in range(width):
            tied[k, i] = zeros[t, a, i, first + k]
    for i in range(n):
        place = (i + 1) % n
        for k in range(width):
            sums[k, i] = w[t, a, place, first + k] - floor * even[e, a, place, first + k]


@compiled
def nearest_rising(w, zeros, even, floor, last):
    """The nearest tables to w, (tables, outer, n, inner), that keep `floor · even` and the zeros.

    zeros are in the order of values, (tables, outer, n, inner), or empty; even is that of each table, or of all of them
    alike, (tables or 1, outer, n, inner), and does not rise at zeros.
    """
    n, inner = w.shape[2], w.shape[3]
    rising = np.empty_like(w)
    sums, out, totals = np.empty((_TOGETHER, n)), np.empty((_TOGETHER, n)), np.empty(n)
    weights, ends = np.empty(n), np.empty(n, dtype=np.int64)
    tied = np.empty((_TOGETHER, zeros.shape[2]), dtype=np.bool_)
    for t in range(w.shape[0]):
        e = t if even.shape[0] > 1 else 0
        for a in range(w.shape[1]):
            for first in range(0, inner, _TOGETHER):
                width = min(_TOGETHER, inner - first)
                _copy(w, zeros, even, floor, t, a, first, width, sums, tied)
                for k in range(width):
                    _nearest(sums[k], tied[k], last, totals, weights, ends, out[k])
                for i in range(n):
                    place = (i + 1) % n
                    for k in range(width):
                        rising[t, a, place, first + k] = out[k, i] + floor * even[e, a, place, first + k]
    return rising


@compiled
def reflect_rising(m, w, zeros, even, floor, last, cell_weights, penalties, relax, norms):
    """As `reflect`, where what is allowed are prefix sums that do not fall (see `nearest_rising`)."""
    n, inner = w.shape[2], w.shape[3]
    sums, z, x = np.empty((_TOGETHER, n)), np.empty((_TOGETHER, n)), np.empty((_TOGETHER, n))
    totals, weights, ends = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    tied = np.empty((_TOGETHER, zeros.shape[2]), dtype=np.bool_)
    for t in range(w.shape[0]):
        e = t if even.shape[0] > 1 else 0
        apart, moved = 0.0, 0.0
        for a in range(w.shape[1]):
            for first in range(0, inner, _TOGETHER):
                width = min(_TOGETHER, inner - first)
                _copy(w, zeros, even, floor, t, a, first, width, sums, tied)
                for k in range(width):
                    _nearest(sums[k], tied[k], last, totals, weights, ends, z[k])
                for i in range(n):
                    place = (i + 1) % n
                    for k in range(width):
                        lowest = floor * even[e, a, place, first + k]
                        sums[k, i] += relax * (m[t, a, place, first + k] - z[k, i] - lowest)
                for k in range(width):
                    _nearest(sums[k], tied[k], last, totals, weights, ends, x[k])
                for i in range(n):
                    place = (i + 1) % n
                    for k in range(width):
                        b = first + k
                        weight, lowest = cell_weights[a, place, b], floor * even[e, a, place, b]
                        apart += weight * (m[t, a, place, b] - x[k, i] - lowest) ** 2
                        moved += weight * (x[k, i] - z[k, i]) ** 2
                        w[t, a, place, b] = sums[k, i] + lowest
                        m[t, a, place, b] = (
                            penalties[t] * weight * (m[t, a, place, b] - 2.0 * x[k, i] + sums[k, i] - lowest)
                        )
        norms[t, 0], norms[t, 1] = penalties[t] * apart, penalties[t] * moved


@compiled
def give_total(sums, zeros, share):
    """Multiplies the total of every fibre of rising sums, (tables, outer, n, inner), by a share, in place.

    They stay rising, and every sum below its fibre's new total stays what it is: sums are cut off at the new total, or
    raised from the last value on that is not impossible.
    """
    n = sums.shape[2]
    for t in range(sums.shape[0]):
        for a in range(sums.shape[1]):
            for b in range(sums.shape[3]):
                total = share * sums[t, a, 0, b]
                last = n - 1
                while last < zeros.shape[2] and last > 0 and zeros[t, a, last, b]:
                    last -= 1
                for i in range(n):
                    place = (i + 1) % n
                    sums[t, a, place, b] = total if i >= last else min(sums[t, a, place, b], total)


@compiled_loosely
def reflect(m, w, zeros, even, floor, cell_weights, penalties, relax, norms):
    """The tables' half of a step in coordinates along axes, for rows of tables (tables, cells), in place.

    `w ← relax m + (1 − relax) z + u` with the floor `floor · even`, and m becomes the penalty's gradient
    `penalty · cell weight · (m − v)`, v the new one. norms, (tables, 2), is as in
    `table_kernels.sweep`, in the penalty's norm.
    """
    for t in range(m.shape[0]):
        apart, moved = 0.0, 0.0
        for i in range(m.shape[1]):
            old, lowest, weight = w[t, i], floor * even[i], cell_weights[i]
            zero = zeros.size > 0 and zeros[t, i]
            z = 0.0 if zero else max(old, lowest)
            new = relax * (m[t, i] - z) + old
            x = 0.0 if zero else max(new, lowest)
            apart += weight * (m[t, i] - x) ** 2
            moved += weight * (x - z) ** 2
            w[t, i] = new
            m[t, i] = penalties[t] * weight * (m[t, i] - 2.0 * x + new)
        norms[t, 0], norms[t, 1] = penalties[t] * apart, penalties[t] * moved


@compiled_loosely
def follow(y, wanted, gradient, weights, pulls, lengths, free):
    """The coordinates' half: `y ← y + (weight (wanted − y) − gradient)/(weight + pull · length)` if free."""
    for t in range(y.shape[0]):
        if free[t]:
            for i in range(y.shape[1]):
                push = weights[t] * (wanted[t, i] - y[t, i]) - gradient[t, i]
                y[t, i] += push / (weights[t] + pulls[t] * lengths[i])


@compiled
def split_among(order, offsets, values, weights, wanted, nonnegative):
    """Moves the children's values, in place, to the nearest that add up to what is wanted of each parent.

    Least `Σ (x − y)²/w` with `Σ x` given, and x not negative: `x = max(y + w m, 0)`. Those that would be negative are
    left out round by round.
    """
    for parent in range(len(offsets) - 1):
        low, high = offsets[parent], offsets[parent + 1]
        for cell in range(values.shape[1]):
            total = wanted[parent, cell]
            if nonnegative and total <= 0.0:
                for at in range(low, high):
                    values[order[at], cell] = 0.0
                continue
            left = -1
            shift = 0.0
            while True:
                among, weight, count = 0.0, 0.0, 0
                for at in range(low, high):
                    child = order[at]
                    if left < 0 or not nonnegative or values[child, cell] + weights[child] * shift > 0.0:
                        among += values[child, cell]
                        weight += weights[child]
                        count += 1
                shift = (total - among) / weight
                if count == left or not nonnegative:
                    break
                left = count
            for at in range(low, high):
                child = order[at]
                moved = values[child, cell] + weights[child] * shift
                values[child, cell] = moved if not nonnegative or moved > 0.0 else 0.0
