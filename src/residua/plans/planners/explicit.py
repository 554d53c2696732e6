"""Plans for any linear queries: least total variance, or fitness for use, through the dense solvers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.cells import Grouping
from residua.plans.matrix.integers import direct_integers, integer_strategy
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.matrix.price import limited_square, replacement_square
from residua.plans.matrix.space import first_cells
from residua.plans.objectives import MaxVariance, Objective, TotalVariance, described
from residua.plans.persons import by_cells, reach_of
from residua.plans.planners.ending import finished, relative_gap
from residua.plans.planners.offers import Task
from residua.plans.solver.approximate import approximate
from residua.plans.solver.queries import as_intervals, prepare
from residua.plans.solver.refined import refine
from residua.plans.solver.replacement import MOST_CELLS, Replacement, least_replacement
from residua.plans.solver.solve import least_privacy, least_total
from residua.plans.tolerances import BUDGET_SLACK, DENSE_TOLERANCE
from residua.privacy import Guarantee, ReplaceOne, Unit
from residua.workload import Workload

FINEST_ENTRY = 2.0**33  # the number of records takes ten bits more than the rest
_MOST_ENTRIES = 2**28
_TALL = 8  # times as many queries as cells
_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)  # of what is measured cell by cell
_MOST_WORK = 2**31
_NOTHING = 1e-12


def best_replacing(
    workload: Workload, scale: Floats, tolerance: float, *, total: bool
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


def plan_explicit(workload: Workload, task: Task, *, refined: bool = False) -> MatrixPlan:
    """The best matrix plan for a budget, or (without one) for a largest acceptable loss."""
    check_size(workload)
    objective, unit = task.objective, task.unit
    tolerance = DENSE_TOLERANCE if task.tolerance is None else task.tolerance
    if isinstance(unit, ReplaceOne) and not refined:
        replacing = _plan_replacing(workload, task, tolerance)
        if replacing is not None:
            return replacing
    if isinstance(objective, TotalVariance):
        if refined:
            raise PlanError("refined orders the privacy of plans that meet targets; use it with targets.")
        solution = solved(least_total, workload, workload.weights, tolerance)
        scales = np.sqrt(workload.weights)
    elif isinstance(objective, MaxVariance):
        targets = explicit_targets(workload, objective)
        if refined:
            solution = refine(workload.matrix, targets, tolerance)
        else:
            solution = solved(least_privacy, workload, targets, tolerance)
        scales = 1.0 / np.sqrt(targets)
    else:
        raise PlanError(
            f"{type(objective).__name__} is for marginals; explicit queries take TotalVariance or MaxVariance."
        )
    if unit.contribution is not None and not by_cells(unit) and not refined:
        solution = _for_persons(workload, solution, scales, objective, unit)
    per_record = _unit_ratio(unit, solution.strategy, solution.columns, workload)
    # The loss at privacy cost 1: the sum of variances, or the largest ratio of one to its target.
    pcost = solution.achieved / task.loss if task.allowed is None else task.allowed * BUDGET_SLACK / per_record
    return _priced(_dense(workload, solution, pcost, task), task)


def _for_persons(workload: Workload, solution: Any, scales: Floats, objective: Objective, unit: Unit) -> Any:
    """A solution for single records with a strategy that is better for persons whose records are limited."""
    queries = merged_workload(workload, solution.columns) * scales[:, None]
    reach = reach_of(unit, workload.domain.names, workload.domain.sizes)
    assert reach is not None
    grouping = Grouping(workload.attributes, solution.columns)
    strategy, achieved = _blended(
        np.asarray(solution.strategy),
        queries,
        total=isinstance(objective, TotalVariance),
        price=lambda rows: float(limited_square(rows, grouping, workload.domain.sizes, reach)),
    )
    return replace(solution, strategy=strategy, achieved=achieved)


def _blended(
    strategy: Floats, queries: Floats, *, total: bool, price: Callable[[Floats], float]
) -> tuple[Floats, float]:
    """The strategy of least loss times price, (rows, cells), and its loss times the cost of one record.

    A person with limited records pays little for cells measured one by one, and much for rows that hold many of them.
    So `Γ = (1 − a) Γ*/max diag + a I` is tried for some a, Γ* the best for single records. Nothing is proven of the
    choice; the plan's gap counts what it costs.

    Args:
        strategy: the best for single records, (rows, cells).
        queries: scaled so that their largest variance counts, or the sum of their variances, (queries, cells).
        total: whether the sum counts.
        price: what a strategy costs a person.
    """
    gram = strategy.T @ strategy
    gram = gram / np.diag(gram).max()
    best, least, achieved = strategy, np.inf, np.inf
    for share in _SHARES if queries.size * len(gram) <= _MOST_WORK else _SHARES[:1]:
        mixed = (1.0 - share) * gram + share * np.eye(len(gram))
        values, vectors = np.linalg.eigh(mixed)
        kept = values > _NOTHING * values[-1]
        rows = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        parts = queries @ (vectors[:, kept] / np.sqrt(values[kept]))
        variances = (parts**2).sum(axis=1)
        loss = float(variances.sum() if total else variances.max())
        paid = price(rows)
        if loss * paid < least:
            best, least, achieved = rows, loss * paid, loss * float(np.diag(mixed).max())
    return best, achieved


def _plan_replacing(workload: Workload, task: Task, tolerance: float) -> MatrixPlan | None:
    """The best plan for records that are changed, its gap taken after rounding; None where it was not solved."""
    objective, unit = task.objective, task.unit
    if isinstance(objective, TotalVariance):
        solved = best_replacing(workload, np.sqrt(workload.weights), tolerance, total=True)
    elif isinstance(objective, MaxVariance):
        solved = best_replacing(workload, 1.0 / np.sqrt(explicit_targets(workload, objective)), tolerance, total=False)
    else:
        return None
    if solved is None:
        return None
    best, columns = solved
    ratio = _unit_ratio(unit, best.strategy, columns, workload)
    allowed = best.achieved / task.loss if task.allowed is None else task.allowed * BUDGET_SLACK
    matrix, scale = integer_strategy(best.strategy, merged_workload(workload, columns), allowed / ratio, FINEST_ENTRY)
    name = described(objective)
    made = MatrixPlan(
        workload.domain, workload.attributes, columns, matrix, scale, task.guarantee, unit, workload, name
    )
    made = _priced(made, task)
    return made.replaced(gap=relative_gap(made.unit_pcost * _loss(made, objective), best.bound))


def _priced(made: MatrixPlan, task: Task) -> MatrixPlan:
    """The plan within its budget; or, without one, as much more precise as rounding took away."""
    if made.guarantee is not None:
        return _within(made, made.guarantee)
    return finished(made, task, max(_loss(made, task.objective), task.loss))


def solved(solve: Any, workload: Workload, values: Floats, tolerance: float) -> Any:
    """Solves a workload, as ranges where it is tall and made of them: then it is never multiplied out."""
    rows, cells = workload.matrix.shape
    if rows > _TALL * cells:
        problem = prepare(workload.matrix, np.ones(rows))
        merged = merged_workload(workload, problem.columns)[problem.rows]
        ranges = as_intervals(merged) if problem.rank == merged.shape[1] else None
        if ranges is not None:
            solution = solve(ranges, values[problem.rows], tolerance)
            return replace(solution, columns=problem.columns)
    return solve(workload.matrix, values, tolerance)


def independent_explicit(workload: Workload, guarantee: Guarantee, unit: Unit) -> MatrixPlan:
    """Equal independent noise on the answer to every query, pooled into the best unbiased estimates."""
    check_size(workload)
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    return dense_of_strategy(
        workload, merged_workload(workload, columns), columns, guarantee, unit, "independent noise"
    )


def dense_of_strategy(
    workload: Workload, strategy: Floats, columns: Any, guarantee: Guarantee, unit: Unit, name: str
) -> MatrixPlan:
    """A plan that measures a given strategy, (rows, distinct cells), at a budget: a baseline; nothing is proven."""
    pcost = float(guarantee.pcost_allowed()) * BUDGET_SLACK / _unit_ratio(unit, strategy, columns, workload)
    matrix, scale = integer_strategy(strategy, merged_workload(workload, columns), pcost)
    made = MatrixPlan(workload.domain, workload.attributes, columns, matrix, scale, guarantee, unit, workload, name)
    return _within(made, guarantee)


def explicit_targets(workload: Workload, objective: MaxVariance) -> Floats:
    """Target variances, one per query: a number, an array, or a mapping from labels."""
    given = objective.targets
    if given is None:
        return 1.0 / workload.weights
    if isinstance(given, Mapping):
        unknown = [label for label in given if label not in workload.labels]
        lacking = [label for label in workload.labels if label not in given]
        if unknown or lacking:
            what = f"names {unknown[0]!r}, which is no query" if unknown else f"has no variance for {lacking[0]!r}"
            raise PlanError(f"targets {what} of the workload; give one for each query, by its label.")
        given = [given[label] for label in workload.labels]
    try:
        targets = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise PlanError(f"targets={given!r} is not a number, a mapping or an array of variances.") from None
    if targets.ndim == 0:
        targets = np.full(workload.queries, float(targets))
    if targets.shape != (workload.queries,):
        raise PlanError(f"targets has shape {targets.shape}; give one for each of {workload.queries:,} queries.")
    if not (np.isfinite(targets).all() and (targets > 0).all()):
        wrong = workload.labels[int(np.flatnonzero(~((targets > 0) & np.isfinite(targets)))[0])]
        raise PlanError(f"targets: the target variance of {wrong!r} is not a positive finite number; correct it.")
    return targets


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


def _dense(workload: Workload, solution: Any, pcost: float, task: Task) -> MatrixPlan:
    unit = task.unit
    matrix, scale = integer_strategy(solution.strategy, merged_workload(workload, solution.columns), pcost)
    gap = solution.gap if unit.contribution is not None else np.inf
    if not by_cells(unit):
        ratio = _unit_ratio(unit, solution.strategy, solution.columns, workload)
        gap = (1.0 + gap) * ratio / _alike(unit, workload) - 1.0
    return MatrixPlan(
        workload.domain,
        workload.attributes,
        solution.columns,
        matrix,
        scale,
        task.guarantee,
        unit,
        workload,
        described(task.objective),
        gap,
    )


def _alike(unit: Unit, workload: Workload) -> float:
    """What every strategy costs the unit at least, relative to one record: as many records as can be in one cell."""
    reach = reach_of(unit, workload.domain.names, workload.domain.sizes)
    if reach is None:
        return 1.0
    return float(min([reach.records, *(reach.limits[i] for i in workload.attributes if i in reach.limits)])) ** 2


def merged_workload(workload: Workload, columns: Integers) -> Floats:
    """The workload on the distinct cells, (queries, distinct)."""
    return np.asarray(workload.matrix.tocsc()[:, first_cells(columns)].toarray())


def _unit_ratio(unit: Unit, strategy: Floats, columns: Integers, workload: Workload) -> float:
    """What a strategy costs the unit of protection, relative to one record."""
    if by_cells(unit):
        return float(unit.scaled(1))
    gram = strategy.T @ strategy
    diagonal = np.diag(gram)
    domain = workload.domain
    reach = reach_of(unit, domain.names, domain.sizes)
    if reach is not None:
        grouping = Grouping(workload.attributes, columns)
        return float(limited_square(strategy, grouping, domain.sizes, reach)) / float(diagonal.max())
    worst = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    worst = max(worst, float(diagonal.max())) if (columns < 0).any() or domain.drops else worst
    if worst <= 0:
        raise PlanError("replacing a record changes none of these answers; they can be published without noise.")
    return worst / float(diagonal.max())


def _within(plan: MatrixPlan, guarantee: Guarantee) -> MatrixPlan:
    """The plan with the noise scale its rounded integers need where a unit does not pay cell by cell."""
    if by_cells(plan.unit):
        return plan
    reach = reach_of(plan.unit, plan.domain.names, plan.domain.sizes)
    if reach is None:
        norm = replacement_square(plan.strategy, removable=plan.removable)
    else:
        grouping = Grouping(plan.attributes, plan.columns)
        norm = limited_square(plan.strategy.astype(np.float64), grouping, plan.domain.sizes, reach)
    return plan.replaced(scale=math.sqrt(norm / guarantee.pcost_allowed()) * (1.0 + 2.0**-48))


def _loss(plan: MatrixPlan, objective: Objective) -> float:
    """The largest ratio of a variance to its target, or the weighted sum of variances."""
    workload = plan.workload
    assert workload is not None
    variances = plan.variances(workload)
    if isinstance(objective, MaxVariance):
        return float((variances / explicit_targets(workload, objective)).max())
    return float(workload.weights @ variances)


def plan_biased(workload: Workload, task: Task, bias: float) -> MatrixPlan:
    """The plan of least total variance among those whose answers are off by at most `bias` per record.

    Definition 2.5 allows `RM = F + E` with `‖E‖_{1→2} ≤ α √k`. The plan answers the nearby queries `F + E` without
    bias; they are its `workload`, under the labels of those asked. On a table of n records the root mean square, over
    the queries, of what answers are off by systematically is at most n times `plan.bias`.

    Reference: factorization-and-projection, Definition 2.5 and Theorem 2.6.
    """
    from scipy.sparse import csr_array

    unit, guarantee = task.unit, task.guarantee
    if guarantee is None or not isinstance(task.objective, TotalVariance):
        raise PlanError("bias needs a guarantee and the least total variance; remove targets and minimise.")
    if isinstance(bias, bool) or not isinstance(bias, int | float) or not 0 < bias < math.inf:
        raise PlanError(f"bias={bias!r} is not a positive number; leave it out for unbiased answers.")
    if isinstance(unit, ReplaceOne):
        raise PlanError("bias is planned for records added or removed; use rs.AddRemove.")
    if (workload.weights != workload.weights[0]).any():
        raise PlanError("bias is a root mean square over all queries alike; give all queries the same weight.")
    found = approximate(workload.matrix, float(bias), DENSE_TOLERANCE if task.tolerance is None else task.tolerance)
    if not found.strategy.any():
        raise PlanError(f"bias={bias!r} is so large that nothing needs to be measured; lower it.")
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    pcost = float(guarantee.pcost_allowed()) * BUDGET_SLACK / float(unit.scaled(1))
    strategy, scale, step = direct_integers(found.strategy[:, first_cells(columns)], pcost)
    answered = (found.recovery * step) @ strategy  # what the integers answer exactly: F + E, rounding included
    nearby = np.where(columns >= 0, answered[:, np.maximum(columns, 0)], 0.0)
    error = nearby - workload.matrix.toarray()
    return MatrixPlan(
        domain=workload.domain,
        attributes=workload.attributes,
        columns=columns,
        strategy=strategy,
        scale=scale,
        guarantee=guarantee,
        unit=unit,
        workload=Workload.of_matrix(
            workload.domain, workload.attributes, csr_array(nearby), workload.labels, workload.weights
        ),
        objective=f"TotalVariance with bias {bias:g} (at most {np.abs(error).max():.3g} for one query)",
        gap=found.gap,
        bias=float(np.linalg.norm(error, axis=0).max() / math.sqrt(workload.queries)),
    )
