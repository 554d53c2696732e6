"""What a matrix plan is made of as plain values, for files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.workload import Explicit


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


def workload_to_body(workload: Explicit) -> dict[str, Any]:
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


def workload_of_body(domain: Domain, body: dict[str, Any]) -> Explicit:
    """The queries that plain values describe."""
    from scipy.sparse import coo_array, csr_array

    attributes = positions_of_body(domain, body["attributes"])
    shape = (len(body["labels"]), math.prod(int(domain.sizes[i]) for i in attributes))
    entries = (np.array(body["values"], dtype=np.float64), (body["rows"], body["columns"]))
    weights = np.array(body["weights"], dtype=np.float64)
    if len(weights) != shape[0] or not (weights > 0).all():
        raise ValueError("a query has no positive weight")
    return Explicit(domain, attributes, csr_array(coo_array(entries, shape=shape)), tuple(body["labels"]), weights)
