"""Dense plans that protect a record changed to any other: the strategy is chosen for that, where the solver is."""

from __future__ import annotations

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.matrix.space import first_cells
from residua.plans.solver.problem import prepare
from residua.plans.solver.replacement import MOST_CELLS, Replacement, least_replacement
from residua.workload import Explicit

FINEST_ENTRY = 2.0**33  # the number of records takes ten bits more than the rest


def best_replacing(
    workload: Explicit, scale: Floats, tolerance: float, *, total: bool
) -> tuple[Replacement, Integers] | None:
    """The mechanism of least replacement cost for scaled queries, and the distinct cell of each cell; None if unsolved.

    Args:
        workload: the queries.
        scale: 1/√target of each query (the largest variance counts), or √weight (their sum does).
        tolerance: the gap to reach.
        total: whether the sum counts.
    """
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    if columns.max() >= MOST_CELLS:
        return None
    W = np.asarray(workload.matrix.tocsc()[:, first_cells(columns)].toarray()) * scale[:, None]
    removable = bool((columns < 0).any()) or workload.domain.drops
    found = least_replacement(W[W.any(axis=1)], tolerance, total=total, removable=removable)
    return None if found is None else (found, columns)
