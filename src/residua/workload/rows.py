"""What may be asked of one attribute: rows of a matrix over its values. Here, what every kind says, and groups.

An attribute with n values is asked the rows of a matrix W, (rows, n). Planners need `WᵀW`, `W v` and `diag(W K Wᵀ)`;
where W is large and regular (all n(n+1)/2 ranges, `asking.py`) these are prefix sums and W is never written out.

A kind of rows is one class: it says how many rows there are, what they are called and what they sum; whatever else it
knows of itself (that it follows an order, that it is groups of levels, closed forms) it states by the other methods. A
class with a fixed `kind` is asked for by that word, in `product`, in specifications and in files of plans.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from residua.domain import Attribute, Label, Level
from residua.errors import WorkloadError
from residua.linalg.arrays import Array, Floats, Integers, along
from residua.machine import csr_array, vstack

_MOST_ENTRIES = 2**27  # a gigabyte
KINDS: dict[str, type[AttributeQueries]] = {}  # the word that each kind with a fixed name is asked by
InOrder = Literal["prefixes", "ranges", "values", "groups"]
ChosenGroups = tuple[tuple[Level | None, Integers | None], ...]  # a level, None for the values; which groups, or all


def require_matrix(what: str, rows: int, columns: int) -> None:
    """Refuses to write out a matrix that no memory holds.

    Raises:
        WorkloadError: it has too many entries.
    """
    if rows * columns > _MOST_ENTRIES:
        raise WorkloadError(
            f"{what} over {columns:,} values take a matrix of {rows:,} × {columns:,} numbers, which is too large; "
            "declare bins or coarser values, or ask for fewer rows."
        )


@dataclass(frozen=True, eq=False)
class AttributeQueries(ABC):
    """The rows asked of one attribute with `size` values; two are equal when they ask the same rows."""

    size: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        word = cls.__dict__.get("kind")
        if isinstance(word, str) and KINDS.setdefault(word, cls) is not cls:
            raise TypeError(f"there are rows called {word!r} already; give this kind another name.")

    @classmethod
    def of_attribute(cls, name: str, attribute: Attribute) -> AttributeQueries:
        """The rows of this kind over an attribute's values.

        Raises:
            WorkloadError: it has none.
        """
        return cls(attribute.size)

    @property
    @abstractmethod
    def kind(self) -> str:
        """What the rows are called, and how files ask for them."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def matrix(self) -> Floats:
        """W itself, (rows, n)."""

    @abstractmethod
    def labels(self, attribute: Attribute) -> Iterator[str]:
        """What each row asks, in words, without the attribute's name."""

    @property
    def title(self) -> str:
        """What the rows are called in the title of a table; nothing for the values themselves."""
        return self.kind

    def tables(self, attribute: Attribute) -> list[tuple[str, slice, tuple[Label, ...]]]:
        """The tables that the rows make along the attribute: the title of each, which rows, what each of them is."""
        texts = (text.removeprefix(f".{self.kind}").removeprefix("=") for text in self.labels(attribute))
        return [(self.title, slice(None), tuple(texts))]

    # ---- facts that planners ask for

    plain: ClassVar[bool] = False  # whether the rows are the values themselves
    indicators: ClassVar[bool] = False  # whether every entry of every row is zero or one

    @property
    def along(self) -> InOrder | None:
        """What the rows are in the order of the values: all prefixes, all ranges, all values, or groups that are runs
        of values; None where they are anything else, or where a cell of other values has no place in the order."""
        return None

    def parts(self) -> tuple[AttributeQueries, ...]:
        """The same rows kind by kind."""
        return (self,)

    def nested(self) -> ChosenGroups | None:
        """Of rows that are groups of levels: the level, None for the values, and which of its groups, None for all of
        them; None where the rows are anything else."""
        return None

    @property
    def whole_level(self) -> Level | None:
        """The level of which the rows are all groups, None where they are more, less or anything else."""
        nested = self.nested() or ()
        return nested[0][0] if len(nested) == 1 and nested[0][1] is None else None

    @property
    def by_levels(self) -> bool:
        """Whether they are all groups of some levels."""
        return any(level is not None and chosen is None for level, chosen in self.nested() or ())

    # ---- what is computed with them

    def sparse(self) -> csr_array:
        """W as a sparse matrix, (rows, n)."""
        return csr_array(self.matrix())

    def prefix_rows(self) -> csr_array:
        """The rows over prefix sums of the values, (rows, n): few entries each where they follow the order."""
        from residua.linalg.path import over_running_sums  # loads SciPy

        return over_running_sums(self.sparse())

    def summed(self, tables: Floats) -> Floats:
        """W along the first axis of tables, (rows, …)."""
        return along(self.matrix(), tables, 0)

    def trace(self) -> float:
        """The trace of `WᵀW`."""
        return float(self.summed(np.ones(self.size)).sum() if self.indicators else (self.matrix() ** 2).sum())

    def to_body(self) -> Any:
        """The rows as plain values: the word that asks for them."""
        return self.kind

    def gram(self, weights: Floats | None = None) -> Floats:
        """`Wᵀ diag(weights) W`, (n, n), without weights `WᵀW`."""
        W = self.matrix()
        return np.asarray((W if weights is None else W * weights[:, None]).T @ W)

    def times(self, vector: Floats) -> Floats:
        """`W v`, (rows,)."""
        return self.summed(vector)

    def diagonal(self, matrix: Floats) -> Floats:
        """`diag(W K Wᵀ)`, (rows,), for a symmetric K, (n, n)."""
        W = self.matrix()
        return np.asarray(np.einsum("ij,ij->i", W @ matrix, W))

    @cached_property
    def key(self) -> Hashable:
        """What two equal sets of rows have in common, and no others."""
        return (type(self), *(getattr(self, field.name) for field in fields(self)))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AttributeQueries) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


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

    def _codes(self, level: Level | None) -> Array:
        return np.arange(self.size) if level is None else level.codes


def level_sums(level: Level, tables: Floats) -> Floats:
    """Sums over the groups of a level along the first axis, (groups, …)."""
    codes = level.codes
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
        return "groups" if int(np.count_nonzero(np.diff(self.level.codes))) == len(self.level) - 1 else None

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
        return np.unique(self._codes(self.level)[np.flatnonzero(self.outer.codes == self.group)]).astype(np.int64)

    def nested(self) -> ChosenGroups:
        """Some groups of the level."""
        return ((self.level, self.chosen),)
