"""Variances and covariances of a product plan, without ever forming a table of all cells.

For products of rows `⊗_{i∈A} w_i` and `⊗_{i∈B} u_i`, with K_i and v_i of each short attribute's strategy, and rows w, u
along the attribute with operators,

    cov = Σ_{T⊆A∩B} σ²_T Π_{i∈T} w_iᵀK_i u_i Π_{i∈A∖T} w_iᵀv_i Π_{i∈B∖T} u_iᵀv_i · wᵀΣ_T u,

Σ_T the covariance of the operator of T, or 1 where there are none. (Of an attribute in neither, the query asks the
total: `1ᵀv = 1` and `K 1 = 0`; of the attribute with operators, too.) Any other query over the cells of A is contracted
first (`any_facts.py`).

With plain strategies, `K = I − 11ᵀ/n` and `v = 1/n`: cells of marginals, whose variances are the same for all cells.

Reference: residual-planner, Theorem 4.7. The paper prints one covariance for all pairs of cells of a marginal; it
depends on which attributes the two cells agree on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, kronecker
from residua.linalg.lattice import Set, SetFamily, closure_of, subsets
from residua.machine import remembered
from residua.plans.contract import Uncertainty
from residua.plans.operators.contract import Operator
from residua.plans.product.any_facts import AnyQueries
from residua.plans.quotes import split
from residua.quoting import Term as AskedTerm
from residua.quoting.terms import queries_of
from residua.workload import AttributeQueries, Identity, Workload, renumber

Term = Sequence[tuple[int, AttributeQueries]]
_NOTHING = 1e-18  # a variance coefficient this small beside the query's own length is rounding
_CHUNK = 64


class ProductUncertainty(AnyQueries, Uncertainty):
    """How estimates err under noise on the sets of a family."""

    lattice: SetFamily  # the family, of short attributes
    noise_variances: Floats  # `σ²_T` of each set, infinite where nothing is measured, (sets,)

    @property
    def family(self) -> Self | None:
        """Itself, where its tables have the precisions of a family of residuals."""
        return self if self.attribute < 0 else None

    # ---- many queries at once

    @cached_property
    def cell_variances(self) -> Floats:
        """The mean variance of the cells of every marginal of the family, (sets,); infinite if unanswerable."""
        used = {i for i, (with_i, _) in enumerate(self.lattice.covers) if len(with_i)}
        return self._mean_variances([Identity(int(n)) for n in self.domain.sizes], used, self.lattice)

    def _term_variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return self._variances(workload)
        if self.attribute >= 0:
            return np.array([self._mean_variance(term) for term in workload.terms()])
        if workload.plain:
            if workload.lattice.same_sets(self.lattice):
                return self.cell_variances[workload.numbers]
            numbers = renumber(workload.lattice, self.lattice)[workload.numbers]
            means = np.where(numbers >= 0, self.cell_variances[numbers], np.inf)
            if (self.domain.sizes == 1).any():  # attributes with one value need not be in the family
                lattice = workload.lattice
                for at in np.flatnonzero(numbers < 0):
                    means[at] = self._cells(lattice.members(int(workload.numbers[at]))).mean()
            return means
        parts = [
            self._mean_variances(family.queries, family.used, workload.lattice)[family.numbers]
            for family in workload.families
        ]
        return np.concatenate(parts)

    def _mean_variances(self, queries: Sequence[AttributeQueries], used: Collection[int], lattice: SetFamily) -> Floats:
        """The mean variance of the queries of every set of these attributes, when these rows are asked, (sets,)."""
        d, e = np.zeros((2, len(self.domain)))
        for i in used:
            d[i], e[i] = self._means(i, queries[i])
        lost = np.isinf(d) | np.isinf(e)  # some rows are outside what is measured
        d[lost] = e[lost] = 0.0
        noise = self.noise_variances
        if not lattice.same_sets(self.lattice):
            numbers = renumber(lattice, self.lattice)
            noise = np.where(numbers >= 0, noise[numbers], np.inf)
        # A block in which a query has no part (of an attribute with one value, say) need not be measured.
        d = np.where(d > _NOTHING * (d + e), d, 0.0)
        inside = lattice.products(d)
        parts = np.where(inside > 0, np.where(inside > 0, noise, 0.0) * inside, 0.0)
        means = lattice.sum_over_subsets(parts, e)
        return np.where(lattice.products(np.where(lost, 2.0, 1.0)) > 1.0, np.inf, means) if lost.any() else means

    def _variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return self._listed_variances(workload)
        if workload.plain and self.plain:  # all cells of a marginal have the same
            return np.repeat(self._term_variances(workload), workload.cells.astype(np.int64))
        return np.concatenate([self.term_table(term).ravel() for term in workload.terms()])

    @cached_property
    def plain(self) -> bool:
        """Whether every attribute is measured by the plain residual."""
        return self.attribute < 0 and all(strategy.plain for strategy in self.strategies)

    # ---- terms: products of rows

    @remembered
    def _rows(self, attribute: int, asked: AttributeQueries) -> tuple[Floats, Floats]:
        """`w_jᵀ K w_j` and `(w_jᵀ v)²` of every row asked of an attribute, (rows,) each; infinite: not measured."""
        return self.strategies[attribute].variances(asked)

    @remembered
    def _means(self, attribute: int, asked: AttributeQueries) -> tuple[float, float]:
        """The means of both, over all rows asked."""
        return self.strategies[attribute].means(asked)

    @remembered
    def _along(self, members: Set, asked: AttributeQueries | None) -> Floats:
        """`wᵀΣ_T w` of every row asked along the attribute, (rows,), or σ²_T, (1,); infinite: not measured."""
        if self.attribute < 0:
            return np.array([self.noise_of(members)])
        if members not in self.parts:
            return np.full(1 if asked is None else asked.rows, np.inf)
        return self.parts[members].variances(asked)

    def noise_of(self, members: Set) -> float:
        """σ² of a set; infinite if it is not measured but could be."""
        if any(self.strategies[i].cost == 0 for i in members):
            return 0.0  # there is nothing in this block
        number = int(self.lattice.find(np.array(members, dtype=np.int32).reshape(1, -1))[0])
        return float(self.noise_variances[number]) if number >= 0 else np.inf

    def _cell_variances(self, positions: tuple[int, ...]) -> Floats:
        if not self.plain:
            return super()._cell_variances(positions)
        number = int(self.lattice.find(np.array([positions], dtype=np.int32).reshape(1, -1))[0])
        if number < 0:
            return self._cells(positions)  # attributes with one value need not be in the family
        return np.broadcast_to(self.cell_variances[number], [int(self.domain.sizes[i]) for i in positions])

    def _cells(self, members: tuple[int, ...]) -> Floats:
        """The variance of every cell of a marginal, an array with one axis per attribute; infinite: no answer."""
        return self.term_table([(i, Identity(int(self.domain.sizes[i]))) for i in members])

    def term_table(self, term: Term) -> Floats:
        """The variance of every product of rows of a term, an array with one axis per attribute; infinite: no answer.

        `Σ_{T⊆A} ⊗_{i∈T} d_i ⊗_{i∈A∖T} e_i ⊗ (variances along)_T`. A row outside what its attribute measures has
        infinite parts; a set nobody measured makes what needs it infinite.
        """
        asked = dict(term)
        order = sorted(asked)
        along = asked.pop(self.attribute, None)
        members = tuple(asked)
        parts = [self._rows(i, rows) for i, rows in asked.items()]
        # Index 1 on an axis: the set holds that attribute. The last axis runs along the attribute with operators.
        noise = np.stack([self._along(subset, along) for subset in subsets(members)])
        places = [tuple(int(i in subset) for i in members) for subset in subsets(members)]
        whole = np.empty((*(2,) * len(members), noise.shape[1]))
        for place, values in zip(places, noise, strict=True):
            whole[place] = values
        lacking = np.isinf(whole)
        answered = _contracted(np.where(lacking, 0.0, whole), [(_finite(d), _finite(e)) for d, e in parts])
        if lacking.any():
            sizes = [d + e for d, e in parts]
            needed = [(d > _NOTHING * s, e > _NOTHING * s) for (d, e), s in zip(parts, sizes, strict=True)]
            lost = _contracted(lacking.astype(float), [(a.astype(float), b.astype(float)) for a, b in needed]) > 0
            answered[lost] = np.inf
        for axis, (d, _) in enumerate(parts, start=1):
            outside = np.isinf(d)
            if outside.any():
                np.moveaxis(answered, axis, 0)[outside] = np.inf
        return answered[0] if along is None else np.moveaxis(answered, 0, order.index(self.attribute))

    def _mean_variance(self, term: Term) -> float:
        """The mean variance of a term's queries."""
        asked = dict(term)
        along = asked.pop(self.attribute, None)
        short = [(i, *self._means(i, rows)) for i, rows in asked.items()]
        total = 0.0
        for members in subsets(tuple(asked)):
            share = math.prod((d if d > _NOTHING * (d + e) else 0.0) if i in members else e for i, d, e in short)
            if share:
                operator = self.parts.get(members)
                total += share * (np.inf if operator is None else operator.mean_variance(along))
        return total

    def largest_variances(self, workload: Workload) -> Floats:
        """Along operators, of all ranges of many values a bound of it."""
        if self.attribute < 0:
            return super().largest_variances(workload)
        return np.array([self._largest(term) for term in workload.terms()])

    def _largest(self, term: Term) -> float:
        """The largest variance of a term's queries, or a bound of it."""
        asked = dict(term)
        if [*self.parts] == [()] and asked.keys() == {self.attribute}:
            return self.parts[()].largest_variance(asked[self.attribute])
        return float(self.term_table(term).max())

    # ---- covariances

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        if not first.tabular or not second.tabular:
            return self._listed_covariance(first, second)
        return np.block([[self._pair(a, b) for b in second.terms()] for a in first.terms()])

    def _pair(self, first: Term, second: Term) -> Floats:
        """Covariances between the queries of two terms, (queries of the first, queries of the second)."""
        W, U = dict(first), dict(second)
        along = [each.pop(self.attribute, None) for each in (W, U)]
        shared = sorted(set(W) & set(U))
        inside = {i: self.strategies[i].asked_covariances(W[i], U[i]) for i in shared}
        wv = {i: asked.times(self.strategies[i].spread) for i, asked in W.items()}
        uv = {i: asked.times(self.strategies[i].spread) for i, asked in U.items()}
        total: Floats = np.zeros([math.prod(asked.rows for _, asked in term) for term in (first, second)])
        for subset in subsets(tuple(shared)):
            factors = {
                i: inside[i] if i in subset else np.multiply.outer(wv.get(i, np.ones(1)), uv.get(i, np.ones(1)))
                for i in {*W, *U}
            }
            noise = 1.0 if subset in self.parts else self.noise_of(subset)
            if not np.isfinite(noise):
                continue  # not measured, and neither needs it
            if subset in self.parts:
                factors[self.attribute] = self.parts[subset].covariances(*along)
            total += kronecker((factors[i] for i in sorted(factors)), noise)
        return total

    def _paired(self, first: AskedTerm, second: AskedTerm, crossed: tuple[int, ...]) -> Floats:
        """Covariances place by place, of crossed attributes by pairs.

        `Σ_S σ²_S ⊗_{i∈S} d_i ⊗_{i∉S} e_i` with `d = w K u` and `e = (w v)(u v)` of matched rows, as for variances.
        """
        if self.attribute >= 0:
            if first is second and not crossed:
                return self._variances(first.workload).reshape(first.shape)
            return super()._paired(first, second, crossed)
        parts = [self._row_pairs(i, first.rows[i], second.rows[i], i in crossed) for i in first.rows]
        noise = np.zeros((2,) * len(parts))
        members = list(first.rows)
        both = [i for i in members if first.rows[i] is not None and second.rows[i] is not None]
        for subset in subsets(tuple(both)):
            variance = self.noise_of(subset)
            noise[tuple(int(i in subset) for i in members)] = variance if np.isfinite(variance) else 0.0
        return split(_contracted(noise, parts), first, second, crossed)

    def _row_pairs(self, i: int, rows: Floats | None, others: Floats | None, crossed: bool) -> tuple[Floats, Floats]:
        """`w K u` and `(w v)(u v)` of matched rows, or of all pairs, flat."""
        strategy = self.strategies[i]
        wv, uv = (np.ones(1) if part is None else part @ strategy.spread for part in (rows, others))
        e = np.multiply.outer(wv, uv).ravel() if crossed else wv * uv
        if rows is None or others is None:
            return np.zeros(len(e)), e  # K 1 = 0
        if crossed:
            return strategy.covariances(rows, others).ravel(), e
        if rows is others:
            return _finite(self._rows(i, queries_of(rows))[0]), e
        one, two = np.broadcast_arrays(rows, others)
        chunks = range(0, len(one), _CHUNK)
        parts = [np.diagonal(strategy.covariances(one[k : k + _CHUNK], two[k : k + _CHUNK])) for k in chunks]
        return np.concatenate(parts), e


