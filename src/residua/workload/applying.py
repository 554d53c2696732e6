"""The queries of a term applied to a marginal, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.modes import along
from residua.workload.attribute_queries import AttributeQueries, Identity
from residua.workload.ordered import Prefixes, Ranges


def applied(term: Sequence[tuple[int, AttributeQueries]], marginal: Floats) -> Floats:
    """The queries of a term, (rows_1, …, rows_k), from the marginal on its attributes, (n_1, …, n_k)."""
    for axis, (_, asked) in enumerate(term):
        marginal = _along(asked, marginal, axis)
    return marginal


def _along(asked: AttributeQueries, tables: Floats, axis: int) -> Floats:
    """W along an axis; prefixes and ranges by running sums, so that their many rows are never written out."""
    if isinstance(asked, Identity):
        return tables
    if not isinstance(asked, Prefixes | Ranges):
        return along(asked.matrix(), tables, axis)
    moved = np.moveaxis(tables, axis, 0)
    sums = np.cumsum(moved[: asked.ordered], axis=0)
    if isinstance(asked, Ranges):
        first, last = np.triu_indices(asked.ordered)
        before = np.concatenate([np.zeros((1, *sums.shape[1:])), sums])
        sums = before[last + 1] - before[first]
    if asked.other:
        sums = np.concatenate([sums, moved[-1:]])
    return np.moveaxis(sums, 0, axis)
