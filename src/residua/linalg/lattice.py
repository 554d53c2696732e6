"""Downward-closed families of attribute sets, sums over subsets or supersets of each, and their tables in one buffer.

A set is a sorted row of attribute positions. Sets are numbered by size, then lexicographically; the empty set
is number 0. Sets of one size form a level, an (m, k) array; a level is a trie on top of the one before: the
first k−1 members of a row are themselves a set of the family, so a row is known by (number of that set, last
member). Everything is vectorised; the only Python loops run over sizes and over attributes.

A layout orders sets by shape. All tables of one shape form a group, a contiguous part of the buffer that reshapes
to (tables, n_1, …, n_k) without copying. Batches are centred and rebuilt by NumPy for small work and by compiled loops
(`kernels.py`) for large.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from residua.linalg import kernels
from residua.linalg.arrays import Array, Booleans, Floats, Integers, Positions

Set = tuple[int, ...]  # attribute positions, increasing
Rows = Positions  # (m, k): m sets of k attributes each, every row increasing


@dataclass(frozen=True, eq=False)
class SetFamily:
    """A downward-closed family of subsets of `attributes` positions.

    Args:
        attributes: how many attributes there are in all.
        levels: levels[k] holds the sets of size k, (m_k, k), rows sorted lexicographically and distinct.
            Level 0 is one empty row. Closed: every subset of a row is a row of a lower level.
    """

    attributes: int
    levels: tuple[Rows, ...]

    @cached_property
    def offsets(self) -> Integers:
        """Number of the first set of each level, and the number of sets in all at the end."""
        return np.concatenate([[0], np.cumsum([len(level) for level in self.levels])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @property
    def used(self) -> frozenset[int]:
        """The attributes that are in some set."""
        return frozenset(self.levels[1].ravel().tolist()) if len(self.levels) > 1 else frozenset()

    @cached_property
    def set_sizes(self) -> Integers:
        """How many members each set has, (sets,)."""
        return np.repeat(np.arange(len(self.levels)), np.diff(self.offsets))

    @cached_property
    def _keys(self) -> tuple[Integers, ...]:
        # keys[k] of level k: parent's place in level k−1 times the number of attributes, plus the last member.
        keys: list[Integers] = [np.zeros(1, dtype=np.int64)]
        for level in self.levels[1:]:
            keys.append(_descend(keys, level[:, :-1], self.attributes) * self.attributes + level[:, -1])
        return tuple(keys)

    def find(self, rows: Rows) -> Integers:
        """Numbers of these sets (all of one size, every row increasing), −1 for a set not in the family."""
        size = rows.shape[1]
        if size >= len(self.levels):
            return np.full(len(rows), -1, dtype=np.int64)
        place = _descend(self._keys, rows, self.attributes)
        return np.where(place >= 0, place + self.offsets[size], -1)

    def number(self, members: Sequence[int]) -> int:
        """The number of one set (increasing), −1 if it is not in the family."""
        return int(self.find(np.array(members, dtype=np.int32).reshape(1, -1))[0])

    @cached_property
    def covers(self) -> tuple[tuple[Positions, Positions], ...]:
        """For each attribute i: numbers of the sets with i, and of the same sets without it."""
        owner, upper, lower = ([np.empty(0, dtype=np.int32)] for _ in range(3))
        for size, level in enumerate(self.levels[1:], start=1):
            numbers = np.arange(self.offsets[size], self.offsets[size + 1], dtype=np.int32)
            for j in range(size):
                owner.append(level[:, j])
                upper.append(numbers)
                lower.append(self.find(np.delete(level, j, axis=1)).astype(np.int32))
        owners = np.concatenate(owner)
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(self.attributes + 1))
        uppers, lowers = np.concatenate(upper)[order], np.concatenate(lower)[order]
        return tuple((uppers[a:b], lowers[a:b]) for a, b in pairwise(bounds))

    def sum_over_subsets(self, values: Floats, weights: Floats) -> Floats:
        """`out[A] = Σ_{S⊆A} values[S] · Π_{i∈A∖S} weights[i]` for every A. O(Σ|A|)."""
        out = values.astype(np.float64, copy=True)
        for weight, (with_i, without_i) in zip(weights, self.covers, strict=True):
            if len(with_i):
                out[with_i] += weight * out[without_i]
        return out

    def sum_over_supersets(self, values: Floats, weights: Floats) -> Floats:
        """`out[S] = Σ_{A⊇S} values[A] · Π_{i∈A∖S} weights[i]` for every S: the transpose. O(Σ|A|)."""
        out = values.astype(np.float64, copy=True)
        # For a fixed i the map A → A∖{i} is one-to-one, so the indexed addition meets each target once.
        for weight, (with_i, without_i) in zip(reversed(weights), reversed(self.covers), strict=True):
            if len(with_i):
                out[without_i] += weight * out[with_i]
        return out

    def products(self, factors: Floats) -> Floats:
        """`Π_{i∈A} factors[i]` for every A, (sets,)."""
        return np.concatenate([factors[level].prod(axis=1) for level in self.levels])

    def maxima(self, values: Floats) -> Floats:
        """`max_{i∈A} values[i]` for every A, −inf for the empty set."""
        return np.concatenate([values[level].max(axis=1, initial=-np.inf) for level in self.levels])

    @cached_property
    def is_maximal(self) -> Booleans:
        """Which sets have no proper superset in the family."""
        maximal = np.ones(len(self), dtype=bool)
        for _, without_i in self.covers:
            maximal[without_i] = False
        return maximal

    def members(self, number: int) -> tuple[int, ...]:
        """The attribute positions of one set."""
        size = int(np.searchsorted(self.offsets, number, side="right")) - 1
        return tuple(int(i) for i in self.levels[size][number - self.offsets[size]])

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for level in self.levels:
            yield from map(tuple, level.tolist())

    def union(self, other: SetFamily) -> SetFamily:
        """The family of all sets in one or the other."""
        return closure([*self.levels, *other.levels], self.attributes) if other is not self else self

    def same_sets(self, other: SetFamily) -> bool:
        """Whether both hold the same sets, so that numbers mean the same in both."""
        return self is other or (
            self.attributes == other.attributes
            and len(self.levels) == len(other.levels)
            and all(np.array_equal(a, b) for a, b in zip(self.levels, other.levels, strict=True))
        )


def closure(families: Sequence[Rows], attributes: int) -> SetFamily:
    """The smallest downward-closed family that holds all these sets (each array holds sets of one size)."""
    # A level without sets would be one nobody can descend to.
    families = [rows for rows in families if len(rows)]
    largest = max((rows.shape[1] for rows in families), default=0)
    by_size: list[list[Rows]] = [[] for _ in range(largest + 1)]
    for rows in families:
        by_size[rows.shape[1]].append(rows)
    levels: list[Rows] = []
    for size in range(largest, 0, -1):
        level = distinct_rows(np.concatenate(by_size[size]), attributes)
        levels.append(level)
        by_size[size - 1] += [np.delete(level, j, axis=1) for j in range(size)]
    levels.append(np.empty((1, 0), dtype=np.int32))
    for level in levels:
        level.setflags(write=False)
    return SetFamily(attributes, tuple(reversed(levels)))


def closure_of(sets: Iterable[Sequence[int]], attributes: int) -> SetFamily:
    """The smallest downward-closed family that holds all these sets, each increasing."""
    return closure([np.array([each], dtype=np.int32).reshape(1, -1) for each in sets], attributes)


def distinct_rows(rows: Rows, attributes: int) -> Rows:
    """The distinct rows, sorted lexicographically."""
    if rows.shape[1] == 0:
        return rows[:1]
    return rows[np.unique(row_keys(rows, attributes), return_index=True)[1]]


def row_keys(rows: Rows, attributes: int) -> Integers:
    """One number per row, equal for equal rows only, in lexicographic order."""
    keys = np.zeros(len(rows), dtype=np.int64)
    bound = 1  # keys lie below it
    for column in rows.T:
        if bound > 2**62 // attributes:
            # Renumber densely: order and equality stay, and the keys lie below the number of rows again.
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            bound = len(rows) + 1
        keys = keys * attributes + column
        bound *= attributes
    return keys


def all_sets(attributes: int, size: int) -> Rows:
    """Every set of `size` among `attributes` positions, (C(attributes, size), size), in lexicographic order."""
    rows = np.empty((1, 0), dtype=np.int32)
    for _ in range(size):
        parent, last = extensions(rows, attributes)
        rows = np.column_stack([rows[parent], last])
    return rows


def extensions(rows: Rows, attributes: int) -> tuple[Integers, Positions]:
    """All ways to append one later attribute to a row: which row, and which attribute; in lexicographic order."""
    first = rows[:, -1] + 1 if rows.shape[1] else np.zeros(len(rows), dtype=np.int32)
    children = attributes - first
    parent = np.repeat(np.arange(len(rows)), children)
    step = np.arange(len(parent)) - np.repeat(np.cumsum(children) - children, children)
    return parent, (first[parent] + step).astype(np.int32)


def _descend(keys: Sequence[Integers], rows: Rows, attributes: int) -> Integers:
    """Place of each row within its level by walking the trie, −1 where it leaves the family."""
    place = np.zeros(len(rows), dtype=np.int64)
    for j, column in enumerate(rows.T, start=1):
        wanted = place * attributes + column
        here = np.searchsorted(keys[j], wanted)
        here[here == len(keys[j])] = 0
        place = np.where((place >= 0) & (keys[j][here] == wanted), here, -1)
    return place


def subsets(members: Sequence[int]) -> Iterator[Set]:
    """All subsets of some attributes, small ones first."""
    for size in range(len(members) + 1):
        yield from combinations(sorted(members), size)


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

    numbers: Integers
    members: Positions
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
    sizes: Integers
    groups: tuple[Group, ...]

    @property
    def cells(self) -> int:
        """How long the buffer is."""
        return self.groups[-1].stop if self.groups else 0

    @cached_property
    def starts(self) -> Integers:
        """Where the table of each set of the lattice begins, −1 for a set that is not laid out, (sets,)."""
        starts = np.full(len(self.lattice), -1, dtype=np.int64)
        for group in self.groups:
            starts[group.numbers] = group.start + group.cells * np.arange(len(group.numbers))
        return starts

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)


def layout_of(lattice: SetFamily, sizes: Integers, chosen: Booleans | None = None) -> Layout:
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


def layout_of_sets(sets: Collection[tuple[int, ...]], sizes: Integers, *, maximal: bool = False) -> Layout:
    """Lays out the tables of some sets; or, if maximal, of those that no other of them contains."""
    lattice, wanted = closure_of(sets, len(sizes)), set(sets)
    chosen = lattice.is_maximal if maximal else np.array([members in wanted for members in lattice])
    return layout_of(lattice, sizes, chosen)


def _by_shape(shapes: Integers) -> Iterator[tuple[tuple[int, ...], Integers]]:
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


def centre(tables: Integers) -> None:
    """`x ← n x − Σ x` along every axis but the first, in place: the integer matrix ⊗(nI − 11ᵀ) of each table."""
    if _compiled(tables.size):
        kernels.centre(tables.reshape(len(tables), -1), np.array(tables.shape[1:], dtype=np.int64))
        return
    for axis in range(1, tables.ndim):
        total = tables.sum(axis=axis, keepdims=True)
        tables *= tables.shape[axis]
        tables -= total


def rebuild(integers: Array, steps: Floats, lower: Floats, facets: Integers, out: Floats) -> None:
    """Tables from integers on grids, their margins made to agree with given ones without touching the residual.

    out is (tables, n_1, …, n_k) and integers likewise; facets[t, j] says where in `lower` the margin without axis j
    begins. See `kernels.rebuild`.
    """
    if _compiled(out.size):
        shape = np.array(out.shape[1:], dtype=np.int64)
        flat = (len(out), -1)
        kernels.rebuild(integers.reshape(flat), steps, shape, lower, facets, out.reshape(flat))
        return
    np.multiply(integers, steps.reshape(-1, *[1] * (out.ndim - 1)), out=out)
    for axis in range(out.ndim - 1, 0, -1):
        n = out.shape[axis]
        total = out.sum(axis=axis, keepdims=True)
        out += (lower[facets[:, axis - 1, None] + np.arange(out[0].size // n)].reshape(total.shape) - total) / n


def _compiled(cells: int) -> bool:
    return cells >= (_WORTH_CALLING if "numba" in sys.modules else _WORTH_LOADING)


def facets_of(group: Group, layout: Layout) -> Integers:
    """Where in the buffer of a layout the margins of a group's tables begin, (tables, k)."""
    places = [layout.starts[layout.lattice.find(np.delete(group.members, j, axis=1))] for j in range(len(group.shape))]
    return np.stack(places, axis=1) if places else np.empty((len(group.members), 0), dtype=np.int64)
