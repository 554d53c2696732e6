"""An attribute in nested levels: total, groups, finer groups; each level is a space of its own.

A level is a partition of the attribute's values. Functions on the classes of level l are those of level l − 1 and, in
each class of that, contrasts between its parts: `basis(l)` has one row per function, the total first. What queries do
not tell apart is one class, so that a table is never larger than what is asked of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product as crossed
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Array, Booleans, Floats, Integers, contrasts, kronecker


@dataclass(frozen=True, eq=False)
class AttributeLevels:
    """The levels of one attribute.

    Args:
        classes: of each level, coarsest first, the class of every value, (n,), numbered from 0 without gaps; none for
            an attribute of which only the total counts.
        size: n, how many values there are.
    """

    size: int
    classes: tuple[Integers, ...] = ()

    def __post_init__(self) -> None:
        above = np.zeros(self.size, dtype=np.int64)
        for own in self.classes:
            if own.shape != (self.size,) or not np.array_equal(np.unique(own), np.arange(own.max() + 1)):
                raise PlanError("a level is no partition of the attribute's values; plan again.")
            if not refines(own, above) or own.max() == above.max():
                raise PlanError("the levels of an attribute are not nested, each finer than the last; plan again.")
            above = own
            own.setflags(write=False)

    @property
    def depth(self) -> int:
        """How many levels there are beside the total."""
        return len(self.classes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """How many functions come before those of each level, and how many there are in all."""
        return (0, 1, *(int(own.max()) + 1 for own in self.classes))

    def count(self, level: int) -> int:
        """How many classes a level has; the total has one."""
        return self.starts[level + 1]

    def span(self, level: int) -> tuple[int, int]:
        """Where the functions of a level stand among those of all."""
        return self.starts[level], self.starts[level + 1]

    def parents(self, level: int) -> Integers:
        """The class one level up of every class of a level, (classes,)."""
        above = np.zeros(self.size, dtype=np.int64) if level < 2 else self.classes[level - 2]
        parents = np.zeros(self.count(level), dtype=np.int64)
        parents[self.classes[level - 1]] = above
        return parents

    @cached_property
    def bases(self) -> tuple[Floats, ...]:
        """Of each level the functions on its classes, row by row, (classes, classes)."""
        bases = [np.ones((1, 1))]
        for level in range(1, self.depth + 1):
            parents = self.parents(level)
            own = []
            for parent in range(self.count(level - 1)):
                places = np.flatnonzero(parents == parent)
                rows = np.zeros((len(places) - 1, len(parents)))
                rows[:, places] = contrasts(len(places))
                own.append(rows)
            bases.append(np.vstack([bases[-1][:, parents], *own]))
        return tuple(bases)

    @cached_property
    def inverses(self) -> tuple[Floats, ...]:
        """Of each level the inverse of its basis: queries times this are coordinates."""
        return tuple(np.asarray(np.linalg.inv(basis)) for basis in self.bases)

    @property
    def finest(self) -> Integers:
        """The class of every value at the finest level, (n,)."""
        return self.classes[-1] if self.classes else np.zeros(self.size, dtype=np.int64)

    @cached_property
    def firsts(self) -> Integers:
        """One value of each class of the finest level, (classes,)."""
        return self.firsts_of(self.depth)

    def firsts_of(self, level: int) -> Integers:
        """One value of each class of a level, (classes,)."""
        if not level:
            return np.zeros(1, dtype=np.int64)
        return np.unique(self.classes[level - 1], return_index=True)[1]

    def merged(self, tables: Integers, level: int, axis: int) -> Integers:
        """Tables added up over the classes of a level along an axis, exactly."""
        if level == 0:
            return np.asarray(tables.sum(axis=axis, keepdims=True))
        own = self.classes[level - 1]
        if self.count(level) == self.size:
            return np.take(tables, np.argsort(own), axis=axis)
        return np.asarray(_by_class(tables, own, self.count(level), axis))

    def shortened(self, rows: Floats, axis: int) -> tuple[Floats, Booleans]:
        """Queries over values as queries over the finest classes, and which of them the classes cannot tell.

        Args:
            rows: (queries, …, n, …).
            axis: which axis holds the values.
        """
        lost = np.zeros(len(rows), dtype=bool)
        if self.starts[-1] == self.size:
            return np.take(rows, self.firsts, axis=axis), lost
        short = np.take(rows, self.firsts, axis=axis)
        return short, (np.take(short, self.finest, axis=axis) != rows).reshape(len(rows), -1).any(axis=1)

    def coordinates(self, rows: Floats, axis: int) -> Floats:
        """Queries over the finest classes as coordinates along an axis, (queries, …, classes, …)."""
        return np.moveaxis(np.moveaxis(rows, axis, -1) @ self.inverses[-1], -1, axis)

    def values(self, coordinates: Floats, axis: int) -> Floats:
        """What coordinates of a table say of its values, those of one class alike."""
        moved = np.moveaxis(coordinates, axis, -1) @ self.inverses[-1].T
        return np.moveaxis((moved / np.bincount(self.finest))[..., self.finest], -1, axis)

    def level_of(self, classes: Integers) -> int:
        """The coarsest level that tells these classes apart."""
        level = self.level_within(classes)
        assert level is not None
        return level

    def level_within(self, classes: Integers) -> int | None:
        """The coarsest level that tells these classes apart; None if not even the finest does."""
        if classes.max() == 0:
            return 0
        return next((n for n in range(1, self.depth + 1) if refines(self.classes[n - 1], classes)), None)

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for the same levels."""
        return (self.size, *(own.tobytes() for own in self.classes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttributeLevels) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _by_class(tables: Array, own: Integers, count: int, axis: int) -> Any:
    """Sums over the values of each class along an axis."""
    order = np.argsort(own, kind="stable")
    edges = np.searchsorted(own[order], np.arange(count))
    return np.add.reduceat(np.take(tables, order, axis=axis), edges, axis=axis)


def refines(fine: Integers, coarse: Integers) -> bool:
    """Whether values of one class of the first are of one class of the second."""
    return len(np.unique(fine)) == len(np.unique(np.stack([fine, coarse]), axis=1).T)


def told_apart(rows: Floats) -> Integers:
    """The classes of values that no row tells apart, (n,), numbered from 0 in the order of values."""
    _, first, inverse = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.ravel()]


