"""Plans for any linear queries: least total variance, or fitness for use, through the dense solvers.

Plans whose answers may be off by a little, of known size, for less noise: approximate factorisation.

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
from typing import Any

import numpy as np

from residua.errors import GapWarning, PlanError, named
from residua.linalg.arrays import Floats, Integers
from residua.machine import csr_array, linalg
from residua.plans.cells import Grouping
from residua.plans.matrix.estimator import first_cells
from residua.plans.matrix.integers import LARGEST_ENTRY, direct_integers, integer_strategy
from residua.plans.matrix.measurements import limited_square
from residua.plans.matrix.plan import REFINED, MatrixPlan
from residua.plans.noise import guarantee_like
from residua.plans.objectives import QueryLoss, TotalVariance, described, least_cost, of_single_queries, query_loss
from residua.plans.planners.offers import Task, finished, most_alike, relative_gap
from residua.plans.solver.approximate import ApproximateFactorisation, approximate
from residua.plans.solver.level import MOST_CELLS, least_replacement
from residua.plans.solver.queries import Queries, as_intervals, merged_columns, prepare
from residua.plans.solver.refined import refine
from residua.plans.solver.solve import DenseGame, DenseSolution, least_privacy, least_total
from residua.plans.tolerances import BUDGET_SLACK, DENSE_TOLERANCE
from residua.privacy import ZCDP, PureDP, ReplaceOne
from residua.workload import Workload

FINEST_ENTRY = 2.0**33  # the number of records takes ten bits more than the rest
_MOST_ENTRIES = 2**28
TALL = 8  # times as many queries as cells
_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)  # of what is measured cell by cell
_MOST_WORK = 2**31
_NOTHING = 1e-12
MOST_ROUNDS = 150  # for a loss that falls where a variance grows there may be no proof


def plan_explicit(task: Task, *, refined: bool = False) -> MatrixPlan:
    """The best matrix plan for a budget, or (without one) for a largest acceptable loss."""
    workload, unit = task.workload, task.unit
    check_size(workload)
    if not of_single_queries(task.objective) and not refined:
        return _plan_convex(task)
    loss = query_loss(task.objective, workload)
    tolerance = DENSE_TOLERANCE if task.tolerance is None else task.tolerance
    if isinstance(unit, ReplaceOne) and not refined:
        replacing = plan_replacing(task)
        if replacing is not None:
            return replacing
    if refined and not loss.worst:
        raise PlanError("refined orders the privacy of plans that meet targets; use it with targets.")
    solution = refine(workload.matrix, 1.0 / loss.factors, tolerance) if refined else solved(workload, loss, tolerance)
    if unit.contribution is not None and not task.by_cells and not refined:
        solution = _for_persons(task, solution, loss)
    ratio = _unit_ratio(task, solution.strategy, solution.columns)
    gap = solution.gap if unit.contribution is not None else np.inf
    if not task.by_cells:
        gap = (1.0 + gap) * ratio / _alike(task) - 1.0
    # The loss at privacy cost 1: the sum of variances, or the largest ratio of one to its target.
    pcost = solution.achieved / task.loss if task.allowed is None else task.allowed * BUDGET_SLACK / ratio
    plan = _of_strategy(task, solution.strategy, solution.columns, pcost).replaced(gap=gap)
    if refined:
        plan = plan.replaced(objective=f"{plan.objective}{REFINED}")
    return _priced(plan, task, loss)


def _plan_convex(task: Task) -> MatrixPlan:
    """The best plan for a convex loss of the variances of single queries."""
    workload, objective = task.workload, task.objective
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    tolerance = DENSE_TOLERANCE if task.tolerance is None else task.tolerance
    game = DenseGame(merged_workload(workload, columns), tolerance / 10)
    effort = replace(task.effort, tolerance=tolerance / 2, limit=min(task.effort.limit, MOST_ROUNDS))
    if task.unit.contribution is None:
        raise PlanError(f"{described(objective)} is not for records that are replaced; use rs.AddRemove.")
    if task.allowed is None:
        cost, solution, gap = least_cost(
            objective, workload, lambda budget: replace(game, budget=budget), effort, task.loss
        )
    else:
        cost = task.allowed * BUDGET_SLACK
        solution = objective.solve(workload, replace(game, budget=cost / float(task.unit.scaled(1))), effort)
        gap = solution.gap
    if gap > tolerance:
        warnings.warn(f"the plan is proven optimal only up to {gap:.2g}; plan.gap counts it.", GapWarning, stacklevel=3)
    strategy = game.strategy(solution.plan)
    ratio = _unit_ratio(task, strategy, columns)
    paid = cost if task.allowed is None else cost / ratio
    plan = _of_strategy(task, strategy, columns, paid).replaced(gap=gap if task.by_cells else math.inf)
    if task.allowed is None:
        return plan.replaced(guarantee=guarantee_like(ZCDP(1.0), plan.unit_pcost))
    return plan if task.by_cells else finished(plan, task, 1.0)


def plan_replacing(task: Task) -> MatrixPlan | None:
    """The best plan for records that are changed, its gap taken after rounding; None where it was not solved."""
    workload, loss = task.workload, query_loss(task.objective, task.workload)
    tolerance = DENSE_TOLERANCE if task.tolerance is None else task.tolerance
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    if columns.max() >= MOST_CELLS:
        return None
    W = merged_workload(workload, columns) * np.sqrt(loss.factors)[:, None]
    removable = bool((columns < 0).any()) or workload.domain.drops
    best = least_replacement(W[W.any(axis=1)], tolerance, total=not loss.worst, removable=removable)
    if best is None:
        return None
    allowed = best.loss / task.loss if task.allowed is None else task.allowed * BUDGET_SLACK
    ratio = _unit_ratio(task, best.plan, columns)
    plan = _priced(_of_strategy(task, best.plan, columns, allowed / ratio, FINEST_ENTRY), task, loss)
    return plan.replaced(gap=relative_gap(plan.unit_pcost * loss.of(plan.variances(workload)), best.bound))


def _of_strategy(
    task: Task, strategy: Floats, columns: Integers, pcost: float, largest: float = LARGEST_ENTRY
) -> MatrixPlan:
    """The plan that measures a strategy, (rows, distinct cells), in integers, for about this privacy cost."""
    workload = task.workload
    matrix, scale = integer_strategy(strategy, merged_workload(workload, columns), pcost, largest)
    return MatrixPlan(workload.domain, workload.attributes, columns, matrix, scale, **task.stated)


def _for_persons(task: Task, solution: DenseSolution, loss: QueryLoss) -> DenseSolution:
    """A solution for single records with the strategy of least loss times price for persons with limited records.

    A person with limited records pays little for cells measured one by one, and much for rows that hold many of them.
    So `Γ = (1 − a) Γ*/max diag + a I` is tried for some a, Γ* the best for single records. Nothing is proven of the
    choice; the plan's gap counts what it costs.
    """
    workload, reach = task.workload, task.reach
    assert reach is not None
    queries, grouping = merged_workload(workload, solution.columns), Grouping(workload.attributes, solution.columns)
    gram = solution.strategy.T @ solution.strategy
    gram = gram / np.diag(gram).max()
    best, least = solution, np.inf
    for share in _SHARES if queries.size * len(gram) <= _MOST_WORK else _SHARES[:1]:
        mixed = (1.0 - share) * gram + share * np.eye(len(gram))
        values, vectors = np.linalg.eigh(mixed)
        kept = values > _NOTHING * values[-1]
        rows = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        value = loss.of(np.square(queries @ (vectors[:, kept] / np.sqrt(values[kept]))).sum(axis=1))
        paid = float(limited_square(rows, grouping, workload.domain.sizes, reach))
        if value * paid < least:
            best = replace(solution, strategy=rows, achieved=value * float(np.diag(mixed).max()))
            least = value * paid
    return best


def _priced(plan: MatrixPlan, task: Task, loss: QueryLoss) -> MatrixPlan:
    """The plan within its budget; or, without one, as much more precise as rounding took away."""
    if task.allowed is not None:
        return plan if task.by_cells else finished(plan, task, 1.0)  # cell by cell, integers were scaled to the budget
    return finished(plan, task, max(loss.of(plan.variances(task.workload)), task.loss))


def solved(workload: Workload, loss: QueryLoss, tolerance: float) -> DenseSolution:
    """Solves a workload, as ranges where it is tall and made of them: then it is never multiplied out."""
    ranges = many_ranges(workload)
    if ranges is None:
        return optimum(workload.matrix, loss, tolerance)
    queries, rows, columns = ranges
    return replace(optimum(queries, replace(loss, factors=loss.factors[rows]), tolerance), columns=columns)


def many_ranges(workload: Workload) -> tuple[Queries, Integers, Integers] | None:
    """Many queries as ranges of distinct cells, where they are that: which they are, (rows,), and the cells', (cells,).

    The matrix is then read once instead of multiplied out, which costs O(m n²).
    """
    if workload.matrix.shape[0] <= TALL * workload.matrix.shape[1]:
        return None
    W = np.asarray(workload.matrix.toarray())
    rows = np.flatnonzero(W.any(axis=1))
    W, columns = merged_columns(W[rows])
    queries = as_intervals(W) if len(rows) > TALL * W.shape[1] else None
    if queries is None:
        return None
    gram = queries.gram(np.ones(len(rows)))
    root = np.sqrt(np.diagonal(gram))
    # Full rank, far from any doubt.
    full = linalg.eigvalsh(gram / np.outer(root, root), subset_by_index=[0, 0])[0] > 1e-9
    return (queries, rows, columns) if full else None


def optimum(queries: Any, loss: QueryLoss, tolerance: float) -> DenseSolution:
    """The best normal noise for queries."""
    if loss.worst:
        return least_privacy(queries, 1.0 / loss.factors, tolerance)
    return least_total(queries, loss.factors, tolerance)


def independent_explicit(task: Task) -> MatrixPlan:
    """Equal independent noise on the answer to every query, pooled into the best unbiased estimates."""
    check_size(task.workload)
    columns = prepare(task.workload.matrix, np.ones(task.workload.queries)).columns
    return given_strategy(task, merged_workload(task.workload, columns), columns, "independent noise")


def given_strategy(task: Task, strategy: Floats, columns: Integers, name: str) -> MatrixPlan:
    """A plan that measures a given strategy, (rows, distinct cells), at a budget: a baseline; nothing is proven."""
    assert task.allowed is not None
    plan = _of_strategy(task, strategy, columns, task.allowed * BUDGET_SLACK / _unit_ratio(task, strategy, columns))
    return _priced(plan, task, query_loss(task.objective, task.workload)).replaced(objective=name)


def check_size(workload: Workload) -> None:
    """Refuses a workload too large to be written out.

    Raises:
        PlanError: it is.
    """
    rows, cells = workload.matrix.shape
    if rows * cells > _MOST_ENTRIES:
        raise PlanError(
            f"{rows:,} queries over {cells:,} cells are too many for a matrix plan; "
            "use marginals (or products), or fewer queries."
        )


def _alike(task: Task) -> float:
    """What every strategy costs the unit at least, relative to one record: as many records as can be in one cell."""
    domain = task.workload.domain
    return float(most_alike(task.unit, domain.names, domain.sizes, task.workload.attributes) or 1) ** 2


def merged_workload(workload: Workload, columns: Integers) -> Floats:
    """The workload on the distinct cells, (queries, distinct)."""
    return np.asarray(workload.matrix.tocsc()[:, first_cells(columns)].toarray())


def _unit_ratio(task: Task, strategy: Floats, columns: Integers) -> float:
    """What a strategy costs the unit of protection, relative to one record."""
    if task.by_cells:
        return float(task.unit.scaled(1))
    gram = strategy.T @ strategy
    diagonal = np.diag(gram)
    domain, reach = task.workload.domain, task.reach
    if reach is not None:
        grouping = Grouping(task.workload.attributes, columns)
        return float(limited_square(strategy, grouping, domain.sizes, reach)) / float(diagonal.max())
    worst = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    worst = max(worst, float(diagonal.max())) if (columns < 0).any() or domain.drops else worst
    if worst <= 0:
        raise PlanError("replacing a record changes none of these answers; they can be published without noise.")
    return worst / float(diagonal.max())


# ---- answers that may be off by a little

_ROUGH = 2e-2  # gap of the factorisations among which a bias is chosen
_NEAR = 3e-3  # of the largest bias that is worth trying: how closely the best is found


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
        raise PlanError(f"bias={named(bias)} is not a positive number; leave it out for unbiased answers.")
    solution = approximate(workload.matrix, float(bias), DENSE_TOLERANCE if task.tolerance is None else task.tolerance)
    if not solution.strategy.any():
        raise PlanError(f"bias={named(bias)} is so large that nothing needs to be measured; lower it.")
    allowed = None if task.laplace else task.allowed
    if allowed is not None and isinstance(task.objective, TotalVariance):
        columns = prepare(workload.matrix, np.ones(workload.queries)).columns
        pcost = allowed * BUDGET_SLACK / float(unit.scaled(1))
        strategy, scale, step = direct_integers(solution.strategy[:, first_cells(columns)], pcost)
        answered = (solution.recovery * step) @ strategy  # what the integers answer exactly: F + E, rounding included
        plan = MatrixPlan(workload.domain, workload.attributes, columns, strategy, scale, **task.stated)
        plan = plan.replaced(workload=_nearby(workload, answered, columns), gap=solution.gap)
    else:
        asked = _nearby(workload, *_nearest_queries(workload, solution))
        plan = unbiased(replace(task, workload=asked)).replaced(workload=asked, gap=math.inf)
    assert plan.workload is not None
    error = plan.workload.matrix.toarray() - workload.matrix.toarray()
    what = plan.objective if plan.gap == math.inf else "TotalVariance"
    return plan.replaced(
        objective=f"{what} with bias {bias:g} (at most {np.abs(error).max():.3g} for one query)",
        bias=float(np.linalg.norm(error, axis=0).max() / math.sqrt(workload.queries)),
    )


def _nearest_queries(workload: Workload, solution: ApproximateFactorisation) -> tuple[Floats, Integers]:
    """`F + E` on the distinct cells, and the column of each cell."""
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    return (workload.matrix.toarray() + solution.error)[:, first_cells(columns)], columns


def _nearby(workload: Workload, answered: Floats, columns: Integers) -> Workload:
    """The workload with other coefficients, given on the distinct cells."""
    nearby = np.where(columns >= 0, answered[:, np.maximum(columns, 0)], 0.0)
    return Workload.of_matrix(
        workload.domain, workload.attributes, csr_array(nearby), workload.labels, workload.weights
    )


def _best_bias(task: Task, bias: float, records: int) -> float:
    """The α with the least `γ_α²/pcost + (records · α)²`, which is convex in α; 0 where none saves a hundredth."""
    if isinstance(records, bool) or not isinstance(records, int) or records < 1:
        raise PlanError(f"records={named(records)} is not a whole number of records; say about how many there are.")
    if bias or task.guarantee is None:
        raise PlanError("records chooses the bias within a budget; give a guarantee, and leave bias and targets out.")
    from scipy.optimize import minimize_scalar  # takes long to load

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

    unbiased = error(0.0)
    largest = min(0.99 * most, math.sqrt(unbiased) / records)  # at the most nothing would be measured
    found = minimize_scalar(error, bounds=(0.0, largest), method="bounded", options={"xatol": _NEAR * largest})
    return float(found.x) if found.fun < unbiased * (1 - _ROUGH / 2) else 0.0
