"""Compiled loops over tables kept as residuals: sweeps over the maximal ones, sums between those below, margins.

A table is a flat row of cells in row-major order. Whatever a maximal table needs from elsewhere is a sum of tables
with one axis less (its facets), so that a sweep reads and writes every cell once while the facets lie in the cache.
Throughout, z is the nearest allowed value to w (at least the floor, or exactly 0 where `zeros` says so), u = w − z is
what was cut off, and v = z − u its mirror image.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import numpy as np

from residua.machine import compiled_loosely

RAISED = 0.1  # of the floor: cells below that are raised in the end


@compiled_loosely
def sweep(w, y, zeros, starts, shape, blends, floors, relax, lower, facets, own, owned, norms):
    """One step of the alternating direction method for tables of one shape, in place.

    The new table is `m = (1 − blend) y + blend v` with its margins made those in `lower`; then
    `w ← relax m + (1 − relax) z + u`, and `own` receives the means of the new v along each axis. norms, (tables, 2),
    receives the squared distances of m from the new z, and of the new z from the old.

    Rows are views, so that loops over them need no check of their places and run several cells at a time.
    """
    k, last = shape.size, shape[-1]
    cells = _cells(shape, k)
    ends, places = _ends(shape, cells), np.empty(k, np.int64)
    facet_cells = ends[-1] + cells // last
    b, means = np.empty(facet_cells), np.empty(facet_cells)
    line = np.empty(last)
    for t in range(starts.size):
        blend, floor = blends[t], floors[t]
        kept = 1.0 - blend
        _corrections(lower, facets[t], own, owned[t], blend, shape, ends, b)
        means[:] = 0.0
        apart, moved = 0.0, 0.0
        for row in range(cells // last):
            _row(row, shape, ends, places)
            _line(b, places, line)
            at = starts[t] + row * last
            now, wanted = w[at : at + last], y[at : at + last]
            total = 0.0
            for i in range(last):
                old = now[i]
                zero = False if zeros is None else zeros[at + i]
                z = 0.0 if zero else max(old, floor)
                m = line[i] + kept * wanted[i] + blend * (2.0 * z - old)
                new = relax * (m - z) + old
                x = 0.0 if zero else max(new, floor)
                apart += (m - x) ** 2
                moved += (x - z) ** 2
                now[i] = new
                line[i] = 2.0 * x - new
                total += 2.0 * x - new
            _add_line(line, places, means)
            means[places[k - 1]] = total
        _store_means(means, shape, ends, cells, own, owned[t])
        norms[t, 0], norms[t, 1] = apart, moved


@compiled_loosely
def inspect(w, y, zeros, starts, shape, blends, floors, lower, facets, own, owned, cut, facts, out):
    """What a certificate needs to know about tables of one shape.

    facts, (tables, 7), receives: the least cell of m that is not a zero, the largest |m| of a zero, `‖C v − y‖²`,
    `‖C u‖²`, `⟨C u, y⟩`, `Σ u` without the zeros, and by how much cells of m fall short of `RAISED · floor` in all,
    with C the centring along all axes. `cut` receives the means of u along each axis.
    If `out` is not empty, it receives the residual `y + blend (C v − y)`.
    """
    k, last = shape.size, shape[-1]
    cells = _cells(shape, k)
    ends, places = _ends(shape, cells), np.empty(k, np.int64)
    facet_cells = ends[-1] + cells // last
    b_m, b_v, b_u = np.empty(facet_cells), np.empty(facet_cells), np.empty(facet_cells)
    line_m, line_v, line_u = np.empty(last), np.empty(last), np.empty(last)
    nothing, first = np.zeros(facet_cells), np.zeros(k, np.int64)
    for t in range(starts.size):
        blend, floor = blends[t], floors[t]
        b_u[:] = 0.0
        least, largest, distance, square, product, added, short = np.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for row in range(cells // last):
            _row(row, shape, ends, places)
            at = starts[t] + row * last
            now, total = w[at : at + last], 0.0
            for i in range(last):
                zero = False if zeros is None else zeros[at + i]
                line_u[i] = now[i] if zero else min(now[i] - floor, 0.0)
                total += line_u[i]
                added += 0.0 if zero else line_u[i]
            _add_line(line_u, places, b_u)
            b_u[places[k - 1]] = total
        _store_means(b_u, shape, ends, cells, cut, owned[t])
        _corrections(lower, facets[t], own, owned[t], blend, shape, ends, b_m)
        _corrections(nothing, first, own, owned[t], 1.0, shape, ends, b_v)
        _corrections(nothing, first, cut, owned[t], 1.0, shape, ends, b_u)
        for row in range(cells // last):
            _row(row, shape, ends, places)
            _line(b_m, places, line_m)
            _line(b_v, places, line_v)
            _line(b_u, places, line_u)
            at = starts[t] + row * last
            now, wanted = w[at : at + last], y[at : at + last]
            for i in range(last):
                zero = False if zeros is None else zeros[at + i]
                z = 0.0 if zero else max(now[i], floor)
                m = line_m[i] + (1.0 - blend) * wanted[i] + blend * (2.0 * z - now[i])
                if zero:
                    largest = max(largest, abs(m))
                else:
                    least = min(least, m)
                    short += max(RAISED * floor - m, 0.0)
                line_v[i] += 2.0 * z - now[i] - wanted[i]
                distance += line_v[i] ** 2
                line_u[i] += now[i] - z
                square += line_u[i] ** 2
                product += line_u[i] * wanted[i]
            if out.size:
                own_residual = out[at : at + last]
                for i in range(last):
                    own_residual[i] = wanted[i] + blend * line_v[i]
        facts[t, 0], facts[t, 1], facts[t, 2] = least, largest, distance
        facts[t, 3], facts[t, 4], facts[t, 5], facts[t, 6] = square, product, added, short


@compiled_loosely
def add_means(source, target, begins, outers, lengths, inners, places, weights):
    """`target_p += weight_p · mean of source_p along one axis` for many pairs of tables p."""
    for p in range(begins.size):
        n, inner = lengths[p], inners[p]
        weight = weights[p] / n
        for o in range(outers[p]):
            out = places[p] + o * inner
            for c in range(n):
                at = begins[p] + (o * n + c) * inner
                for i in range(inner):
                    target[out + i] += weight * source[at + i]


@compiled_loosely
def spread_each(x, starts, shapes, ways, margins, facets, shares, begins):
    """`x ← x + share ⊗ (margin − Σ x)` along every axis of every table in turn, in place; small sets first.

    shapes is (tables, most axes), ways how many of them count. shares holds one vector per attribute that adds up to 1,
    begins where that of each axis starts, (tables, axes). `margins` may be x itself. What x has along an axis beside
    its own residual does not matter.
    """
    for t in range(starts.size):
        inner = _cells(shapes[t], ways[t])
        stop = starts[t] + inner
        for j in range(ways[t]):
            n = shapes[t, j]
            inner //= n
            margin, share = facets[t, j], shares[begins[t, j] : begins[t, j] + n]
            for o in range(starts[t], stop, n * inner):
                for i in range(o, o + inner):
                    difference = margins[margin]
                    margin += 1
                    for c in range(n):
                        difference -= x[i + c * inner]
                    for c in range(n):
                        x[i + c * inner] += share[c] * difference


@compiled_loosely
def _corrections(lower, facets, own, owned, blend, shape, ends, out):
    """Tables b_j, one without each axis, whose sum gives a table's cells the margins they must have.

    `g_j = lower_j / n_j − blend · own_j` is what the means along axis j must change by; these agree with each other,
    and `b_j = g_j` centred along the axes before j.
    """
    cells = _cells(shape, shape.size)
    for j in range(shape.size):
        start, size = ends[j], cells // shape[j]
        for i in range(size):
            out[start + i] = lower[facets[j] + i] / shape[j] - blend * own[owned[j] + i]
        inner = size
        for axis in range(j):
            inner //= shape[axis]
            _centre(out, start, start + size, shape[axis], inner)


@compiled_loosely
def _centre(x, start, stop, n, inner):
    for o in range(start, stop, n * inner):
        for i in range(o, o + inner):
            mean = 0.0
            for c in range(i, i + n * inner, inner):
                mean += x[c]
            mean /= n
            for c in range(i, i + n * inner, inner):
                x[c] -= mean


@compiled_loosely
def _row(row, shape, ends, places):
    """Where in the facets the cells of one row lie (all axes but the last fixed), for the facet without each axis."""
    k, last = shape.size, shape[-1]
    after = 1  # rows per step of axis j
    for j in range(k - 2, -1, -1):
        places[j] = ends[j] + (row // (after * shape[j]) * after + row % after) * last
        after *= shape[j]
    places[k - 1] = ends[k - 1] + row


@compiled_loosely
def _line(b, places, line):
    """The sum of all facets along one row."""
    last = line.size
    line[:] = b[places[-1]]
    for j in range(places.size - 1):
        facet = b[places[j] : places[j] + last]
        for i in range(last):
            line[i] += facet[i]


@compiled_loosely
def _add_line(line, places, sums):
    """Adds one row to the facets without each axis but the last."""
    last = line.size
    for j in range(places.size - 1):
        facet = sums[places[j] : places[j] + last]
        for i in range(last):
            facet[i] += line[i]


@compiled_loosely
def _store_means(sums, shape, ends, cells, own, owned):
    for j in range(shape.size):
        size = cells // shape[j]
        for i in range(size):
            own[owned[j] + i] = sums[ends[j] + i] / shape[j]


@compiled_loosely
def _ends(shape, cells):
    ends = np.zeros(shape.size, np.int64)
    for j in range(1, shape.size):
        ends[j] = ends[j - 1] + cells // shape[j - 1]
    return ends


@compiled_loosely
def _cells(shape, ways):
    cells = 1
    for j in range(ways):
        cells *= shape[j]
    return cells