def axis_of(size: int, partitions: Iterable[Integers], most: int = 8) -> AttributeLevels:
    """The nested levels that tell apart what partitions do: each joined to the coarser ones before it.

    Args:
        size: how many values there are.
        partitions: classes of the values, (n,) each.
        most: how many levels at most; the rest are joined to the finest.
    """
    distinct = {one.tobytes(): one for one in partitions if one.max() > 0}
    ordered = sorted(distinct.values(), key=lambda one: (int(one.max()), one.tobytes()))
    chain: list[Integers] = []
    for one in ordered:
        finer = one if not chain else told_apart(np.stack([chain[-1], one]).astype(np.float64))  # than both
        if not chain or finer.max() > chain[-1].max():
            chain.append(finer)
    if len(chain) > most:
        chain = [*chain[: most - 1], chain[-1]]
    return _shared(size, tuple(own.tobytes() for own in chain))


@cache
def _shared(size: int, chain: tuple[bytes, ...]) -> AttributeLevels:
    """One object for attributes with the same levels."""
    return AttributeLevels(size, tuple(np.frombuffer(own, dtype=np.int64).copy() for own in chain))


MOST_CELLS = 2**16


@dataclass(frozen=True, eq=False)
class LevelTable:
    """The cells of some attributes.

    Args:
        axes: the levels of each attribute of the domain.
        attributes: positions, increasing.
    """

    axes: tuple[AttributeLevels, ...]
    attributes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many classes each attribute has at its finest level."""
        return tuple(self.axes[i].starts[-1] for i in self.attributes)

    def classes(self, i: int, level: int) -> Integers:
        """The class at a level of every class of the finest level, (classes,)."""
        return self.axes[i].classes[level - 1][self.axes[i].firsts]

    def spread(self, block: Block, values: Any) -> Any:
        """Values of a block's cells, for every cell of the table: an array that broadcasts to its shape."""
        levels = dict(block)
        spread = np.asarray(values).reshape([self.axes[i].count(level) for i, level in block])
        for axis, (i, level) in enumerate(block):
            spread = np.take(spread, self.classes(i, level), axis=axis)
        return spread.reshape([n if i in levels else 1 for i, n in zip(self.attributes, self.shape, strict=True)])

    def margin(self, block: Block, weights: Floats) -> Floats:
        """Weights on the table's cells added up over the cells of a block, flat."""
        levels = dict(block)
        sums = weights.sum(axis=tuple(axis for axis, i in enumerate(self.attributes) if i not in levels))
        for axis, (i, level) in enumerate(block):
            sums = _by_class(sums, self.classes(i, level), self.axes[i].count(level), axis)
        return np.asarray(sums).ravel()


