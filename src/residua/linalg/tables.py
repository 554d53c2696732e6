"""Operations on batches of equal-shaped tables, by NumPy for small work and by compiled loops for large."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from residua.linalg.layout import Group, Layout

_COMPILED_FROM = 2_000_000  # cells: below, importing and loading the compiled loops costs more than it saves


def centre(tables: NDArray[np.int64]) -> None:
    """`x ← n x − Σ x` along every axis but the first, in place: the integer matrix ⊗(nI − 11ᵀ) of each table."""
    if tables.size >= _COMPILED_FROM:
        from residua.linalg import kernels

        kernels.centre(tables.reshape(len(tables), -1), np.array(tables.shape[1:], dtype=np.int64))
        return
    for axis in range(1, tables.ndim):
        total = tables.sum(axis=axis, keepdims=True)
        tables *= tables.shape[axis]
        tables -= total


def fit_margins(tables: NDArray[np.float64], lower: NDArray[np.float64], facets: NDArray[np.int64]) -> None:
    """Makes each table's margins agree with given ones, in place, without touching its residual.

    tables is (tables, n_1, …, n_k); facets[t, j] says where in `lower` the margin without axis j begins.
    """
    if tables.size >= _COMPILED_FROM:
        from residua.linalg import kernels

        shape = np.array(tables.shape[1:], dtype=np.int64)
        kernels.fit_margins(tables.reshape(len(tables), -1), shape, lower, facets)
        return
    for axis in range(tables.ndim - 1, 0, -1):
        n = tables.shape[axis]
        total = tables.sum(axis=axis, keepdims=True)
        cells = np.arange(tables[0].size // n)
        margin = lower[facets[:, axis - 1, None] + cells].reshape(total.shape)
        tables += (margin - total) / n


def facets_of(group: Group, layout: Layout) -> NDArray[np.int64]:
    """Where in the buffer of a layout the margins of a group's tables begin, (tables, k)."""
    places = [layout.starts[layout.lattice.find(np.delete(group.members, j, axis=1))] for j in range(len(group.shape))]
    return np.stack(places, axis=1) if places else np.empty((len(group.members), 0), dtype=np.int64)
