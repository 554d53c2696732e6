"""A plan along one axis as a lattice plan: the same noise, which then combines with plans that share it."""

from __future__ import annotations

import numpy as np

from residua.linalg.lattice import closure
from residua.plans.axis.plan import AxisPlan
from residua.plans.axis.strategy import Ordered
from residua.plans.lattice.plan import LatticePlan
from residua.plans.strategy import plain_strategies


def lattice_of(plan: AxisPlan) -> LatticePlan:
    """The lattice plan that measures the same of its axis; its grid may be another."""
    domain, axis = plan.domain, plan.attribute
    factor = 2.0 ** np.round(np.log2(plan.pcost))  # so that weights are the same but for a power of two
    strategy = Ordered(plan.size, plan.asked, plan.q, plan.poles, plan.weights * factor)
    strategies = list(plain_strategies(domain.sizes))
    strategies[axis] = strategy
    lattice = closure([np.array([[axis]], dtype=np.int32)], len(domain))
    return LatticePlan(
        domain,
        lattice,
        np.array([0.0, factor]),
        plan.guarantee,
        plan.unit,
        plan.workload,
        plan.objective,
        plan.gap,
        tuple(strategies),
    )
