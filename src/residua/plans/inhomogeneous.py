"""Losses that do not scale with the variances: solved at a given cost, or at the least cost that is good enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.objectives import Effort, Objective
from residua.plans.saddle import Response, Solution
from residua.workload import Marginals

_MOST_DOUBLINGS = 200


@dataclass(frozen=True, eq=False)
class _AtCost:
    """A game at another privacy cost than 1: all variances are divided by it."""

    game: Response
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
    workload: Marginals,
    game: Response,
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
    objective: Objective, workload: Marginals, game: Response, effort: Effort, loss: float
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
