"""Plans that measure one integer matrix as plain values, for files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from residua.domain import Domain, domain_of_settings, settings_of_domain
from residua.plans.bodies import guarantee_of_body, guarantee_to_body, unit_of_body, unit_to_body
from residua.plans.matrix.strategy_plan import StrategyPlan
from residua.workload import Explicit


def strategy_to_body(plan: StrategyPlan) -> dict[str, Any]:
    """The fields of a strategy plan as plain values."""
    return {
        "domain": settings_of_domain(plan.domain),
        "attributes": list(plan.attributes),
        "columns": plan.columns.tolist(),
        "strategy": plan.strategy.tolist(),
        "scale": plan.scale,
        "unit": unit_to_body(plan.unit),
        "guarantee": guarantee_to_body(plan.guarantee),
        "objective": plan.objective,
        "gap": plan.gap if math.isfinite(plan.gap) else None,
        "bias": plan.bias,
        "workload": None if plan.workload is None else _workload_to_body(plan.workload),
    }


def strategy_of_body(body: dict[str, Any]) -> dict[str, Any]:
    """The fields that plain values describe, by name; those that are numbers mean something."""
    domain = domain_of_settings(body["domain"])
    gap = math.inf if body["gap"] is None else float(body["gap"])
    scale, bias = float(body["scale"]), float(body["bias"])
    if not (gap >= 0 and bias >= 0 and scale > 0):
        raise ValueError("its gap, bias or noise scale means nothing")
    return {
        "domain": domain,
        "attributes": _positions(domain, body["attributes"]),
        "columns": _integers(body["columns"]),
        # A plan with nothing left to measure has no rows, but columns all the same.
        "strategy": _integers(body["strategy"] or np.zeros((0, max(body["columns"]) + 1), dtype=np.int64)),
        "scale": scale,
        "guarantee": guarantee_of_body(body["guarantee"]),
        "unit": unit_of_body(body["unit"]),
        "workload": None if body["workload"] is None else _workload_of_body(domain, body["workload"]),
        "objective": str(body["objective"]),
        "gap": gap,
        "bias": bias,
    }


def _integers(values: Any) -> Any:
    found = np.array(values)
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError("what should be whole numbers is not")
    return found


def _positions(domain: Domain, listed: list[int]) -> tuple[int, ...]:
    if listed != sorted(set(listed)) or any(not 0 <= i < len(domain) for i in listed):
        raise ValueError("it names an attribute the domain lacks")
    return tuple(listed)


def _workload_to_body(workload: Explicit) -> dict[str, Any]:
    rows = workload.matrix.tocoo()
    return {
        "attributes": list(workload.attributes),
        "labels": list(workload.labels),
        "weights": workload.weights.tolist(),
        "rows": rows.row.tolist(),
        "columns": rows.col.tolist(),
        "values": rows.data.tolist(),
    }


def _workload_of_body(domain: Domain, body: dict[str, Any]) -> Explicit:
    from scipy.sparse import coo_array, csr_array

    attributes = _positions(domain, body["attributes"])
    shape = (len(body["labels"]), math.prod(int(domain.sizes[i]) for i in attributes))
    entries = (np.array(body["values"], dtype=np.float64), (body["rows"], body["columns"]))
    weights = np.array(body["weights"], dtype=np.float64)
    if len(weights) != shape[0] or not (weights > 0).all():
        raise ValueError("a query has no positive weight")
    return Explicit(domain, attributes, csr_array(coo_array(entries, shape=shape)), tuple(body["labels"]), weights)
