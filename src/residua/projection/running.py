"""Coordinates of a long ordered attribute: its running sums, in passes instead of matrices.

The metric along it is squares over all prefixes, `‖P‖²` of the running sums P. So the total is spread by the last value
alone, and the coordinates beside it are the running sums before the last: `[v, F]` is the difference of neighbours.

No count of a table is negative where its running sums do not fall, and sums that do not fall are one pass away from any
others. So the table of an axis is kept as running sums, in which no direction is stiffer than another, however long
the axis is. Where a table has several such axes, that holds along the longest (for the others: `waves.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats


@dataclass(frozen=True, eq=False)
class Running:
    """Coordinates of one attribute with n values: the total, and n − 1 running sums.

    Args:
        size: n.
        last: how much the penalty weighs the last running sum, the total along the axis, beside the others.
    """

    size: int
    last: float = 1.0

    @cached_property
    def lengths(self) -> Floats:
        """All 1, (n − 1,): tables are kept as the coordinates are."""
        return np.ones(self.size - 1)

    @property
    def total_length(self) -> float:
        """The weight of the last running sum."""
        return self.last

    @property
    def crossing(self) -> float:
        """0: there are no cross terms."""
        return 0.0

    @cached_property
    def cell_weights(self) -> Floats:
        """All alike but that of the total, (n,)."""
        return np.concatenate([[self.last], np.ones(self.size - 1)])

    @cached_property
    def even(self) -> Floats:
        """Equal shares of the values, (n,)."""
        return np.full(self.size, 1.0 / self.size)

    @cached_property
    def even_sums(self) -> Floats:
        """Their running sums in the order of coordinates, (n,)."""
        return np.concatenate([[1.0], np.arange(1, self.size) / self.size])

    @property
    def longest(self) -> float:
        """How long the running sums of one record can be."""
        return math.sqrt(self.size - 1)

    def lifted(self, coordinates: Floats, axis: int) -> Floats:
        """From coordinates to values, along one axis."""
        sums = np.moveaxis(coordinates, axis, 0)
        found = np.empty_like(sums)
        found[:-1] = sums[1:]
        found[-1] = sums[0]
        found[1:] -= found[:-1].copy()
        return np.moveaxis(found, 0, axis)

    def lowered(self, values: Floats, axis: int) -> Floats:
        """What coordinates see of a function linear in the values, along one axis."""
        slopes = np.moveaxis(values, axis, 0)
        found = np.empty_like(slopes)
        found[0] = slopes[-1]
        found[1:] = slopes[:-1] - slopes[1:]
        return np.moveaxis(found, 0, axis)

    def own(self, values: Floats, axis: int) -> Floats:
        """From values to the coordinates beside the total, along one axis."""
        moved = np.moveaxis(values, axis, 0)
        return np.moveaxis(np.cumsum(moved[:-1], axis=0), 0, axis)
