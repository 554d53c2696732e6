"""Rows over values in their order: prefixes and ranges, with prefix sums in place of matrices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from residua.domain import Attribute, Bins
from residua.linalg.arrays import Floats, Integers
from residua.workload.attribute_queries import AttributeQueries, InOrder, require_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Ordered(AttributeQueries):
    """Rows over values in their order; the cell of other values, which has no place in it, is a row by itself.

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
    def key(self) -> Hashable:
        """The kind, the size, and whether there is a cell of other values."""
        return (self.kind, self.size, self.other)

    def matrix(self) -> Floats:
        """W itself, (rows, n)."""
        require_matrix(self.kind, self.rows, self.size)
        W = np.zeros((self.rows, self.size))
        W[: self.rows - self.other, : self.ordered] = self._rows()
        if self.other:
            W[-1, -1] = 1.0
        return W

    @abstractmethod
    def _rows(self) -> Floats:
        """The rows over the values that have a place in the order."""

    def _with_other(self, values: Floats, last: float) -> Floats:
        return np.append(values, last) if self.other else values


class Prefixes(Ordered):
    """For every value, how many records have it or an earlier one."""

    kind = "prefixes"

    @property
    def along(self) -> InOrder | None:
        """All prefixes."""
        return None if self.other else "prefixes"

    @property
    def rows(self) -> int:
        """One row per value."""
        return self.size

    def _rows(self) -> Floats:
        return np.tril(np.ones((self.ordered, self.ordered)))

    def prefix_rows(self) -> csr_array:
        """Each prefix sum by itself."""
        return super().prefix_rows() if self.other else _differences(np.arange(self.size), None, self.size)

    def summed(self, tables: Floats) -> Floats:
        """Prefix sums."""
        sums = np.cumsum(tables[: self.ordered], axis=0)
        return np.concatenate([sums, tables[-1:]]) if self.other else sums

    def trace(self) -> float:
        """How many values all prefixes hold."""
        return self.ordered * (self.ordered + 1) / 2 + self.other

    def times(self, vector: Floats) -> Floats:
        """Prefix sums."""
        return self._with_other(np.cumsum(vector[: self.ordered]), float(vector[-1]))

    def diagonal(self, matrix: Floats) -> Floats:
        """Sums of the leading square blocks."""
        square = matrix[: self.ordered, : self.ordered]
        return self._with_other(np.diagonal(square.cumsum(axis=0).cumsum(axis=1)).copy(), float(matrix[-1, -1]))

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`<=30`, …; of bins `<800`, …"""
        edges = _edges(attribute)
        for code, label in enumerate(attribute.labels[: self.ordered]):
            yield f"<={label}" if edges is None else _below(edges, code + 1)
        if self.other:
            yield f"={attribute.labels[-1]}"


class Ranges(Ordered):
    """Every range of consecutive values, by its first value, then by its last."""

    kind = "ranges"

    @property
    def along(self) -> InOrder | None:
        """All ranges."""
        return None if self.other else "ranges"

    @property
    def rows(self) -> int:
        """n(n+1)/2 ranges."""
        return self.ordered * (self.ordered + 1) // 2 + self.other

    def _rows(self) -> Floats:
        first, last = (ends[:, None] for ends in np.triu_indices(self.ordered))
        cell = np.arange(self.ordered)
        return ((first <= cell) & (cell <= last)).astype(np.float64)

    def gram(self) -> Floats:
        """Entry (i, j), i ≤ j, counts the ranges that hold both: (i + 1)(n − j)."""
        require_matrix(self.kind, self.size, self.size)
        n = self.ordered
        i, j = np.minimum.outer(np.arange(n), np.arange(n)), np.maximum.outer(np.arange(n), np.arange(n))
        V = np.zeros((self.size, self.size))
        V[:n, :n] = (i + 1.0) * (n - j)
        if self.other:
            V[-1, -1] = 1.0
        return V

    def weighted_gram(self, weights: Floats) -> Floats:
        """Two-dimensional prefix sums of the weights."""
        n = self.ordered
        square = np.zeros((n, n))
        square[np.triu_indices(n)] = weights[: n * (n + 1) // 2]
        covering = np.cumsum(np.cumsum(square, axis=0)[:, ::-1], axis=1)[:, ::-1]
        V = np.zeros((self.size, self.size))
        V[:n, :n] = np.triu(covering) + np.triu(covering, 1).T
        if self.other:
            V[-1, -1] = weights[-1]
        return V

    def prefix_rows(self) -> csr_array:
        """The prefix sum at the last value, minus the one before the first."""
        first, last = np.triu_indices(self.size)
        return super().prefix_rows() if self.other else _differences(last, first - 1, self.size)

    def summed(self, tables: Floats) -> Floats:
        """Differences of prefix sums."""
        first, last = np.triu_indices(self.ordered)
        sums = np.cumsum(tables[: self.ordered], axis=0)
        before = np.concatenate([np.zeros((1, *sums.shape[1:])), sums])
        sums = before[last + 1] - before[first]
        return np.concatenate([sums, tables[-1:]]) if self.other else sums

    def trace(self) -> float:
        """How many values all ranges hold."""
        return self.ordered * (self.ordered + 1) * (self.ordered + 2) / 6 + self.other

    def times(self, vector: Floats) -> Floats:
        """Differences of prefix sums."""
        require_matrix(self.kind, self.size, self.size)
        sums = np.concatenate([[0.0], np.cumsum(vector[: self.ordered])])
        first, last = np.triu_indices(self.ordered)
        return self._with_other(sums[last + 1] - sums[first], float(vector[-1]))

    def diagonal(self, matrix: Floats) -> Floats:
        """Sum of each square block on the diagonal of K."""
        n = self.ordered
        prefix = np.zeros((n + 1, n + 1))
        prefix[1:, 1:] = matrix[:n, :n].cumsum(axis=0).cumsum(axis=1)
        corner = np.diagonal(prefix)
        a, b = np.triu_indices(n)
        blocks = corner[b + 1] - prefix[a, b + 1] - prefix[b + 1, a] + corner[a]
        return self._with_other(np.maximum(blocks, 0.0), float(matrix[-1, -1]))

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`=17..30`, …; of bins `=[700, 800)`, …"""
        label = range_labels(attribute)
        for a, b in zip(*np.triu_indices(self.ordered), strict=True):
            yield label(int(a), int(b))
        if self.other:
            yield f"={attribute.labels[-1]}"


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


def _below(edges: Sequence[float], end: int) -> str:
    """All bins up to an edge: they are open at it, except the last."""
    return f"<={edges[end]:.15g}" if end == len(edges) - 1 else f"<{edges[end]:.15g}"


def applied(term: Sequence[tuple[int, AttributeQueries]], marginal: Floats) -> Floats:
    """The queries of a term, (rows_1, …, rows_k), from the marginal on its attributes, (n_1, …, n_k)."""
    for axis, (_, asked) in enumerate(term):
        if not asked.plain:
            marginal = np.moveaxis(asked.summed(np.moveaxis(marginal, axis, 0)), 0, axis)
    return marginal


def _differences(last: Integers, before: Integers | None, n: int) -> csr_array:
    """Rows over prefix sums that take one and subtract another; −1 for nothing before."""
    from scipy.sparse import csr_array

    rows = np.arange(len(last))
    sums = csr_array((np.ones(len(last)), (rows, last)), shape=(len(last), n))
    if before is None:
        return sums
    there = before >= 0
    return csr_array(sums - csr_array((np.ones(there.sum()), (rows[there], before[there])), shape=(len(last), n)))
