"""Plans of noisy tables for marginals: choose tables, split epsilon, and say how far from optimal that can be."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import closure
from residua.plans.objectives import Effort, MaxVariance, Objective, TotalVariance, described
from residua.plans.planners.ending import finished_pure
from residua.plans.planners.marginals import MarginalGame
from residua.plans.planners.offers import Task
from residua.plans.product.plan import ProductPlan
from residua.plans.saddle import Steps
from residua.plans.search.split import EpsilonSplit, exchanged, families, starts
from residua.plans.solver.closed_form import ResidualCoefficients
from residua.workload import Workload

_EXCHANGED = 2  # of the splits found


def plan_pure_marginals(workload: Workload, task: Task) -> ProductPlan:
    """The best choice and split found for a budget, or (without one) for a largest acceptable loss.

    Guarantee: measuring it is `guarantee.epsilon`-DP for its unit. The split is a local optimum; the `gap` is to a
    bound on every plan.
    """
    objective, effort = task.objective, task.effort
    steps = Steps(effort.progress)
    steps.told(math.inf)  # the bound comes first
    masses, bound = _task(workload, objective, effort)
    lattice, groups = families(workload)
    numbers = np.concatenate([lattice.find(level) for level in workload.lattice.levels])[workload.numbers]
    split = EpsilonSplit(lattice, workload.domain.sizes, numbers, masses, isinstance(objective, MaxVariance))
    steps.bound = 2 * bound
    found: list[tuple[float, str, Floats]] = []
    for name, shares in starts(workload, lattice, groups, numbers, masses):
        plain = shares / shares.sum()
        found.append((split.loss(plain), f"{name}, cube-root rule", plain))
        better = split.improved(plain)
        found.append((split.loss(better), f"{name}, optimised", better))
        steps.told(min(loss for loss, _, _ in found))
    found += _exchanged(split, found, steps.told)
    found = sorted((each for each in found if math.isfinite(each[0])), key=lambda each: each[0])
    if not found:
        raise PlanError("no choice of marginals answers this workload; this is a defect of residua.")
    return _made(workload, task, split, found, bound)


def _exchanged(
    split: EpsilonSplit, found: list[tuple[float, str, Floats]], told: Callable[[float], None]
) -> list[tuple[float, str, Floats]]:
    """The best splits found, each after all exchanges that improve it."""
    better = []
    for loss, name, shares in sorted(found, key=lambda each: each[0])[:_EXCHANGED]:
        if math.isfinite(loss):
            other = split.improved(exchanged(split, shares, told))
            told(split.loss(other))
            if split.loss(other) < loss * (1 - 1e-9):
                better.append((split.loss(other), f"{name.split(',')[0]}, exchanged", other))
    return better


def independent_pure_marginals(workload: Workload, task: Task) -> ProductPlan:
    """Equal Laplace noise on every asked marginal, pooled into the best unbiased estimates."""
    masses, bound = _task(workload, TotalVariance(), Effort())
    split = EpsilonSplit(workload.lattice, workload.domain.sizes, workload.numbers, masses, False)
    even = np.zeros(len(workload.lattice))
    even[workload.numbers] = 1.0 / len(workload)
    found = [(split.loss(even), "asked marginals, evenly", even)]
    made = _made(workload, task, split, found, bound)
    return made.replaced(objective="independent noise")


def _task(workload: Workload, objective: Objective, effort: Effort) -> tuple[Floats, float]:
    """What each asked cell variance counts, and the least loss of Gaussian noise of pcost 1."""
    if isinstance(objective, TotalVariance):
        masses = workload.weights * workload.cells
    elif isinstance(objective, MaxVariance):
        masses = 1.0 / objective.scales(workload)
    else:
        raise PlanError(
            f"{type(objective).__name__} is not for pure DP; with PureDP, minimise TotalVariance or MaxVariance."
        )
    game = MarginalGame(workload, ResidualCoefficients(workload.lattice, workload.domain.sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        solution = objective.solve(workload, game, Effort(max(effort.tolerance, 1e-3), effort.limit))
    return masses, solution.bound


def _made(
    workload: Workload, task: Task, split: EpsilonSplit, found: list[tuple[float, str, Floats]], bound: float
) -> ProductPlan:
    least, _, shares = found[0]
    rows = list(split.lattice)
    kept = [np.array([rows[i]], dtype=np.int32).reshape(1, -1) for i in np.flatnonzero(shares > 0)]
    lattice = closure([*workload.lattice.levels, *_by_size(kept)], len(workload.domain.sizes))
    mine = np.zeros(len(lattice))
    mine[np.concatenate([lattice.find(row) for row in kept])] = shares[shares > 0]
    promise = (task.guarantee, task.unit, workload, described(task.objective))
    plan = ProductPlan.of_tables(workload.domain, lattice, mine, *promise)
    tried = [(name, loss) for loss, name, _ in found]
    plan = finished_pure(plan, task, least, bound, workload.lattice.used, tried)
    shares = plan.tables.shares
    if not 2.0**-36 <= shares[shares > 0].min() <= shares.max() <= 2.0**20:
        raise PlanError("the plan's noise is outside what can be sampled exactly; change the budget.")
    return plan


def _by_size(rows: list[NDArray[np.int32]]) -> list[NDArray[np.int32]]:
    sizes = sorted({row.shape[1] for row in rows})
    return [np.concatenate([row for row in rows if row.shape[1] == size]) for size in sizes]
