"""Many small tables in one flat buffer: tables of equal shape stand together, so that work is done in batches.

A layout orders sets by shape. All tables of one shape form a group, a contiguous part of the buffer that reshapes
to (tables, n_1, …, n_k) without copying. Batches are centred and rebuilt by NumPy for small work and by compiled loops
(`kernels.py`) for large.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from residua.linalg.lattice import SetFamily, closure, row_keys

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Group:
    """Tables of one shape, next to each other in the buffer.

    Args:
        numbers: the sets' numbers in the lattice, (tables,), increasing.
        members: the attribute positions of each set, (tables, k).
        shape: how many values each of the k attributes has.
        start: where in the buffer the first table begins.
    """

    numbers: NDArray[np.int64]
    members: NDArray[np.int32]
    shape: tuple[int, ...]
    start: int

    @property
    def cells(self) -> int:
        """How many cells one table has."""
        return math.prod(self.shape)

    @property
    def stop(self) -> int:
        """Where in the buffer the next group begins."""
        return self.start + self.cells * len(self.numbers)

    def view(self, buffer: NDArray[T]) -> NDArray[T]:
        """The group's tables in a buffer, (tables, n_1, …, n_k), without copying."""
        return buffer[self.start : self.stop].reshape(len(self.numbers), *self.shape)

    def rows(self, buffer: NDArray[T]) -> NDArray[T]:
        """The group's tables in a buffer, (tables, cells), without copying."""
        return buffer[self.start : self.stop].reshape(len(self.numbers), self.cells)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each set's table lies in a flat buffer.

    Args:
        lattice: the family the sets belong to.
        sizes: how many values each attribute has, (attributes,).
        groups: the sets by shape, in the order of the buffer.
    """

    lattice: SetFamily
    sizes: NDArray[np.int64]
    groups: tuple[Group, ...]

    @property
    def cells(self) -> int:
        """How long the buffer is."""
        return self.groups[-1].stop if self.groups else 0

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the table of each set of the lattice begins, −1 for a set that is not laid out, (sets,)."""
        starts = np.full(len(self.lattice), -1, dtype=np.int64)
        for group in self.groups:
            starts[group.numbers] = group.start + group.cells * np.arange(len(group.numbers))
        return starts

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)


def layout_of(lattice: SetFamily, sizes: NDArray[np.int64], chosen: NDArray[np.bool_] | None = None) -> Layout:
    """Lays out the chosen sets of a lattice (all by default), by size, then by shape, then by number."""
    groups: list[Group] = []
    start = 0
    for k, level in enumerate(lattice.levels):
        numbers = np.arange(lattice.offsets[k], lattice.offsets[k + 1])
        if chosen is not None:
            kept = chosen[numbers]
            numbers, level = numbers[kept], level[kept]
        for shape, places in _by_shape(sizes[level]):
            group = Group(numbers[places], level[places], shape, start)
            groups.append(group)
            start = group.stop
    return Layout(lattice, sizes, tuple(groups))


def layout_of_sets(sets: Collection[tuple[int, ...]], sizes: NDArray[np.int64], *, maximal: bool = False) -> Layout:
    """Lays out the tables of some sets; or, if maximal, of those that no other of them contains."""
    lattice = closure([np.array([each], dtype=np.int32).reshape(1, -1) for each in sets], len(sizes))
    wanted = set(sets)
    chosen = lattice.is_maximal if maximal else np.array([members in wanted for members in lattice])
    return layout_of(lattice, sizes, chosen)


def _by_shape(shapes: NDArray[np.int64]) -> Iterator[tuple[tuple[int, ...], NDArray[np.int64]]]:
    if not len(shapes):
        return
    values, ranks = np.unique(shapes, return_inverse=True)
    keys = row_keys(ranks.reshape(shapes.shape).astype(np.int32), len(values) or 1)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] - 1))
    for a, b in pairwise([*starts.tolist(), len(order)]):
        yield tuple(int(n) for n in shapes[order[a]]), order[a:b]


def batches(count: int, each: int, budget: int) -> Sequence[slice]:
    """Slices of at most `budget` cells' worth of tables of `each` cells (always at least one table)."""
    step = max(1, budget // max(each, 1))
    return [slice(a, min(a + step, count)) for a in range(0, count, step)]


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
