"""Plans for marginals: the planning game on residuals, at a budget or for a wanted accuracy.

Losses that do not scale with the variances are solved at a given cost, or at the least cost that is good enough.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats
from residua.plans.objectives import Effort, Objective, described
from residua.plans.planners.ending import finished, relative_gap
from residua.plans.planners.offers import Task
from residua.plans.product.contribution import table_prices
from residua.plans.product.plan import ProductPlan
from residua.plans.product.replacement import replacement_cost, replacement_value
from residua.plans.saddle import Game, Solution
from residua.plans.solver.closed_form import ResidualCoefficients
from residua.plans.strategy import plain_strategies
from residua.privacy import ReplaceOne, Unit
from residua.workload import Workload

_MOST_DOUBLINGS = 200


@dataclass(frozen=True, eq=False)
class _AtCost:
    """A game at another privacy cost than 1: all variances are divided by it."""

    game: Game
    cost: float

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        noise, variances, value = self.game.respond(weights)
        return noise, variances / self.cost, value / self.cost

    def value(self, weights: Floats) -> float:
        return self.game.value(weights) / self.cost

    def variances(self, noise: Floats) -> Floats:
        return self.game.variances(noise) / self.cost


def solve_at(
    objective: Objective,
    workload: Workload,
    game: Game,
    effort: Effort,
    cost: float | None,
    loss: float,
) -> tuple[float, Solution, float]:
    """The cost, the noise at cost 1 and the gap: in the loss if a cost is given, else in the cost for that loss."""
    if cost is not None:
        solution = objective.solve(workload, _AtCost(game, cost), effort)
        return cost, solution, solution.gap
    return _least_cost(objective, workload, game, effort, loss)


def _least_cost(
    objective: Objective, workload: Workload, game: Game, effort: Effort, loss: float
) -> tuple[float, Solution, float]:
    """Bisects between a cost proven too small and one found sufficient."""
    enough, solution = 1.0, None
    inner = replace(effort, tolerance=effort.tolerance / 4)
    too_little = 0.0
    for _ in range(_MOST_DOUBLINGS):
        trial = enough if solution is None else (np.sqrt(too_little * enough) if too_little else enough / 2)
        found = objective.solve(workload, _AtCost(game, float(trial)), inner)
        if found.achieved <= loss:
            enough, solution = float(trial), found
        elif found.bound > loss:
            too_little = float(trial)
            enough = enough if solution is not None else enough * 2
        elif solution is None:
            enough *= 1 + effort.tolerance
        else:
            break  # between the bounds of one solve: nothing finer can be proven
        if solution is not None and too_little and enough / too_little - 1 <= effort.tolerance:
            break
    if solution is None:
        raise PlanError(f"at_most={loss!r} cannot be reached at any cost; raise it.")
    return enough, solution, enough / too_little - 1 if too_little else np.inf


@dataclass(frozen=True, eq=False)
class MarginalGame:
    """Our side of the planning game for a workload of marginals (see `saddle`)."""

    workload: Workload
    coefficients: ResidualCoefficients

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best residual noise for these weights on marginals, the variances it gives, and their weighted sum."""
        noise, value = self.coefficients.respond(self.spread(weights))
        return noise, self.coefficients.cell_variances(noise)[self.workload.numbers], value

    def value(self, weights: Floats) -> float:
        """The least weighted sum of variances anybody reaches at privacy cost 1."""
        return self.coefficients.value(self.spread(weights))

    def variances(self, noise: Floats) -> Floats:
        """The cell variances of the workload's marginals under some residual noise."""
        return self.coefficients.cell_variances(noise)[self.workload.numbers]

    def spread(self, weights: Floats) -> Floats:
        """Weights on the marginals of the workload as weights on all sets of its closure."""
        full = np.zeros(len(self.workload.lattice))
        full[self.workload.numbers] = weights
        return full


