"""Queries along the axis as rows over running sums: few entries each, whatever the number of values."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from residua.errors import PlanError
from residua.linalg.chain import over_running_sums
from residua.plans.questions import Workload
from residua.workload import AttributeQueries, Explicit, Identity, as_explicit
from residua.workload.ordered import Prefixes, Ranges

MOST_ROWS = 2**26


def running_rows(asked: AttributeQueries) -> csr_array:
    """One row over running sums for each query, (queries, n).

    Raises:
        PlanError: too many of them for an array.
    """
    n, rows = asked.size, asked.rows
    if rows > MOST_ROWS:
        raise PlanError(
            f"{rows:,} queries along one axis are too many to list; ask for their mean with per='term', or for single ones."
        )
    if isinstance(asked, Prefixes):
        return _entries(np.arange(n), None, n)
    if isinstance(asked, Identity):
        return _entries(np.arange(n), np.arange(n) - 1, n)
    if isinstance(asked, Ranges):
        first, last = np.triu_indices(n)
        return _entries(last, first - 1, n)
    return over_running_sums(csr_array(asked.matrix()))


def _entries(last: np.ndarray, before: np.ndarray | None, n: int) -> csr_array:  # type: ignore[type-arg]
    """Rows `C_last − C_before`; −1 for nothing before."""
    rows = np.arange(len(last))
    found = csr_array((np.ones(len(last)), (rows, last)), shape=(len(last), n))
    if before is None:
        return found
    there = before >= 0
    return csr_array(found - csr_array((np.ones(there.sum()), (rows[there], before[there])), shape=(len(last), n)))


def terms_along(workload: Workload, attribute: int) -> list[tuple[AttributeQueries | None, float]] | None:
    """What each term of a workload asks along the axis and its weight; None of the total; None if another is asked."""
    if isinstance(workload, Explicit):
        return None
    found: list[tuple[AttributeQueries | None, float]] = []
    families = workload.families if hasattr(workload, "families") else None
    if families is None:
        for number, weight in zip(workload.numbers.tolist(), workload.weights.tolist(), strict=True):
            members = tuple(workload.lattice.members(int(number)))
            if members not in ((), (attribute,)):
                return None
            found.append((Identity(int(workload.domain.sizes[attribute])) if members else None, weight))
        return found
    for family in families:
        for number, weight in zip(family.sets.numbers.tolist(), family.sets.weights.tolist(), strict=True):
            members = tuple(family.sets.lattice.members(int(number)))
            if members not in ((), (attribute,)):
                return None
            found.append((family.queries[attribute] if members else None, weight))
    return found


def rows_of(workload: Workload, attribute: int) -> csr_array:
    """All queries of a workload over running sums of the axis, (queries, n).

    Raises:
        PlanError: it asks about other attributes, or too much for an array.
    """
    from scipy.sparse import vstack

    n = int(workload.domain.sizes[attribute])
    terms = terms_along(workload, attribute)
    if terms is None:
        asked = as_explicit(workload)
        if not set(asked.attributes) <= {attribute}:
            name = workload.domain.names[attribute]
            raise PlanError(f"this plan measures {name!r} alone; plan for a workload that asks for the rest.")
        return over_running_sums(csr_array(asked.over((attribute,))))
    total = csr_array((np.ones(1), ([0], [n - 1])), shape=(1, n))
    return csr_array(vstack([total if asked is None else running_rows(asked) for asked, _ in terms]))
