"""Variances and covariances of any queries over the cells of some attributes, under the noise of a product plan.

Without operators a query is contracted with v_i or with F_i along each axis, one block at a time. Along an attribute
with operators it is a table of rows along that attribute, in orthonormal coordinates of the short ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, kron

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats
from residua.linalg.lattice import Set, subsets
from residua.linalg.modes import contrasts
from residua.plans.estimator import in_one_table
from residua.plans.operators.contract import Operator
from residua.plans.strategy import Strategy
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.workload import Workload

_NOTHING = 1e-18  # a variance coefficient this small beside the query's own length is rounding
_NOTHING_ALONG = 1e-11  # the same along axes, beside the variance of the total
_ROUNDING = 1e-13  # of the largest coefficient of a query: rounding
_MOST = 2**27  # entries of the rows of one set, at most
_BATCH = 2**22


@dataclass(frozen=True, eq=False)
class Contracted:
    """Queries in the coordinates of every block, where each block has one number as its noise.

    Args:
        domain: what the table may hold.
        strategies: how each attribute is measured.
        noise_of: `σ²` of a set; infinite where it is not measured.
    """

    domain: Domain
    strategies: tuple[Strategy, ...]
    noise_of: Callable[[Set], float]

    def variances(self, workload: Workload) -> Floats:
        """Variances of explicit queries, in batches, (queries,); infinite: no answer."""
        step = max(1, _BATCH // max(workload.matrix.shape[1], 1))
        variances = np.empty(workload.queries)
        for start in range(0, workload.queries, step):
            stop = min(start + step, workload.queries)
            rows = workload.matrix[np.arange(start, stop)].toarray().reshape(stop - start, *workload.shape)
            variances[start:stop] = self._tensors(workload.attributes, rows)
        return variances

    def combination(self, parts: Mapping[tuple[int, ...], Floats]) -> float:
        """The variance of a linear combination of cells, sets → coefficients; infinite: no answer."""
        if not all(self.strategies[i].complete for members in parts for i in members):
            union, total = in_one_table(self.domain, parts)
            return float(self._tensors(union, total[None])[0])
        size = sum(float((part**2).sum()) for part in parts.values())
        coordinates: dict[tuple[int, ...], Floats] = {}
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

    def _tensors(self, members: tuple[int, ...], tensors: Floats) -> Floats:
        """Variances of any queries over the cells of some attributes, (queries, n_1, …, n_k); infinite: no answer."""
        variances = np.zeros(len(tensors))
        size = (tensors.reshape(len(tensors), -1) ** 2).sum(axis=1)
        for axis, i in enumerate(members, start=1):
            variances[self._outside(i, np.moveaxis(tensors, axis, -1))] = np.inf
        for subset in subsets(members):
            noise = self.noise_of(subset)
            part = self._contract(members, tensors, subset)
            coefficients = (part * self._weighed(members, part, subset)).reshape(len(part), -1).sum(axis=1)
            if np.isfinite(noise):
                variances += noise * coefficients
            else:
                variances[coefficients > self._nothing(subset) * size] = np.inf
        return variances

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

    def covariance(self, first: Workload, second: Workload) -> Floats:
        """The same where one of them is a list of any queries: block by block, in the blocks' own coordinates."""
        a, b = self._coordinates(first), self._coordinates(second, weighed=True)
        total = np.zeros((first.queries, second.queries))
        for subset in sorted({*a} & {*b}):
            noise = self.noise_of(subset)
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
        coordinates: dict[tuple[int, ...], Floats] = {}
        start = 0
        for members, tensor in tensors:
            for subset in subsets(members):
                own = self._contract(members, tensor, subset)
                part = (self._weighed(members, own, subset) if weighed else own).reshape(len(tensor), -1)
                whole = coordinates.setdefault(subset, np.zeros((workload.queries, part.shape[1])))
                whole[start : start + len(tensor)] = part
            start += len(tensor)
        return coordinates


@dataclass(frozen=True, eq=False)
class AlongAttribute:
    """Queries as rows along the attribute with operators.

    Args:
        domain: what the table may hold.
        attribute: the position of the attribute with operators.
        parts: the operator of each set of short attributes that is measured.
    """

    domain: Domain
    attribute: int
    parts: Mapping[Set, Operator]

    def variances(self, workload: Workload) -> Floats:
        """The variance of every query, (queries,); infinite: no answer."""
        total = np.zeros(workload.queries)
        for members, rows in self.along_attribute(workload):
            used = np.flatnonzero(np.diff(rows.indptr))
            each = np.zeros(rows.shape[0])
            if len(used):
                operator = self.parts.get(members)
                some = csr_array(rows[used])
                each[used] = np.inf if operator is None else self._of_rows(operator, some)
            total += each.reshape(workload.queries, -1).sum(axis=1)
        return total

    def combination(self, parts: Mapping[Set, Floats]) -> float:
        """The variance of a linear combination of cells, sets → coefficients; infinite: no answer."""
        members, total = in_one_table(self.domain, parts)
        row = Workload.of_matrix(self.domain, members, csr_array(total.reshape(1, -1)), ("",), np.ones(1))
        return float(self.variances(row)[0])

    def covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances of queries, all answerable, (queries of the first, queries of the second)."""
        first, second = first.listed(), second.listed()
        total = np.zeros((first.queries, second.queries))
        others = dict(self.along_attribute(second))
        for members, rows in self.along_attribute(first):
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

    def along_attribute(self, workload: Workload) -> Iterator[tuple[Set, csr_array]]:
        """Every query over the values of orthonormal fibres of each set, (queries × fibres, n).

        Of a workload that does not ask of the attribute there is one column, the total's, (queries × fibres, 1).

        Raises:
            PlanError: too many of them.
        """
        short = [j for j in workload.attributes if j != self.attribute]
        n = int(self.domain.sizes[self.attribute]) if self.attribute in workload.attributes else 1
        m, matrix = workload.queries, workload.matrix.tocoo()
        codes = np.unravel_index(matrix.col, workload.shape) if workload.attributes else ()
        places = dict(zip(workload.attributes, codes, strict=True))
        flat = np.zeros(len(matrix.col), dtype=np.int64)
        for j in short:
            flat = flat * int(self.domain.sizes[j]) + places[j]
        cells = int(np.prod([int(self.domain.sizes[j]) for j in short], dtype=np.int64))
        at = matrix.row.astype(np.int64) * n + places.get(self.attribute, np.zeros(len(flat), dtype=np.int64))
        table = csr_array((matrix.data, (at, flat)), shape=(m * n, cells))
        largest = abs(workload.matrix).max(axis=1).toarray().ravel() if matrix.nnz else np.zeros(m)
        for members in subsets(tuple(short)):
            onto: csr_array = csr_array(np.ones((1, 1)))
            for j in short:
                size = int(self.domain.sizes[j])
                onto = csr_array(kron(onto, contrasts(size) if j in members else np.full((1, size), 1.0 / size)))
            fibres = onto.shape[0]
            if table.nnz * fibres > _MOST:
                raise PlanError("these queries are too many for a list; ask for products of rows, or for fewer.")
            entries = csr_array(table @ onto.T).tocoo()
            query = entries.row.astype(np.int64) // n
            kept = np.abs(entries.data) > _ROUNDING * largest[query]
            rows = (query * fibres + entries.col)[kept], (entries.row % n)[kept]
            yield members, csr_array((entries.data[kept], rows), shape=(m * fibres, n))
