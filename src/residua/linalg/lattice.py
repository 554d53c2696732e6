"""Downward-closed families of attribute sets, and sums over all subsets or all supersets of each.

A set is a sorted row of attribute positions. Sets are numbered by size, then lexicographically; the empty set
is number 0. Sets of one size form a level, an (m, k) array; a level is a trie on top of the one before: the
first k−1 members of a row are themselves a set of the family, so a row is known by (number of that set, last
member). Everything is vectorised; the only Python loops run over sizes and over attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]  # (m, k): m sets of k attribute positions each, every row increasing
Numbers = NDArray[np.int64]
Values = NDArray[np.float64]


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
    def offsets(self) -> Numbers:
        """Number of the first set of each level, and the number of sets in all at the end."""
        return np.concatenate([[0], np.cumsum([len(level) for level in self.levels])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @property
    def used(self) -> frozenset[int]:
        """The attributes that are in some set."""
        return frozenset(self.levels[1].ravel().tolist()) if len(self.levels) > 1 else frozenset()

    @cached_property
    def set_sizes(self) -> Numbers:
        """How many members each set has, (sets,)."""
        return np.repeat(np.arange(len(self.levels)), np.diff(self.offsets))

    @cached_property
    def _keys(self) -> tuple[Numbers, ...]:
        # keys[k] of level k: parent's place in level k−1 times the number of attributes, plus the last member.
        keys: list[Numbers] = [np.zeros(1, dtype=np.int64)]
        for level in self.levels[1:]:
            place = _descend(keys, level[:, :-1], self.attributes)
            keys.append(place * self.attributes + level[:, -1])
        return tuple(keys)

    def find(self, rows: Rows) -> Numbers:
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
    def covers(self) -> tuple[tuple[NDArray[np.int32], NDArray[np.int32]], ...]:
        """For each attribute i: numbers of the sets with i, and of the same sets without it."""
        owner: list[NDArray[np.int32]] = []
        upper: list[NDArray[np.int32]] = []
        lower: list[NDArray[np.int32]] = []
        for size, level in enumerate(self.levels[1:], start=1):
            numbers = np.arange(self.offsets[size], self.offsets[size + 1], dtype=np.int32)
            for j in range(size):
                owner.append(level[:, j])
                upper.append(numbers)
                lower.append(self.find(np.delete(level, j, axis=1)).astype(np.int32))
        if not owner:
            return tuple((np.empty(0, np.int32), np.empty(0, np.int32)) for _ in range(self.attributes))
        owners = np.concatenate(owner)
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(self.attributes + 1))
        uppers, lowers = np.concatenate(upper)[order], np.concatenate(lower)[order]
        return tuple((uppers[a:b], lowers[a:b]) for a, b in pairwise(bounds))

    def sum_over_subsets(self, values: Values, weights: Values) -> Values:
        """`out[A] = Σ_{S⊆A} values[S] · Π_{i∈A∖S} weights[i]` for every A. O(Σ|A|)."""
        out = values.astype(np.float64, copy=True)
        for weight, (with_i, without_i) in zip(weights, self.covers, strict=True):
            if len(with_i):
                out[with_i] += weight * out[without_i]
        return out

    def sum_over_supersets(self, values: Values, weights: Values) -> Values:
        """`out[S] = Σ_{A⊇S} values[A] · Π_{i∈A∖S} weights[i]` for every S: the transpose. O(Σ|A|)."""
        out = values.astype(np.float64, copy=True)
        # For a fixed i the map A → A∖{i} is one-to-one, so the indexed addition meets each target once.
        for weight, (with_i, without_i) in zip(reversed(weights), reversed(self.covers), strict=True):
            if len(with_i):
                out[without_i] += weight * out[with_i]
        return out

    def products(self, factors: Values) -> Values:
        """`Π_{i∈A} factors[i]` for every A, (sets,)."""
        return np.concatenate([factors[level].prod(axis=1) for level in self.levels])

    def maxima(self, values: Values) -> Values:
        """`max_{i∈A} values[i]` for every A, −inf for the empty set."""
        return np.concatenate([values[level].max(axis=1, initial=-np.inf) for level in self.levels])

    @cached_property
    def is_maximal(self) -> NDArray[np.bool_]:
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


def distinct_rows(rows: Rows, attributes: int) -> Rows:
    """The distinct rows, sorted lexicographically."""
    if rows.shape[1] == 0:
        return rows[:1]
    keys = row_keys(rows, attributes)
    return rows[np.unique(keys, return_index=True)[1]]


def row_keys(rows: Rows, attributes: int) -> Numbers:
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


def extensions(rows: Rows, attributes: int) -> tuple[Numbers, NDArray[np.int32]]:
    """All ways to append one later attribute to a row: which row, and which attribute; in lexicographic order."""
    first = rows[:, -1] + 1 if rows.shape[1] else np.zeros(len(rows), dtype=np.int32)
    children = attributes - first
    parent = np.repeat(np.arange(len(rows)), children)
    step = np.arange(len(parent)) - np.repeat(np.cumsum(children) - children, children)
    return parent, (first[parent] + step).astype(np.int32)


def _descend(keys: Sequence[Numbers], rows: Rows, attributes: int) -> Numbers:
    """Place of each row within its level by walking the trie, −1 where it leaves the family."""
    place = np.zeros(len(rows), dtype=np.int64)
    for j, column in enumerate(rows.T, start=1):
        wanted = place * attributes + column
        here = np.searchsorted(keys[j], wanted)
        here[here == len(keys[j])] = 0
        place = np.where((place >= 0) & (keys[j][here] == wanted), here, -1)
    return place
