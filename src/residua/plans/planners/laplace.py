"""Plans with Laplace noise for any queries: the best strategy found, rounded to integers, at the scale it needs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import linalg

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.matrix.integers import LARGEST_SCALE, integer_strategy
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.matrix.price import laplace_norm
from residua.plans.noise import LAPLACE
from residua.plans.objectives import MaxVariance, Objective, TotalVariance, described
from residua.plans.persons import most_records
from residua.plans.planners.ending import with_bound
from residua.plans.planners.explicit import check_size, explicit_targets, merged_workload, solved
from residua.plans.planners.offers import Task
from residua.plans.saddle import Steps
from residua.plans.search.search import Tried, search
from residua.plans.search.strategies import Judged, singular_value_bound
from residua.plans.solver.queries import MatrixQueries, Queries, ScaledQueries, as_intervals, prepare
from residua.plans.solver.solve import DenseSolution, least_privacy, least_total
from residua.plans.tolerances import BUDGET_SLACK, DENSE_TOLERANCE
from residua.privacy import PureDP
from residua.privacy.exact import round_up
from residua.workload import Workload

_TALL = 8  # times as many queries as cells
_MOST_CELLS = 4096  # of a strategy that is searched for
_UP = 1.0 + 2.0**-48


@dataclass(frozen=True, eq=False)
class _Task:
    """What is asked on the distinct cells, and the L2 optimum for it."""

    workload: Workload
    objective: Objective
    scales: Floats
    asked: Judged
    optimum: DenseSolution

    @property
    def columns(self) -> Integers:
        return self.optimum.columns

    @property
    def bound(self) -> float:
        """The least loss of any strategy of sensitivity 1 (see `search/strategies.py`)."""
        return max(self.optimum.bound, singular_value_bound(self.asked))


def plan_pure(workload: Workload, asked: Task) -> MatrixPlan:
    """The best plan with Laplace noise found for a budget, or (without one) for a largest acceptable loss.

    Guarantee: measuring it is `guarantee.epsilon`-DP for its unit. Its `gap` compares it with a bound on every
    strategy; the search itself is not convex, and finds a good strategy, not provably the best.
    """
    check_size(workload)
    _check_cells(workload)
    steps = Steps(asked.effort.progress)
    steps.told(math.inf)  # the L2 optimum comes first, and takes long on many cells
    task = _task(workload, asked.objective, asked.tolerance)
    merged = merged_workload(workload, task.columns)
    steps.bound = task.bound
    found = search(task.asked, merged, task.optimum.strategy, steps.told)
    made = _made(task, found, merged, asked)
    if asked.guarantee is not None:
        return made
    # The noise that just meets what was asked for, and the guarantee that it then has.
    ratio = _loss(made, task) / asked.loss
    made = _with_bound(made.scaled(ratio / BUDGET_SLACK**2), task, found, asked)
    return made.replaced(guarantee=PureDP(made.unit_epsilon))


def independent_pure(workload: Workload, asked: Task) -> MatrixPlan:
    """Equal Laplace noise on the answer to every query, pooled into the best unbiased estimates."""
    check_size(workload)
    _check_cells(workload)
    task = _task(workload, TotalVariance(), None)
    merged = merged_workload(workload, task.columns)
    strategy = merged / np.abs(merged).sum(axis=0).max()
    found = [Tried("workload", strategy, task.asked.loss(merged))]
    made = _made(task, found, merged, asked)
    return made.replaced(objective="independent noise")


def require_few_cells(workload: Workload) -> None:
    """Refuses what would take a matrix over too many cells, before there is one."""
    if not workload.with_rows:
        return
    used = sorted(workload.lattice.used)
    cells = math.prod(int(workload.domain.sizes[i]) for i in used)
    if cells > _MOST_CELLS:
        names = ", ".join(repr(workload.domain.names[i]) for i in used[:6]) + (", …" if len(used) > 6 else "")
        raise PlanError(
            f"with Laplace noise such queries take a matrix over all {cells:,} cells of {names}, and {_MOST_CELLS:,} "
            "are the most; ask for marginals, for prefixes, ranges or levels of one attribute alone, or plan with "
            "ZCDP, GDP or ApproxDP."
        )


def _check_cells(workload: Workload) -> None:
    """Refuses more distinct cells than a strategy can be searched for on, before anything is solved."""
    probe = np.random.default_rng(0).standard_normal(workload.queries)
    distinct = len(np.unique(workload.matrix.T @ probe))  # equal columns give equal sums
    if distinct > _MOST_CELLS:
        raise PlanError(
            f"about {distinct:,} distinct cells are too many for a Laplace strategy; ask for marginals, or at most "
            f"{_MOST_CELLS:,} cells."
        )


def _task(workload: Workload, objective: Objective, tolerance: float | None) -> _Task:
    solve: Callable[..., DenseSolution]
    if isinstance(objective, TotalVariance):
        solve, values, scales = least_total, workload.weights, np.sqrt(workload.weights)
    elif isinstance(objective, MaxVariance):
        targets = explicit_targets(workload, objective)
        solve, values, scales = least_privacy, targets, 1.0 / np.sqrt(targets)
    else:
        raise PlanError(
            f"{type(objective).__name__} is not for pure DP; with PureDP, minimise TotalVariance or MaxVariance."
        )
    tolerance = DENSE_TOLERANCE if tolerance is None else max(tolerance, 1e-9)
    ranges = _ranges(workload)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)  # the bound counts, and it is true however far the solver got
        optimum = solved(solve, workload, values, tolerance) if ranges is None else solve(ranges, values, tolerance)
    queries = _queries(workload, scales) if ranges is None else ScaledQueries(ranges, scales)
    return _Task(workload, objective, scales, Judged(queries, isinstance(objective, MaxVariance)), optimum)


def _ranges(workload: Workload) -> Queries | None:
    """Many queries as ranges of the cells as they stand, where they are ranges and tell all cells apart.

    Then nothing is merged or dropped, and the matrix is read once instead of multiplied out, which costs O(m n²).
    """
    rows, cells = workload.matrix.shape
    if rows <= _TALL * cells:
        return None
    W = np.asarray(workload.matrix.toarray())
    ranges = as_intervals(W) if W.any(axis=1).all() else None
    if ranges is None:
        return None
    gram = ranges.gram(np.ones(rows))
    root = np.sqrt(np.diagonal(gram))
    # Full rank, far from any doubt: so no two columns are equal either.
    full = bool((root > 0).all()) and linalg.eigvalsh(gram / np.outer(root, root), subset_by_index=[0, 0])[0] > 1e-9
    return ranges if full else None


def _queries(workload: Workload, scales: Floats) -> Queries:
    """The scaled queries on distinct cells, as ranges where they are many and that is what they are."""
    problem = prepare(workload.matrix, scales)
    merged = merged_workload(workload, problem.columns)[problem.rows]
    if len(merged) > _TALL * merged.shape[1] and (ranges := as_intervals(merged)) is not None:
        return ScaledQueries(ranges, scales[problem.rows])
    return MatrixQueries(merged * scales[problem.rows, None])


def _made(task: _Task, found: list[Tried], merged: Floats, asked: Task) -> MatrixPlan:
    """The best strategy in integers, with the noise of the budget, or about that of the wanted loss."""
    best, unit = found[0].strategy, asked.unit
    # ε at which the best strategy has the wanted loss: variances go as 1/ε².
    epsilon = math.sqrt(2 * found[0].loss / asked.loss)
    if isinstance(asked.guarantee, PureDP):
        epsilon = asked.guarantee.epsilon
    # One power of two for all entries, such that the scale Δ/ε can be sampled: as for Gaussian noise of that scale.
    norm = math.sqrt(float((best**2).sum(axis=0).max()))
    strategy, _ = integer_strategy(best, merged, (epsilon * norm) ** 2)
    removable = bool((task.columns < 0).any()) or task.workload.domain.drops
    domain = task.workload.domain
    total = laplace_norm(strategy, most_records(unit, domain.names, domain.sizes), removable=removable)
    if total <= 0:
        raise PlanError("replacing a record changes none of these answers; they can be published without noise.")
    scale = round_up(total / Fraction(epsilon)) * _UP
    if not 0.5 <= scale <= LARGEST_SCALE:
        raise PlanError("the plan's noise is outside what can be sampled exactly; change the budget.")
    plan = MatrixPlan(
        task.workload.domain,
        task.workload.attributes,
        task.columns,
        strategy,
        scale,
        asked.guarantee,
        unit,
        task.workload,
        described(task.objective),
        noise=LAPLACE,
    )
    return _with_bound(plan, task, found, asked)


def _with_bound(plan: MatrixPlan, task: _Task, found: list[Tried], asked: Task) -> MatrixPlan:
    """The plan with what was tried, and how far from optimal it can be."""
    B = plan.strategy.astype(np.float64)
    many = task.asked.queries.shape[0] > _TALL * task.asked.cells
    achieved = plan.noise_variance * task.asked.profile_loss(B.T @ B) if many else _loss(plan, task)
    tried = [(each.name, each.loss) for each in found]
    return with_bound(plan, asked, achieved, task.bound, task.workload.attributes, tried)


def _loss(plan: MatrixPlan, task: _Task) -> float:
    """The loss from every query's variance: exact, O(m n²)."""
    variances = plan.variances(task.workload) * task.scales**2
    return float(variances.max() if task.asked.worst else variances.sum())
