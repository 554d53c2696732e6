"""Compiled loops over many small tables: centring integers, summing out an axis, and fitting margins.

A table is a flat row of cells in row-major order; an axis splits it as (outer, n, inner). Each table is handled
while it lies in the cache. Compiled once and cached on disk; the NumPy twins in `tables.py` serve small work.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True, nogil=True, parallel=True)
def centre(tables: NDArray[np.int64], shape: NDArray[np.int64]) -> None:
    """`x ← n x − Σ x` along every axis, in place: the integer matrix ⊗(nI − 11ᵀ). tables is (tables, cells)."""
    for t in numba.prange(tables.shape[0]):
        inner = 1
        for axis in range(shape.size - 1, -1, -1):
            n = shape[axis]
            step = n * inner
            for start in range(0, tables.shape[1], step):
                for i in range(start, start + inner):
                    total = 0
                    for j in range(i, i + step, inner):
                        total += tables[t, j]
                    for j in range(i, i + step, inner):
                        tables[t, j] = n * tables[t, j] - total
            inner = step


@numba.njit(cache=True, nogil=True, parallel=True)
def fit_margins(
    tables: NDArray[np.float64],
    shape: NDArray[np.int64],
    lower: NDArray[np.float64],
    facets: NDArray[np.int64],
) -> None:
    """Makes each table's margins agree with given ones, in place, without touching its residual.

    For every axis in turn `x ← x + (margin − Σ x)/n`. The margins agree with each other, so that a later axis does
    not undo an earlier one. tables is (tables, cells); facets[t, axis] says where in `lower` the margin begins.
    """
    for t in numba.prange(tables.shape[0]):
        inner = 1
        for axis in range(shape.size - 1, -1, -1):
            n = shape[axis]
            step = n * inner
            margin = facets[t, axis]
            for start in range(0, tables.shape[1], step):
                for i in range(start, start + inner):
                    total = 0.0
                    for j in range(i, i + step, inner):
                        total += tables[t, j]
                    correction = (lower[margin] - total) / n
                    margin += 1
                    for j in range(i, i + step, inner):
                        tables[t, j] += correction
            inner = step
