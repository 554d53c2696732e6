"""Pure plans as plain values, for files."""

from __future__ import annotations

from typing import Any

from residua.plans.matrix.body import strategy_of_body, strategy_to_body
from residua.plans.matrix.pure_plan import Candidate, PurePlan
from residua.privacy import PureDP


def pure_to_body(plan: PurePlan) -> dict[str, Any]:
    """A pure plan as plain values."""
    return {
        "kind": "pure",
        **strategy_to_body(plan),
        "candidates": [{"name": each.name, "loss": each.loss} for each in plan.candidates],
        "lower_bound": plan.lower_bound,
    }


def pure_of_body(body: dict[str, Any]) -> PurePlan:
    """The pure plan that plain values describe; every invariant is checked again."""
    plan = PurePlan(
        **strategy_of_body(body),
        candidates=tuple(Candidate(str(each["name"]), float(each["loss"])) for each in body["candidates"]),
        lower_bound=float(body["lower_bound"]),
    )
    if not plan.lower_bound >= 0:
        raise ValueError("its lower bound means nothing")
    if not isinstance(plan.guarantee, PureDP) or plan.unit_epsilon > plan.guarantee.epsilon * (1 + 1e-9):
        raise ValueError("its guarantee is smaller than what it costs")
    return plan
