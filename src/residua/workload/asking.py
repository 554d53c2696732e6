"""From what a user says of one attribute (a kind, a level, a matrix, a list of ranges) to the rows asked of it.

The rows are prefixes and ranges of values in their order, with prefix sums in place of matrices; any matrix; or groups.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Amount, Attribute, Between, Bins, Label
from residua.errors import DomainError, WorkloadError, kind_of, nearest
from residua.linalg.arrays import Floats
from residua.linalg.intervals import Intervals
from residua.machine import csr_array
from residua.workload.rows import KINDS, AttributeQueries, Identity, InOrder, Inside, LevelRows, require_matrix


@dataclass(frozen=True, eq=False)
class OrderedRows(AttributeQueries):
    """Ranges of values in their order; the cell of other values, which has no place in it, is a row by itself.

    Args:
        size: how many values there are, the other ones' cell included.
        other: whether the last cell is that of other values.
    """

    other: bool = False

    indicators = True
    _along: ClassVar[InOrder]

    @classmethod
    def of_attribute(cls, name: str, attribute: Attribute) -> AttributeQueries:
        """Over the values in their order, and the cell of other values if there is one."""
        return cls(attribute.size, attribute.has_other)

    @property
    def ordered(self) -> int:
        """How many values have a place in the order."""
        return self.size - self.other

    @property
    def along(self) -> InOrder | None:
        """All of their kind, where every value has a place in the order."""
        return None if self.other else self._along

    @property
    @abstractmethod
    def _ranges(self) -> Intervals:
        """The rows over the values that have a place in the order."""

    @abstractmethod
    def _naming(self, attribute: Attribute) -> Callable[[int, int], str]:
        """Names a row by the codes of its first and last value."""

    @property
    def intervals(self) -> Intervals:
        """The rows over all values: the cell of other values is a range of its own."""
        ranges, last = self._ranges, self.size - 1
        if not self.other:
            return ranges
        return Intervals(np.append(ranges.first, last), np.append(ranges.last, last), self.size)

    def matrix(self) -> Floats:
        """W itself, (rows, n)."""
        require_matrix(self.kind, self.rows, self.size)
        return self.intervals.block(0, self.rows)

    def gram(self, weights: Floats | None = None) -> Floats:
        """Two-dimensional prefix sums of the weights."""
        require_matrix(self.kind, self.size, self.size)
        return self.intervals.gram(np.ones(self.rows) if weights is None else weights)

    def diagonal(self, matrix: Floats) -> Floats:
        """Sum of each square block on the diagonal of K."""
        return np.maximum(self.intervals.diagonal(matrix), 0.0)

    def prefix_rows(self) -> csr_array:
        """Differences of two prefix sums."""
        return self.intervals.over_prefix_sums()

    def summed(self, tables: Floats) -> Floats:
        """Differences of prefix sums."""
        return self.intervals.summed(tables)

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """Each range by its ends; the cell of other values by its own label."""
        ranges, name = self._ranges, self._naming(attribute)
        yield from map(name, ranges.first.tolist(), ranges.last.tolist())
        if self.other:
            yield f"={attribute.labels[-1]}"


class Prefixes(OrderedRows):
    """For every value, how many records have it or an earlier one."""

    kind = "prefixes"
    _along = "prefixes"

    @property
    def rows(self) -> int:
        """One row per value."""
        return self.size

    def summed(self, tables: Floats) -> Floats:
        """Prefix sums."""
        return super().summed(tables) if self.other else np.cumsum(tables, axis=0)

    @property
    def _ranges(self) -> Intervals:
        return Intervals(np.zeros(self.ordered, dtype=np.int64), np.arange(self.ordered), self.ordered)

    def _naming(self, attribute: Attribute) -> Callable[[int, int], str]:
        """`<=30`, …; of bins `<800`, …: they are open at their upper edge, except the last."""
        edges, labels = _edges(attribute), attribute.labels
        if edges is None:
            return lambda _, last: f"<={labels[last]}"
        return lambda _, last: f"<{'=' * (last + 2 == len(edges))}{edges[last + 1]:.15g}"


class Ranges(OrderedRows):
    """Every range of consecutive values, by its first value, then by its last."""

    kind = "ranges"
    _along = "ranges"

    @property
    def rows(self) -> int:
        """n(n+1)/2 ranges."""
        return self.ordered * (self.ordered + 1) // 2 + self.other

    @property
    def _ranges(self) -> Intervals:
        require_matrix(self.kind, self.ordered, self.ordered)  # twice as many numbers as there are ranges
        return Intervals.every(self.ordered)

    def gram(self, weights: Floats | None = None) -> Floats:
        """Without weights entry (i, j), i ≤ j, counts the ranges that hold both: (i + 1)(n − j)."""
        if weights is not None or self.other:
            return super().gram(weights)
        require_matrix(self.kind, self.size, self.size)
        i = np.arange(float(self.size))
        return np.asarray(np.minimum.outer(i + 1, i + 1) * (self.size - np.maximum.outer(i, i)))

    def trace(self) -> float:
        """How many values all ranges hold."""
        return self.ordered * (self.ordered + 1) * (self.ordered + 2) / 6 + self.other

    def _naming(self, attribute: Attribute) -> Callable[[int, int], str]:
        return range_labels(attribute)


def range_labels(attribute: Attribute) -> Callable[[int, int], str]:
    """Names ranges of values by the codes of their first and last: `=17..30`, of bins `=[700, 800)`."""
    edges, labels = _edges(attribute), attribute.labels

    def label(first: int, last: int) -> str:
        if edges is not None:
            return f"=[{edges[first]:.15g}, {edges[last + 1]:.15g}{']' if last + 2 == len(edges) else ')'}"
        return f"={labels[first]}..{labels[last]}" if first < last else f"={labels[first]}"

    return label


def _edges(attribute: Attribute) -> Sequence[float] | None:
    """The edges of bins that are labelled by them; bins with names of their own are known by these."""
    if not isinstance(attribute, Bins) or attribute.bin_labels != Bins(attribute.edges).bin_labels:
        return None
    return attribute.edges


@dataclass(frozen=True, eq=False)
class MatrixRows(AttributeQueries):
    """Any rows a user gives.

    Args:
        size: how many values there are.
        given: W, (rows, n).
        names: what each row asks, in words; `[0]`, … without.
    """

    given: Floats
    names: tuple[str, ...] = ()

    kind = "matrix"

    def __post_init__(self) -> None:
        self.given.setflags(write=False)

    @classmethod
    def of_attribute(cls, name: str, attribute: Attribute) -> AttributeQueries:
        """A matrix is given, not named."""
        raise WorkloadError(f"{name!r} is asked for a matrix; give it, one column per value.")

    def to_body(self) -> Any:
        """The entries and their names."""
        return {"rows": self.given.tolist(), "names": list(self.names)}

    @property
    def rows(self) -> int:
        """How many rows were given."""
        return len(self.given)

    @cached_property
    def key(self) -> Hashable:
        """The entries and their names."""
        return (self.kind, self.given.shape, (self.given + 0.0).tobytes(), self.names)

    def matrix(self) -> Floats:
        """The rows as given."""
        return self.given

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`[0]`, …"""
        return iter(self.names) if self.names else (f"[{row}]" for row in range(self.rows))


