"""What was measured as a space: which queries lie in it, and with what variance each is answered."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain
from residua.errors import PlanError, WorkloadError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.plans.questions import combined, in_one_table
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.quoting import Term
from residua.workload import Workload, explicit, marginals
from residua.workload.listed import MOST_CELLS

_BATCH = 2**22


class MeasuredSpace(ABC):
    """Facts about linear measurements of merged cells."""

    domain: Domain
    attributes: tuple[int, ...]
    columns: Integers

    @property
    @abstractmethod
    def factors(self) -> tuple[Floats, Floats, Floats]:
        """Singular values and vectors of what is measured within its numerical rank: (rows, r), (r,), (r, columns)."""

    @property
    @abstractmethod
    def noise_variance(self) -> float:
        """The variance of the noise on each measurement, its rounding included."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each of the attributes has."""
        return tuple(int(self.domain.sizes[i]) for i in self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes whose cells are told apart."""
        return tuple(self.domain.names[i] for i in self.attributes)

    def _variances(self, workload: Workload) -> Floats:
        """The variance of every query of a workload, (queries,); infinite where it cannot be answered."""
        asked = self.asked(workload)
        _, s, _ = self.factors
        found = np.full(asked.queries, np.inf)
        for rows, inside, good in self._projected(asked):
            found[rows[good]] = ((inside[good] / s) ** 2).sum(axis=1) * self.noise_variance
        return found

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances between the queries of two workloads, (queries, queries).

        Raises:
            PlanError: a query cannot be answered.
        """
        a, b = self.coordinates(first), self.coordinates(second)
        return np.asarray((a / self.factors[1]) @ (b / self.factors[1]).T * self.noise_variance)

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        """Covariances place by place; see `residua.quoting.Answering`."""
        order = list(first.rows)
        moved = [order.index(i) for i in (*(i for i in order if i not in crossed), *crossed)]
        lead = len(order) - len(crossed)
        parts = []
        for term in (first, second):
            found = (self.coordinates(term.workload) / self.factors[1]).reshape(*term.shape, -1)
            found = found.transpose(*moved, len(order))
            parts.append(found.reshape(*found.shape[:lead], -1, found.shape[-1]))
        one, two = parts
        found = np.matmul(one, np.swapaxes(two, -1, -2)) if crossed else (one * two).sum(axis=-1)[..., 0]
        return np.asarray(found * self.noise_variance)

    def coordinates(self, workload: Workload) -> Floats:
        """The queries in the orthonormal basis of the measured space (see `factors`), (queries, r).

        Raises:
            PlanError: a query cannot be answered without bias.
        """
        return np.vstack([inside for _, inside, _ in self._required(self.asked(workload))])

    def reconstruction(self, workload: Workload) -> Floats:
        """The matrix that turns measurements into the best unbiased answers, (queries, measurements)."""
        U, s, _ = self.factors
        return np.asarray((self.coordinates(workload) / s) @ U.T)

    def combined(self, combination: Mapping[Sequence[str], ArrayLike]) -> Workload:
        """A linear combination of cells as one query."""
        attributes, total = in_one_table(self.domain, combined(self.domain, combination))
        return explicit(self.domain, total.reshape(1, -1), attributes=[self.domain.names[i] for i in attributes])

    def asked(self, workload: Workload | Sequence[str]) -> Workload:
        """Any workload, or the marginal on some attributes, as explicit queries."""
        if not isinstance(workload, Workload):
            workload = marginals(self.domain, [workload])
        if workload.domain != self.domain:
            raise PlanError("the plan and the workload are over different domains; declare one domain for both.")
        try:
            return workload.listed()
        except WorkloadError as problem:
            raise PlanError(str(problem)) from None

    def _required(self, workload: Workload) -> list[tuple[Integers, Floats, Booleans]]:
        parts = list(self._projected(workload))
        if not all(good.all() for _, _, good in parts):
            raise PlanError("this plan does not answer all of these queries; plan for a workload that asks for them.")
        return parts

    def _spread(self, others: tuple[int, ...]) -> tuple[tuple[int, ...], Integers | None]:
        """Our attributes and these, and the column of each of their cells; None if there are too many."""
        attributes = tuple(sorted({*self.attributes, *others}))
        shape = tuple(int(self.domain.sizes[i]) for i in attributes)
        if math.prod(shape) > MOST_CELLS:
            return attributes, None
        own = [n if i in self.attributes else 1 for i, n in zip(attributes, shape, strict=True)]
        return attributes, np.broadcast_to(self.columns.reshape(own), shape).ravel()

    def _projected(self, workload: Workload) -> Iterator[tuple[Integers, Floats, Booleans]]:
        """Batches of (rows, coordinates in the measured space, which rows lie in it)."""
        attributes, columns = self._spread(workload.attributes)
        if columns is None:  # too many cells to list: such queries tell more apart than any matrix plan
            yield (
                np.arange(workload.queries),
                np.zeros((workload.queries, len(self.factors[1]))),
                np.zeros(workload.queries, bool),
            )
            return
        wide = workload.over(attributes)
        first = first_cells(columns)
        Vt = self.factors[2]
        step = max(1, _BATCH // max(wide.shape[1], 1))
        for start in range(0, workload.queries, step):
            rows = np.arange(start, min(start + step, workload.queries))
            full = wide[rows].toarray()
            merged = full[:, first]
            apart = full - np.append(merged, np.zeros((len(rows), 1)), axis=1)[:, columns]  # −1 is the last: nothing
            inside = merged @ Vt.T
            outside = np.linalg.norm(merged - inside @ Vt, axis=1)
            size = np.linalg.norm(merged, axis=1)
            yield rows, inside, (outside <= SUPPORT_TOLERANCE * size) & (np.abs(apart).max(axis=1, initial=0.0) == 0)


def first_cells(columns: Integers) -> Integers:
    """For each column, the first of the cells it stands for, (columns,)."""
    asked = np.flatnonzero(columns >= 0)
    first = np.zeros(int(columns.max(initial=-1)) + 1, dtype=np.int64)
    first[columns[asked][::-1]] = asked[::-1]
    return first
