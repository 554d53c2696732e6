"""Rows that are groups of values: the values themselves, one level of a hierarchy, all of them, or a part of one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from residua.domain import Attribute, Label, Level
from residua.errors import WorkloadError
from residua.linalg.arrays import Floats, Integers
from residua.workload.attribute_queries import AttributeQueries, ChosenGroups, InOrder, require_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class GroupRows(AttributeQueries):
    """One row per group, level by level; a value is a group by itself."""

    indicators = True

    @abstractmethod
    def nested(self) -> ChosenGroups:
        """Each level, None for the values, and which of its groups, None for all of them."""

    @property
    def rows(self) -> int:
        """One row per group or value."""
        return sum(len(self._numbers(level)) if chosen is None else len(chosen) for level, chosen in self.nested())

    def matrix(self) -> Floats:
        """Indicators of the groups or values."""
        require_matrix(f"the rows of {self.kind!r}", self.rows, self.size)
        numbers = [self._numbers(level) if chosen is None else chosen for level, chosen in self.nested()]
        codes = [self._codes(level) for level, _ in self.nested()]
        return np.vstack([each[:, None] == own for each, own in zip(numbers, codes, strict=True)]).astype(np.float64)

    def sparse(self) -> csr_array:
        """One entry per value that is in a group, level by level."""
        from scipy.sparse import csr_array, vstack

        parts = []
        for level, chosen in self.nested():
            entries = (np.ones(self.size), (self._codes(level), np.arange(self.size)))
            whole = csr_array(entries, shape=(len(self._numbers(level)), self.size))
            parts.append(whole if chosen is None else whole[chosen])
        return csr_array(vstack(parts, format="csr"))

    def summed(self, tables: Floats) -> Floats:
        """Sums over groups, or the values themselves."""
        parts = []
        for level, chosen in self.nested():
            sums = tables if level is None else level_sums(level, tables)
            parts.append(sums if chosen is None else sums[chosen])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`.state=CA`, …, `=LA`, …"""
        for level, chosen in self.nested():
            name = "" if level is None else f".{level.name}"
            yield from (f"{name}={label}" for label in _labels(attribute, level, chosen))

    def tables(self, attribute: Attribute) -> list[tuple[str, slice, tuple[Label, ...]]]:
        """One per level, and one of the values."""
        parts, start = [], 0
        for level, chosen in self.nested():
            labels = _labels(attribute, level, chosen)
            title = self.kind if chosen is not None else "" if level is None else level.name
            parts.append((title, slice(start, start + len(labels)), labels))
            start += len(labels)
        return parts

    def _numbers(self, level: Level | None) -> Integers:
        return np.arange(self.size if level is None else len(level))

    def _codes(self, level: Level | None) -> Integers:
        return np.arange(self.size) if level is None else np.asarray(level.codes)


def level_sums(level: Level, tables: Floats) -> Floats:
    """Sums over the groups of a level along the first axis, (groups, …)."""
    codes = np.asarray(level.codes)
    if tables.ndim == 1:
        return np.bincount(codes, weights=tables, minlength=len(level)).astype(np.float64)
    sums = np.zeros((len(level), *tables.shape[1:]))
    np.add.at(sums, codes, tables)
    return sums


def _labels(attribute: Attribute, level: Level | None, chosen: Integers | None) -> tuple[Label, ...]:
    """What each group or value is called by itself: `0601`, …"""
    labels: Sequence[Label] = attribute.labels if level is None else level.labels
    return tuple(labels) if chosen is None else tuple(labels[place] for place in chosen.tolist())


class Identity(GroupRows):
    """Every value by itself: the attribute of a marginal."""

    kind = "identity"
    title = ""
    plain = True
    along = "values"

    def nested(self) -> ChosenGroups:
        """The values."""
        return ((None, None),)

    def diagonal(self, matrix: Floats) -> Floats:
        """The diagonal itself."""
        return np.asarray(np.diagonal(matrix))


@dataclass(frozen=True, eq=False)
class LevelRows(GroupRows):
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

    @cached_property
    def along(self) -> InOrder | None:
        """Groups, where each is one run of values."""
        turns = int(np.count_nonzero(np.diff(np.asarray(self.level.codes))))
        return "groups" if turns == len(self.level) - 1 else None

    def nested(self) -> ChosenGroups:
        """All groups of the level."""
        return ((self.level, None),)


@dataclass(frozen=True, eq=False)
class Hierarchy(GroupRows):
    """The groups of every level, coarsest level first, and the values themselves last.

    Args:
        size: how many values there are.
        levels: the levels, coarsest first.
    """

    levels: tuple[Level, ...]

    kind = "hierarchy"

    @classmethod
    def of_attribute(cls, name: str, attribute: Attribute) -> AttributeQueries:
        """All levels of the attribute."""
        if not attribute.hierarchy:
            raise WorkloadError(
                f"the attribute {name!r} has no levels; declare them, such as levels={{'state': {{…}}}}."
            )
        return cls(attribute.size, tuple(reversed(attribute.hierarchy)))

    def nested(self) -> ChosenGroups:
        """All groups of each level, and the values."""
        return (*((level, None) for level in self.levels), (None, None))

    def parts(self) -> tuple[AttributeQueries, ...]:
        """Each level, and the values."""
        return (*(LevelRows(self.size, level) for level in self.levels), Identity(self.size))


@dataclass(frozen=True, eq=False)
class Inside(GroupRows):
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
    def chosen(self) -> Integers:
        """Which groups, or values, in the order of their codes."""
        values = np.flatnonzero(np.asarray(self.outer.codes) == self.group)
        return np.unique(self._codes(self.level)[values]).astype(np.int64)

    def nested(self) -> ChosenGroups:
        """Some groups of the level."""
        return ((self.level, self.chosen),)