@dataclass(frozen=True, eq=False)
class Sums(AttributeQueries):
    """The sum of an amount: one row.

    Args:
        low: what a record at the low end adds.
        high: what one at the high end adds.
    """

    low: float
    high: float

    kind = "sum"
    rows = 1

    @classmethod
    def of_attribute(cls, name: str, attribute: Attribute) -> AttributeQueries:
        """Of an amount."""
        if not isinstance(attribute, Amount):
            raise WorkloadError(f"{name!r} is no amount, so that no sum is measured; declare it as rs.Amount.")
        return cls(attribute.size, attribute.low, attribute.high)

    def matrix(self) -> Floats:
        """What each end adds."""
        return np.array([[self.low, self.high]], dtype=np.float64)

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """One row, the sum."""
        return iter(("=sum",))


def attribute_queries(name: str, attribute: Attribute, asked: str | ArrayLike | AttributeQueries) -> AttributeQueries:
    """What is asked of an attribute, from a kind's name or a matrix.

    Raises:
        WorkloadError: an unknown kind, a hierarchy nobody declared, or a matrix that does not fit.
    """
    if isinstance(asked, AttributeQueries):
        if asked.size != attribute.size:
            raise WorkloadError(
                f"the rows asked of {name!r} have {asked.size} columns; it has {attribute.size} values."
            )
        return asked
    if not isinstance(asked, str):
        return _matrix(name, attribute, asked)
    if attribute.summed and asked not in ("identity", "sum"):
        raise WorkloadError(f"{name!r} is an amount, which has no {asked}; ask for its 'sum'.")
    if asked in KINDS:
        return KINDS[asked].of_attribute(name, attribute)
    for level in attribute.hierarchy:
        if asked == level.name:
            return LevelRows(attribute.size, level)
    if " within " in asked:
        return _inside(name, attribute, asked)
    words = [kind for kind in KINDS if kind != MatrixRows.kind]
    known = ", ".join(repr(kind) for kind in (*words, *(level.name for level in attribute.hierarchy)))
    shown, _ = nearest(asked, (*words, *(level.name for level in attribute.hierarchy)))
    raise WorkloadError(
        f"{name!r} is asked for an unknown kind{shown}; use {known}, or a matrix (levels are declared)."
    )


