"""Whole numbers near tables that agree with each other, so that the whole numbers agree as well.

**Of any sign: cumulated sums are rounded.** Let F be the sums of a table over all cells up to each one, along all axes.
Where F is rounded, R = round(F), the mixed differences of R are whole numbers. At the last value of an axis F is that
of the table without this axis, hence so is R: margins of rounded tables are the rounded margins. The sum over a box of
a table of k attributes has 2^k corners, each at most 1/2 from F: it is at most 2^(k−1) from its value.

**Not negative.** One attribute: the same, as F does not decrease. Two and more: attribute by attribute, each step a
table with given row and column sums (what is rounded so far, the next attribute by itself), which always exists.
Several tables that share two attributes and more need not have any: they are searched for by linear programs, whose
solutions are driven to whole numbers by the cost of the fractions that are left.

Reference: Bacharach (1966), Matrix rounding problems; Fischetti, Glover and Lodi (2005), The feasibility pump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.projection.rounding_kernel import transported

Names = tuple[str, ...]
MOST_SEARCHED = 5_000  # cells of tables that are searched for together
_LARGEST = 2.0**52
_TIE = 1e-6  # halves, which exact sums have often and floating point misses either way, are rounded down
_WHOLE = 1e-6
_ROUNDS = 60  # linear programs
_WIDER = ((0, 0), (1, 0), (3, 0), (10, 0), (10, 10))  # beyond the next whole numbers: other cells, and zeros
_FAR = 2.0  # a table with a cell this far from its value is searched for


def cumulated(table: Floats, faces: Callable[[int], Integers]) -> Integers:
    """The sums over all cells up to each one, rounded; where an axis ends, those of the table without that axis.

    Args:
        table: the numbers.
        faces: axis → what this gives for the table without that axis.

    Raises:
        PlanError: numbers that are not told, or too large to be counted.
    """
    sums = np.asarray(table, dtype=np.float64)
    if not np.abs(sums).sum() < _LARGEST:
        raise PlanError("numbers that are not told, or beyond 2^52, cannot be rounded; publish them as they are.")
    for axis in range(sums.ndim):
        sums = sums.cumsum(axis=axis)
    rounded = np.ceil(sums - 0.5 - _TIE).astype(np.int64)
    for axis in range(sums.ndim):
        rounded[(slice(None),) * axis + (-1,)] = faces(axis)
    return rounded


def differences(rounded: Integers) -> Integers:
    """The cells of which these are the sums over all up to each one."""
    for axis in range(rounded.ndim):
        rounded = np.diff(rounded, axis=axis, prepend=0)
    return rounded


def attribute_by_attribute(table: Floats, margins: Sequence[Integers]) -> Integers:
    """Whole numbers that are not negative near a table, with these sums along each axis; zeros stay if they can."""
    whole = margins[0]
    for axis, margin in enumerate(margins[1:], start=1):
        target = np.ascontiguousarray(table.sum(axis=tuple(range(axis + 1, table.ndim))).reshape(-1, len(margin)))
        whole = _with_sums(target, whole.ravel(), margin)
    return whole.reshape(table.shape)


def _with_sums(target: Floats, rows: Integers, columns: Integers) -> Integers:
    whole: Integers = transported(target, rows, columns)
    filled = bool(((target <= 0) & (whole > 0)).any())
    if whole.size > MOST_SEARCHED or not (filled or np.abs(whole - target).max(initial=0.0) > _FAR):
        return whole
    found = searched({("r", "c"): target}, {("r",): rows, ("c",): columns})
    return whole if found is None else found["r", "c"]


def searched(tables: Mapping[Names, Floats], margins: Mapping[Names, Integers]) -> dict[Names, Integers] | None:
    """Whole numbers that are not negative near several tables, which agree in all that they share; None if none is met.

    Args:
        tables: attributes → numbers, one axis for each.
        margins: attributes → sums that are given.
    """
    from scipy.optimize import linprog
    from scipy.sparse import hstack

    values = np.concatenate([table.ravel() for table in tables.values()])
    equal, sums = _equations(tables, margins)
    low, high = np.floor(values + _WHOLE), np.ceil(values - _WHOLE)
    low = np.minimum(low, high)
    up, ones = 1.0 - 2.0 * (values - low), np.ones(len(low))
    for wider, filled in _WIDER:  # y = low + x₀ + x₁ − x₂: to the next whole number, and further up or down
        parts = 3 if wider else 1
        further = np.where(values <= _WHOLE, filled, wider)
        most = np.concatenate([high - low, further, np.minimum(low, wider)][:parts])
        bounds: Any = np.column_stack([np.zeros(len(most)), most])
        costs = np.concatenate([up, ones, ones][:parts])
        signs = np.repeat([1.0, 1.0, -1.0][:parts], len(low))
        matrix = hstack([equal * sign for sign in (1, 1, -1)[:parts]], format="csc")
        for round_ in range(_ROUNDS):
            solution = linprog(costs, A_eq=matrix, b_eq=sums - equal @ low, bounds=bounds, method="highs-ds")
            if solution.x is None:
                break
            counts = low + (signs * solution.x).reshape(parts, -1).sum(axis=0)
            nearest = np.rint(counts)
            if (np.abs(counts - nearest) <= _WHOLE).all() and np.array_equal(equal @ nearest, sums):
                return _split(tables, nearest)
            costs = costs + signs * np.tile((1.0 + round_) * 10.0 * (counts - nearest), parts)
    return None


def _split(tables: Mapping[Names, Floats], counts: Floats) -> dict[Names, Integers]:
    parts = np.split(counts.astype(np.int64), np.cumsum([table.size for table in tables.values()])[:-1])
    return {names: part.reshape(tables[names].shape) for names, part in zip(tables, parts, strict=True)}


def _equations(tables: Mapping[Names, Floats], margins: Mapping[Names, Integers]) -> tuple[Any, Floats]:
    """What the cells of all tables, flat, must meet: shared margins agree, and some are given."""
    from scipy.sparse import csr_array, vstack

    sizes = [table.size for table in tables.values()]
    starts = dict(zip(tables, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    shared = {tuple(n for n in a if n in b) for a, b in combinations(tables, 2)} | set(margins)
    rows: list[Any] = []
    sums: list[Any] = []

    def summed(names: Names, kept: Names) -> Any:
        at = np.unravel_index(np.arange(tables[names].size), tables[names].shape)
        shape = [tables[names].shape[names.index(n)] for n in kept]
        places = np.ravel_multi_index([at[names.index(n)] for n in kept], shape)
        entries = (np.ones(len(places)), (places, starts[names] + np.arange(len(places))))
        return csr_array(entries, shape=(int(np.prod(shape)), sum(sizes)))

    for kept in sorted(shared - {()}, key=lambda each: (len(each), each)):
        own = [summed(names, kept) for names in tables if set(kept) <= set(names)]
        if kept in margins:
            rows.append(own[0])
            sums.append(margins[kept].ravel())
        rows += [b - a for a, b in pairwise(own)]
        sums += [np.zeros(own[0].shape[0])] * (len(own) - 1)
    return vstack(rows, format="csr"), np.concatenate(sums).astype(np.float64)


def require_few(cells: int) -> None:
    """Refuses tables that would have to be searched for together and are too large.

    Raises:
        PlanError: they are.
    """
    if cells > MOST_SEARCHED:
        raise PlanError(
            f"tables of three attributes and more that share two of them have {cells:,} cells in all; whole numbers "
            f"that are not negative are searched for up to {MOST_SEARCHED:,}. Round the release, which adds up at any "
            "size and has numbers below zero, or ask for tables of two attributes."
        )
