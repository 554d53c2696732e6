"""Compiled loops over many small tables: centring integers, and rebuilding tables from residuals and margins.

A table is a flat row of cells in row-major order; an axis splits it as (outer, n, inner). Each table is handled
while it lies in the cache, and inner loops run over adjoining cells so that they use vector instructions (which
Numba's own parallel loops would prevent). Compiled once and cached on disk; the NumPy twins in `lattice.py` serve
small work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.machine import compiled


@compiled
def centre(tables: Integers, shape: Integers) -> None:
    """`x ← n x − Σ x` along every axis, in place: the integer matrix ⊗(nI − 11ᵀ). tables is (tables, cells)."""
    totals = np.empty(tables.shape[1], dtype=np.int64)
    for t in range(tables.shape[0]):
        x = tables[t]
        inner = 1
        for axis in range(shape.size - 1, -1, -1):
            n = shape[axis]
            step = n * inner
            for start in range(0, x.size, step):
                if inner == 1:  # the last axis: its cells adjoin
                    total = 0
                    for j in range(start, start + n):
                        total += x[j]
                    for j in range(start, start + n):
                        x[j] = n * x[j] - total
                    continue
                for i in range(inner):
                    totals[i] = 0
                for j in range(start, start + step, inner):
                    for i in range(inner):
                        totals[i] += x[j + i]
                for j in range(start, start + step, inner):
                    for i in range(inner):
                        x[j + i] = n * x[j + i] - totals[i]
            inner = step


@compiled
def rebuild(integers: Integers, steps: Floats, shape: Integers, lower: Floats, facets: Integers, out: Floats) -> None:
    """Tables from integers on grids: scaled, then made to agree with given margins without touching the residual.

    `x = step · integer`, then for every axis in turn `x ← x + (margin − Σ x)/n`. The margins agree with each other, so
    that a later axis does not undo an earlier one. integers and out are (tables, cells), steps is (tables,);
    facets[t, axis] says where in `lower` the margin without that axis begins.
    """
    corrections = np.empty(out.shape[1])
    for t in range(out.shape[0]):
        x = out[t]
        for j in range(x.size):
            x[j] = steps[t] * integers[t, j]
        inner = 1
        for axis in range(shape.size - 1, -1, -1):
            n = shape[axis]
            step = n * inner
            margin = facets[t, axis]
            for start in range(0, x.size, step):
                if inner == 1:  # the last axis: its cells adjoin
                    correction = lower[margin]
                    for j in range(start, start + n):
                        correction -= x[j]
                    correction /= n
                    for j in range(start, start + n):
                        x[j] += correction
                    margin += 1
                    continue
                for i in range(inner):
                    corrections[i] = lower[margin + i]
                for j in range(start, start + step, inner):
                    for i in range(inner):
                        corrections[i] -= x[j + i]
                for i in range(inner):
                    corrections[i] /= n
                for j in range(start, start + step, inner):
                    for i in range(inner):
                        x[j + i] += corrections[i]
                margin += inner
            inner = step


@compiled
def add_rows(parents: Any, rows: Any, out: Any) -> None:
    """Adds each row to its parent's."""
    for i in range(rows.shape[0]):
        to = parents[i]
        for j in range(rows.shape[1]):
            out[to, j] += rows[i, j]
