"""Dense plans as plain values, for files."""

from __future__ import annotations

from typing import Any

from residua.plans.matrix.body import strategy_of_body, strategy_to_body
from residua.plans.matrix.plan import DensePlan


def dense_to_body(plan: DensePlan) -> dict[str, Any]:
    """A dense plan as plain values."""
    return {"kind": "dense", **strategy_to_body(plan)}


def dense_of_body(body: dict[str, Any]) -> DensePlan:
    """The dense plan that plain values describe; every invariant is checked again."""
    plan = DensePlan(**strategy_of_body(body))
    # A plan that measures nothing promises nothing.
    if plan.unit_pcost > (0.0 if plan.guarantee is None else float(plan.guarantee.pcost_allowed()) * (1 + 1e-9)):
        raise ValueError("its guarantee is smaller than what it costs")
    return plan