def table_for(axes: Sequence[AttributeLevels], blocks: Sequence[Block]) -> LevelTable | None:
    """The cells of all attributes that blocks name; None if they are too many."""
    table = LevelTable(tuple(axes), tuple(sorted({i for block in blocks for i, _ in block})))
    return table if math.prod(table.shape) <= MOST_CELLS else None


Block = tuple[tuple[int, int], ...]  # (attribute, level from 1), attributes increasing; () is the total


def below(block: Block) -> list[Block]:
    """The blocks at most this fine, smallest first, this one last."""
    levels = crossed(*(range(level + 1) for _, level in block))
    blocks = [tuple((i, new) for (i, _), new in zip(block, row, strict=True) if new) for row in levels]
    return sorted(blocks, key=rank)


def rank(block: Block) -> tuple[int, int, Block]:
    """An order in which no block comes before one below it."""
    return sum(level for _, level in block), len(block), block


def closed(tops: Iterable[Block]) -> list[Block]:
    """All blocks below some, smallest first."""
    return sorted({one for top in tops for one in below(top)}, key=rank)


def dimensions(axes: Sequence[AttributeLevels], block: Block) -> int:
    """How many coordinates a block has."""
    return math.prod(axes[i].starts[level + 1] - axes[i].starts[level] for i, level in block)


def shape_of(axes: Sequence[AttributeLevels], block: Block) -> tuple[int, ...]:
    """The shape of the table behind a block: the classes of each of its attributes."""
    return tuple(axes[i].count(level) for i, level in block)


def places(axes: Sequence[AttributeLevels], table: Block, block: Block) -> Integers:
    """Where the coordinates of a block stand among those of a table that is at least as fine, flat."""
    levels = dict(block)
    spans = [np.arange(*axes[i].span(levels.get(i, 0))) for i, _ in table]
    shape = shape_of(axes, table)
    return np.ravel_multi_index(np.ix_(*spans), shape).ravel() if table else np.zeros(1, dtype=np.int64)


def functions(axes: Sequence[AttributeLevels], table: Block, block: Block) -> Floats:
    """The functions of a block's coordinates on the cells of a table at least as fine, (coordinates, cells)."""
    levels = dict(block)
    return kronecker(axes[i].bases[level][slice(*axes[i].span(levels.get(i, 0)))] for i, level in table)


def in_coordinates(axes: Sequence[AttributeLevels], table: Block, rows: Floats) -> Floats:
    """Rows over the cells of a table in its coordinates, (rows, coordinates)."""
    tensor = rows.reshape(len(rows), *shape_of(axes, table))
    for axis, (i, level) in enumerate(table, start=1):
        tensor = np.moveaxis(np.moveaxis(tensor, axis, -1) @ axes[i].inverses[level], -1, axis)
    return np.asarray(tensor.reshape(len(rows), -1))
