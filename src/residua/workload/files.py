"""Workloads and families of sets as plain values, for files of plans, and back; what comes back is checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.linalg.arrays import Floats, Integers, Positions
from residua.linalg.lattice import SetFamily, distinct_rows
from residua.machine import coo_array, csr_array
from residua.workload.asking import rows_of_body
from residua.workload.pieces import Family, ListedQueries, TableTerms, identities
from residua.workload.workload import Workload


def workload_to_body(workload: Workload | None, lattice: SetFamily | None = None) -> dict[str, Any] | None:
    """What was asked as plain values.

    Args:
        workload: what was asked, if anything was.
        lattice: a family of sets that the file holds anyway; sets are numbered in it, and not written again.
    """
    if workload is None:
        return None
    pieces = [
        _tables_to_body(piece, lattice) if isinstance(piece, TableTerms) else _listed_to_body(piece)
        for piece in workload.pieces
    ]
    return {"pieces": pieces, "places": None if workload.places is None else workload.places.tolist()}


def workload_of_body(domain: Domain, body: dict[str, Any] | None, lattice: SetFamily | None = None) -> Workload | None:
    """What was asked, from plain values that `workload_to_body` made.

    Raises:
        ValueError: they describe no workload.
    """
    if body is None:
        return None
    pieces = tuple(
        _tables_of_body(domain, piece, lattice) if "families" in piece else _listed_of_body(domain, piece)
        for piece in body["pieces"]
    )
    if not pieces:
        raise ValueError("its workload asks for nothing")
    if body["places"] is None:
        return Workload(domain, pieces)
    if sorted(body["places"]) != list(range(sum(piece.queries for piece in pieces))):
        raise ValueError("its queries are not in places of their own")
    return Workload(domain, pieces, np.array(body["places"], dtype=np.int64))


def lattice_to_body(lattice: SetFamily) -> list[dict[str, Any]]:
    """A family of sets as plain values."""
    return [{"size": k, "members": level.ravel().tolist()} for k, level in enumerate(lattice.levels)]


def lattice_of_body(sets: list[dict[str, Any]], attributes: int) -> SetFamily:
    """The family of sets that plain values describe.

    Raises:
        ValueError: they are not a sorted, downward-closed family of sets of attributes.
    """
    levels = [np.array(level["members"], dtype=np.int32).reshape(-1 if k else 1, k) for k, level in enumerate(sets)]
    if any(level.size and not 0 <= level.min() <= level.max() < attributes for level in levels):
        raise ValueError("a set names an attribute the domain lacks")
    if any((np.diff(level, axis=1) <= 0).any() for level in levels):
        raise ValueError("a set is not sorted")
    # Level by level from the largest sets down, so that a set without its subsets is refused before they are listed.
    more: list[Positions] = []
    for k in range(len(levels) - 1, -1, -1):
        wanted = distinct_rows(np.concatenate([levels[k], *more]), attributes)
        if not len(levels[k]) or not np.array_equal(wanted, levels[k]):
            raise ValueError("its sets are not a sorted, downward-closed family")
        more = [np.delete(levels[k], j, axis=1) for j in range(k)]
        levels[k].setflags(write=False)
    return SetFamily(attributes, tuple(levels))


def positions_of_body(domain: Domain, listed: list[int]) -> tuple[int, ...]:
    """Positions of attributes, increasing.

    Raises:
        ValueError: they are not, or name none.
    """
    if listed != sorted(set(listed)) or any(not 0 <= i < len(domain) for i in listed):
        raise ValueError("it names an attribute the domain lacks")
    return tuple(listed)


def _tables_to_body(tables: TableTerms, lattice: SetFamily | None) -> dict[str, Any]:
    names = tables.domain.names
    families = [
        {
            "sets": family.numbers.tolist(),
            "weights": family.weights.tolist(),
            "queries": {names[i]: asked.to_body() for i, asked in enumerate(family.queries) if not asked.plain},
        }
        for family in (each if lattice is None else each.on(lattice) for each in tables.families)
    ]
    return {"families": families, "sets": lattice_to_body(tables.lattice) if lattice is None else None}


def _tables_of_body(domain: Domain, body: dict[str, Any], lattice: SetFamily | None) -> TableTerms:
    if lattice is None:
        lattice = lattice_of_body(body["sets"], len(domain))
    if not any(each["sets"] for each in body["families"]):
        raise ValueError("its workload asks for nothing")
    families = []
    for each in body["families"]:
        queries = list(identities(domain))
        for name, rows in each["queries"].items():
            queries[domain.position(name)] = rows_of_body(name, domain[name], rows)
        families.append(Family(lattice, *_sets_of_body(each, lattice), tuple(queries)))
    return TableTerms(domain, lattice, tuple(families))


def _sets_of_body(asked: dict[str, Any], lattice: SetFamily) -> tuple[Integers, Floats]:
    """The numbers and weights of the sets a family asks for."""
    numbers, weights = np.array(asked["sets"], dtype=np.int64), np.array(asked["weights"], dtype=np.float64)
    if len(numbers) != len(weights) or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(lattice)):
        raise ValueError("its workload asks for sets it lacks")
    if len(set(numbers.tolist())) < len(numbers) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError("its workload asks for a set twice, or with a weight that is not positive")
    return numbers, weights


def _listed_to_body(listed: ListedQueries) -> dict[str, Any]:
    rows = listed.matrix.tocoo()
    return {
        "attributes": list(listed.attributes),
        "labels": list(listed.labels),
        "weights": listed.weights.tolist(),
        "rows": rows.row.tolist(),
        "columns": rows.col.tolist(),
        "values": rows.data.tolist(),
    }


def _listed_of_body(domain: Domain, body: dict[str, Any]) -> ListedQueries:
    attributes = positions_of_body(domain, body["attributes"])
    shape = (len(body["labels"]), math.prod(int(domain.sizes[i]) for i in attributes))
    entries = (np.array(body["values"], dtype=np.float64), (body["rows"], body["columns"]))
    weights = np.array(body["weights"], dtype=np.float64)
    if len(weights) != shape[0] or not (weights > 0).all():
        raise ValueError("a query has no positive weight")
    return ListedQueries(domain, attributes, csr_array(coo_array(entries, shape=shape)), tuple(body["labels"]), weights)
