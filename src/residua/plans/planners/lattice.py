"""The planner of precisions on sets of attributes: for marginals and products, over any number of attributes.

A plan for several workloads together: plans like it share strategies, and combine over any number of cells.

Plans for marginals: normal noise on residuals, by the planning game, or Laplace noise on tables that are chosen.

Losses that do not scale with the variances are solved at a given cost, or at the least cost that is good enough.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from residua.errors import GapWarning, PlanError, named
from residua.linalg.arrays import Floats
from residua.linalg.lattice import closure
from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.objectives import MaxVariance, check_objective, least_cost
from residua.plans.planners import offers
from residua.plans.planners.blockwise import Blockwise, blockwise_if_better, plan_blockwise
from residua.plans.planners.crossed import plan_crossed
from residua.plans.planners.forecast import forecast, side_of
from residua.plans.planners.matrix import plan_pure
from residua.plans.planners.products import like_strategies, plan_products, within_integers
from residua.plans.product.plan import ProductPlan
from residua.plans.product.residual_costs import replaced_records, replacement_cost, table_prices
from residua.plans.saddle import Effort, Solution, Steps
from residua.plans.search.split import EpsilonSplit, exchanged, families, starts
from residua.plans.solver.closed_form import MarginalGame
from residua.plans.solver.patterns import PatternSpending
from residua.plans.strategy import Strategy, plain_strategies
from residua.privacy import ZCDP, ReplaceOne, Unit
from residua.privacy.costs import by_cells
from residua.workload import Workload, added


@dataclass(frozen=True)
class Lattice(offers.Planner[Plan]):
    """A plan of precisions on sets of attributes: for marginals and products, over any number of attributes.

    Args:
        like: a lattice plan whose strategies to use, attribute by attribute, so that `common`, `residual`, `top_up`
            and sessions combine the two exactly over any number of cells. The plan's `gap` counts what its strategies
            cost; where that is much, plan the sum of the workloads first, and then each of them like that.
        limit: most rounds of an iterative objective; with Laplace noise, most exchanges of the tables measured.
    """

    declares = (
        offers.Declared(
            "marginals", "any objective", "normal", offers.Proof.EVERY, "in proportion to the sets of attributes"
        ),
        offers.Declared(
            "products: prefixes, ranges, levels, any rows of each attribute",
            "total, largest",
            "normal",
            offers.Proof.CLASS,
            "with the cube of the values of an attribute",
        ),
        offers.Declared(
            "marginals", "any objective", "laplace", offers.Proof.LOOSE, "in proportion to the sets, times tries"
        ),
    )

    like: Plan | None = None
    limit: int = 10_000

    def __post_init__(self) -> None:
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise PlanError(f"limit={named(self.limit)} is not a positive whole number of rounds.")

    def offer(self, task: offers.Task) -> offers.Offer | None:
        """For marginals and products; with Laplace noise, for marginals."""
        workload = task.workload
        if not task.requested and (not workload.tabular or (task.laplace and workload.with_rows)):
            return None
        task, at_once = task.within(self.limit), offers.Forecast(0.0, 0.0, "marginals")
        if workload.plain and self.like is None and not task.laplace:
            return offers.Offer(offers.Proof.EVERY, at_once, task, side=1.0)
        proof = offers.Proof.LOOSE if task.laplace else offers.Proof.CLASS
        ahead = at_once
        if (task.laplace or workload.with_rows) and not self._by_rows:
            ahead = forecast(workload, pure=task.laplace, maximum=isinstance(task.objective, MaxVariance))
        return offers.Offer(proof, ahead, task, side_of(workload), attended=True)

    def plan(self, task: offers.Task) -> Plan:
        """The plan; block by block where that is better, and what is like a blockwise plan always.

        Raises:
            PlanError: an objective, or strategies to use, that do not fit the workload.
        """
        workload = task.workload
        if task.laplace:
            return self._laplace(task)
        if self._by_rows:
            return Blockwise(self.like).plan(task)
        check_objective(task.objective, workload, laplace=False, matrix=False)
        if not workload.tabular:
            return plan_blockwise(task)
        given = self._given(workload)
        axes = [i for i, strategy in enumerate(given or ()) if strategy is not None and strategy.tells]
        if axes:
            return plan_crossed(task, axes, given)
        if workload.plain and given is None:
            return plan_marginals(task)
        plan = plan_products(task, given)
        return plan if task.requested else blockwise_if_better(plan, task)

    @property
    def _by_rows(self) -> bool:
        """Whether the plan to be like is blockwise, whose rows are shared."""
        return getattr(self.like, "shared", "") == "rows"

    def _laplace(self, task: offers.Task) -> Plan:
        if self.like is not None:
            raise PlanError("refined, bias and like are for Gaussian noise; leave them out, or give another guarantee.")
        check_objective(task.objective, task.workload, laplace=True, matrix=False)
        return plan_pure_marginals(task) if task.workload.plain else plan_pure(task)

    def _given(self, workload: Workload) -> tuple[Strategy | None, ...] | None:
        """The strategies to measure by; None if they are to be chosen, or those of every plan for marginals."""
        if self.like is None:
            return None
        given = like_strategies(self.like, workload)
        return None if workload.plain and all(strategy is None or strategy.plain for strategy in given) else given


def common_ground(workloads: Sequence[Workload]) -> Plan | None:
    """A plan for all these workloads of one domain together: plans like it can be combined.

    None where none is needed: for marginals alone, whose plans share strategies, and for few cells, over which plans of
    all kinds are combined.
    """
    listed = len(workloads) > 1 and any(workload.in_parts for workload in workloads)
    together = [workload for workload in workloads if listed or workload.tabular]
    if len(together) < 2 or not (listed or any(workload.with_rows for workload in together)):
        return None
    task = offers.Task(added(together), ZCDP(0.5), effort=Effort(tolerance=1e-3))
    if math.prod(task.workload.shape) <= MOST_COLUMNS:
        return None
    return plan_blockwise(task) if listed else plan_products(task)


# ---- marginals


_EXCHANGED = 2  # of the splits found


def plan_marginals(task: offers.Task) -> ProductPlan:
    """The best plan of marginals for a budget, or (without one) for a largest acceptable loss."""
    workload, objective, effort = task.workload, task.objective, task.effort
    game = marginal_game(workload, task.unit)
    if objective.homogeneous:
        solution = objective.solve(workload, game, effort)
        gap, achieved = offers.relative_gap(solution.loss * _paid(task, solution), solution.bound), solution.loss
    else:
        if task.allowed is None:
            cost, solution, gap = least_cost(
                objective, workload, lambda budget: replace(game, budget=budget), effort, task.loss
            )
        else:
            cost = task.allowed / _per_unit(task.unit, game)
            solution = objective.solve(workload, replace(game, budget=cost), effort)
            gap = solution.gap
        gap, achieved = (1 + gap) * _paid(task, solution) - 1, cost * task.loss
    if gap > effort.tolerance and not _by_blocks(game):
        warnings.warn(f"the plan is proven optimal only up to {gap:.2g}; raise limit.", GapWarning, stacklevel=3)
    return _with_noise(task, game, solution, achieved, gap)


def _with_noise(task: offers.Task, game: MarginalGame, solution: Solution, achieved: float, gap: float) -> ProductPlan:
    """The plan with this noise on residuals, at its scale."""
    domain, lattice = task.workload.domain, task.workload.lattice
    plan = ProductPlan(domain=domain, lattice=lattice, precisions=1.0 / solution.plan, gap=gap, **task.stated)
    plan = offers.finished(plan, task, achieved, cost=_per_unit(task.unit, game) if game.spending is None else None)
    return within_integers(plan) if isinstance(task.unit, ReplaceOne) else plan


def marginal_game(workload: Workload, unit: Unit) -> MarginalGame:
    """The game at privacy cost 1 for one record; for persons with limits and replaced records, at a price of 1.

    Raises:
        PlanError: a record is replaced, and only the number of records is asked.
    """
    domain, lattice, strategies = workload.domain, workload.lattice, plain_strategies(workload.domain.sizes)
    game = MarginalGame(lattice, domain.sizes, workload.numbers)
    if by_cells(unit):
        return game
    prices = table_prices(unit, domain, lattice, strategies)
    if prices is not None:
        return replace(game, spending=prices.spending)
    asked = game.cost * game.importance(workload.weights * workload.cells)
    return replace(game, spending=replaced_records(domain, lattice, strategies, asked))


def _per_unit(unit: Unit, game: MarginalGame) -> float:
    """What noise of cost 1 in a game costs the unit of protection."""
    return float(unit.scaled(1)) if game.spending is None else 1.0


def _paid(task: offers.Task, solution: Solution) -> float:
    """What noise of price 1 really costs, beside it: more, where attributes that were taken to be alike are not."""
    if not isinstance(task.unit, ReplaceOne):
        return 1.0
    lattice, strategies = task.workload.lattice, plain_strategies(task.workload.domain.sizes)
    return max(replacement_cost(lattice, 1.0 / solution.plan, strategies)[0], 1.0)


def _by_blocks(game: MarginalGame) -> bool:
    """Whether a record is replaced by one drawn at random, over too many attributes to try how two can differ."""
    return isinstance(game.spending, PatternSpending) and not game.spending.every


def independent_marginals(task: offers.Task) -> ProductPlan:
    """Equal independent noise on every asked cell, pooled into the best unbiased estimates."""
    workload, game = task.workload, marginal_game(task.workload, task.unit)
    asked = np.zeros(len(workload.lattice))
    asked[workload.numbers] = 1.0 / len(workload)
    # Noise σ² on the marginal A measures every residual S ⊆ A with precision Π_{i∈A∖S} 1/n_i / σ².
    precisions = workload.lattice.sum_over_supersets(asked, 1.0 / workload.domain.sizes)
    masses = workload.weights * workload.cells
    achieved = float(masses @ game.variances(1.0 / precisions))
    solution = Solution(1.0 / precisions, achieved, game.value(masses), masses)
    plan = _with_noise(task, game, solution, achieved, 0.0)
    least = solution.bound * _per_unit(task.unit, game)
    loss = float(masses @ plan.variances(workload, per="term"))
    return plan.replaced(objective="independent noise", gap=offers.relative_gap(loss * plan.unit_pcost, least))


# ---- Laplace noise: choose tables, split epsilon


def plan_pure_marginals(task: offers.Task) -> ProductPlan:
    """The best choice and split found for a budget, or (without one) for a largest acceptable loss.

    Guarantee: measuring it is `guarantee.epsilon`-DP for its unit. The split is a local optimum; the `gap` is to a
    bound on every plan.
    """
    workload = task.workload
    steps = Steps(task.effort.progress)
    steps.told(math.inf)  # the bound comes first
    masses, bound = _masses(task)
    lattice, groups = families(workload)
    numbers = np.concatenate([lattice.find(level) for level in workload.lattice.levels])[workload.numbers]
    slopes = offers.laplace_slopes(task, workload.lattice.used)
    counted = masses if slopes is None else np.ones(len(masses))
    worst = isinstance(task.objective, MaxVariance)
    split = EpsilonSplit(lattice, workload.domain.sizes, numbers, counted, worst, slopes)
    steps.bound = 2 * bound if task.objective.homogeneous else bound
    tried: list[tuple[float, str, Floats]] = []
    for name, shares in starts(workload, lattice, groups, numbers, masses):
        plain = shares / shares.sum()
        tried.append((split.loss(plain), f"{name}, cube-root rule", plain))
        better = split.improved(plain)
        tried.append((split.loss(better), f"{name}, optimised", better))
        steps.told(min(loss for loss, _, _ in tried))
    tried += _exchanged(split, tried, steps.told, task.effort.limit)
    tried = sorted((each for each in tried if math.isfinite(each[0])), key=lambda each: each[0])
    if not tried:
        raise PlanError("no choice of marginals answers this workload; this is a defect of residua.")
    return _of_best_split(task, split, tried, bound)


def _exchanged(
    split: EpsilonSplit, tried: list[tuple[float, str, Floats]], told: Callable[[float], None], most: int
) -> list[tuple[float, str, Floats]]:
    """The best splits found, each after all exchanges that improve it."""
    better = []
    for loss, name, shares in sorted(tried, key=lambda each: each[0])[:_EXCHANGED]:
        if math.isfinite(loss):
            other = split.improved(exchanged(split, shares, told, most))
            told(split.loss(other))
            if split.loss(other) < loss * (1 - 1e-9):
                better.append((split.loss(other), f"{name.split(',')[0]}, exchanged", other))
    return better


def independent_pure_marginals(task: offers.Task) -> ProductPlan:
    """Equal Laplace noise on every asked marginal, pooled into the best unbiased estimates."""
    workload = task.workload
    masses, bound = _masses(task)
    split = EpsilonSplit(workload.lattice, workload.domain.sizes, workload.numbers, masses, False)
    even = np.zeros(len(workload.lattice))
    even[workload.numbers] = 1.0 / len(workload)
    tried = [(split.loss(even), "asked marginals, evenly", even)]
    return _of_best_split(task, split, tried, bound).replaced(objective="independent noise")


def _masses(task: offers.Task) -> tuple[Floats, float]:
    """What each asked cell variance counts, and the least loss of Gaussian noise of pcost 1, or of the budget's."""
    workload, objective = task.workload, task.objective
    if isinstance(objective, MaxVariance):
        masses = 1.0 / objective.scales(workload)
    else:
        masses = workload.weights * workload.cells
    budget = 1.0 if objective.homogeneous else offers.laplace_epsilon(task, workload.lattice.used) ** 2 / 2
    game = MarginalGame(workload.lattice, workload.domain.sizes, workload.numbers, budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        solution = objective.solve(workload, game, Effort(max(task.effort.tolerance, 1e-3), task.effort.limit))
    return masses, solution.bound


def _of_best_split(
    task: offers.Task, split: EpsilonSplit, tried: list[tuple[float, str, Floats]], bound: float
) -> ProductPlan:
    workload = task.workload
    least, _, shares = tried[0]
    rows = list(split.lattice)
    kept = [np.array([rows[i]], dtype=np.int32).reshape(1, -1) for i in np.flatnonzero(shares > 0)]
    lattice = closure([*workload.lattice.levels, *kept], len(workload.domain.sizes))
    own = np.zeros(len(lattice))
    own[np.concatenate([lattice.find(row) for row in kept])] = shares[shares > 0]
    plan = ProductPlan.of_tables(workload.domain, lattice, own, **task.stated)
    plan = offers.finished_pure(
        plan, task, least, bound, workload.lattice.used, [(name, loss) for loss, name, _ in tried]
    )
    used = np.asarray(plan.shares)
    if not 2.0**-36 <= used[used > 0].min() <= used.max() <= 2.0**20:
        raise PlanError("the plan's noise is outside what can be sampled exactly; change the budget.")
    return plan
