"""Rows over values in their order: prefixes and ranges, with prefix sums in place of matrices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from residua.domain import Attribute, Bins
from residua.linalg.arrays import Floats
from residua.linalg.intervals import Intervals
from residua.workload.attribute_queries import AttributeQueries, InOrder, require_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class OrderedRows(AttributeQueries):
    """Ranges of values in their order; the cell of other values, which has no place in it, is a row by itself.

    Args:
        size: how many values there are, the other ones' cell included.
        other: whether the last cell is that of other values.
    """

    other: bool = False

    indicators = True

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
    def _along(self) -> InOrder: ...

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


def applied(term: Sequence[tuple[int, AttributeQueries]], marginal: Floats, first: int = 0) -> Floats:
    """The queries of a term, (…, rows_1, …, rows_k), from the marginal on its attributes, (…, n_1, …, n_k).

    Args:
        term: what is asked of each attribute.
        marginal: the table, or several.
        first: how many axes come before those of the attributes.
    """
    for axis, (_, asked) in enumerate(term, start=first):
        if not asked.plain:
            marginal = np.moveaxis(asked.summed(np.moveaxis(marginal, axis, 0)), 0, axis)
    return marginal
