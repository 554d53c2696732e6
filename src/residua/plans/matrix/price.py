"""What measuring one integer matrix costs, exactly, from the integers alone: what the verifier asks of it.

Changing the data by z changes `B x` by `B z`. Normal noise of scale s hides a change of L2 norm c at a pcost of
`c²/s²`, Laplace noise a change of L1 norm c at `ε = c/s`. One record added or removed has `z = ±e_j`; k records at most
k times that; a record that is replaced has `z = e_i − e_j`. Limits on a person's records make normal noise cheaper
(`limited_square`); in L1 norm k records in different columns can cost k times as much as one, and do in a table.

Whole numbers and fractions; every step is rounded up.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.modes import largest_entry
from residua.plans.cells import Grouping
from residua.plans.persons import Reach

_MOST_WORK = 2**31  # subtractions: beyond, twice the sensitivity stands for the most expensive replacement


# ---- normal noise


def replacement_square(moved: Floats) -> Fraction:
    """`max_ij ‖B_i − B_j‖²`, from floating-point products widened by a bound on their rounding.

    Args:
        moved: B, all columns moved alike (`moved_columns`), (rows, columns); each entry off by a rounding at most.
    """
    gram = moved.T @ moved
    diagonal = np.diag(gram)
    largest = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    # An entry of a product of k terms is off by at most (k + 4)·2^-52 of the largest diagonal; four of them enter.
    slack = 4 * (len(moved) + 8) * Fraction(1, 2**52) * Fraction(float(diagonal.max()))
    return Fraction(largest) + slack


def moved_columns(B: Integers) -> Floats:
    """The columns of a strategy, all moved alike so that what they have in common is gone, (rows, columns).

    A strategy for records that are changed may know their number very well: its differences would drown in that.
    Nothing is rounded: entries too large for it are left where they are.
    """
    rows = B.astype(np.float64)
    return rows - rows[:, :1] if float(np.abs(rows).max(initial=0.0)) < 2.0**52 else rows


# ---- Laplace noise


def laplace_norm(B: Integers, records: int | None, *, removable: bool) -> Fraction:
    """What a person with so many records costs in epsilon, or a record that is replaced (None), times the scale."""
    if records is not None:
        return Fraction(records * column_sum(B))
    return Fraction(max(replacement_sum(B), column_sum(B) if removable else 0))


def column_sum(B: Integers) -> int:
    """`max_j Σ_k |B_kj|`, exactly."""
    if len(B) and largest_entry(B) < 2**62 // len(B):
        return int(np.abs(B).sum(axis=0).max(initial=0))
    return max((sum(abs(int(b)) for b in column) for column in B.T), default=0)


def replacement_sum(B: Integers) -> int:
    """`max_ij ‖B_i − B_j‖₁`, exactly or, for many columns, `2 max_j ‖B_j‖₁`, which is never less."""
    norm = column_sum(B)
    rows, n = B.shape
    if rows * n * n > _MOST_WORK or largest_entry(B) >= 2**61 // max(rows, 1):
        return 2 * norm
    columns = np.ascontiguousarray(B.T)
    return max(int(np.abs(columns[j:] - columns[j]).sum(axis=1).max()) for j in range(n))


_MOST_STEPS = 256


def limited_square(rows: Floats, grouping: Grouping, sizes: Integers, reach: Reach) -> Fraction:
    """The largest `‖B z‖²` over all z that a person can have, never less.

    From floating-point products, widened by a bound on their rounding.

    Args:
        rows: B over the columns, (rows, columns); each entry off by a rounding at most.
        grouping: the attributes whose cells are told apart, and the column of each cell, −1 for none.
        sizes: how many values each attribute of the domain has, (attributes,).
        reach: what the person can do.
    """
    gram = rows.T @ rows
    largest = float(np.diag(gram).max(initial=0.0))
    positive = np.maximum(gram, 0.0)
    columns = grouping.columns.reshape([int(sizes[i]) for i in grouping.attributes])
    bounds = [
        _met(positive, np.moveaxis(columns, axis, 0).reshape(int(sizes[i]), -1), reach.records, reach.limits[i])
        for axis, i in enumerate(grouping.attributes)
        if i in reach.limits
    ]
    squared = float(reach.records) ** 2
    # Each of K² entries is a product of k terms, off by at most (k + 4)·2^-52 of the largest; n are added, twice.
    slack = squared * largest * (len(rows) + 2 * max(columns.shape, default=1) + 16) * 2.0**-51
    return Fraction(min([squared * largest, *bounds])) + Fraction(slack)


def _met(positive: Floats, columns: Integers, records: int, limit: int) -> float:
    """The bound by one attribute: columns of the cells with each of its values, (values, cells), −1 for none."""
    cells = [np.unique(row[row >= 0]) for row in columns]
    meeting = np.stack([positive[:, each].max(axis=1, initial=0.0) for each in cells], axis=1)
    met = _largest(meeting, records, limit)
    return float(_largest(np.array([[met[each].max(initial=0.0) for each in cells]]), records, limit)[0])


def _largest(values: Floats, records: int, limit: int) -> Floats:
    """For each row the largest sum of K of its values, none more than l times, (rows,)."""
    full, rest = divmod(records, limit)
    ranked = -np.sort(-values, axis=1)
    following = ranked[:, full] * rest if rest else 0.0
    return np.asarray(limit * ranked[:, :full].sum(axis=1) + following)


# ---- accuracy: how loose the bound can be


def some_person(rows: Floats, grouping: Grouping, sizes: Integers, reach: Reach) -> float:
    """`‖B z‖²` of a person whose records are put one after another where they cost most beside those before.

    Never more than the true cost, to say how loose a bound on it can be.
    """
    gram = np.pad(rows.T @ rows, (0, 1))  # −1 is the last: a cell that costs nothing
    columns = grouping.columns
    codes = np.unravel_index(np.arange(len(columns)), [int(sizes[i]) for i in grouping.attributes] or [1])
    limited = [
        (code, np.full(int(sizes[i]), reach.limits[i]))
        for i, code in zip(grouping.attributes, codes, strict=False)
        if i in reach.limits
    ]
    step = -(-reach.records // _MOST_STEPS)
    left, total, met = reach.records, 0.0, np.zeros(len(gram))
    while left:
        room = np.minimum.reduce([np.full(len(columns), min(step, left)), *(free[code] for code, free in limited)])
        gains = room * (2.0 * met[columns] + room * gram[columns, columns])
        best = int(gains.argmax())
        if gains[best] <= 0.0:
            break
        count = int(room[best])
        total += float(gains[best])
        met += count * gram[columns[best]]
        left -= count
        for code, free in limited:
            free[code[best]] -= count
    return total
