"""What files say of product plans, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.domain import Domain, domain_of_settings
from residua.plans.bodies import check_claims, head_of_body, head_to_body
from residua.plans.candidates import candidates_of_body, candidates_to_body
from residua.plans.operators.contract import operator_of_body
from residua.plans.packing import with_texts, with_texts_once
from residua.plans.strategy import strategy_of_body
from residua.workload.files import lattice_of_body, lattice_to_body, workload_of_body, workload_to_body


def product_to_body(plan: Any) -> dict[str, Any]:
    """A plan as plain values: operators by set, or a number per set; strategies only where some are not plain."""
    head = head_to_body("product", plan)
    proofs = {"candidates": candidates_to_body(plan.candidates), "lower_bound": plan.lower_bound}
    if plan.attribute >= 0:
        texts: list[str] = []  # long texts, which operators share, are kept once
        parts = [{"members": list(members), "operator": each.to_body()} for members, each in plan.parts.items()]
        kept = {"attribute": plan.attribute, "parts": with_texts_once(parts, texts), "texts": texts}
        return {**head, **kept, **proofs, "workload": workload_to_body(plan.workload)}
    named, numbers = ("precisions", plan.precisions) if plan.shares is None else ("shares", plan.shares)
    plain = plan.plain and (plan.workload is None or plan.workload.plain)
    strategies = None if plain else [strategy.to_body() for strategy in plan.strategies]
    kept = {"sets": lattice_to_body(plan.lattice), named: numbers.tolist(), "strategies": strategies}
    return {**head, **kept, **proofs, "workload": workload_to_body(plan.workload, plan.lattice)}


def product_of_body(cls: Any, body: dict[str, Any]) -> Any:
    """The plan of this class that plain values describe; every invariant is checked again, and its price."""
    domain = domain_of_settings(body["domain"])
    bound = float(body["lower_bound"])
    if not bound >= 0:
        raise ValueError("its lower bound means nothing")
    rest = {**head_of_body(body), "candidates": candidates_of_body(body["candidates"]), "lower_bound": bound}
    plan = _along(cls, domain, body, rest) if "parts" in body else _of_sets(cls, domain, body, rest)
    check_claims(plan)
    return plan


def _along(cls: Any, domain: Domain, body: dict[str, Any], rest: dict[str, Any]) -> Any:
    attribute, known = int(body["attribute"]), dict[str, Any]()
    if not 0 <= attribute < len(domain):
        raise ValueError("it measures an attribute that the domain lacks")
    along = domain[domain.names[attribute]]
    parts = {}
    for part in body["parts"]:
        members = tuple(int(i) for i in part["members"])
        if list(members) != sorted({*members} & set(range(len(domain)))) or attribute in members or members in parts:
            raise ValueError("it measures a set of attributes twice, or one that there is not")
        parts[members] = operator_of_body(with_texts(part["operator"], body["texts"]), along, known)
    return cls.along(domain, attribute, parts, workload=workload_of_body(domain, body["workload"]), **rest)


def _of_sets(cls: Any, domain: Domain, body: dict[str, Any], rest: dict[str, Any]) -> Any:
    lattice = lattice_of_body(body["sets"], len(domain))
    rest = {**rest, "workload": workload_of_body(domain, body["workload"], lattice)}
    if "shares" in body:
        return cls.of_tables(domain, lattice, np.array(body["shares"], dtype=np.float64), **rest)
    if body["strategies"] is not None:
        sized = zip(body["strategies"], domain.sizes.tolist(), strict=True)
        rest["strategies"] = tuple(strategy_of_body(each, size) for each, size in sized)
    return cls(domain, lattice, np.array(body["precisions"], dtype=np.float64), **rest)
