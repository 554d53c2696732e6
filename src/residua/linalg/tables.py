"""Operations on batches of equal-shaped tables, by NumPy for small work and by compiled loops for large."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.linalg.layout import Group, Layout

_WORTH_LOADING = 2_000_000  # cells: below, importing the compiled loops costs more than they save
_WORTH_CALLING = 20_000  # cells: below, NumPy is as fast


def centre(tables: NDArray[np.int64]) -> None:
    """`x ← n x − Σ x` along every axis but the first, in place: the integer matrix ⊗(nI − 11ᵀ) of each table."""
    if _compiled(tables.size):
        from residua.linalg import kernels

        kernels.centre(tables.reshape(len(tables), -1), np.array(tables.shape[1:], dtype=np.int64))
        return
    for axis in range(1, tables.ndim):
        total = tables.sum(axis=axis, keepdims=True)
        tables *= tables.shape[axis]
        tables -= total


def rebuild(
    integers: NDArray[Any],
    steps: NDArray[np.float64],
    lower: NDArray[np.float64],
    facets: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Tables from integers on grids, their margins made to agree with given ones without touching the residual.

    out is (tables, n_1, …, n_k) and integers likewise; facets[t, j] says where in `lower` the margin without axis j
    begins. See `kernels.rebuild`.
    """
    if _compiled(out.size):
        from residua.linalg import kernels

        shape = np.array(out.shape[1:], dtype=np.int64)
        flat = (len(out), -1)
        kernels.rebuild(integers.reshape(flat), steps, shape, lower, facets, out.reshape(flat))
        return
    np.multiply(integers, steps.reshape(-1, *[1] * (out.ndim - 1)), out=out)
    for axis in range(out.ndim - 1, 0, -1):
        n = out.shape[axis]
        total = out.sum(axis=axis, keepdims=True)
        cells = np.arange(out[0].size // n)
        out += (lower[facets[:, axis - 1, None] + cells].reshape(total.shape) - total) / n


def _compiled(cells: int) -> bool:
    return cells >= (_WORTH_CALLING if "numba" in sys.modules else _WORTH_LOADING)


def facets_of(group: Group, layout: Layout) -> NDArray[np.int64]:
    """Where in the buffer of a layout the margins of a group's tables begin, (tables, k)."""
    places = [layout.starts[layout.lattice.find(np.delete(group.members, j, axis=1))] for j in range(len(group.shape))]
    return np.stack(places, axis=1) if places else np.empty((len(group.members), 0), dtype=np.int64)
