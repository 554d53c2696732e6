"""Rows over groups of values: one level of a hierarchy, or all of them and the values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.domain import Attribute, Label, Level
from residua.linalg.arrays import Floats
from residua.workload.attribute_queries import AttributeQueries, require_matrix


def level_sums(level: Level, tables: Floats) -> Floats:
    """Sums over the groups of a level along the first axis, (groups, …)."""
    codes = np.asarray(level.codes)
    if tables.ndim == 1:
        return np.bincount(codes, weights=tables, minlength=len(level)).astype(np.float64)
    found = np.zeros((len(level), *tables.shape[1:]))
    np.add.at(found, codes, tables)
    return found


@dataclass(frozen=True, eq=False)
class Hierarchy(AttributeQueries):
    """The groups of every level, coarsest level first, and the values themselves last.

    Args:
        size: how many values there are.
        levels: the levels, coarsest first.
    """

    levels: tuple[Level, ...]

    kind = "hierarchy"

    @property
    def names(self) -> tuple[str, ...]:
        """The levels' names, coarsest first."""
        return tuple(level.name for level in self.levels)

    @property
    def groups(self) -> tuple[Sequence[str], ...]:
        """The labels of each level's groups."""
        return tuple(level.labels for level in self.levels)

    @property
    def rows(self) -> int:
        """Groups of all levels, and values."""
        return sum(len(level) for level in self.levels) + self.size

    @property
    def key(self) -> Hashable:
        """The levels."""
        return (self.kind, self.size, self.levels)

    def matrix(self) -> Floats:
        """Indicators of the groups, then the identity."""
        require_matrix("the levels", self.rows, self.size)
        return np.vstack([*(level.matrix() for level in self.levels), np.eye(self.size)])

    def summed(self, tables: Floats) -> Floats:
        """Sums over groups, then the values."""
        return np.concatenate([*(level_sums(level, tables) for level in self.levels), tables])

    def tables(self, attribute: Attribute) -> list[tuple[str, slice, tuple[Label, ...]]]:
        """One per level, and one of the values."""
        parts: list[tuple[str, slice, tuple[Label, ...]]] = []
        start = 0
        for level in self.levels:
            parts.append((level.name, slice(start, start + len(level)), tuple(level.labels)))
            start += len(level)
        return [*parts, ("", slice(start, None), attribute.labels)]

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`.state=CA`, …, `=LA`, …"""
        for name, labels in zip(self.names, self.groups, strict=True):
            yield from (f".{name}={label}" for label in labels)
        yield from (f"={label}" for label in attribute.labels)


@dataclass(frozen=True, eq=False)
class LevelRows(AttributeQueries):
    """The groups of one level of a hierarchy. Its kind is the level's name.

    Args:
        size: how many values there are.
        level: the level.
    """

    level: Level

    @property
    def kind(self) -> str:
        """The level's name: what it is asked by."""
        return self.level.name

    @property
    def rows(self) -> int:
        """One row per group."""
        return len(self.level)

    @property
    def key(self) -> Hashable:
        """The level."""
        return ("level", self.size, self.level)

    def matrix(self) -> Floats:
        """Indicators of the groups."""
        require_matrix(f"the groups of {self.kind!r}", self.rows, self.size)
        return self.level.matrix()

    def summed(self, tables: Floats) -> Floats:
        """Sums over groups."""
        return level_sums(self.level, tables)

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`.state=CA`, …"""
        return (f".{self.level.name}={label}" for label in self.level.labels)


@dataclass(frozen=True, eq=False)
class Inside(AttributeQueries):
    """The groups of one level, or the values, that lie in one group of a coarser level: `tract within county=06037`.

    Args:
        size: how many values there are.
        level: the level; None for the values.
        outer: the coarser level.
        group: the group of it.
    """

    level: Level | None
    outer: Level
    group: int

    @property
    def kind(self) -> str:
        """How it is asked for."""
        name = "identity" if self.level is None else self.level.name
        return f"{name} within {self.outer.name}={self.outer.labels[self.group]}"

    @cached_property
    def chosen(self) -> NDArray[np.int64]:
        """Which groups, or values, in the order of their codes."""
        values = np.flatnonzero(np.asarray(self.outer.codes) == self.group)
        return values if self.level is None else np.unique(np.asarray(self.level.codes)[values]).astype(np.int64)

    @property
    def rows(self) -> int:
        """One row per group or value."""
        return len(self.chosen)

    @property
    def key(self) -> Hashable:
        """The levels and the group."""
        return ("inside", self.size, self.level, self.outer, self.group)

    def matrix(self) -> Floats:
        """Indicators of the groups or values."""
        require_matrix(f"the rows of {self.kind!r}", self.rows, self.size)
        codes = np.arange(self.size) if self.level is None else np.asarray(self.level.codes)
        return np.asarray(self.chosen[:, None] == codes[None, :], dtype=np.float64)

    def summed(self, tables: Floats) -> Floats:
        """Sums over the groups, or the values themselves."""
        return (tables if self.level is None else level_sums(self.level, tables))[self.chosen]

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`.tract=0601`, …"""
        name = "" if self.level is None else f".{self.level.name}"
        return (f"{name}={label}" for label in self.chosen_labels(attribute))

    def tables(self, attribute: Attribute) -> list[tuple[str, slice, tuple[Label, ...]]]:
        """One, of the groups or values."""
        return [(self.title, slice(None), self.chosen_labels(attribute))]

    def chosen_labels(self, attribute: Attribute) -> tuple[Label, ...]:
        """What each group or value is called by itself: `0601`, …"""
        labels: Sequence[Label] = attribute.labels if self.level is None else self.level.labels
        return tuple(labels[int(place)] for place in self.chosen)
