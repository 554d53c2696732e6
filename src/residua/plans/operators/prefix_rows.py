"""Queries along an ordered attribute as rows over its prefix sums: few entries each, whatever the number of values."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from residua.errors import PlanError
from residua.workload import AttributeQueries, Workload

MOST_ROWS = 2**26


def running_rows(asked: AttributeQueries) -> csr_array:
    """One row over prefix sums for each query, (queries, n).

    Raises:
        PlanError: too many of them for an array.
    """
    if asked.rows > MOST_ROWS:
        raise PlanError(
            f"{asked.rows:,} queries along one axis are too many to list; ask for their mean (per='term') or for "
            "single ones."
        )
    return asked.prefix_rows()


def total_row(n: int) -> csr_array:
    """The total of n values as a row over their prefix sums, (1, n)."""
    return csr_array((np.ones(1), ([0], [n - 1])), shape=(1, n))


def terms_of(workload: Workload) -> list[tuple[dict[int, AttributeQueries], float]]:
    """What each term asks of each of its attributes, and its weight."""
    return [(dict(term), weight) for term, weight in zip(workload.terms(), workload.weights.tolist(), strict=True)]
