"""Controlled rounding: whole numbers next to a table's values, whose margins are whole numbers next to its margins.

A cell may go down or up to the next whole number, and so may every margin. For one or two axes the cells are flows in
a network with whole bounds, so that the cheapest fractional answer is whole already; a solution always exists (the
table itself lies between the bounds). From three axes on some tables have none: then the first axis, the table of all
the others and the total are kept within one of their values, the remaining margins as nearly as the method finds.

Reference: Bacharach (1966), Matrix rounding problems; Cox (1987), A constructive procedure for unbiased controlled
rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers

_LARGEST = 2.0**52
_LINEAR_CELLS = 20_000  # above this, the margins of a table with three or more axes are not all solved for at once


@dataclass(frozen=True, eq=False)
class Rounding:
    """A table of whole numbers.

    Args:
        counts: the whole numbers, shaped like the table.
        margin_error: how far the sum of a margin's cell is from what it was, at most; below 1 is controlled.
    """

    counts: Integers
    margin_error: float


def controlled_rounding(table: Floats) -> Rounding:
    """The nearest whole numbers (least total change) whose margins go to a next whole number, too.

    Guarantee: every cell is within one of its value, a whole number (zero among them) stays, and the sum over all
    cells is within one of its value. With one or two axes every margin is within one of its value as well; with more
    `margin_error` says how far off the worst is.

    Args:
        table: non-negative numbers with any number of axes.

    Raises:
        PlanError: a negative or infinite value, or values too large to be counted.

    Example:
        >>> controlled_rounding(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 2.0]])).counts.sum(axis=1).tolist()
        [1, 3]
    """
    values = np.asarray(table, dtype=np.float64)
    if not np.isfinite(values).all() or values.min(initial=0.0) < 0 or values.sum() >= _LARGEST:
        raise PlanError("only tables of finite, non-negative numbers can be rounded; project the release first.")
    # From three axes on, a point that is whole in most cells comes first, and then first axis × all others.
    point = _cheapest(values) if values.ndim > 2 and values.size <= _LINEAR_CELLS else values
    matrix = point.reshape(len(point), -1) if point.ndim > 1 else point.ravel()
    counts = np.rint(_cheapest(matrix)).reshape(values.shape).astype(np.int64)
    return Rounding(counts, _margin_error(values, counts))


def _cheapest(values: Floats) -> Floats:
    """The point of least total change between the bounds of all cells and margins; whole with one or two axes."""
    low, high = _bounds(values, values.size)
    free = np.flatnonzero(high > low)
    if not len(free):
        return low
    at = np.unravel_index(free, values.shape)
    margins = [
        np.ravel_multi_index([at[a] for a in axes], [values.shape[a] for a in axes])
        for size in range(1, values.ndim)
        for axes in combinations(range(values.ndim), size)
    ]
    point = low.copy()
    point.ravel()[free] += _solve(values, low, free, margins)
    return point


def _solve(values: Floats, low: Floats, free: Integers, margins: list[Any]) -> Floats:
    """Least total change over steps between 0 and 1 of the free cells, every margin and the total within bounds."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, vstack

    fractions: Floats = values.ravel()[free] - low.ravel()[free]
    measurements, lower, upper = [], [], []
    for groups in [*margins, np.zeros(len(free), dtype=np.int64)]:
        present, rows = np.unique(groups, return_inverse=True)
        entries = (np.ones(len(free)), (rows, np.arange(len(free))))
        measurements.append(csr_array(entries, shape=(len(present), len(free))))
        # The whole part of the cells is known, so that only the fractions of a margin are rounded.
        least, most = _bounds(np.bincount(rows, weights=fractions).astype(np.float64), values.size)
        lower.append(least)
        upper.append(most)
    sums, least, most = vstack(measurements, format="csr"), np.concatenate(lower), np.concatenate(upper)
    cost = 1.0 - 2.0 * fractions  # of going up rather than down
    nearest = np.rint(fractions.sum())
    for total in ((nearest, nearest), (least[-1], most[-1])):  # with three axes the nearest total may be out of reach
        least[-1], most[-1] = total
        solution = milp(cost, constraints=LinearConstraint(sums, least, most), bounds=Bounds(0.0, 1.0))
        if solution.x is not None:
            return np.asarray(solution.x)
    raise PlanError(f"the table could not be rounded ({solution.message}); round a smaller one.")


def _bounds(values: Floats, cells: int) -> tuple[Floats, Floats]:
    """The whole numbers below and above; a value this near to a whole number is taken to be it.

    All that is taken together is less than one half, so that bounds of whole numbers which the values meet up to that
    are met by whole numbers (Hoffman's condition compares whole numbers).
    """
    near = min(1e-6, 0.1 / max(cells, 1))
    nearest = np.rint(values)
    whole = np.abs(values - nearest) <= near
    return np.where(whole, nearest, np.floor(values)), np.where(whole, nearest, np.ceil(values))


def _margin_error(values: Floats, counts: Integers) -> float:
    """The largest change of any sum over some axes; over none it is the cells' own."""
    change = counts - values
    over = [axes for size in range(1, values.ndim + 1) for axes in combinations(range(values.ndim), size)]
    return max([0.0, *(float(np.abs(change.sum(axis=axes)).max(initial=0.0)) for axes in over)])
