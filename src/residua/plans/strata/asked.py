"""What a workload asks of the groups, and what of the table within each.

Every query is a sum over groups, `Σ_g Σ_u c_gu (query u of the table of group g)`. Of a product, `c` is a product too:
rows over the groups times rows within. Other queries are taken apart group by group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers, sparse_kronecker
from residua.machine import coo_array, csr_array, eye_array
from residua.workload import AttributeQueries, Workload, product

_MOST_ENTRIES = 2**27


@dataclass(frozen=True, eq=False)
class GroupQueries:
    """Queries of one kind: rows over the groups crossed with queries within, or any combination of both.

    Args:
        inner: the queries within a group, which ask nothing of the attributes that make groups.
        rows: coefficients over the groups, (rows, groups), for a product: its queries are (rows, queries within).
        mixed: coefficients over groups and queries within, (queries, groups · queries within), for anything else.
        order: for a product, which of the queries (rows, queries within) comes at each place.
    """

    inner: Workload
    rows: csr_array | None
    mixed: csr_array | None
    order: Integers | None

    @property
    def queries(self) -> int:
        """How many queries."""
        if self.mixed is not None:
            return int(self.mixed.shape[0])
        assert self.rows is not None
        return int(self.rows.shape[0]) * self.inner.queries

    def over(self) -> csr_array:
        """Coefficients over groups and queries within, (queries, groups · queries within).

        Raises:
            PlanError: too many for a matrix.
        """
        if self.mixed is not None:
            return self.mixed
        assert self.rows is not None
        if self.rows.nnz * self.inner.queries > _MOST_ENTRIES:
            raise PlanError("these are too many queries for one matrix over groups; ask for fewer.")
        assert self.order is not None
        return sparse_kronecker([self.rows, csr_array(eye_array(self.inner.queries))])[self.order]

    def summed(self, kinds: Integers, squares: Floats) -> Floats:
        """Variances of the queries from those within a group of each kind, infinite where one cannot be answered.

        Args:
            kinds: the kind of each group, (groups,).
            squares: the variances of the queries within, (kinds, queries within).
        """
        known, unknown = np.where(np.isfinite(squares), squares, 0.0), ~np.isfinite(squares)
        if self.mixed is not None:
            at = self.mixed.tocoo()
            group, query = np.divmod(at.coords[1], self.inner.queries)
            variances = np.bincount(at.coords[0], at.data**2 * known[kinds[group], query], minlength=self.queries)
            lost = np.bincount(at.coords[0], unknown[kinds[group], query] & (at.data != 0), minlength=self.queries)
            return np.where(lost > 0, np.inf, variances)
        assert self.rows is not None
        assert self.order is not None
        of_kind = csr_array((np.ones(len(kinds)), (np.arange(len(kinds)), kinds)), shape=(len(kinds), len(squares)))
        weights = (self.rows.multiply(self.rows) @ of_kind).toarray()
        variances = np.asarray(weights @ known)
        variances[(weights > 0).astype(np.float32) @ unknown > 0] = np.inf
        return np.asarray(variances.ravel()[self.order])


def parts_of(domain: Domain, by: Sequence[int], workload: Workload) -> Iterator[GroupQueries]:
    """The queries of a workload in their order, part by part."""
    if not workload.tabular:
        yield _explicit(domain, by, workload)
        return
    for term in workload.terms():
        yield _product(domain, by, term)


def _product(domain: Domain, by: Sequence[int], term: Sequence[tuple[int, AttributeQueries]]) -> GroupQueries:
    asked = dict(term)
    rows = sparse_kronecker(
        asked[i].sparse() if i in asked else csr_array(np.ones((1, int(domain.sizes[i])))) for i in by
    )
    within = {i: each for i, each in term if i not in by}
    inner = product(
        domain, {domain.names[i]: each for i, each in within.items()}, sets=[[domain.names[i] for i in within]]
    )
    moved = [*(i for i, _ in term if i in by), *within]
    places = np.arange(rows.shape[0] * inner.queries).reshape([asked[i].rows for i in moved])
    return GroupQueries(inner, rows, None, places.transpose([moved.index(i) for i, _ in term]).ravel())


def _explicit(domain: Domain, by: Sequence[int], workload: Workload) -> GroupQueries:
    within = tuple(i for i in workload.attributes if i not in by)
    members = tuple(sorted({*by, *within}))
    cells = workload.over(members).tocoo()
    codes = np.unravel_index(cells.coords[1], [int(domain.sizes[i]) for i in members])
    group = _ravelled([codes[members.index(i)] for i in by], [int(domain.sizes[i]) for i in by], cells.nnz)
    cell = _ravelled([codes[members.index(i)] for i in within], [int(domain.sizes[i]) for i in within], cells.nnz)
    groups = math.prod(int(domain.sizes[i]) for i in by)
    # One row over the cells within for each pair of a query and a group, equal rows once.
    pairs, row = np.unique(cells.coords[0] * groups + group, return_inverse=True)
    width = math.prod(int(domain.sizes[i]) for i in within)
    apart = csr_array(coo_array((cells.data.astype(np.float64), (row, cell)), shape=(len(pairs), width)))
    apart.sum_duplicates()
    texts = [apart.indices[a:b].tobytes() + apart.data[a:b].tobytes() for a, b in pairwise(apart.indptr.tolist())]
    _, first, which = np.unique(np.array(texts, dtype=object), return_index=True, return_inverse=True)
    matrix = csr_array(apart[first])
    inner = Workload.of_matrix(domain, within, matrix, tuple(map(str, range(len(first)))), np.ones(len(first)))
    columns = (pairs % groups) * len(first) + which
    shape = (workload.queries, groups * len(first))
    mixed = csr_array(coo_array((np.ones(len(pairs)), (pairs // groups, columns)), shape=shape))
    return GroupQueries(inner, None, mixed, None)


def _ravelled(codes: Sequence[Integers], sizes: Sequence[int], count: int) -> Integers:
    return np.ravel_multi_index(tuple(codes), tuple(sizes)) if codes else np.zeros(count, dtype=np.int64)


def only(workload: Workload, rows: Integers) -> Workload:
    """Some of the queries of a workload, by number."""
    return workload if len(rows) == workload.queries else workload.listed().some(rows)
