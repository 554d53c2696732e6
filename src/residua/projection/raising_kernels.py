"""Compiled loops of the repair: what cells lack, and tables with given margins that are products elsewhere."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled_loosely

_compiled: Any = compiled_loosely  # callers check that everything is finite


@_compiled
def lacking(x, starts, cells, least):
    """`x ← max(least − x, 0)` for tables of one shape, in place."""
    for t in range(starts.size):
        table = x[starts[t] : starts[t] + cells]
        for i in range(cells):
            table[i] = max(least[t] - table[i], 0.0)


@_compiled
def means_of(x, starts, shape, means, owned):
    """The means of tables of one shape along each axis: `means` receives them where `owned` says."""
    cells = 1
    for n in shape:
        cells *= n
    for t in range(starts.size):
        inner = cells
        for j in range(shape.size):
            n = shape[j]
            inner //= n
            at, to = starts[t], owned[t, j]
            for _ in range(cells // (n * inner)):
                own = means[to : to + inner]
                own[:] = 0.0
                for c in range(n):
                    row = x[at + c * inner : at + (c + 1) * inner]
                    for i in range(inner):
                        own[i] += row[i] / n
                at += n * inner
                to += inner


@_compiled
def spread_each(x, starts, shapes, ways, margins, facets, shares, begins):
    """`x ← x + share ⊗ (margin − Σ x)` along every axis of every table in turn, in place; small sets first.

    shares holds one vector per attribute that adds up to 1, begins where that of each axis starts, (tables, axes).
    `margins` may be x itself.
    """
    for t in range(starts.size):
        cells = 1
        for j in range(ways[t]):
            cells *= shapes[t, j]
        inner = cells
        for j in range(ways[t]):
            n = shapes[t, j]
            inner //= n
            share = shares[begins[t, j] : begins[t, j] + n]
            difference = np.empty(inner)
            at, margin = starts[t], facets[t, j]
            for _ in range(cells // (n * inner)):
                difference[:] = margins[margin : margin + inner]
                for c in range(n):
                    row = x[at + c * inner : at + (c + 1) * inner]
                    for i in range(inner):
                        difference[i] -= row[i]
                for c in range(n):
                    row = x[at + c * inner : at + (c + 1) * inner]
                    for i in range(inner):
                        row[i] += share[c] * difference[i]
                at += n * inner
                margin += inner
