"""Variances and covariances of `Γ = Σ_T C_T ⊗ A_T`, T sets of short attributes and A_T an operator along one attribute.

What is centred along T and summed over the other short attributes is a table of fibres along the attribute, measured
with noise `C_T ⊗ Σ_T`, C_T centring, independent between sets. For rows w_j of the short attributes of a set A and w
along the attribute,

    var = Σ_{T⊆A} Π_{j∈T} w_jᵀC_j w_j  Π_{j∈A∖T} (Σ w_j/n_j)²  wᵀΣ_T w,

and the same with two rows for covariances. A table without the attribute asks for its total.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array, kron

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.modes import contrasts
from residua.plans.operators.contract import Operator
from residua.plans.strategy import Plain
from residua.workload import AttributeQueries, Workload

Term = Sequence[tuple[int, AttributeQueries]]
Set = tuple[int, ...]
_NOTHING = 1e-18  # a variance coefficient this small beside the query's own length is rounding
_ROUNDING = 1e-13  # of the largest coefficient of a query: rounding
_MOST = 2**27  # entries of the rows of one set, at most


@dataclass(frozen=True, eq=False)
class ProductFacts:
    """What follows from the operators of all sets.

    Args:
        sizes: how many values each attribute has, (attributes,).
        attribute: the position of the attribute with operators.
        parts: the operator of each set of short attributes that is measured.
    """

    sizes: Integers
    attribute: int
    parts: Mapping[Set, Operator]

    # ---- products of rows

    def table(self, term: Term) -> Floats:
        """The variance of every product of rows, an array with one axis per attribute; infinite: no answer."""
        asked = dict(term)
        along = asked.pop(self.attribute, None)
        short = list(self._short(asked))
        order = sorted({self.attribute, *asked})
        total = np.zeros([1 if i == self.attribute and along is None else dict(term)[i].rows for i in order])
        for members in subsets(tuple(asked)):
            vectors = {j: d if j in members else e for j, d, e in short}
            if not all(vector.any() for vector in vectors.values()):
                continue  # no query has a part in this set
            vectors[self.attribute] = self._along(members, along)
            total += _outer([vectors[i] for i in order])
        return total if along is not None else total.squeeze(order.index(self.attribute))

    def mean(self, term: Term) -> float:
        """The mean variance of a term's queries."""
        asked = dict(term)
        along = asked.pop(self.attribute, None)
        short = [(j, float(d.mean()), float(e.mean())) for j, d, e in self._short(asked)]
        total = 0.0
        for members in subsets(tuple(asked)):
            share = float(np.prod([d if j in members else e for j, d, e in short]))
            if share:
                operator = self.parts.get(members)
                total += share * (np.inf if operator is None else operator.mean_variance(along))
        return total

    def largest(self, term: Term) -> float:
        """The largest variance of a term's queries, or a bound of it."""
        asked = dict(term)
        if len(self.parts) == 1 and () in self.parts and asked.keys() == {self.attribute}:
            return self.parts[()].largest_variance(asked[self.attribute])
        return float(self.table(term).max())

    def _short(self, asked: Mapping[int, AttributeQueries]) -> Iterator[tuple[int, Floats, Floats]]:
        """`wᵀCw` and `(Σ w/n)²` of the rows of each short attribute; what is rounding beside a row's length is 0."""
        for j, rows in asked.items():
            n = int(self.sizes[j])
            d, e = Plain(n).variances(rows)
            yield j, np.where(d > _NOTHING * (d + n * e), d, 0.0), e

    @cached_property
    def _known(self) -> dict[tuple[Set, AttributeQueries | None], Floats]:
        return {}

    def _along(self, members: Set, asked: AttributeQueries | None) -> Floats:
        """`wᵀΣ_T w` of every row asked along the attribute; infinite: not measured."""
        if members not in self.parts:
            return np.full(1 if asked is None else asked.rows, np.inf)
        if (members, asked) not in self._known:
            self._known[members, asked] = self.parts[members].variances(asked)
        return self._known[members, asked]

    def pair(self, first: Term, second: Term) -> Floats:
        """Covariances between the queries of two terms, (queries of the first, queries of the second)."""
        W, U = dict(first), dict(second)
        short = sorted(({*W} | {*U}) - {self.attribute})
        shared = tuple(j for j in short if j in W and j in U)
        total: Floats = np.zeros([int(np.prod([rows.rows for rows in each.values()])) for each in (W, U)])
        for members in subsets(shared):
            if members not in self.parts:
                continue  # not measured, and neither needs it
            factors = {j: self._short_pair(j, W.get(j), U.get(j), j in members) for j in short}
            if not all(factor.any() for factor in factors.values()):
                continue
            factors[self.attribute] = self.parts[members].covariances(W.get(self.attribute), U.get(self.attribute))
            term: Floats = np.ones((1, 1))
            for i in sorted(factors):
                term = np.asarray(np.kron(term, factors[i]), dtype=np.float64)
            total += term
        return total

    def _short_pair(self, j: int, one: AttributeQueries | None, other: AttributeQueries | None, inside: bool) -> Floats:
        plain = Plain(int(self.sizes[j]))
        if inside and one is not None and other is not None:
            return plain.asked_covariances(one, other)
        spreads = [np.ones(1) if each is None else each.times(plain.spread) for each in (one, other)]
        return np.multiply.outer(*spreads)

    # ---- any queries over the cells of some attributes

    def variances(self, workload: Workload) -> Floats:
        """The variance of every query, (queries,); infinite: no answer."""
        total = np.zeros(workload.queries)
        for members, rows in self.over_fibres(workload):
            used = np.flatnonzero(np.diff(rows.indptr))
            each = np.zeros(rows.shape[0])
            if len(used):
                operator = self.parts.get(members)
                some = csr_array(rows[used])
                each[used] = np.inf if operator is None else self._of_rows(operator, some)
            total += each.reshape(workload.queries, -1).sum(axis=1)
        return total

    def covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances of queries, all answerable, (queries of the first, queries of the second)."""
        total = np.zeros((first.queries, second.queries))
        others = dict(self.over_fibres(second))
        for members, rows in self.over_fibres(first):
            if members not in others or members not in self.parts:
                continue
            count = rows.shape[0] // first.queries
            for k in range(count):
                total += self._of_pairs(self.parts[members], rows[k::count], others[members][k::count])
        return total

    def _of_rows(self, operator: Operator, rows: csr_array) -> Floats:
        """Variances of rows over the values; one column stands for the total."""
        if rows.shape[1] == operator.size:
            return operator.row_variances(rows)
        return np.asarray(operator.variances(None)[0] * rows.toarray().ravel() ** 2)

    def _of_pairs(self, operator: Operator, rows: csr_array, others: csr_array) -> Floats:
        """Covariances of rows over the values; one column stands for the total."""
        whole = csr_array(np.ones((1, operator.size)))
        wide = [each if each.shape[1] == operator.size else whole for each in (rows, others)]
        between = operator.row_covariances(*wide)
        scales = [
            np.ones(each.shape[0]) if each.shape[1] == operator.size else each.toarray().ravel()
            for each in (rows, others)
        ]
        return np.asarray(scales[0][:, None] * between * scales[1][None, :])

    def over_fibres(self, workload: Workload) -> Iterator[tuple[Set, csr_array]]:
        """Every query over the values of orthonormal fibres of each set, (queries × fibres, n).

        Of a workload that does not ask of the attribute there is one column, the total's, (queries × fibres, 1).

        Raises:
            PlanError: too many of them.
        """
        short = [j for j in workload.attributes if j != self.attribute]
        n = int(self.sizes[self.attribute]) if self.attribute in workload.attributes else 1
        m, matrix = workload.queries, workload.matrix.tocoo()
        codes = np.unravel_index(matrix.col, workload.shape) if workload.attributes else ()
        places = dict(zip(workload.attributes, codes, strict=True))
        flat = np.zeros(len(matrix.col), dtype=np.int64)
        for j in short:
            flat = flat * int(self.sizes[j]) + places[j]
        cells = int(np.prod([int(self.sizes[j]) for j in short], dtype=np.int64))
        at = matrix.row.astype(np.int64) * n + places.get(self.attribute, np.zeros(len(flat), dtype=np.int64))
        table = csr_array((matrix.data, (at, flat)), shape=(m * n, cells))
        largest = abs(workload.matrix).max(axis=1).toarray().ravel() if matrix.nnz else np.zeros(m)
        for members in subsets(tuple(short)):
            onto: csr_array = csr_array(np.ones((1, 1)))
            for j in short:
                size = int(self.sizes[j])
                onto = csr_array(kron(onto, contrasts(size) if j in members else np.full((1, size), 1.0 / size)))
            fibres = onto.shape[0]
            if table.nnz * fibres > _MOST:
                raise PlanError("these queries are too many for a list; ask for products of rows, or for fewer.")
            entries = csr_array(table @ onto.T).tocoo()
            query = entries.row.astype(np.int64) // n
            kept = np.abs(entries.data) > _ROUNDING * largest[query]
            rows = (query * fibres + entries.col)[kept], (entries.row % n)[kept]
            yield members, csr_array((entries.data[kept], rows), shape=(m * fibres, n))


def subsets(members: Set) -> Iterator[Set]:
    """All subsets of some attributes, small ones first."""
    for size in range(len(members) + 1):
        yield from combinations(sorted(members), size)


def _outer(vectors: Sequence[Floats]) -> Floats:
    """The outer product, in which nothing times infinity is nothing."""
    with np.errstate(invalid="ignore"):
        product = reduce(np.multiply.outer, vectors)
    return np.where(np.isnan(product), 0.0, product)


def coefficient(members: Set, asked: Sequence[int], sizes: Sequence[int]) -> float:
    """What a set T contributes to the variance of a cell of the marginal on A: `Π_T (1 − 1/n) Π_{A∖T} 1/n²`."""
    inside = math.prod(1.0 - 1.0 / sizes[i] for i in members)
    return inside * math.prod(1.0 / sizes[i] ** 2 for i in asked if i not in members)