def family_of(parts: Mapping[Set, Operator], attributes: int) -> tuple[SetFamily, tuple[Operator | None, ...], Floats]:
    """The family of these sets and all their subsets, the operator of each, if any, and 1 where there is one."""
    lattice = closure_of(parts, attributes)
    operators = tuple(parts.get(tuple(members)) for members in lattice)
    return lattice, operators, np.array([float(each is not None) for each in operators])


def require_operators(plan: Any) -> None:
    """Refuses operators that do not fit the attribute and the sets of a plan.

    Raises:
        PlanError: they do not.
    """
    if plan.attribute >= len(plan.domain):
        raise PlanError("the plan measures an attribute that the domain lacks; plan again.")
    if len(plan.operators) != len(plan.lattice) or len(plan.lattice.covers[plan.attribute][0]):
        raise PlanError("the operators do not fit the sets of short attributes; plan again.")
    if any(each is not None and each.size != plan.size for each in plan.operators):
        raise PlanError("an operator does not fit the attribute; plan again.")


def _finite(values: Floats) -> Floats:
    return np.where(np.isinf(values), 0.0, values)


def _contracted(noise: Floats, parts: Sequence[tuple[Floats, Floats]]) -> Floats:
    for d, e in parts:  # each step replaces the first axis, of length 2, by a last axis over the rows
        noise = np.tensordot(noise, np.stack([e, d]), axes=(0, 0))
    return np.asarray(noise)


def coefficient(members: Set, asked: Sequence[int], sizes: Sequence[int]) -> float:
    """What a set T contributes to the variance of a cell of the marginal on A: `Π_T (1 − 1/n) Π_{A∖T} 1/n²`."""
    inside = math.prod(1.0 - 1.0 / sizes[i] for i in members)
    return inside * math.prod(1.0 / sizes[i] ** 2 for i in asked if i not in members)
