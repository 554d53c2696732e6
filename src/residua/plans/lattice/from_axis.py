"""A plan along one attribute alone as a lattice plan: the same noise, which then combines with plans that share it."""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.linalg.lattice import closure
from residua.plans.lattice.plan import LatticePlan
from residua.plans.strategy import plain_strategies


def lattice_of(plan: Any) -> LatticePlan:
    """The lattice plan that measures the same of its attribute; its grid may be another."""
    path = plan.correlated
    strategies = list(plain_strategies(plan.domain.sizes))
    strategies[plan.attribute] = path.strategy
    lattice = closure([np.array([[plan.attribute]], dtype=np.int32)], len(plan.domain))
    return LatticePlan(
        plan.domain,
        lattice,
        np.array([0.0, 1.0 / path.factor]),
        plan.guarantee,
        plan.unit,
        plan.workload,
        plan.objective,
        plan.gap,
        tuple(strategies),
    )
