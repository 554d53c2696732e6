"""Ranges of ordered cells as rows of a matrix that is never written out: all contractions are prefix sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.machine import csr_array


@dataclass(frozen=True, eq=False)
class Intervals:
    """The ranges `first ≤ cell ≤ last`, one per row, of `cells` ordered cells.

    Contractions with matrices are two-dimensional prefix sums: O(rows + cells²).

    Args:
        first: the first cell of each range, (rows,).
        last: the last cell of each range, (rows,).
        cells: how many cells there are.

    Example:
        >>> Intervals(np.array([0, 1]), np.array([1, 2]), 3).gram(np.array([1.0, 10.0])).astype(int).tolist()
        [[1, 1, 0], [1, 11, 10], [0, 10, 10]]
        >>> Intervals.every(3).block(0, 6).astype(int).tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]]
    """

    first: Integers
    last: Integers
    cells: int

    @classmethod
    def every(cls, cells: int) -> Intervals:
        """All ranges, in the order (0,0), (0,1), …, (1,1), …"""
        return cls(*np.triu_indices(cells), cells)

    @property
    def shape(self) -> tuple[int, int]:
        """How many ranges, of how many cells."""
        return len(self.first), self.cells

    def gram(self, weights: Floats) -> Floats:
        """Entry (i, j), i ≤ j: the weight of the ranges that start at or before i and end at or after j."""
        d = self.cells
        square = np.bincount(self.first * d + self.last, weights=weights, minlength=d * d).reshape(d, d)
        covering = np.cumsum(np.cumsum(square, axis=0)[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(np.triu(covering) + np.triu(covering, 1).T)

    def diagonal(self, matrix: Floats) -> Floats:
        """Sum of a symmetric matrix over pairs of cells of each range, (rows,)."""
        prefix = np.zeros((self.cells + 1, self.cells + 1))
        prefix[1:, 1:] = np.cumsum(np.cumsum(matrix, axis=0), axis=1)
        corner, a, b = np.diagonal(prefix), self.first, self.last + 1
        return np.asarray(corner[b] - prefix[a, b] - prefix[b, a] + corner[a])

    def block(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop`, written out."""
        cell = np.arange(self.cells)
        return ((self.first[start:stop, None] <= cell) & (cell <= self.last[start:stop, None])).astype(np.float64)

    def summed(self, tables: Floats) -> Floats:
        """Sums over each range along the first axis of tables, (rows, …): differences of prefix sums."""
        sums = np.zeros((self.cells + 1, *tables.shape[1:]))
        np.cumsum(tables, axis=0, out=sums[1:])
        return np.asarray(sums[self.last + 1] - sums[self.first])

    def over_prefix_sums(self) -> csr_array:
        """The rows over prefix sums of the cells: the one at the last cell, minus the one before the first."""
        rows, shape = np.arange(len(self.first)), self.shape
        later = np.flatnonzero(self.first > 0)
        before = csr_array((np.ones(len(later)), (later, self.first[later] - 1)), shape=shape)
        return csr_array(csr_array((np.ones(len(rows)), (rows, self.last)), shape=shape) - before)
