"""What files say of plans, as plain values: domain, guarantee, unit, objective, gap, sets and workloads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, settings_of_domain
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice, distinct_rows
from residua.plans.contract import Plan
from residua.plans.noise import LAPLACE
from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, Guarantee, Person, PureDP, ReplaceOne, Unit
from residua.workload import (
    AttributeQueries,
    Family,
    Workload,
    identities,
    renumber,
    rows_of_body,
)

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
    made: Guarantee = _GUARANTEES[body["kind"]](**parameters)
    return made


def unit_to_body(unit: Unit) -> dict[str, Any]:
    """A unit of protection as plain values."""
    if isinstance(unit, Person):  # at_most, not records: versions before 0.2 would take it for AddRemove
        return {"kind": "person", "at_most": unit.records, "per": unit.limits}
    return {"kind": "replace"} if isinstance(unit, ReplaceOne) else {"kind": "add-remove", **vars(unit)}


def unit_of_body(body: dict[str, Any]) -> Unit:
    """The unit of protection that plain values describe."""
    if body["kind"] == "person":
        return Person(body["at_most"], per=body["per"])
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


def lattice_to_body(lattice: Lattice) -> list[dict[str, Any]]:
    """A family of sets as plain values."""
    return [{"size": k, "members": level.ravel().tolist()} for k, level in enumerate(lattice.levels)]


def lattice_of_body(sets: list[dict[str, Any]], attributes: int) -> Lattice:
    """The family of sets that plain values describe."""
    levels = [np.array(level["members"], dtype=np.int32).reshape(-1 if k else 1, k) for k, level in enumerate(sets)]
    if any(level.size and not 0 <= level.min() <= level.max() < attributes for level in levels):
        raise ValueError("a set names an attribute the domain lacks")
    if any((np.diff(level, axis=1) <= 0).any() for level in levels):
        raise ValueError("a set is not sorted")
    # Level by level from the largest sets down, so that a set without its subsets is refused before they are listed.
    more: list[NDArray[np.int32]] = []
    for k in range(len(levels) - 1, -1, -1):
        wanted = distinct_rows(np.concatenate([levels[k], *more]), attributes)
        if not len(levels[k]) or not np.array_equal(wanted, levels[k]):
            raise ValueError("its sets are not a sorted, downward-closed family")
        more = [np.delete(levels[k], j, axis=1) for j in range(k)]
        levels[k].setflags(write=False)
    return Lattice(attributes, tuple(levels))


def marginals_to_body(workload: Workload | None, lattice: Lattice) -> dict[str, Any] | None:
    """Marginals as plain values, their sets by their numbers in a family that holds them."""
    if workload is None:
        return None
    numbers = workload.numbers
    if not workload.lattice.same_sets(lattice):
        numbers = renumber(workload.lattice, lattice)[numbers]
    return {"sets": numbers.tolist(), "weights": workload.weights.tolist()}


def marginals_of_body(domain: Domain, lattice: Lattice, asked: dict[str, Any] | None) -> Workload | None:
    """The marginals that plain values describe."""
    return None if asked is None else Workload.of_marginals(domain, lattice, *_sets_of_body(asked, lattice))


def products_to_body(workload: Workload | None) -> list[dict[str, Any]] | None:
    """Products as plain values, family by family."""
    return None if workload is None else [_family_to_body(family, workload.domain) for family in workload.families]


def products_of_body(domain: Domain, lattice: Lattice, asked: list[dict[str, Any]] | None) -> Workload | None:
    """The products that plain values describe."""
    if asked is None:
        return None
    if not any(each["sets"] for each in asked):
        raise ValueError("its workload asks for nothing")
    families = []
    for each in asked:
        numbers, weights = _sets_of_body(each, lattice)
        families.append(Family(lattice, numbers, weights, _queries_of_body(domain, each["queries"])))
    return Workload.of_families(domain, lattice, tuple(families))


def asked_to_body(workload: Workload | None, key: str = "workload") -> dict[str, Any]:
    """What was asked, with its own family of sets, for plans that keep no other family."""
    sets = None if workload is None else lattice_to_body(workload.lattice)
    return {"sets": sets, key: products_to_body(workload)}


def asked_of_body(domain: Domain, body: dict[str, Any], key: str = "workload") -> Workload | None:
    """What was asked, from plain values that `asked_to_body` made."""
    return (
        None
        if body["sets"] is None
        else products_of_body(domain, lattice_of_body(body["sets"], len(domain)), body[key])
    )


def _sets_of_body(asked: dict[str, Any], lattice: Lattice) -> tuple[Integers, Floats]:
    """The numbers and weights of the sets a workload asks for."""
    numbers, weights = np.array(asked["sets"], dtype=np.int64), np.array(asked["weights"], dtype=np.float64)
    if len(numbers) != len(weights) or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(lattice)):
        raise ValueError("its workload asks for sets it lacks")
    if len(set(numbers.tolist())) < len(numbers) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError("its workload asks for a set twice, or with a weight that is not positive")
    return numbers, weights


def _family_to_body(family: Family, domain: Domain) -> dict[str, Any]:
    queries = {domain.names[i]: asked.to_body() for i, asked in enumerate(family.queries) if not asked.plain}
    return {"sets": family.numbers.tolist(), "weights": family.weights.tolist(), "queries": queries}


def _queries_of_body(domain: Domain, asked: dict[str, Any]) -> tuple[AttributeQueries, ...]:
    queries = list(identities(domain))
    for name, body in asked.items():
        queries[domain.position(name)] = rows_of_body(name, domain[name], body)
    return tuple(queries)


def integers_of_body(values: Any) -> Any:
    """An array of whole numbers."""
    found = np.array(values)
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError("what should be whole numbers is not")
    return found


def positions_of_body(domain: Domain, listed: list[int]) -> tuple[int, ...]:
    """Positions of attributes, increasing."""
    if listed != sorted(set(listed)) or any(not 0 <= i < len(domain) for i in listed):
        raise ValueError("it names an attribute the domain lacks")
    return tuple(listed)


def workload_to_body(workload: Workload) -> dict[str, Any]:
    """Queries as plain values."""
    rows = workload.matrix.tocoo()
    return {
        "attributes": list(workload.attributes),
        "labels": list(workload.labels),
        "weights": workload.weights.tolist(),
        "rows": rows.row.tolist(),
        "columns": rows.col.tolist(),
        "values": rows.data.tolist(),
    }


def workload_of_body(domain: Domain, body: dict[str, Any]) -> Workload:
    """The queries that plain values describe."""
    from scipy.sparse import coo_array, csr_array

    attributes = positions_of_body(domain, body["attributes"])
    shape = (len(body["labels"]), math.prod(int(domain.sizes[i]) for i in attributes))
    entries = (np.array(body["values"], dtype=np.float64), (body["rows"], body["columns"]))
    weights = np.array(body["weights"], dtype=np.float64)
    if len(weights) != shape[0] or not (weights > 0).all():
        raise ValueError("a query has no positive weight")
    return Workload.of_matrix(
        domain, attributes, csr_array(coo_array(entries, shape=shape)), tuple(body["labels"]), weights
    )


def any_workload_to_body(workload: Workload | None) -> dict[str, Any] | None:
    """A workload of any kind as plain values, with the kind."""
    if workload is None:
        return None
    if workload.in_parts:
        parts, places = zip(*workload.placed(), strict=True)
        bodies = [any_workload_to_body(part) for part in parts]
        return {"kind": "joint", "parts": bodies, "places": np.concatenate(places).tolist()}
    if not workload.tabular:
        return {"kind": "explicit", "asked": workload_to_body(workload)}
    return {"kind": "products", "sets": lattice_to_body(workload.lattice), "asked": products_to_body(workload)}


def any_workload_of_body(domain: Domain, body: dict[str, Any] | None) -> Workload | None:
    """The workload that plain values describe."""
    if body is None:
        return None
    if body["kind"] == "joint":
        parts = [any_workload_of_body(domain, part) for part in body["parts"]]
        places = np.array(body["places"], dtype=np.int64)
        if not parts or sorted(body["places"]) != list(range(sum(part.queries for part in parts if part is not None))):
            raise ValueError("its queries are not in places of their own")
        return Workload.of_parts([part for part in parts if part is not None], places)
    if body["kind"] == "explicit":
        return workload_of_body(domain, body["asked"])
    return products_of_body(domain, lattice_of_body(body["sets"], len(domain)), body["asked"])
