"""Small trees with unequal branching, as arrays and as dense matrices, for laws about plans over trees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import residua as rs


def measurements(n: int, seed: int = 3, **options) -> rs.CodeList:
    """Values in counties and states, in no order."""
    random = np.random.default_rng(seed)
    county = np.unique(np.sort(random.integers(0, max(n // 4, 2), n)), return_inverse=True)[1]
    order, state = random.permutation(n), county // 3
    groups = {"county": [f"c{c}" for c in county[order]], "state": [f"s{s}" for s in state[order]]}
    return rs.CodeList([f"b{i:04d}" for i in range(n)], levels=groups, **options)


def domain(n: int) -> rs.Domain:
    """A tree between two short attributes."""
    return rs.Domain({"sex": ["F", "M"], "block": measurements(n), "age": ["a", "b", "c"]})


def workload(given: rs.Domain):
    """All that a tree can be asked: levels, values, crossed to different depths, and tables without the tree."""
    return (
        rs.product(given, {"block": "hierarchy", "sex": "identity"})
        + rs.product(given, {"block": "state", "age": "identity", "sex": "identity"})
        + 3 * rs.marginals(given, [("age",)])
        + rs.product(given, {"block": "county"})
    )


def records(given: rs.Domain, rows: int, seed: int = 0) -> pa.Table:
    """Records, more of some values than of others."""
    random = np.random.default_rng(seed)
    columns = {}
    for name in given.names:
        labels = pa.array([str(label) for label in given[name].labels])
        columns[name] = labels.take(pa.array((random.random(rows) ** 2 * len(labels)).astype(int)))
    return pa.table(columns)


def tables(given: rs.Domain, data: pa.Table) -> np.ndarray:
    """The true table over all cells."""
    codes = [np.array([list(given[n].labels).index(x) for x in data[n].to_pylist()]) for n in given.names]
    flat = np.ravel_multi_index(codes, given.sizes)
    return np.bincount(flat, minlength=int(np.prod(given.sizes))).reshape(given.sizes)
