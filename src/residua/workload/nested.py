"""Rows over groups of values: one level of a hierarchy, or all of them and the values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from residua.domain import Attribute, Level
from residua.linalg.arrays import Floats
from residua.workload.attribute_queries import AttributeQueries, require_matrix


@dataclass(frozen=True, eq=False)
class Hierarchy(AttributeQueries):
    """The groups of every level, coarsest level first, and the values themselves last.

    Args:
        size: how many values there are.
        names: the levels' names, coarsest first.
        groups: the labels of each level's groups.
        codes: for each level the group of every value.
    """

    names: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    codes: tuple[tuple[int, ...], ...]

    kind = "hierarchy"

    @property
    def rows(self) -> int:
        """Groups of all levels, and values."""
        return sum(len(labels) for labels in self.groups) + self.size

    @property
    def key(self) -> Hashable:
        """The levels."""
        return (self.kind, self.size, self.names, self.groups, self.codes)

    def matrix(self) -> Floats:
        """Indicators of the groups, then the identity."""
        require_matrix("the levels", self.rows, self.size)
        levels = [
            (np.arange(len(labels))[:, None] == np.array(codes)).astype(np.float64)
            for labels, codes in zip(self.groups, self.codes, strict=True)
        ]
        return np.vstack([*levels, np.eye(self.size)])

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

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`.state=CA`, …"""
        return (f".{self.level.name}={label}" for label in self.level.labels)
