"""Plans whose answers may be off by a little, of known size, for less noise: approximate factorisation.

Definition 2.5 allows `RM = F + E` with `‖E‖_{1→2} ≤ α √k`. A plan answers the nearby queries `F + E` without bias; they
are its `workload`, under the labels of those asked. For normal noise and the least total variance both are found
together, and certified. For other objectives, targets and Laplace noise the nearby queries are those of the least
total variance, and the plan is the best for these; nothing is proven of the pair.

Reference: factorization-and-projection, Definition 2.5 and Theorem 2.6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.matrix.estimator import first_cells
from residua.plans.matrix.integers import direct_integers
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.objectives import TotalVariance
from residua.plans.planners.offers import Task
from residua.plans.solver.approximate import ApproximateFactorisation, approximate
from residua.plans.solver.queries import prepare
from residua.plans.tolerances import BUDGET_SLACK, DENSE_TOLERANCE
from residua.privacy import PureDP, ReplaceOne
from residua.workload import Workload

_ROUGH = 2e-2  # gap of the factorisations among which a bias is chosen
_STEPS = 12
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def plan_biased(task: Task, bias: float, records: int | None, unbiased: Callable[[Task], MatrixPlan]) -> MatrixPlan:
    """The plan whose answers are off by at most `bias` per record, or by what is best for so many records.

    On a table of n records the root mean square, over the queries, of what answers are off by systematically is at
    most n times `plan.bias`.

    Args:
        task: what is asked.
        bias: as a root mean square over the queries; 0 where `records` decides.
        records: how many records the table has: the bias α then makes `variance + (records · α)²` least, the mean
            square error where the bias is as bad as it can be.
        unbiased: plans a task without bias.
    """
    workload, unit = task.workload, task.unit
    if isinstance(unit, ReplaceOne):
        raise PlanError("bias is planned for records added or removed; use rs.AddRemove.")
    if (workload.weights != workload.weights[0]).any():
        raise PlanError("bias is a root mean square over all queries alike; give all queries the same weight.")
    if records is not None:
        bias = _best_bias(task, bias, records)
        if not bias:
            return unbiased(task)
    if isinstance(bias, bool) or not isinstance(bias, int | float) or not 0 < bias < math.inf:
        raise PlanError(f"bias={bias!r} is not a positive number; leave it out for unbiased answers.")
    solution = approximate(workload.matrix, float(bias), DENSE_TOLERANCE if task.tolerance is None else task.tolerance)
    if not solution.strategy.any():
        raise PlanError(f"bias={bias!r} is so large that nothing needs to be measured; lower it.")
    allowed = None if task.laplace else task.allowed
    if allowed is not None and isinstance(task.objective, TotalVariance):
        columns = prepare(workload.matrix, np.ones(workload.queries)).columns
        pcost = allowed * BUDGET_SLACK / float(unit.scaled(1))
        strategy, scale, step = direct_integers(solution.strategy[:, first_cells(columns)], pcost)
        answered = (solution.recovery * step) @ strategy  # what the integers answer exactly: F + E, rounding included
        plan = MatrixPlan(workload.domain, workload.attributes, columns, strategy, scale, **task.stated)
        plan = plan.replaced(workload=_nearby(workload, answered, columns), gap=solution.gap)
    else:
        asked = _nearby(workload, *_merged(workload, solution))
        plan = unbiased(replace(task, workload=asked)).replaced(workload=asked, gap=math.inf)
    assert plan.workload is not None
    error = plan.workload.matrix.toarray() - workload.matrix.toarray()
    what = plan.objective if plan.gap == math.inf else "TotalVariance"
    return plan.replaced(
        objective=f"{what} with bias {bias:g} (at most {np.abs(error).max():.3g} for one query)",
        bias=float(np.linalg.norm(error, axis=0).max() / math.sqrt(workload.queries)),
    )


def _merged(workload: Workload, solution: ApproximateFactorisation) -> tuple[Floats, Integers]:
    """`F + E` on the distinct cells, and the column of each cell."""
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    return (workload.matrix.toarray() + solution.error)[:, first_cells(columns)], columns


def _nearby(workload: Workload, answered: Floats, columns: Integers) -> Workload:
    """The workload with other coefficients, given on the distinct cells."""
    from scipy.sparse import csr_array

    nearby = np.where(columns >= 0, answered[:, np.maximum(columns, 0)], 0.0)
    return Workload.of_matrix(
        workload.domain, workload.attributes, csr_array(nearby), workload.labels, workload.weights
    )


def _best_bias(task: Task, bias: float, records: int) -> float:
    """The α with the least `γ_α²/pcost + (records · α)²`, which is convex in α; 0 where none saves a hundredth."""
    if isinstance(records, bool) or not isinstance(records, int) or records < 1:
        raise PlanError(f"records={records!r} is not a whole number of records; say about how many there are.")
    if bias or task.guarantee is None:
        raise PlanError("records chooses the bias within a budget; give a guarantee, and leave bias and targets out.")
    # The least variance of Laplace noise is not known; it is twice that of the best normal noise or more.
    guarantee = task.guarantee
    pcost = guarantee.epsilon**2 / 2 if isinstance(guarantee, PureDP) else float(guarantee.pcost_allowed())
    matrix = task.workload.matrix
    most = float(np.sqrt(np.asarray((matrix**2).sum(axis=0)).max() / task.workload.queries))

    def error(alpha: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # near enough to choose by
            nearby = approximate(matrix, alpha, _ROUGH, 200)
        return nearby.factorisation_norm**2 / pcost + (records * alpha) ** 2

    low, high = 0.0, min(0.99 * most, math.sqrt(error(0.0)) / records)  # at the most nothing would be measured
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if error(left) <= error(right) else (left, high)
    best = (low + high) / 2
    return best if error(best) < error(0.0) * (1 - _ROUGH / 2) else 0.0
