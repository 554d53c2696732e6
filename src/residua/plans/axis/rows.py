"""Queries along the axis as rows over running sums: few entries each, whatever the number of values."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, kron, vstack

from residua.errors import PlanError
from residua.linalg.arrays import Booleans
from residua.linalg.path import over_running_sums
from residua.workload import AttributeQueries, Workload

MOST_ROWS = 2**26


def running_rows(asked: AttributeQueries) -> csr_array:
    """One row over running sums for each query, (queries, n).

    Raises:
        PlanError: too many of them for an array.
    """
    if asked.rows > MOST_ROWS:
        raise PlanError(
            f"{asked.rows:,} queries along one axis are too many to list; ask for their mean (per='term') or for "
            "single ones."
        )
    return asked.prefix_rows()


def terms_of(workload: Workload) -> list[tuple[dict[int, AttributeQueries], float]]:
    """What each term asks of each of its attributes, and its weight."""
    pairs = zip(workload.terms(), workload.weights.tolist(), strict=True)
    return [(dict(term), weight) for term, weight in pairs]


def rows_of(workload: Workload, attribute: int) -> tuple[csr_array, Booleans]:
    """All queries of a workload over running sums of the axis, (queries, n), and which of them it answers, (queries,).

    A query that treats all values of the other attributes alike is one along the axis; any other is not answered.

    Raises:
        PlanError: too many queries for an array.
    """
    n = int(workload.domain.sizes[attribute])
    if not workload.tabular:
        return _listed(workload, attribute)
    parts = [crossed_rows(asked, attribute, n) for asked, _ in terms_of(workload)]
    return csr_array(vstack([rows for rows, _ in parts])), np.concatenate([answered for _, answered in parts])


def crossed_rows(asked: dict[int, AttributeQueries], attribute: int, n: int) -> tuple[csr_array, Booleans]:
    """The rows of one term, its attributes in the domain's order."""
    rows, answered = csr_array(np.ones((1, 1))), np.ones(1, dtype=bool)
    along = csr_array((np.ones(1), ([0], [n - 1])), shape=(1, n))  # the total
    for i in sorted({*asked, attribute}):
        if i == attribute:
            found = running_rows(asked[i]) if i in asked else along
            factor = np.ones(found.shape[0], dtype=bool)
        else:
            matrix = asked[i].matrix()
            factor = (matrix == matrix[:, :1]).all(axis=1)
            found = csr_array(np.where(factor, matrix[:, 0], 0.0)[:, None])
        rows, answered = csr_array(kron(rows, found)), np.kron(answered, factor)
    return rows, answered


def _listed(workload: Workload, attribute: int) -> tuple[csr_array, Booleans]:
    attributes = tuple(sorted({*workload.attributes, attribute}))
    shape = [int(workload.domain.sizes[i]) for i in attributes]
    matrix = csr_array(workload.over(attributes))
    place = np.unravel_index(np.arange(matrix.shape[1]), shape)[attributes.index(attribute)]
    others = matrix.shape[1] // shape[attributes.index(attribute)]
    onto = csr_array((np.ones(len(place)), (np.arange(len(place)), place)))
    rows = csr_array(matrix @ onto / others)
    off = abs(matrix - rows @ onto.T)
    largest = abs(matrix).max(axis=1).toarray().ravel()
    return over_running_sums(rows), off.max(axis=1).toarray().ravel() <= 1e-12 * largest
