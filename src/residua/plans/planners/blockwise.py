"""Blockwise plans for any queries of a few attributes each, and for products that ask an attribute in several ways.

What the workload tells apart of each attribute becomes its levels; every set of levels that some query needs is a block
with the strategy that is best for it (`solver/blockwise.py`), rounded to integers. Blocks that nobody asks for, and
directions of a block that nobody asks for, are measured a ten-thousandth as strongly, so that everything on these cells
is answerable whatever rounding did (a hundred-millionth of the cost).

By the rows of another plan only how precisely each block is measured is chosen, by the root (`Spending.apart`), each
block counted at its most expensive cell; where cells are priced together, by `solver/patterns.py`.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.blockwise.facts import BlockRows, asked
from residua.plans.blockwise.plan import BY_ROWS, BlockwisePlan
from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.levels import LevelTable, closed, table_for
from residua.plans.matrix.integers import FILLING
from residua.plans.objectives import QueryLoss, TotalVariance, check_objective, least_ratio, least_sum, query_loss
from residua.plans.planners import offers
from residua.plans.planners.forecast import side_of
from residua.plans.planners.posing import check_memory, posed, posed_queries
from residua.plans.product.plan import ProductPlan
from residua.plans.solver.blockwise import BlockwiseTotal, Solved
from residua.plans.solver.blockwise_maximum import BlockwiseMaximum
from residua.plans.solver.closed_form import Spending
from residua.plans.solver.maxima import QueryGame
from residua.plans.solver.orbits import orbits
from residua.plans.solver.patterns import PatternSpending
from residua.privacy import PureDP
from residua.workload import Workload

LISTED_CELLS = 2**20  # beyond these, cells of all attributes together are never listed
_FEW_CELLS = 1500  # up to these, a matrix plan takes seconds
_WORTH_TRYING = 0.02  # a proven gap of one strategy per attribute
_LARGEST = 2.0**28  # entries of the block that costs most
_COARSEST = (2.0**25, 2.0**19, 2.0**13)  # at least of any that is asked for; fewer where its noise would be too large
_ROUNDS = 40
_NOTHING = 1e-14  # of the largest: a block of which nothing is asked


@dataclass(frozen=True)
class Blockwise(offers.Planner[BlockwisePlan]):
    """A strategy for each set of attributes and levels, instead of one for each attribute: `form=rs.Blockwise()`.

    For workloads that ask an attribute in several ways, or tie attributes together, over many cells. `rs.plan` chooses
    it by itself for queries that tie attributes together over more cells than can be listed, and for products that one
    strategy per attribute serves badly.

    Args:
        like: a blockwise plan whose rows to measure, so that `common`, `residual`, `top_up` and sessions combine the
            two exactly over any number of cells. Its gap is against all plans that measure these rows.
    """

    declares = (
        offers.Declared(
            "queries that tie attributes together, and products that ask an attribute in several ways",
            "total, largest of all queries",
            "normal",
            offers.Proof.CLASS,
            "with the cube of the cells distinguished in a set of attributes",
        ),
    )

    like: Plan | None = None

    def offer(self, task: offers.Task) -> offers.Offer | None:
        """Where queries tie attributes together over too many cells for one matrix."""
        if not task.requested and (task.laplace or not too_many_cells(task.workload)):
            return None
        return offers.Offer(
            offers.Proof.CLASS, offers.Forecast(0.0, 0.0, "block by block"), task, side_of(task.workload)
        )

    def plan(self, task: offers.Task) -> BlockwisePlan:
        """The plan."""
        if not task.requested:
            check_objective(task.objective, task.workload, laplace=False, matrix=False)
        if isinstance(task.guarantee, PureDP):
            raise PlanError("form=rs.Blockwise() is for normal noise; give ZCDP, GDP or ApproxDP, or form=rs.Matrix().")
        return plan_blockwise(task) if self.like is None else plan_like(self.like, task)


def too_many_cells(workload: Workload) -> bool:
    """Whether queries are planned block by block, because their parts have too many cells in all.

    A matrix plan is better by up to a few percent of the variance, and takes the cube of the cells.
    """
    if not workload.in_parts:
        return False
    cells = math.prod(workload.shape)
    if cells > LISTED_CELLS:
        return True
    if cells <= _FEW_CELLS:
        return False
    return _told_apart(workload) > _FEW_CELLS


def _told_apart(workload: Workload) -> int:
    """How many cells of all attributes together the queries tell apart; their matrix is not formed."""
    probe = np.random.default_rng(0).standard_normal(workload.queries)  # equal columns, equal sums
    sums = np.zeros(workload.shape)
    for attributes, rows, at in asked(workload):
        own = probe[at] @ rows.reshape(len(rows), -1)
        sums += own.reshape([n if i in attributes else 1 for i, n in zip(workload.attributes, sums.shape, strict=True)])
    return len(np.unique(sums))


def blockwise_if_better(plan: ProductPlan, task: offers.Task) -> Plan:
    """A plan for products, or one with a strategy for each block where one strategy per attribute is far from the best.

    Args:
        plan: the plan with one strategy per attribute, and its proven gap.
        task: what the plan is for.
    """
    workload = task.workload
    if not isinstance(task.objective, TotalVariance) or not task.by_cells or not _WORTH_TRYING < plan.gap < math.inf:
        return plan
    # Releases over more cells are projected without those that are impossible.
    if plan.domain.impossible and math.prod(workload.shape) > MOST_COLUMNS:
        return plan
    try:
        other = plan_blockwise(task)
    except PlanError:  # a block too large for a strategy of its own
        return plan
    if task.guarantee is None:
        return min(plan, other, key=lambda each: each.unit_pcost)
    return min(plan, other, key=lambda each: each.total_variance(workload))


def plan_blockwise(task: offers.Task) -> BlockwisePlan:
    """A blockwise plan of least total or largest variance for a budget, or (without one) for an acceptable loss.

    Raises:
        PlanError: another objective, or a set of attributes with too many cells for a strategy of its own.
    """
    workload, effort, loss = task.workload, task.effort, query_loss(task.objective, task.workload)
    axes, terms = posed_queries(workload, np.sqrt(loss.factors)) if loss.worst else posed(workload)
    blocks = closed(term.table for term in terms)
    kinds = orbits(axes, terms, blocks)
    check_memory(kinds, axes)
    solver = BlockwiseMaximum if loss.worst else BlockwiseTotal
    solved = solver(axes, kinds).solve(effort.tolerance, min(effort.limit, _ROUNDS), effort.progress)
    numbers = [kinds.kinds[block] for block in blocks]
    for coarsest in _COARSEST:
        strategies, shares = rounded(solved, coarsest)
        plan = BlockwisePlan(
            domain=workload.domain,
            axes=tuple(axes),
            blocks_of=tuple(blocks),
            numbers=tuple(numbers),
            strategies=strategies,
            precisions=shares[numbers],
            **task.stated,
        )
        plan = _proven(plan, task, loss, solved.bound)
        with contextlib.suppress(VerificationError):  # noise that cannot be sampled exactly
            plan.compile()
            break
    return plan


def plan_like(like: Plan, task: offers.Task) -> BlockwisePlan:
    """A plan by the rows of another blockwise plan.

    Raises:
        PlanError: another objective, another form or domain, or rows that do not distinguish what is asked.
    """
    loss = query_loss(task.objective, task.workload)
    shared: BlockwisePlan = offers.checked_like(like, "rows", "a blockwise plan", task.workload.domain)
    precisions, bound = _precisions_like(shared, loss, task)
    plan = shared.replaced(precisions=precisions, **task.stated)
    plan = _proven(plan.replaced(objective=plan.objective + BY_ROWS), task, loss, bound)
    try:
        plan.compile()
    except VerificationError:
        raise PlanError(
            "like measures integers too fine for the noise of this budget; plan it, or one plan for all that is asked, "
            "at the smallest of the budgets first, and then each like that."
        ) from None
    return plan


def _proven(plan: BlockwisePlan, task: offers.Task, loss: QueryLoss, bound: float) -> BlockwisePlan:
    """The plan at its scale, with its gap to what no plan's loss × pcost is below."""
    value = loss.of(plan.variances(task.workload)) if loss.worst else plan.total_variance(task.workload)
    return offers.finished(plan.replaced(gap=offers.proven_gap(task, value * plan.pcost, bound)), task, value)


