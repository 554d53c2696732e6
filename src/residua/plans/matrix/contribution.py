"""What a person with several records, some of them limited, can cost a matrix at most.

A person whose records are in columns c_1, …, c_K costs `Σ_ab G[c_a, c_b]` with `G = BᵀB`. With at most l of the
records in each value of an attribute, a record in column j meets at most l records with each value v, each at most
`g_jv = max(0, G[j, j'])` over the columns j' of v: together at most l times the K/l largest g_jv, `r_j`. And at most l
records have each value: `Σ_a r_{c_a}` is at most l times the K/l largest `max_{j of v} r_j`. The least of this over
the limited attributes, and of `K² max_j G_jj`, is never less than the true cost. It is exact where negative inner
products do not matter and a person can have the records that it counts; it forgets the negative ones.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.cells import Grouping
from residua.plans.persons import Reach

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
    found = [
        _met(positive, np.moveaxis(columns, axis, 0).reshape(int(sizes[i]), -1), reach.records, reach.limits[i])
        for axis, i in enumerate(grouping.attributes)
        if i in reach.limits
    ]
    squared = float(reach.records) ** 2
    # Each of K² entries is a product of k terms, off by at most (k + 4)·2^-52 of the largest; n are added, twice.
    slack = squared * largest * (len(rows) + 2 * max(columns.shape, default=1) + 16) * 2.0**-51
    return Fraction(min([squared * largest, *found])) + Fraction(slack)


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
