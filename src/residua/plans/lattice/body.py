"""Product plans as plain values, for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.domain import Domain, domain_of_settings
from residua.plans.bodies import check_claims, head_of_body, head_to_body
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.residual_body import lattice_of_body, lattice_to_body, sets_of_body
from residua.plans.strategy import Strategy
from residua.workload import AttributeQueries, Family, Identity, MatrixRows, Products, attribute_queries
from residua.workload.marginals import Marginals


def product_to_body(plan: ProductPlan) -> dict[str, Any]:
    """A plan as plain values."""
    workload = plan.workload
    return {
        **head_to_body("product", plan),
        "sets": lattice_to_body(plan.lattice),
        "precisions": plan.precisions.tolist(),
        "strategies": [
            {"rows": None if strategy.rows is None else strategy.rows.tolist()} for strategy in plan.strategies
        ],
        "workload": workload and [_family_to_body(family, plan) for family in workload.families],
    }


def product_of_body(body: dict[str, Any]) -> ProductPlan:
    """The plan that plain values describe; every invariant is checked again."""
    domain = domain_of_settings(body["domain"])
    lattice = lattice_of_body(body["sets"], len(domain))
    workload = None
    if body["workload"] is not None:
        families = []
        for asked in body["workload"]:
            sets = Marginals(domain, lattice, *sets_of_body(asked, lattice))
            families.append(Family(sets, _queries_of_body(domain, asked["queries"])))
        workload = Products(domain, lattice, tuple(families))
    strategies = tuple(
        Strategy(int(size), None if one["rows"] is None else _rows(one["rows"], int(size)))
        for size, one in zip(domain.sizes, body["strategies"], strict=True)
    )
    made = ProductPlan(
        domain=domain,
        lattice=lattice,
        precisions=np.array(body["precisions"], dtype=np.float64),
        strategies=strategies,
        workload=workload,
        **head_of_body(body),
    )
    check_claims(made)
    return made


def _rows(values: list[list[int]], size: int) -> Any:
    rows = np.array(values, dtype=object).reshape(len(values), size)
    if not all(isinstance(entry, int) and abs(entry) < 2**62 for entry in rows.ravel()):
        raise ValueError("a strategy is not made of whole numbers")
    return rows.astype(np.int64)


def _family_to_body(family: Family, plan: ProductPlan) -> dict[str, Any]:
    queries = {
        plan.domain.names[i]: (
            {"rows": asked.given.tolist(), "names": list(asked.names)} if isinstance(asked, MatrixRows) else asked.kind
        )
        for i, asked in enumerate(family.queries)
        if not isinstance(asked, Identity)
    }
    return {"sets": family.sets.numbers.tolist(), "weights": family.sets.weights.tolist(), "queries": queries}


def _queries_of_body(domain: Domain, asked: dict[str, Any]) -> tuple[AttributeQueries, ...]:
    queries: list[AttributeQueries] = [Identity(int(n)) for n in domain.sizes]
    for name, kind in asked.items():
        found = attribute_queries(name, domain[name], kind if isinstance(kind, str) else kind["rows"])
        if isinstance(found, MatrixRows) and kind["names"]:
            found = MatrixRows(found.size, found.given, tuple(str(text) for text in kind["names"]))
        queries[domain.position(name)] = found
    return tuple(queries)