# ---- integers


def rounded(solved: Solved, least: float) -> tuple[tuple[BlockRows, ...], Floats]:
    """Every kind's strategy in integers, the largest at least this; every direction of its block; its share of cost."""
    shares = np.array([float((rows**2).sum(axis=0).max(initial=0.0)) for rows in solved.rows])
    little = float(shares.max()) * FILLING**2
    strategies = []
    for kind, (rows, missing) in enumerate(zip(solved.rows, solved.missing, strict=True)):
        strength = math.sqrt(float(shares[kind])) * FILLING if len(rows) else math.sqrt(little)
        shares[kind] = max(float(shares[kind]), little)
        coarsest = least if len(rows) else least * FILLING  # directions that nobody asks for keep some bits
        finest = max(_LARGEST * math.sqrt(float(shares[kind] / shares.max())), coarsest)
        strategies.append(BlockRows(_integers(np.vstack([rows, missing * (strength / _longest(missing))]), finest)))
    return tuple(strategies), shares


def _longest(rows: Floats) -> float:
    """The largest column norm; 1 where there is none."""
    return math.sqrt(float((rows**2).sum(axis=0).max(initial=0.0))) or 1.0


def _integers(rows: Floats, finest: float) -> Integers:
    """The nearest integers at the largest power of two that leaves room for records.

    What is measured weakly has smaller integers, so that all noise is about as large, and can be sampled exactly.
    """
    bits = math.floor(math.log2(finest / float(np.abs(rows).max())))
    return np.rint(rows * 2.0**bits).astype(np.int64)