def plan_marginals(workload: Workload, task: Task) -> ProductPlan:
    """The best plan of marginals for a budget, or (without one) for a largest acceptable loss."""
    objective, unit, effort, loss, allowed = task.objective, task.unit, task.effort, task.loss, task.allowed
    game = marginal_game(workload, unit)
    if objective.homogeneous:
        solution = objective.solve(workload, game, effort)
        per_unit, gap = _unit_cost(unit, game, solution)
        achieved = solution.achieved
    else:
        if isinstance(unit, ReplaceOne):
            raise PlanError("unit=ReplaceOne() needs an objective that scales with the variances, not a ConvexLoss.")
        per_unit = _per_unit(unit, game)
        record_cost, solution, gap = solve_at(objective, workload, game, effort, allowed and allowed / per_unit, loss)
        achieved = record_cost * loss
    if gap > effort.tolerance and not isinstance(unit, ReplaceOne):
        warnings.warn(f"the plan is proven optimal only up to {gap:.2g}; raise limit.", GapWarning, stacklevel=3)
    made = ProductPlan(
        domain=workload.domain,
        lattice=workload.lattice,
        precisions=1.0 / solution.noise,
        guarantee=task.guarantee,
        unit=unit,
        workload=workload,
        objective=described(objective),
        gap=gap,
    )
    return finished(made, task, achieved, cost=per_unit)


def marginal_game(workload: Workload, unit: Unit) -> MarginalGame:
    """The game at privacy cost 1 for one record or, for persons with limits, at a price of 1 for the person."""
    sizes = workload.domain.sizes
    prices = table_prices(unit, workload.domain, workload.lattice, plain_strategies(sizes))
    return MarginalGame(
        workload, ResidualCoefficients(workload.lattice, sizes, None if prices is None else prices.spending)
    )


def _per_unit(unit: Unit, game: MarginalGame) -> float:
    """What noise of cost 1 in a game costs the unit of protection."""
    return float(unit.scaled(1)) if game.coefficients.spending is None else 1.0


def independent_marginals(workload: Workload, task: Task) -> ProductPlan:
    """Equal independent noise on every asked cell, pooled into the best unbiased estimates."""
    unit = task.unit
    game = marginal_game(workload, unit)
    asked = np.zeros(len(workload.lattice))
    asked[workload.numbers] = 1.0 / len(workload)
    # Noise σ² on the marginal A measures every residual S ⊆ A with precision Π_{i∈A∖S} 1/n_i / σ².
    precisions = workload.lattice.sum_over_supersets(asked, 1.0 / workload.domain.sizes)
    prices = table_prices(unit, workload.domain, workload.lattice, plain_strategies(workload.domain.sizes))
    if prices is not None:
        precisions /= prices.price(precisions)
    masses = workload.weights * workload.cells
    achieved = float(masses @ game.coefficients.cell_variances(1.0 / precisions)[workload.numbers])
    solution = Solution(1.0 / precisions, achieved, game.value(masses), 1, masses)
    per_unit, gap = _unit_cost(unit, game, solution)
    made = ProductPlan(
        domain=workload.domain,
        lattice=workload.lattice,
        precisions=precisions,
        guarantee=task.guarantee,
        unit=unit,
        workload=workload,
        objective="independent noise",
        gap=gap,
    )
    return finished(made, task, achieved, cost=per_unit)


def _unit_cost(unit: Unit, game: MarginalGame, solution: Solution) -> tuple[float, float]:
    """What noise of privacy cost 1 costs the unit of protection, and the gap proven for that unit."""
    if not isinstance(unit, ReplaceOne):
        return _per_unit(unit, game), solution.gap
    lattice, sizes = game.coefficients.lattice, game.coefficients.sizes
    cost, _ = replacement_cost(
        lattice, np.where(game.coefficients.cost > 0, 1.0 / solution.noise, 0.0), plain_strategies(sizes)
    )
    if game.workload.domain.drops:  # changing a record may then remove it, which costs 1
        cost = max(cost, 1.0)
    if cost <= 0:
        raise PlanError("replacing a record changes none of these tables; they can be published without noise.")
    least = replacement_value(lattice, sizes, game.coefficients.importance(game.spread(solution.weights)))
    return cost, relative_gap(solution.achieved * cost, least)  # nothing is proven where only removals cost
