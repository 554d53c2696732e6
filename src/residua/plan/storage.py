"""Plans as JSON files: versioned, with a digest, without pickle."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from residua.domain import domain_of_settings, settings_of_domain
from residua.errors import FileError, ResiduaError
from residua.files import read_document, write_document
from residua.linalg.lattice import Lattice, closure
from residua.plan.residual import ResidualPlan
from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, Guarantee, PureDP, ReplaceOne, Unit
from residua.workload import Marginals

KIND, VERSION = "residua plan", 1
_GUARANTEES = {"zcdp": ZCDP, "gdp": GDP, "approx": ApproxDP, "pure": PureDP}


def save_plan(plan: ResidualPlan, path: Path) -> None:
    """Writes a plan."""
    write_document(path, KIND, VERSION, plan_to_body(plan))


def load_plan(path: Path) -> ResidualPlan:
    """Reads a plan, refusing a file that was changed."""
    body = read_document(path, KIND, VERSION)
    try:
        return plan_of_body(body)
    except (KeyError, TypeError, IndexError, ValueError, OverflowError, ResiduaError) as problem:
        raise FileError(f"{str(path)!r} does not hold a valid plan ({problem}); plan again.") from None


def plan_to_body(plan: ResidualPlan) -> dict[str, Any]:
    """A plan as plain values."""
    workload = plan.workload
    return {
        "kind": "residual",
        "domain": settings_of_domain(plan.domain),
        "unit": unit_to_body(plan.unit),
        "guarantee": guarantee_to_body(plan.guarantee),
        "objective": plan.objective,
        "gap": plan.gap if math.isfinite(plan.gap) else None,
        "sets": [{"size": k, "members": level.ravel().tolist()} for k, level in enumerate(plan.lattice.levels)],
        "precisions": plan.precisions.tolist(),
        "workload": workload and {"sets": workload.numbers.tolist(), "weights": workload.weights.tolist()},
    }


def plan_of_body(body: dict[str, Any]) -> ResidualPlan:
    """The plan that plain values describe; every invariant is checked again."""
    domain = domain_of_settings(body["domain"])
    levels = [
        np.array(level["members"], dtype=np.int32).reshape(-1 if k else 1, k) for k, level in enumerate(body["sets"])
    ]
    if any(level.size and not 0 <= level.min() <= level.max() < len(domain) for level in levels):
        raise ValueError("a set names an attribute the domain lacks")
    if any((np.diff(level, axis=1) <= 0).any() for level in levels):
        raise ValueError("a set is not sorted")
    lattice = closure(levels, len(domain))
    if not lattice.same_sets(Lattice(len(domain), tuple(levels))):
        raise ValueError("its sets are not a sorted, downward-closed family")
    asked = body["workload"]
    workload = None
    if asked is not None:
        numbers, weights = (
            np.array(asked["sets"], dtype=np.int64),
            np.array(asked["weights"], dtype=np.float64),
        )
        if len(numbers) != len(weights) or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(lattice)):
            raise ValueError("its workload asks for sets it lacks")
        if len(set(numbers.tolist())) < len(numbers) or not (np.isfinite(weights) & (weights > 0)).all():
            raise ValueError("its workload asks for a set twice, or with a weight that is not positive")
        workload = Marginals(domain, lattice, numbers, weights)
    made = ResidualPlan(
        domain=domain,
        lattice=lattice,
        precisions=np.array(body["precisions"], dtype=np.float64),
        guarantee=guarantee_of_body(body["guarantee"]),
        unit=unit_of_body(body["unit"]),
        workload=workload,
        objective=body["objective"],
        gap=math.inf if body["gap"] is None else float(body["gap"]),
    )
    # An ulp or so may be lost between a cost, its guarantee, and the cost that one allows.
    allowed = 0.0 if made.guarantee is None else float(made.guarantee.pcost_allowed()) * (1 + 1e-9)
    if made.unit_pcost > allowed:
        raise ValueError("it costs more than it claims")
    return made


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
    made: Guarantee = _GUARANTEES[body["kind"]](**parameters)
    return made


def unit_to_body(unit: Unit) -> dict[str, Any]:
    """A unit of protection as plain values."""
    return {"kind": "replace"} if isinstance(unit, ReplaceOne) else {"kind": "add-remove", **vars(unit)}


def unit_of_body(body: dict[str, Any]) -> Unit:
    """The unit of protection that plain values describe."""
    return ReplaceOne() if body["kind"] == "replace" else AddRemove(body["records"])
