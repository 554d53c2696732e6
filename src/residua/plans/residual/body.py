"""Residual plans as plain values, for files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, domain_of_settings
from residua.linalg.lattice import Lattice, distinct_rows
from residua.plans.bodies import check_claims, head_of_body, head_to_body
from residua.plans.residual.plan import ResidualPlan
from residua.workload import Marginals, renumber


def residual_to_body(plan: ResidualPlan) -> dict[str, Any]:
    """A plan as plain values."""
    return {
        **head_to_body("residual", plan),
        "sets": lattice_to_body(plan.lattice),
        "precisions": plan.precisions.tolist(),
        "workload": workload_to_body(plan.workload, plan.lattice),
    }


def residual_of_body(body: dict[str, Any]) -> ResidualPlan:
    """The plan that plain values describe; every invariant is checked again."""
    domain = domain_of_settings(body["domain"])
    lattice = lattice_of_body(body["sets"], len(domain))
    workload = workload_of_body(domain, lattice, body["workload"])
    made = ResidualPlan(
        domain=domain,
        lattice=lattice,
        precisions=np.array(body["precisions"], dtype=np.float64),
        workload=workload,
        **head_of_body(body),
    )
    check_claims(made)
    return made


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


def workload_to_body(workload: Marginals | None, lattice: Lattice) -> dict[str, Any] | None:
    """A workload as plain values, its sets by their numbers in a family that holds them."""
    if workload is None:
        return None
    numbers = workload.numbers
    if not workload.lattice.same_sets(lattice):
        numbers = renumber(workload.lattice, lattice)[numbers]
    return {"sets": numbers.tolist(), "weights": workload.weights.tolist()}


def workload_of_body(domain: Domain, lattice: Lattice, asked: dict[str, Any] | None) -> Marginals | None:
    """The workload that plain values describe."""
    return None if asked is None else Marginals(domain, lattice, *sets_of_body(asked, lattice))


def sets_of_body(asked: dict[str, Any], lattice: Lattice) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The numbers and weights of the sets a workload asks for."""
    numbers, weights = np.array(asked["sets"], dtype=np.int64), np.array(asked["weights"], dtype=np.float64)
    if len(numbers) != len(weights) or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(lattice)):
        raise ValueError("its workload asks for sets it lacks")
    if len(set(numbers.tolist())) < len(numbers) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError("its workload asks for a set twice, or with a weight that is not positive")
    return numbers, weights
