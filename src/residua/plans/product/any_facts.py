"""Variances and covariances of any queries over the cells of some attributes, under the noise of a product plan.

A query is contracted with v_i or with F_i along each short axis, one set at a time. What is left are numbers, or, along
an attribute with operators, rows over its values: so many fibres, of which the operator of the set knows the variances.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain
from residua.linalg.arrays import Booleans, Floats, Integers, sparse_kronecker
from residua.linalg.lattice import Set, subsets
from residua.machine import csr_array
from residua.plans.estimator import combined, in_one_table
from residua.plans.operators.contract import Operator
from residua.plans.strategy import Strategy
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.workload import Workload

_NOTHING = 1e-18  # a variance coefficient this small beside the query's own length is rounding
_NOTHING_ALONG = 1e-11  # the same along axes, beside the variance of the total
_ROUNDING = 1e-13  # of the largest coefficient of a query: rounding
_BATCH = 2**22


@dataclass(frozen=True, eq=False)
class Fibres:
    """Queries over the cells of short attributes, one for each value of the attribute with operators.

    Args:
        short: positions of the short attributes, increasing.
        tensors: the coefficients, (fibres, n_1, …, n_k).
        queries: which query each fibre is of, (fibres,).
        values: of which value of the attribute, (fibres,).
        size: how many values there are; 1 where the attribute is not asked of, or there is none.
    """

    short: Set
    tensors: Floats
    queries: Integers
    values: Integers
    size: int

    @cached_property
    def nothing(self) -> Floats:
        """What is rounding in a coordinate of each fibre, by the largest coefficient of its query, (fibres, 1)."""
        largest = np.zeros(int(self.queries.max(initial=-1)) + 1)
        np.maximum.at(largest, self.queries, np.abs(_flat(self.tensors)).max(axis=1, initial=0.0))
        return _ROUNDING * largest[self.queries][:, None]

    def rows(self, part: Floats, count: int) -> csr_array:
        """One coordinate of every fibre, (fibres,), as rows over the values, (queries, values)."""
        return csr_array((part, (self.queries, self.values)), shape=(count, self.size))


class AnyQueries(ABC):
    """Queries in the coordinates of every set."""

    domain: Domain  # what the table may hold
    strategies: tuple[Strategy, ...]  # how each attribute is measured
    attribute: int  # the position of the attribute with operators; −1 where there are none
    parts: Mapping[Set, Operator]  # the operator of each set that is measured along it, its noise included

    @abstractmethod
    def noise_of(self, members: Set) -> float:
        """`σ²` of a set, where there are no operators; infinite if it is not measured but could be."""

    def _listed_variances(self, workload: Workload) -> Floats:
        """Variances of explicit queries, in batches, (queries,); infinite: no answer."""
        matrix, short = workload.matrix, [i for i in workload.attributes if i != self.attribute]
        fibres = np.ones(workload.queries) if self.attribute < 0 else np.diff(matrix.indptr)
        batch = (np.cumsum(fibres) * math.prod(int(self.domain.sizes[i]) for i in short)).astype(np.int64) // _BATCH
        variances = np.empty(workload.queries)
        for some in np.split(np.arange(workload.queries), np.flatnonzero(np.diff(batch)) + 1):
            variances[some] = self._squares(self.fibres(workload.attributes, csr_array(matrix[some])), len(some))
        return variances

    def _combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        parts = combined(self.domain, combination)
        if self.attribute >= 0 or not all(self.strategies[i].complete for members in parts for i in members):
            members, table = in_one_table(self.domain, parts)
            return float(self._squares(self.fibres(members, csr_array(table.reshape(1, -1))), 1)[0])
        size = sum(float((part**2).sum()) for part in parts.values())
        coordinates: dict[Set, Floats] = {}
        for members, part in parts.items():
            for subset in subsets(members):
                own = self._contract(members, part[None], subset).ravel()  # axes outside the block have length 1
                coordinates[subset] = coordinates[subset] + own if subset in coordinates else own
        variance = 0.0
        for subset, own in coordinates.items():
            noise = self.noise_of(subset)
            shape = [1, *(self.strategies[i].count for i in subset)]
            square = float((own * self._weighed(subset, own.reshape(shape), subset).ravel()).sum())
            if np.isfinite(noise):
                variance += noise * square
            elif square > self._nothing(subset) * size:
                return float(np.inf)
        return variance

    def _listed_covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances of queries, all answerable, (queries of the first, queries of the second)."""
        total = np.zeros((first.queries, second.queries))
        others = list(self._listed(second))
        for start, count, one in self._listed(first):
            for begin, many, other in others:
                at = np.ix_(range(start, start + count), range(begin, begin + many))
                for subset in subsets(tuple(i for i in one.short if i in other.short)):
                    a, b = (self._contract(each.short, each.tensors, subset) for each in (one, other))
                    a, b = _flat(a), _flat(self._weighed(other.short, b, subset))
                    if self.attribute < 0:
                        noise = self.noise_of(subset)
                        total[at] += noise * (a @ b.T) if np.isfinite(noise) else 0.0
                    elif subset in self.parts:
                        a, b = (np.where(np.abs(x) > of.nothing, x, 0.0) for x, of in ((a, one), (b, other)))
                        for k in range(a.shape[1]):
                            rows = one.rows(a[:, k], count), other.rows(b[:, k], many)
                            total[at] += _between(self.parts[subset], *rows)
        return total

    def fibres(self, attributes: Sequence[int], matrix: csr_array) -> Fibres:
        """Queries over the cells of some attributes, (queries, cells), fibre by fibre."""
        short = tuple(i for i in attributes if i != self.attribute)
        entries = matrix.tocoo()
        codes = np.unravel_index(entries.col, [int(self.domain.sizes[i]) for i in attributes]) if attributes else ()
        at = dict(zip(attributes, codes, strict=True))
        shape = [int(self.domain.sizes[i]) for i in short]
        flat = np.ravel_multi_index([at[i] for i in short], shape) if short else np.zeros_like(entries.row)
        if self.attribute not in attributes:
            queries, fibre = np.arange(matrix.shape[0]), entries.row
            values, size = np.zeros(len(queries), dtype=np.int64), 1
        else:
            size = int(self.domain.sizes[self.attribute])
            both, fibre = np.unique(entries.row.astype(np.int64) * size + at[self.attribute], return_inverse=True)
            queries, values = np.divmod(both, size)
        tensors = csr_array((entries.data, (fibre, flat)), shape=(len(queries), math.prod(shape))).toarray()
        return Fibres(short, tensors.reshape(len(queries), *shape), queries, values, size)

    def _listed(self, workload: Workload) -> Iterator[tuple[int, int, Fibres]]:
        """Where the queries of each term begin, how many there are, and these; or all of a list."""
        if not workload.tabular:
            yield 0, workload.queries, self.fibres(workload.attributes, workload.matrix)
            return
        start = 0
        for term in workload.terms():
            matrix = sparse_kronecker(asked.sparse() for _, asked in term)
            yield start, matrix.shape[0], self.fibres([i for i, _ in term], matrix)
            start += matrix.shape[0]

    def _squares(self, fibres: Fibres, count: int) -> Floats:
        """The variances of so many queries, (queries,); infinite: no answer."""
        short, tensors, queries = fibres.short, fibres.tensors, fibres.queries
        variances = np.zeros(count)
        for axis, i in enumerate(short, start=1):
            variances[queries[self._outside(i, np.moveaxis(tensors, axis, -1))]] = np.inf
        size = (_flat(tensors) ** 2).sum(axis=1)
        for subset in subsets(short):
            part = self._contract(short, tensors, subset)
            if self.attribute < 0:
                noise = self.noise_of(subset)
                squares = _flat(part * self._weighed(short, part, subset)).sum(axis=1)
                lost = np.where(squares > self._nothing(subset) * size, np.inf, 0.0)
                variances += noise * squares if np.isfinite(noise) else lost
                continue
            part = _flat(part)
            fibre, k = np.nonzero(np.abs(part) > fibres.nothing)
            # One row for each query and coordinate of which there is anything.
            both, row = np.unique(queries[fibre] * part.shape[1] + k, return_inverse=True)
            operator, shape = self.parts.get(subset), (len(both), fibres.size)
            rows = csr_array((part[fibre, k], (row, fibres.values[fibre])), shape=shape)
            each = np.full(len(both), np.inf) if operator is None else _of_rows(operator, rows)
            variances += np.bincount(both // part.shape[1], each, minlength=count)
        return variances

    def _nothing(self, subset: Set) -> float:
        """What is rounding in a block, beside a query's squared length: along axes noise is weighed in passes."""
        totals = [1.0 / self.strategies[i].tells for i in subset if self.strategies[i].tells]
        return _NOTHING_ALONG * math.prod(totals) if totals else _NOTHING

    def _contract(self, members: Set, tensors: Floats, subset: Set) -> Floats:
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

    def _weighed(self, members: Set, part: Floats, subset: Set) -> Floats:
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


def _flat(tensors: Floats) -> Floats:
    return tensors.reshape(len(tensors), math.prod(tensors.shape[1:]))


def _of_rows(operator: Operator, rows: csr_array) -> Floats:
    """Variances of rows over the values; one column stands for the total."""
    if rows.shape[1] == operator.size:
        return operator.row_variances(rows)
    return np.asarray(operator.variances(None)[0] * rows.toarray().ravel() ** 2)


def _between(operator: Operator, rows: csr_array, others: csr_array) -> Floats:
    """Covariances of rows over the values; one column stands for the total."""
    whole = csr_array(np.ones((1, operator.size)))
    wide = [each if each.shape[1] == operator.size else each @ whole for each in (rows, others)]
    return operator.row_covariances(*wide)
