"""Any ranges of ordered cells, recognised in a matrix, so that a tall workload of ranges is never multiplied out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.solver.queries import Queries, ScaledQueries


@dataclass(frozen=True, eq=False)
class Intervals:
    """The ranges `first ≤ cell ≤ last`, one a query, of `cells` ordered cells.

    Both contractions are two-dimensional prefix sums: O(m + d²).

    Example:
        >>> Intervals(np.array([0, 1]), np.array([1, 2]), 3).gram(np.array([1.0, 10.0])).astype(int).tolist()
        [[1, 1, 0], [1, 11, 10], [0, 10, 10]]
    """

    first: Integers
    last: Integers
    cells: int

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries, over how many cells."""
        return len(self.first), self.cells

    def gram(self, weights: Floats) -> Floats:
        """Entry (i, j), i ≤ j: the weight of the ranges that start at or before i and end at or after j."""
        square = np.zeros((self.cells, self.cells))
        np.add.at(square, (self.first, self.last), weights)
        covering = np.cumsum(np.cumsum(square, axis=0)[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(np.triu(covering) + np.triu(covering, 1).T)

    def diagonal(self, matrix: Floats) -> Floats:
        """Sum of `matrix` over pairs of cells of each range."""
        prefix = np.zeros((self.cells + 1, self.cells + 1))
        prefix[1:, 1:] = np.cumsum(np.cumsum(matrix, axis=0), axis=1)
        a, b = self.first, self.last + 1
        return np.asarray(prefix[b, b] - prefix[a, b] - prefix[b, a] + prefix[a, a])

    def block(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop`, written out."""
        cell = np.arange(self.cells)
        inside = (self.first[start:stop, None] <= cell) & (cell <= self.last[start:stop, None])
        return inside.astype(np.float64)


def as_intervals(matrix: Floats) -> Queries | None:
    """The queries of a matrix without zero rows as (scaled) ranges of its columns, if that is what they are."""
    asked = matrix != 0
    first = asked.argmax(axis=1)
    last = matrix.shape[1] - 1 - asked[:, ::-1].argmax(axis=1)
    height = matrix[np.arange(len(matrix)), first]
    ranges = Intervals(first, last, matrix.shape[1])
    step = max(1, 2**22 // matrix.shape[1])
    for start in range(0, len(matrix), step):
        stop = min(start + step, len(matrix))
        if not np.array_equal(ranges.block(start, stop) * height[start:stop, None], matrix[start:stop]):
            return None
    return ScaledQueries(ranges, np.abs(height))
