"""Rows over groups of values: one level of a hierarchy, or all of them and the values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from residua.domain import Attribute, Label, Level
from residua.errors import WorkloadError
from residua.linalg.arrays import Floats, Integers
from residua.workload.attribute_queries import AttributeQueries, Identity, InOrder, require_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def level_sums(level: Level, tables: Floats) -> Floats:
    """Sums over the groups of a level along the first axis, (groups, …)."""
    codes = np.asarray(level.codes)
    if tables.ndim == 1:
        return np.bincount(codes, weights=tables, minlength=len(level)).astype(np.float64)
    sums = np.zeros((len(level), *tables.shape[1:]))
    np.add.at(sums, codes, tables)
    return sums


@dataclass(frozen=True, eq=False)
class Hierarchy(AttributeQueries):
    """The groups of every level, coarsest level first, and the values themselves last.

    Args:
        size: how many values there are.
        levels: the levels, coarsest first.
    """

    levels: tuple[Level, ...]

    kind = "hierarchy"
    indicators = True

    @classmethod
    def of_attribute(cls, name: str, attribute: Attribute) -> AttributeQueries:
        """All levels of the attribute."""
        if not attribute.hierarchy:
            raise WorkloadError(
                f"the attribute {name!r} has no levels; declare them, such as levels={{'state': {{…}}}}."
            )
        return cls(attribute.size, tuple(reversed(attribute.hierarchy)))

    def parts(self) -> tuple[AttributeQueries, ...]:
        """Each level, and the values."""
        return (*(LevelRows(self.size, level) for level in self.levels), Identity(self.size))

    def nested(self) -> tuple[tuple[Level | None, Integers | None], ...]:
        """All groups of each level, and the values."""
        return (*((level, None) for level in self.levels), (None, None))

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

    def sparse(self) -> csr_array:
        """The groups of each level, then the identity."""
        from scipy.sparse import csr_array, vstack

        return csr_array(vstack([part.sparse() for part in self.parts()], format="csr"))

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
        for level in self.levels:
            yield from (f".{level.name}={label}" for label in level.labels)
        yield from (f"={label}" for label in attribute.labels)


@dataclass(frozen=True, eq=False)
class LevelRows(AttributeQueries):
    """The groups of one level of a hierarchy. Its kind is the level's name.

    Args:
        size: how many values there are.
        level: the level.
    """

    level: Level

    indicators = True

    @cached_property
    def along(self) -> InOrder | None:
        """Groups, where each is one run of values."""
        turns = int(np.count_nonzero(np.diff(np.asarray(self.level.codes))))
        return "groups" if turns == len(self.level) - 1 else None

    def nested(self) -> tuple[tuple[Level | None, Integers | None], ...]:
        """All groups of the level."""
        return ((self.level, None),)

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

    def sparse(self) -> csr_array:
        """One entry per value."""
        from scipy.sparse import csr_array

        entries = (np.ones(self.size), (np.asarray(self.level.codes), np.arange(self.size)))
        return csr_array(entries, shape=(self.rows, self.size))

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

    indicators = True

    def nested(self) -> tuple[tuple[Level | None, Integers | None], ...]:
        """Some groups of the level."""
        return ((self.level, self.chosen),)

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

    def sparse(self) -> csr_array:
        """The rows chosen of the level's, or of the values."""
        whole = Identity(self.size) if self.level is None else LevelRows(self.size, self.level)
        return whole.sparse()[self.chosen]

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
