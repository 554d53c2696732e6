"""Families of sets and workloads over them as plain values, for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.domain import Domain
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice, closure
from residua.workload import (
    AttributeQueries,
    Family,
    Identity,
    Marginals,
    MatrixRows,
    Products,
    attribute_queries,
    renumber,
)


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
    lattice = closure(levels, attributes)
    if not lattice.same_sets(Lattice(attributes, tuple(levels))):
        raise ValueError("its sets are not a sorted, downward-closed family")
    return lattice


def marginals_to_body(workload: Marginals | None, lattice: Lattice) -> dict[str, Any] | None:
    """Marginals as plain values, their sets by their numbers in a family that holds them."""
    if workload is None:
        return None
    numbers = workload.numbers
    if not workload.lattice.same_sets(lattice):
        numbers = renumber(workload.lattice, lattice)[numbers]
    return {"sets": numbers.tolist(), "weights": workload.weights.tolist()}


def marginals_of_body(domain: Domain, lattice: Lattice, asked: dict[str, Any] | None) -> Marginals | None:
    """The marginals that plain values describe."""
    return None if asked is None else Marginals(domain, lattice, *_sets_of_body(asked, lattice))


def products_to_body(workload: Products | None) -> list[dict[str, Any]] | None:
    """Products as plain values, family by family."""
    return None if workload is None else [_family_to_body(family, workload.domain) for family in workload.families]


def products_of_body(domain: Domain, lattice: Lattice, asked: list[dict[str, Any]] | None) -> Products | None:
    """The products that plain values describe."""
    if asked is None:
        return None
    families = []
    for each in asked:
        sets = Marginals(domain, lattice, *_sets_of_body(each, lattice))
        families.append(Family(sets, _queries_of_body(domain, each["queries"])))
    return Products(domain, lattice, tuple(families))


def _sets_of_body(asked: dict[str, Any], lattice: Lattice) -> tuple[Integers, Floats]:
    """The numbers and weights of the sets a workload asks for."""
    numbers, weights = np.array(asked["sets"], dtype=np.int64), np.array(asked["weights"], dtype=np.float64)
    if len(numbers) != len(weights) or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(lattice)):
        raise ValueError("its workload asks for sets it lacks")
    if len(set(numbers.tolist())) < len(numbers) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError("its workload asks for a set twice, or with a weight that is not positive")
    return numbers, weights


def _family_to_body(family: Family, domain: Domain) -> dict[str, Any]:
    queries = {
        domain.names[i]: (
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
