"""Variances and covariances of what a lattice of sets measures, without ever forming a table of all cells.

For products of rows `⊗_{i∈A} w_i` and `⊗_{i∈B} u_i`, with K_i and v_i of each attribute's strategy,
`cov = Σ_{S⊆A∩B} σ²_S Π_{i∈S} w_iᵀK_i u_i Π_{i∈A∖S} w_iᵀv_i Π_{i∈B∖S} u_iᵀv_i`. (Of an attribute in neither, the query
asks the total: `1ᵀv = 1` and `K 1 = 0`.) Any other query over the cells of A is contracted with v_i or with F_i along
each axis, one block at a time.

With plain strategies, `K = I − 11ᵀ/n` and `v = 1/n`: cells of marginals, whose variances are the same for all cells.

Reference: residual-planner, Theorem 4.7. The paper prints one covariance for all pairs of cells of a marginal; it
depends on which attributes the two cells agree on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from residua.domain import Domain
from residua.linalg.arrays import Booleans, Floats
from residua.linalg.lattice import SetFamily
from residua.plans.questions import in_one_table
from residua.plans.quotes import split
from residua.plans.strategy import Strategy
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.quoting import Term as AskedTerm
from residua.quoting.terms import queries_of
from residua.workload import AttributeQueries, Identity, Workload, renumber

Term = Sequence[tuple[int, AttributeQueries]]
_NOTHING = 1e-18  # a variance coefficient this small beside the query's own length is rounding
_NOTHING_ALONG = 1e-11  # the same along axes, beside the variance of the total
_BATCH = 2**22
_CHUNK = 64


@dataclass(frozen=True, eq=False)
class Facts:
    """What follows from noise on the blocks of a family of sets.

    Args:
        domain: what the table may hold.
        lattice: the family.
        noise: `σ²_S` of each block, infinite where nothing is measured, (sets,).
        strategies: how each attribute is measured.
    """

    domain: Domain
    lattice: SetFamily
    noise: Floats
    strategies: tuple[Strategy, ...]

    # ---- many queries at once

    @cached_property
    def cell_variances(self) -> Floats:
        """The mean variance of the cells of every marginal of the family, (sets,); infinite if unanswerable."""
        used = {i for i, (with_i, _) in enumerate(self.lattice.covers) if len(with_i)}
        return self._mean_variances([Identity(int(n)) for n in self.domain.sizes], used, self.lattice)

    def term_variances(self, workload: Workload) -> Floats:
        """The mean variance of each term's queries, (terms,); infinite where some cannot be answered."""
        if workload.plain:
            if workload.lattice.same_sets(self.lattice):
                return self.cell_variances[workload.numbers]
            numbers = renumber(workload.lattice, self.lattice)[workload.numbers]
            found = np.where(numbers >= 0, self.cell_variances[numbers], np.inf)
            if (self.domain.sizes == 1).any():  # attributes with one value need not be in the family
                lattice = workload.lattice
                for at in np.flatnonzero(numbers < 0):
                    found[at] = self.cells(lattice.members(int(workload.numbers[at]))).mean()
            return found
        parts = [
            self._mean_variances(family.queries, family.used, workload.lattice)[family.numbers]
            for family in workload.families
        ]
        return np.concatenate(parts)

    def cells(self, members: tuple[int, ...]) -> Floats:
        """The variance of every cell of a marginal, an array with one axis per attribute; infinite: no answer."""
        return self.term_table([(i, Identity(int(self.domain.sizes[i]))) for i in members])

    def _mean_variances(self, queries: Sequence[AttributeQueries], used: Collection[int], lattice: SetFamily) -> Floats:
        """The mean variance of the queries of every set of these attributes, when these rows are asked, (sets,)."""
        d, e = np.zeros((2, len(self.domain)))
        for i in used:
            d[i], e[i] = self.means(i, queries[i])
        lost = np.isinf(d) | np.isinf(e)  # some rows are outside what is measured
        d[lost] = e[lost] = 0.0
        noise = self.noise
        if not lattice.same_sets(self.lattice):
            numbers = renumber(lattice, self.lattice)
            noise = np.where(numbers >= 0, noise[numbers], np.inf)
        # A block in which a query has no part (of an attribute with one value, say) need not be measured.
        d = np.where(d > _NOTHING * (d + e), d, 0.0)
        inside = lattice.products(d)
        parts = np.where(inside > 0, np.where(inside > 0, noise, 0.0) * inside, 0.0)
        found = lattice.sum_over_subsets(parts, e)
        return np.where(lattice.products(np.where(lost, 2.0, 1.0)) > 1.0, np.inf, found) if lost.any() else found

    def variances(self, workload: Workload) -> Floats:
        """The variance of every query of a workload, (queries,); infinite where it cannot be answered."""
        if not workload.tabular:
            return self._explicit(workload)
        if workload.plain and self.plain:  # all cells of a marginal have the same
            return np.repeat(self.term_variances(workload), workload.cells.astype(np.int64))
        terms = [self.term_table(term).ravel() for term in workload.terms()]
        return np.concatenate(terms)

    @cached_property
    def plain(self) -> bool:
        """Whether every attribute is measured by the plain residual."""
        return all(strategy.plain for strategy in self.strategies)

    # ---- terms: products of rows

    @cached_property
    def _known_rows(self) -> dict[tuple[int, AttributeQueries], tuple[Floats, Floats]]:
        return {}

    def rows(self, attribute: int, asked: AttributeQueries) -> tuple[Floats, Floats]:
        """`w_jᵀ K w_j` and `(w_jᵀ v)²` of every row asked of an attribute, (rows,) each; infinite: not measured."""
        key = (attribute, asked)
        if key not in self._known_rows:
            self._known_rows[key] = self.strategies[attribute].variances(asked)
        return self._known_rows[key]

    def means(self, attribute: int, asked: AttributeQueries) -> tuple[float, float]:
        """The means of both, over all rows asked."""
        key = (attribute, asked)
        if key in self._known_rows:
            return float(self._known_rows[key][0].mean()), float(self._known_rows[key][1].mean())
        return self.strategies[attribute].means(asked)

    def term_table(self, term: Term) -> Floats:
        """The variance of every product of rows of a term, an array with one axis per attribute; infinite: no answer.

        `Σ_{S⊆A} σ²_S ⊗_{i∈S} d_i ⊗_{i∈A∖S} e_i`. A row outside what its attribute measures has infinite parts; a block
        nobody measured makes what needs it infinite.
        """
        members = tuple(i for i, _ in term)
        parts = [self.rows(i, asked) for i, asked in term]
        noise = np.zeros((2,) * len(members))  # index 1 on an axis: the block holds that attribute
        for subset, variance in self._blocks(members):
            noise[tuple(int(i in subset) for i in members)] = variance
        lacking = np.isinf(noise)
        answered = _contracted(np.where(lacking, 0.0, noise), [(_finite(d), _finite(e)) for d, e in parts])
        if lacking.any():
            sizes = [d + e for d, e in parts]
            needed = [(d > _NOTHING * s, e > _NOTHING * s) for (d, e), s in zip(parts, sizes, strict=True)]
            lost = _contracted(lacking.astype(float), [(a.astype(float), b.astype(float)) for a, b in needed]) > 0
            answered[lost] = np.inf
        for axis, (d, _) in enumerate(parts):
            outside = np.isinf(d)
            if outside.any():
                np.moveaxis(answered, axis, 0)[outside] = np.inf
        return answered

    # ---- covariances

    def covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances between the queries of two workloads, all answerable, (queries, queries)."""
        if not first.tabular or not second.tabular:
            return self._explicit_covariance(first, second)
        rows = [[self._pair(a, b) for b in second.terms()] for a in first.terms()]
        return np.block(rows)

    def _pair(self, first: Term, second: Term) -> Floats:
        """Covariances between the queries of two terms, (queries of the first, queries of the second)."""
        W, U = dict(first), dict(second)
        shared = sorted(set(W) & set(U))
        inside = {i: self.strategies[i].asked_covariances(W[i], U[i]) for i in shared}
        wv = {i: asked.times(self.strategies[i].spread) for i, asked in W.items()}
        uv = {i: asked.times(self.strategies[i].spread) for i, asked in U.items()}
        total: Floats = np.zeros(
            (int(np.prod([len(w) for w in wv.values()])), int(np.prod([len(u) for u in uv.values()])))
        )
        for subset, noise in self._blocks(shared):
            if not np.isfinite(noise):
                continue  # not measured, and neither needs it
            term: Floats = np.full((1, 1), noise)
            for i in sorted({*W, *U}):
                spread = np.multiply.outer(wv.get(i, np.ones(1)), uv.get(i, np.ones(1)))
                factor = inside[i] if i in subset else spread
                term = np.asarray(np.kron(term, factor), dtype=np.float64)
            total += term
        return total

    def paired(self, first: AskedTerm, second: AskedTerm, crossed: tuple[int, ...]) -> Floats:
        """Covariances of the queries of two terms, all answerable, place by place, crossed attributes by pairs.

        `Σ_S σ²_S ⊗_{i∈S} d_i ⊗_{i∉S} e_i` with `d = w K u` and `e = (w v)(u v)` of matched rows, as for variances.
        """
        parts = [self._row_pairs(i, first.rows[i], second.rows[i], i in crossed) for i in first.rows]
        noise = np.zeros((2,) * len(parts))
        members = list(first.rows)
        both = [i for i in members if first.rows[i] is not None and second.rows[i] is not None]
        for subset, variance in self._blocks(both):
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
            return _finite(self.rows(i, queries_of(rows))[0]), e
        one, two = np.broadcast_arrays(rows, others)
        chunks = range(0, len(one), _CHUNK)
        parts = [np.diagonal(strategy.covariances(one[k : k + _CHUNK], two[k : k + _CHUNK])) for k in chunks]
        return np.concatenate(parts), e

    def _explicit_covariance(self, first: Workload, second: Workload) -> Floats:
        """The same where one of them is a list of any queries: block by block, in the blocks' own coordinates."""
        a, b = self._coordinates(first), self._coordinates(second, weighed=True)
        total = np.zeros((first.queries, second.queries))
        for subset, noise in self._blocks_listed(sorted({*a} & {*b})):
            if np.isfinite(noise):
                total += noise * (a[subset] @ b[subset].T)
        return total

    def _coordinates(self, workload: Workload, *, weighed: bool = False) -> dict[tuple[int, ...], Floats]:
        """Every query in the coordinates of every block that it has a part in, (queries, coordinates).

        Along an axis with correlated noise there are no orthonormal ones: one of two sides is weighed by K.
        """
        if not workload.tabular:
            tensors = [(workload.attributes, workload.matrix.toarray().reshape(workload.queries, *workload.shape))]
        else:
            tensors = []
            for term in workload.terms():
                cells: Floats = np.ones((1, 1))
                for _, asked in term:
                    cells = np.asarray(np.kron(cells, asked.matrix()), dtype=np.float64)
                shape = [int(self.domain.sizes[i]) for i, _ in term]
                tensors.append((tuple(i for i, _ in term), cells.reshape(len(cells), *shape)))
        found: dict[tuple[int, ...], Floats] = {}
        start = 0
        for members, tensor in tensors:
            for subset, _ in self._blocks(members):
                own = self._contract(members, tensor, subset)
                part = (self._weighed(members, own, subset) if weighed else own).reshape(len(tensor), -1)
                whole = found.setdefault(subset, np.zeros((workload.queries, part.shape[1])))
                whole[start : start + len(tensor)] = part
            start += len(tensor)
        return found

    # ---- any queries over the cells of some attributes

    def _explicit(self, workload: Workload) -> Floats:
        """Variances of explicit queries, in batches, (queries,); infinite: no answer."""
        step = max(1, _BATCH // max(workload.matrix.shape[1], 1))
        found = np.empty(workload.queries)
        for start in range(0, workload.queries, step):
            stop = min(start + step, workload.queries)
            rows = workload.matrix[np.arange(start, stop)].toarray().reshape(stop - start, *workload.shape)
            found[start:stop] = self._tensors(workload.attributes, rows)
        return found

    def combination(self, parts: Mapping[tuple[int, ...], Floats]) -> float:
        """The variance of a linear combination of cells, sets → coefficients; infinite: no answer."""
        if not all(self.strategies[i].complete for members in parts for i in members):
            union, total = in_one_table(self.domain, parts)
            return float(self._tensors(union, total[None])[0])
        size = sum(float((part**2).sum()) for part in parts.values())
        coordinates: dict[tuple[int, ...], Floats] = {}
        for members, part in parts.items():
            for subset, _ in self._blocks(members):
                own = self._contract(members, part[None], subset).ravel()  # axes outside the block have length 1
                coordinates[subset] = coordinates[subset] + own if subset in coordinates else own
        variance = 0.0
        for subset, noise in self._blocks_listed(list(coordinates)):
            own = coordinates[subset]
            shape = [1, *(self.strategies[i].count for i in subset)]
            square = float((own * self._weighed(subset, own.reshape(shape), subset).ravel()).sum())
            if np.isfinite(noise):
                variance += noise * square
            elif square > self._nothing(subset) * size:
                return float(np.inf)
        return variance

    def _tensors(self, members: tuple[int, ...], tensors: Floats) -> Floats:
        """Variances of any queries over the cells of some attributes, (queries, n_1, …, n_k); infinite: no answer."""
        found = np.zeros(len(tensors))
        size = (tensors.reshape(len(tensors), -1) ** 2).sum(axis=1)
        for axis, i in enumerate(members, start=1):
            found[self._outside(i, np.moveaxis(tensors, axis, -1))] = np.inf
        for subset, noise in self._blocks(members):
            part = self._contract(members, tensors, subset)
            coefficients = (part * self._weighed(members, part, subset)).reshape(len(part), -1).sum(axis=1)
            if np.isfinite(noise):
                found += noise * coefficients
            else:
                found[coefficients > self._nothing(subset) * size] = np.inf
        return found

    def _nothing(self, subset: tuple[int, ...]) -> float:
        """What is rounding in a block, beside a query's squared length: along axes noise is weighed in passes."""
        totals = [1.0 / self.strategies[i].tells for i in subset if self.strategies[i].tells]
        return _NOTHING_ALONG * math.prod(totals) if totals else _NOTHING

    def _contract(self, members: tuple[int, ...], tensors: Floats, subset: tuple[int, ...]) -> Floats:
        """Queries, (queries, n_1, …, n_k), in the coordinates of one block: `unit F` along its axes, v along others."""
        part = tensors
        for axis, i in reversed(list(enumerate(members, start=1))):
            strategy = self.strategies[i]
            if i in subset and strategy.tells:  # weighed by K where it is squared
                continue
            if i in subset and strategy.plain:
                part = part - part.mean(axis=axis, keepdims=True)
                continue
            along = strategy.recovery * strategy.unit if i in subset else strategy.spread[:, None]
            part = np.moveaxis(np.tensordot(part, along, axes=(axis, 0)), -1, axis)
        return np.asarray(part)

    def _weighed(self, members: tuple[int, ...], part: Floats, subset: tuple[int, ...]) -> Floats:
        """Coordinates of a block, weighed by K along axes with correlated noise."""
        for axis, i in enumerate(members, start=1):
            if i in subset and self.strategies[i].tells:
                part = self.strategies[i].weigh(part, axis)
        return part

    def _outside(self, i: int, tensors: Floats) -> Booleans:
        if self.strategies[i].complete:
            return np.zeros(len(tensors), dtype=bool)
        rows = tensors.reshape(-1, tensors.shape[-1])
        lost = self.strategies[i].outside(rows) * np.linalg.norm(rows, axis=1)
        lengths = np.linalg.norm(rows, axis=1).reshape(len(tensors), -1)
        worst = np.linalg.norm(lost.reshape(len(tensors), -1), axis=1)
        return np.asarray(worst > SUPPORT_TOLERANCE * np.linalg.norm(lengths, axis=1))

    # ---- blocks

    def _blocks(self, members: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
        """Each subset of these attributes with its noise variance σ²; infinite if it is not measured but could be."""
        subsets = [subset for size in range(len(members) + 1) for subset in combinations(members, size)]
        yield from self._blocks_listed(subsets)

    def _blocks_listed(self, subsets: Sequence[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], float]]:
        for subset in subsets:
            if any(self.strategies[i].cost == 0 for i in subset):
                yield subset, 0.0  # there is nothing in this block
                continue
            number = int(self.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
            yield subset, float(self.noise[number]) if number >= 0 else np.inf


def _finite(values: Floats) -> Floats:
    return np.where(np.isinf(values), 0.0, values)


def _contracted(noise: Floats, parts: Sequence[tuple[Floats, Floats]]) -> Floats:
    for d, e in parts:  # each step replaces the first axis, of length 2, by a last axis over the rows
        noise = np.tensordot(noise, np.stack([e, d]), axes=(0, 0))
    return np.asarray(noise)