# ---- by the rows of another plan


def _precisions_like(like: BlockwisePlan, loss: QueryLoss, task: offers.Task) -> tuple[Floats, float]:
    """How precisely each block of `like` is measured, and what no plan by its rows goes below at privacy cost 1."""
    even = like.replaced(precisions=np.ones(len(like.precisions)))
    squares = _squares(even, task.workload)
    squares = np.where(squares.max(axis=0) > _NOTHING * float(squares.max()), squares, 0.0)
    table = table_for(like.axes, list(like.blocks_of))
    spending = Spending.apart(np.ones(len(like.precisions))) if table is None else _priced_together(even, table)
    game = QueryGame(squares, np.arange(len(squares)), spending)
    solution = least_ratio(game, 1.0 / loss.factors, task.effort) if loss.worst else least_sum(game, loss.factors)
    return 1.0 / solution.plan, solution.bound


def _priced_together(like: BlockwisePlan, table: LevelTable) -> PatternSpending:
    """How to spend best where the most expensive cell counts, of all blocks together."""
    blocks = [(block, like.rows_of(block).relative_norms) for block in like.blocks_of]

    def paid(precisions: Floats) -> Floats:
        costs = np.zeros(table.shape)
        for (block, norms), precision in zip(blocks, precisions.tolist(), strict=True):
            costs = costs + precision * table.spread(block, norms)
        return costs.ravel()

    def rows(cells: Integers) -> Floats:
        spread = (np.broadcast_to(table.spread(block, norms), table.shape) for block, norms in blocks)
        return np.stack([each.ravel()[cells] for each in spread], axis=1)

    return PatternSpending(np.ones(len(blocks)), np.arange(len(blocks)), math.prod(table.shape), paid, rows)


def _squares(like: BlockwisePlan, workload: Workload) -> Floats:
    """S: the squared part of every query in every block, in measured rows, (queries, blocks)."""
    squares = np.zeros((workload.queries, len(like.blocks_of)))
    places = {block: k for k, block in enumerate(like.blocks_of)}
    for attributes, rows, at in asked(workload):
        parts, lost = like.taken_apart(attributes, rows)
        if lost.any():
            raise offers.sees_too_little(", ".join(workload.domain.names[i] for i in attributes))
        for block, part in parts.items():
            squares[at, places[block]] = (part**2).sum(axis=1)
    return squares
