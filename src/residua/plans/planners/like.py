"""Measuring by another plan's strategies, so that the two plans can be combined exactly, over any number of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from residua.errors import PlanError
from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.lattice.plan import LatticePlan
from residua.plans.objectives import Effort, TotalVariance
from residua.plans.planners.products import plan_products
from residua.plans.solver.tilting import kinds_of
from residua.plans.strategy import Strategy
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.privacy import ZCDP, AddRemove
from residua.workload import Explicit, Marginals, Products, as_products


def like_strategies(like: Plan, workload: Products | Marginals) -> tuple[Strategy | None, ...]:
    """For each attribute the strategy that `like` measures it by; None where it measures nothing of it.

    Raises:
        PlanError: no plan of products or marginals, another domain, or a strategy that sees too little of an attribute.
    """
    if not isinstance(like, LatticePlan):
        raise PlanError(f"like={like!r} is not a plan of products or marginals; only those share strategies.")
    if like.domain != workload.domain:
        raise PlanError("like is a plan over another domain; plan over one domain.")
    asked = as_products(workload)
    found: list[Strategy | None] = []
    for i, strategy in enumerate(like.strategies):
        if not like.measures(i):
            found.append(None)
            continue
        for rows in kinds_of(asked, i):
            if strategy.outside(rows.matrix()).max() > SUPPORT_TOLERANCE:
                raise PlanError(
                    f"like sees too little of {like.domain.names[i]!r} for what is asked of it here; plan the sum of "
                    "the workloads first, and then each of them like that."
                )
        found.append(strategy)
    return tuple(found)


def common_ground(workloads: Sequence[Marginals | Products | Explicit]) -> LatticePlan | None:
    """A plan for all these workloads of one domain together: plans like it can be combined.

    None where none is needed: for marginals alone, whose plans share strategies, and for few cells, over which plans of
    all kinds are combined.
    """
    listed = [workload for workload in workloads if isinstance(workload, Marginals | Products)]
    if len(listed) < 2 or not any(isinstance(workload, Products) for workload in listed):
        return None
    products = [as_products(workload) for workload in listed]
    used = {i for workload in products for family in workload.families for i in family.used}
    if math.prod(int(products[0].domain.sizes[i]) for i in used) <= MOST_COLUMNS:
        return None
    total = as_products(reduce(_sum, listed))
    return plan_products(total, ZCDP(0.5), 1.0, TotalVariance(), 1.0, AddRemove(), Effort(tolerance=1e-3))


def _sum(first: Marginals | Products, second: Marginals | Products) -> Marginals | Products:
    both = first + second
    assert isinstance(both, Marginals | Products)  # neither was explicit
    return both
