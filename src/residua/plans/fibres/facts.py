"""Variances and covariances where each set of short attributes has noise of its own along an axis.

Let T be a set of the short attributes. What is centred along T and summed over the others is a table of fibres along
the axis, measured with noise `C_T ⊗ Σ_T`, C_T centring, independent between sets. For rows w_j of the short attributes
of a set A and w along the axis,

    var = Σ_{T⊆A} Π_{j∈T} w_jᵀC_j w_j  Π_{j∈A∖T} (Σ w_j/n_j)²  wᵀΣ_T w,

and the same with two rows for covariances. A table without the axis asks for the total along it; sets of which no more
is asked are measured without the axis, with one variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array, kron

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.modes import contrasts
from residua.linalg.path import over_running_sums
from residua.plans.axis.rows import running_rows
from residua.plans.axis.strategy import Ordered
from residua.plans.strategy import Plain
from residua.workload import AttributeQueries, Workload

Term = Sequence[tuple[int, AttributeQueries]]
Set = tuple[int, ...]
_NOTHING = 1e-18  # a variance coefficient this small beside the query's own length is rounding
_MOST = 2**27  # entries of the rows of one set, at most


@dataclass(frozen=True, eq=False)
class FibreFacts:
    """What follows from the noise along the fibres of each set.

    Args:
        sizes: how many values each attribute has, (attributes,).
        attribute: the position of the axis.
        noises: for each set, the noise along the axis and a factor of its variance; None for the noise where the set is
            measured without the axis, with the factor for its variance.
    """

    sizes: Integers
    attribute: int
    noises: Mapping[Set, tuple[Ordered | None, float]]

    # ---- products of rows

    def table(self, term: Term) -> Floats:
        """The variance of every product of rows, an array with one axis per attribute; infinite: no answer."""
        asked = dict(term)
        along = asked.pop(self.attribute, None)
        short = list(self._short(asked))
        found = np.zeros([rows.rows for _, rows in term])
        for members in _subsets(tuple(asked)):
            each = self._along(members, along)
            vectors = {j: d if j in members else e for j, d, e in short}
            if along is not None:
                vectors[self.attribute] = np.broadcast_to(each, along.rows)
            found += _outer([vectors[i] for i, _ in term], 1.0 if along is not None else float(np.max(each)))
        return found

    def mean(self, term: Term) -> float:
        """The mean variance of a term's queries."""
        asked = dict(term)
        along = asked.pop(self.attribute, None)
        short = [(j, float(d.mean()), float(e.mean())) for j, d, e in self._short(asked)]
        total = 0.0
        for members in _subsets(tuple(asked)):
            share = float(np.prod([d if j in members else e for j, d, e in short]))
            if share:
                total += share * self._mean(members, along)
        return total

    def _short(self, asked: Mapping[int, AttributeQueries]) -> Iterator[tuple[int, Floats, Floats]]:
        """`wᵀCw` and `(Σ w/n)²` of the rows of each short attribute; what is rounding beside a row's length is 0."""
        for j, rows in asked.items():
            n = int(self.sizes[j])
            d, e = Plain(n).variances(rows)
            yield j, np.where(d > _NOTHING * (d + n * e), d, 0.0), e

    @cached_property
    def _known(self) -> dict[tuple[Set, AttributeQueries], Floats]:
        return {}

    def _along(self, members: Set, asked: AttributeQueries | None) -> Floats | float:
        """`wᵀΣ_T w` of every row asked along the axis, or of the total; infinite: not measured."""
        noise, factor = self.noises.get(members, (None, np.inf))
        if noise is None:
            return factor if asked is None else np.inf
        if asked is None:
            return factor / noise.tells
        if (members, asked) not in self._known:
            d, e = noise.variances(asked)
            self._known[members, asked] = factor * (d + e / noise.tells)
        return self._known[members, asked]

    def _mean(self, members: Set, asked: AttributeQueries | None) -> float:
        noise, factor = self.noises.get(members, (None, np.inf))
        if noise is None or asked is None:
            return float(np.max(self._along(members, asked)))
        d, e = noise.means(asked)
        return factor * (d + e / noise.tells)

    def pair(self, first: Term, second: Term) -> Floats:
        """Covariances between the queries of two terms, (queries of the first, queries of the second)."""
        W, U = dict(first), dict(second)
        short = sorted(({*W} | {*U}) - {self.attribute})
        shared = tuple(j for j in short if j in W and j in U)
        total: Floats = np.zeros([int(np.prod([rows.rows for rows in each.values()])) for each in (W, U)])
        for members in _subsets(shared):
            if members not in self.noises:
                continue  # not measured, and neither needs it
            factors = {j: self._short_pair(j, W.get(j), U.get(j), j in members) for j in short}
            factors[self.attribute] = self._axis_pair(members, W.get(self.attribute), U.get(self.attribute))
            found: Floats = np.ones((1, 1))
            for i in sorted(factors):
                found = np.asarray(np.kron(found, factors[i]), dtype=np.float64)
            total += found
        return total

    def _short_pair(self, j: int, one: AttributeQueries | None, other: AttributeQueries | None, inside: bool) -> Floats:
        plain = Plain(int(self.sizes[j]))
        if inside and one is not None and other is not None:
            return plain.asked_covariances(one, other)
        spreads = [np.ones(1) if each is None else each.times(plain.spread) for each in (one, other)]
        return np.multiply.outer(*spreads)

    def _axis_pair(self, members: Set, one: AttributeQueries | None, other: AttributeQueries | None) -> Floats:
        noise, factor = self.noises[members]
        if noise is None:
            return np.full((1 if one is None else one.rows, 1 if other is None else other.rows), factor)
        rows = [self._total if each is None else running_rows(each) for each in (one, other)]
        return np.asarray(factor * noise.noise.covariance(*rows))

    @cached_property
    def _total(self) -> csr_array:
        n = int(self.sizes[self.attribute])
        return csr_array((np.ones(1), ([0], [n - 1])), shape=(1, n))

    # ---- any queries over the cells of some attributes

    def variances(self, workload: Workload) -> Floats:
        """The variance of every query, (queries,); infinite: no answer."""
        found = np.zeros(workload.queries)
        lengths = np.asarray((workload.matrix * workload.matrix).sum(axis=1)).ravel()
        for members, rows in self._over_fibres(workload):
            noise, factor = self.noises.get(members, (None, np.inf))
            if noise is not None:
                each = factor * noise.noise.row_variances(rows)
            else:  # the total alone is known, if that
                squares = np.asarray((rows * rows).sum(axis=1)).ravel()
                totals = rows[:, [-1]].toarray().ravel() ** 2 if np.isfinite(factor) else np.zeros(len(squares))
                lost = np.repeat(_NOTHING * 1e6 * lengths, len(squares) // workload.queries)
                each = np.where(squares - totals > lost, np.inf, totals * (factor if np.isfinite(factor) else 0.0))
            found += each.reshape(workload.queries, -1).sum(axis=1)
        return found

    def covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances of queries, all answerable, (queries of the first, queries of the second)."""
        total = np.zeros((first.queries, second.queries))
        others = dict(self._over_fibres(second))
        for members, rows in self._over_fibres(first):
            if members not in others or members not in self.noises:
                continue
            noise, factor = self.noises[members]
            count = rows.shape[0] // first.queries
            for k in range(count):
                one, two = rows[k::count], others[members][k::count]
                if noise is None:
                    total += factor * np.multiply.outer(*(each[:, [-1]].toarray().ravel() for each in (one, two)))
                else:
                    total += factor * noise.noise.covariance(one, two)
        return total

    def _over_fibres(self, workload: Workload) -> Iterator[tuple[Set, csr_array]]:
        """Every query over the running sums of orthonormal fibres of each set, (queries × fibres, n).

        Raises:
            PlanError: too many of them.
        """
        short = [j for j in workload.attributes if j != self.attribute]
        n, m = int(self.sizes[self.attribute]), workload.queries
        matrix = workload.matrix.tocoo()
        places: dict[int, Integers] = {}  # of a query of the total, none
        if workload.attributes:
            places = dict(zip(workload.attributes, np.unravel_index(matrix.col, workload.shape), strict=True))
        axis = places.get(self.attribute)
        flat = np.zeros(len(matrix.col), dtype=np.int64)
        for j in short:
            flat = flat * int(self.sizes[j]) + places[j]
        cells = int(np.prod([int(self.sizes[j]) for j in short], dtype=np.int64))
        # Of a query that does not ask of the axis, the last running sum alone.
        at = matrix.row.astype(np.int64) * n + (n - 1 if axis is None else axis)
        table = csr_array((matrix.data, (at, flat)), shape=(m * n, cells))
        for members in _subsets(tuple(short)):
            onto: csr_array = csr_array(np.ones((1, 1)))
            for j in short:
                size = int(self.sizes[j])
                onto = csr_array(kron(onto, contrasts(size) if j in members else np.full((1, size), 1.0 / size)))
            fibres = onto.shape[0]
            if table.nnz * fibres > _MOST:
                raise PlanError("these queries are too many for a list; ask for products of rows, or for fewer.")
            found = csr_array(table @ onto.T).tocoo()
            rows = (found.row.astype(np.int64) // n) * fibres + found.col
            over = csr_array((found.data, (rows, found.row % n)), shape=(m * fibres, n))
            yield members, over if axis is None else over_running_sums(over)


def _subsets(members: Set) -> Iterator[Set]:
    for size in range(len(members) + 1):
        yield from combinations(sorted(members), size)


def _outer(vectors: Sequence[Floats], scale: float) -> Floats:
    """The outer product times a number, in which nothing times infinity is nothing."""
    found: Floats = np.asarray(scale)
    with np.errstate(invalid="ignore"):
        for vector in vectors:
            found = np.multiply.outer(found, vector)
    return np.where(np.isnan(found), 0.0, found)
