"""What files say of plans, as plain values: domain, guarantee, unit, objective and gap."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from residua.domain import settings_of_domain
from residua.plans.contract import Plan
from residua.plans.noise import LAPLACE
from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, Guarantee, Person, PureDP, ReplaceOne, Unit

_GUARANTEES = {"zcdp": ZCDP, "gdp": GDP, "approx": ApproxDP, "pure": PureDP}


def guarantee_to_body(guarantee: Guarantee | None) -> dict[str, Any] | None:
    """A guarantee as plain values."""
    if guarantee is None:
        return None
    kind = next(kind for kind, cls in _GUARANTEES.items() if isinstance(guarantee, cls))
    return {"kind": kind, **vars(guarantee)}


def guarantee_of_body(body: dict[str, Any] | None) -> Guarantee | None:
    """The guarantee that plain values describe."""
    if body is None:
        return None
    parameters = {key: value for key, value in body.items() if key != "kind"}
    return cast("Guarantee", _GUARANTEES[body["kind"]](**parameters))


def unit_to_body(unit: Unit) -> dict[str, Any]:
    """A unit of protection as plain values."""
    if isinstance(unit, Person):
        return {"kind": "person", "records": unit.records, "per": unit.limits}
    return {"kind": "replace"} if isinstance(unit, ReplaceOne) else {"kind": "add-remove", **vars(unit)}


def unit_of_body(body: dict[str, Any]) -> Unit:
    """The unit of protection that plain values describe."""
    if body["kind"] == "person":
        return Person(body["records"], per=body["per"])
    return ReplaceOne() if body["kind"] == "replace" else AddRemove(body["records"])


def head_to_body(kind: str, plan: Plan) -> dict[str, Any]:
    """What all kinds of plans have."""
    return {
        "kind": kind,
        "domain": settings_of_domain(plan.domain),
        "unit": unit_to_body(plan.unit),
        "guarantee": guarantee_to_body(plan.guarantee),
        "objective": plan.objective,
        "gap": plan.gap if math.isfinite(plan.gap) else None,
    }


def head_of_body(body: dict[str, Any]) -> dict[str, Any]:
    """The fields that plain values give to every kind of plan, except the domain."""
    return {
        "guarantee": guarantee_of_body(body["guarantee"]),
        "unit": unit_of_body(body["unit"]),
        "objective": str(body["objective"]),
        "gap": math.inf if body["gap"] is None else float(body["gap"]),
    }


def check_claims(plan: Plan) -> None:
    """Refuses a plan that costs more than it claims.

    Raises:
        ValueError: it does, or its gap is no gap.
    """
    if not plan.gap >= 0:
        raise ValueError("its gap means nothing")
    # An ulp or so may be lost between a cost, its guarantee, and the cost that one allows.
    if plan.noise == LAPLACE:
        if not isinstance(plan.guarantee, PureDP) or plan.unit_epsilon > plan.guarantee.epsilon * (1 + 1e-9):
            raise ValueError("its guarantee is smaller than what it costs")
        return
    allowed = 0.0 if plan.guarantee is None else float(plan.guarantee.pcost_allowed()) * (1 + 1e-9)
    if plan.unit_pcost > allowed:
        raise ValueError("it costs more than it claims")


def integers_of_body(values: Any) -> Any:
    """An array of whole numbers."""
    array = np.array(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError("what should be whole numbers is not")
    return array
