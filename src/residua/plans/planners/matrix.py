"""The planner of one matrix over the cells that queries distinguish, and the best strategies with Laplace noise.

A strategy is searched for, rounded to integers, and measured at the scale that it then needs.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.matrix.integers import LARGEST_SCALE, integer_strategy
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.noise import LAPLACE
from residua.plans.objectives import (
    MaxVariance,
    TotalVariance,
    check_objective,
    of_queries,
    of_single_queries,
    query_loss,
)
from residua.plans.planners import explicit
from residua.plans.planners.blockwise import too_many_cells
from residua.plans.planners.explicit import plan_biased
from residua.plans.planners.forecast import distinct_cells, forecast, side_of
from residua.plans.planners.offers import (
    Declared,
    Offer,
    Planner,
    Proof,
    Task,
    finished_pure,
    laplace_epsilon,
    laplace_slopes,
)
from residua.plans.saddle import Steps
from residua.plans.search.search import Tried, search
from residua.plans.search.strategies import Judged, sensitivity, singular_value_bound
from residua.plans.solver.level import MOST_CELLS
from residua.plans.solver.queries import MatrixQueries, ScaledQueries, prepare
from residua.plans.solver.solve import DenseGame
from residua.plans.tolerances import BUDGET_SLACK, DENSE_TOLERANCE
from residua.privacy import PureDP, ReplaceOne
from residua.workload import Workload

_MOST_CELLS = 4096  # of a strategy that is searched for
_MOST_ENTRIES = 2**25  # of queries that are listed unasked


@dataclass(frozen=True)
class Matrix(Planner[MatrixPlan]):
    """A plan of one matrix over cells: for any queries, on few cells; marginals and products are listed query by query.

    Args:
        refined: among plans that meet explicit targets equally well, the one with the lexicographically smallest
            privacy profile.
        bias: how far off answers may be systematically, per record, as a root mean square over the queries; 0 for
            unbiased answers. See `plan.bias` and `plan.workload` of the result.
        records: about how many records the table has, from which the bias is chosen for the least error, variance and
            worst bias together; with many records there is none.
    """

    declares = (
        Declared(
            "any queries, over some thousand cells that they distinguish",
            "total, largest of all queries; any convex loss of them, over some hundred",
            "normal",
            Proof.EVERY,
            "with the cube of the cells",
        ),
        Declared(
            "any queries, over some hundred cells that they distinguish",
            "total, largest of all queries; any convex loss of them",
            "laplace",
            Proof.LOOSE,
            "with the square to the cube of the cells, some hundred times",
        ),
    )

    refined: bool = False
    bias: float = 0.0
    records: int | None = None

    def offer(self, task: Task) -> Offer | None:
        """For explicit queries, over not too many cells; with Laplace noise, and over few, all but marginals."""
        if task.requested or _of_few_cells(task) or _of_any_loss(task):
            check_objective(task.objective, task.workload, laplace=task.laplace, matrix=True)
            task = replace(task, workload=task.workload.listed())
        elif task.laplace:
            if task.workload.plain:
                return None
        elif task.workload.tabular or too_many_cells(task.workload):
            return None
        proof = Proof.LOOSE if task.laplace else Proof.EVERY
        ahead = forecast(task.workload, pure=task.laplace, maximum=isinstance(task.objective, MaxVariance))
        return Offer(proof, ahead, task, side_of(task.workload), attended=True)

    def plan(self, task: Task) -> MatrixPlan | None:
        """The plan; None for queries of few cells that leave a direction out, where records are replaced.

        Raises:
            PlanError: another objective, too many cells, or options that contradict the noise.
        """
        check_objective(task.objective, task.workload, laplace=task.laplace, matrix=True)
        if task.laplace:
            if self.refined:
                raise PlanError("refined is for Gaussian noise; leave it out, or give another guarantee.")
            if not task.requested:
                require_few_cells(task.workload)
        if self.bias or self.records is not None:
            return plan_biased(task, self.bias, self.records, plan_pure if task.laplace else explicit.plan_explicit)
        if task.laplace:
            return plan_pure(task)
        if not task.requested and isinstance(task.unit, ReplaceOne):
            plan = explicit.plan_replacing(task)
            return explicit.plan_explicit(task) if plan is None and not task.workload.tabular else plan
        return explicit.plan_explicit(task, refined=self.refined)


def _of_any_loss(task: Task) -> bool:
    """Whether rows of attributes are to have a loss that only this form knows, over cells that can be listed."""
    workload = task.workload
    rows = workload.tabular and workload.with_rows and math.prod(workload.shape) <= _MOST_CELLS
    return rows and not task.laplace and not of_single_queries(task.objective)


def _of_few_cells(task: Task) -> bool:
    """Whether rows of attributes are over so few cells that all pairs are weighed, where a record is replaced."""
    workload, objective = task.workload, task.objective
    known = isinstance(objective, TotalVariance) or of_queries(objective)
    few = workload.tabular and workload.with_rows and math.prod(workload.shape) <= MOST_CELLS
    few = few and workload.queries * math.prod(workload.shape) <= _MOST_ENTRIES
    return isinstance(task.unit, ReplaceOne) and not task.laplace and few and known


# ---- Laplace noise


@dataclass(frozen=True, eq=False)
class _Posed:
    """What is asked on the distinct cells, and the L2 optimum for it.

    Args:
        task: what the plan is for, its queries listed.
        asked: the scaled queries on distinct cells.
        columns: the distinct cell of each, (cells,).
        strategy: that of the best normal noise, (rows, distinct).
        bound: the least loss of any strategy of sensitivity 1 (see `search/strategies.py`, `finished_pure`).
    """

    task: Task
    asked: Judged
    columns: Integers
    strategy: Floats
    bound: float

    @property
    def merged(self) -> Floats:
        """The queries on the distinct cells, (queries, distinct)."""
        return explicit.merged_workload(self.task.workload, self.columns)


def plan_pure(task: Task) -> MatrixPlan:
    """The best plan with Laplace noise found for a budget, or (without one) for a largest acceptable loss.

    Guarantee: measuring it is `guarantee.epsilon`-DP for its unit. Its `gap` compares it with a bound on every
    strategy; the search itself is not convex, and finds a good strategy, not provably the best.
    """
    steps = Steps(task.effort.progress)
    steps.told(math.inf)  # the L2 optimum comes first, and takes long on many cells
    posed = _posed(task)
    steps.bound = posed.bound
    return _of_best(posed, search(posed.asked, posed.merged, posed.strategy, steps.told))


def independent_pure(task: Task) -> MatrixPlan:
    """Equal Laplace noise on the answer to every query, pooled into the best unbiased estimates."""
    posed = _posed(task)
    merged = posed.merged
    tried = [Tried("workload", merged / np.abs(merged).sum(axis=0).max(), posed.asked.loss(merged))]
    return _of_best(posed, tried).replaced(objective="independent noise")


def require_few_cells(workload: Workload) -> None:
    """Refuses what would take a matrix over too many cells, before there is one."""
    cells, names = math.prod(workload.shape), workload.names
    if workload.with_rows and cells > _MOST_CELLS:
        named = ", ".join(map(repr, names[:6])) + (", …" if len(names) > 6 else "")
        raise PlanError(
            f"with Laplace noise such queries take a matrix over all {cells:,} cells of {named}, and {_MOST_CELLS:,} "
            "are the most; ask for marginals, for prefixes, ranges or levels of one attribute alone, or plan with "
            "ZCDP, GDP or ApproxDP."
        )


def _check_cells(workload: Workload) -> None:
    """Refuses more distinct cells than a strategy can be searched for on, before anything is solved."""
    distinct = distinct_cells(workload)
    if distinct > _MOST_CELLS:
        raise PlanError(
            f"about {distinct:,} distinct cells are too many for a Laplace strategy; ask for marginals, or at most "
            f"{_MOST_CELLS:,} cells."
        )


def _posed(task: Task) -> _Posed:
    task = replace(task, workload=task.workload.listed())
    workload = task.workload
    explicit.check_size(workload)
    _check_cells(workload)
    tolerance = DENSE_TOLERANCE if task.tolerance is None else max(task.tolerance, 1e-9)
    if not of_single_queries(task.objective):
        return _posed_convex(task, tolerance)
    loss = query_loss(task.objective, workload)
    ranges, scales = explicit.many_ranges(workload), np.sqrt(loss.factors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)  # the bound counts, and it is true however far the solver got
        best = explicit.solved(workload, loss, tolerance)
    if ranges is not None:
        asked = Judged(ScaledQueries(ranges[0], scales[ranges[1]]), loss.worst)
    else:
        merged = explicit.merged_workload(workload, best.columns) * scales[:, None]
        asked = Judged(MatrixQueries(merged[merged.any(axis=1)]), loss.worst)
    return _Posed(task, asked, best.columns, best.strategy, max(best.bound, singular_value_bound(asked)))


def _posed_convex(task: Task, tolerance: float) -> _Posed:
    """The same for another loss, which may not go as 1/ε²."""
    workload, objective = task.workload, task.objective
    slopes = laplace_slopes(task, workload.attributes)
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    queries = explicit.merged_workload(workload, columns)
    asked = Judged(MatrixQueries(queries), False, slopes)
    budget = 1.0 if objective.homogeneous else laplace_epsilon(task, workload.attributes) ** 2 / 2
    game = DenseGame(queries, tolerance / 10, budget=budget)
    best = objective.solve(
        workload, game, replace(task.effort, tolerance=tolerance, limit=explicit.MOST_ROUNDS, progress=None)
    )
    return _Posed(task, asked, columns, game.strategy(best.plan), best.bound)


def _of_best(posed: _Posed, tried: list[Tried]) -> MatrixPlan:
    """The best strategy in integers, with the noise of the budget or of the wanted loss, and what was tried."""
    task, best, workload = posed.task, tried[0].strategy, posed.task.workload
    # ε at which the best strategy has the wanted loss: variances go as 1/ε².
    epsilon = math.sqrt(2 * tried[0].loss / task.loss)
    if isinstance(task.guarantee, PureDP):
        epsilon = task.guarantee.epsilon
    plan = _in_integers(task, best, posed.columns, epsilon)
    if posed.asked.slopes is None and posed.asked.queries.shape[0] > explicit.TALL * posed.asked.cells:
        B = plan.strategy.astype(np.float64)
        loss = plan.noise_variance * posed.asked.profile_loss(B.T @ B)
    else:
        loss = task.objective.loss(workload, plan.variances(workload))  # exact, O(m n²)
    named = [(each.name, each.loss) for each in tried]
    return _sampled(finished_pure(plan, task, loss, posed.bound, workload.attributes, named))


def given_noise(task: Task, strategy: Floats, columns: Integers, name: str) -> MatrixPlan:
    """A plan that measures a given strategy, (rows, distinct cells), at a budget: a baseline; nothing is proven."""
    if not isinstance(task.guarantee, PureDP):
        return explicit.given_strategy(task, strategy, columns, name)
    epsilon = task.guarantee.epsilon * BUDGET_SLACK
    return _sampled(_in_integers(task, strategy / sensitivity(strategy), columns, epsilon).replaced(objective=name))


def _in_integers(task: Task, strategy: Floats, columns: Integers, epsilon: float) -> MatrixPlan:
    """The plan that measures a strategy of sensitivity 1 in integers, with Laplace noise at this epsilon."""
    # One power of two for all entries, such that the scale Δ/ε can be sampled: as for Gaussian noise of that scale.
    norm, workload = math.sqrt(float((strategy**2).sum(axis=0).max())), task.workload
    matrix, _ = integer_strategy(strategy, explicit.merged_workload(workload, columns), (epsilon * norm) ** 2)
    plan = MatrixPlan(workload.domain, workload.attributes, columns, matrix, 1.0, noise=LAPLACE, **task.stated)
    if plan.unit_epsilon <= 0:
        raise PlanError("replacing a record changes none of these answers; they can be published without noise.")
    return plan.scaled((epsilon / plan.unit_epsilon) ** 2)


def _sampled(plan: MatrixPlan) -> MatrixPlan:
    """The plan, if its noise can be sampled."""
    if not 0.5 <= plan.scale <= LARGEST_SCALE:
        raise PlanError("the plan's noise is outside what can be sampled exactly; change the budget.")
    return plan