def _inside(name: str, attribute: Attribute, asked: str) -> Inside:
    """`tract within county=06037`: the groups of a level, or `identity`, in one group of a coarser level."""
    what, _, where = asked.partition(" within ")
    outer, _, label = where.partition("=")
    levels = {level.name: level for level in attribute.hierarchy}
    if (what != "identity" and what not in levels) or outer not in levels:
        there = ", ".join(levels) or "none"
        raise WorkloadError(
            f"{name!r} is asked for {asked!r}; write LEVEL within LEVEL=GROUP, or identity within LEVEL=GROUP, with "
            f"the levels {there}."
        )
    if label not in levels[outer].labels:
        raise WorkloadError(f"{label!r} is no group of level {outer!r} of {name!r}; see its labels.")
    names = [level.name for level in attribute.hierarchy]
    if what != "identity" and names.index(what) >= names.index(outer):
        raise WorkloadError(
            f"{name!r} is asked for {asked!r}, but {what!r} is not finer than {outer!r}; exchange them."
        )
    level = None if what == "identity" else levels[what]
    return Inside(attribute.size, level, levels[outer], levels[outer].labels.index(label))


def listed_ranges(name: str, attribute: Attribute, listed: Sequence[tuple[Label, Label]]) -> MatrixRows:
    """The ranges listed, each by the labels of its first and its last value.

    Raises:
        WorkloadError: no ranges, or an end that is no value of the attribute or comes before the beginning.
    """
    rows, names, label = [], [], range_labels(attribute)
    for ends in listed:
        if not isinstance(ends, tuple | list) or len(ends) != 2:
            raise WorkloadError(f"{kind_of(ends)} is not a range of {name!r}; give its first and its last value.")
        try:
            inside = Between(*ends).codes(name, attribute)
        except DomainError as problem:
            raise WorkloadError(f"a range of {name!r} leaves the attribute: {problem}") from None
        rows.append(np.zeros(attribute.size))
        rows[-1][inside] = 1.0
        names.append(label(inside.start, inside.stop - 1))
    if not rows:
        raise WorkloadError(f"no ranges of {name!r} are listed; list at least one, a pair of labels.")
    return MatrixRows(attribute.size, np.array(rows), tuple(names))


def rows_of_body(name: str, attribute: Attribute, body: Any) -> AttributeQueries:
    """The rows that plain values describe, as `to_body` wrote them."""
    if isinstance(body, str):
        return attribute_queries(name, attribute, body)
    rows = attribute_queries(name, attribute, body["rows"])
    names = tuple(str(text) for text in body["names"])
    return replace(rows, names=names) if names and isinstance(rows, MatrixRows) else rows


def _matrix(name: str, attribute: Attribute, given: Any) -> AttributeQueries:
    try:
        W = np.array(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError):
        raise WorkloadError(f"the matrix for {name!r} is not made of numbers; give rows of equal length.") from None
    if W.ndim != 2 or W.shape[1] != attribute.size:
        columns = W.shape[1] if W.ndim == 2 else W.shape
        raise WorkloadError(
            f"the matrix for {name!r} has {columns} columns, but the attribute has {attribute.size} values; "
            "give one column per value."
        )
    if not len(W) or not np.isfinite(W).all():
        raise WorkloadError(f"the matrix for {name!r} is empty or holds NaN or infinite entries; correct it.")
    if not W.any(axis=1).all():
        row = int(np.flatnonzero(~W.any(axis=1))[0])
        raise WorkloadError(f"row {row} of the matrix for {name!r} is zero; leave it out.")
    square = W.shape[0] == W.shape[1]  # of a long axis the identity would not fit into memory
    return Identity(W.shape[1]) if square and np.array_equal(W, np.eye(len(W))) else MatrixRows(W.shape[1], W)
