"""Next to the pipeline: the best plans compared with what people use today, and the norm of a workload."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.estimator import require_workload
from residua.plans.matrix.algebra import derivation as derivation
from residua.plans.objectives import MaxVariance
from residua.plans.planners.explicit import given_strategy
from residua.plans.planners.offers import Task
from residua.plans.planners.plan import independent, plan
from residua.plans.search.strategies import Judged, hierarchy
from residua.plans.solver.closed_form import MarginalGame
from residua.plans.solver.queries import MatrixQueries, to_matrix
from residua.plans.targets import Targets
from residua.privacy import AddRemove, Guarantee, PureDP, Unit
from residua.workload import Workload

MOST_BASELINE_CELLS = 4096
BRANCHINGS = range(2, 17)
_RECORD = AddRemove()


@dataclass(frozen=True)
class Comparison:
    """One plan's figures beside others at the same budget.

    Args:
        name: what it is.
        plan: the plan itself.
        max_ratio: its largest variance over target.
        rmse: its root mean square error over all queries.
        pcost_for_targets: the privacy cost at which it would meet every target.
    """

    name: str
    plan: Plan
    max_ratio: float
    rmse: float
    pcost_for_targets: float


def baselines(workload: Workload, guarantee: Guarantee, *, unit: Unit = _RECORD) -> dict[str, Plan]:
    """What people use today, as plans at a budget: independent noise, identity, hierarchy with the best branching.

    Identity and hierarchy are made for explicit queries over at most 4,096 cells.

    Example:
        >>> import residua as rs, numpy as np
        >>> domain = rs.Domain({"x": rs.Integers(0, 31)})
        >>> sorted(baselines(rs.explicit(domain, np.tril(np.ones((32, 32)))), rs.GDP(mu=1.0)))
        ['hierarchical, branching 3', 'identity', 'independent noise']
    """
    if isinstance(guarantee, PureDP):
        raise PlanError(
            "comparing is for Gaussian noise; under PureDP a plan lists what was tried: see plan.candidates, or run "
            "residua plan."
        )
    plans: dict[str, Plan] = {"independent noise": independent(workload, guarantee, unit=unit)}
    if workload.plain or workload.matrix.shape[1] > MOST_BASELINE_CELLS:
        return plans
    n = workload.matrix.shape[1]
    judged, trees = Judged(MatrixQueries(to_matrix(workload.matrix)), False), {}
    for branching in BRANCHINGS[: max(n - 1, 1)]:
        tree = hierarchy(n, branching)
        tree = tree / np.sqrt(tree.sum(axis=0).max())  # every cell is in one node of each level
        trees[judged.profile_loss(tree.T @ tree)] = f"hierarchical, branching {branching}", tree
    for name, strategy in (("identity", np.eye(n)), trees[min(trees)]):
        plans[name] = given_strategy(Task(workload, guarantee, unit=unit), strategy, np.arange(n), name)
    return plans


def compare(
    workload: Workload, guarantee: Guarantee, targets: Targets | None = None, *, unit: Unit = _RECORD
) -> list[Comparison]:
    """Baselines, least total variance and fitness for use, side by side at one budget.

    Args:
        workload: what is asked.
        guarantee: the budget all of them spend.
        targets: target variances; 1/weight of each query if left out.
        unit: whom the budget protects.
    """
    plans = baselines(workload, guarantee, unit=unit)
    plans["least total variance"] = plan(workload, guarantee, unit=unit)
    plans["fitness for use"] = plan(workload, guarantee, minimise=MaxVariance(targets), unit=unit)
    return [_compared(name, each, workload, targets) for name, each in plans.items()]


def _compared(name: str, compared: Plan, workload: Workload, targets: Targets | None) -> Comparison:
    variances = compared.variances(workload, per="term")
    ratio = float((variances / MaxVariance(targets).scales(workload)).max())
    rmse = math.sqrt(float(np.average(variances, weights=workload.cells)))
    return Comparison(name, compared, ratio, rmse, compared.unit_pcost * ratio)


def factorisation_norm(workload: Workload, *, tolerance: float = 1e-3) -> float:
    """`γ(F) = √(least total variance at privacy cost 1 / number of queries)`.

    The root mean square error of the best unbiased mechanism is `γ(F) · √(1/pcost)`; weights are not used.

    Guarantee: never below the true norm, and above it by at most half the tolerance, relative.

    Args:
        workload: what is asked.
        tolerance: how close to the optimal total variance; exact for marginals.

    Reference: factorization-and-projection, Definition 2.2 and Theorem 2.3.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 4})
        >>> factorisation_norm(rs.marginals(domain, ways=1))
        1.0
    """
    if require_workload(workload).plain:
        game = MarginalGame(workload.lattice, workload.domain.sizes, workload.numbers)
        return math.sqrt(game.value(workload.cells.copy()) / workload.queries)
    from residua.plans.solver.solve import least_total

    return math.sqrt(least_total(workload.matrix, 1.0, tolerance).achieved / workload.queries)
