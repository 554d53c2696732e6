"""What was measured as a space: which queries lie in it, and with what variance each is answered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, WorkloadError
from residua.language import mark, say
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.modes import largest_entry
from residua.plans.cells import Grouping
from residua.plans.estimator import Answerable, Clique, Estimator, as_workload, combination_query
from residua.plans.noise import NORMAL, Noise
from residua.plans.tails import reaches, single_reach
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.quoting import Term
from residua.workload import Workload
from residua.workload.pieces import MOST_CELLS

_BATCH = 2**22


class MeasuredSpace:
    """Facts about linear measurements of merged cells: those of `MatrixPlan`."""

    domain: Domain
    attributes: tuple[int, ...]
    columns: Integers
    strategy: Integers
    scale: float
    noise: Noise

    @cached_property
    def factors(self) -> tuple[Floats, Floats, Floats]:
        """Singular values and vectors of B within its numerical rank: (rows, r), (r,), (r, columns)."""
        U, s, Vt = np.linalg.svd(self.strategy.astype(np.float64), full_matrices=False)
        rank = int((s > s.max(initial=0.0) * 1e-12).sum())
        return U[:, :rank], s[:rank], Vt[:rank]

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each measurement, its rounding included."""
        return self.noise.variance(self.scale)

    @cached_property
    def error_profile(self) -> Floats:
        """`(AᵀA)⁻¹` on the merged cells, its pseudo-inverse if not all are measured, (columns, columns).

        A is the strategy in units of its largest coefficient, as for `sensitivity`.
        """
        _, s, Vt = self.factors
        return np.asarray((Vt.T * (self._largest / s) ** 2) @ Vt)

    @property
    def _largest(self) -> float:
        """The largest coefficient of the integer strategy: what counts as 1."""
        return float(largest_entry(self.strategy)) or 1.0

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
        variances = np.full(asked.queries, np.inf)
        for rows, inside, good in self._projected(asked):
            variances[rows[good]] = ((inside[good] / s) ** 2).sum(axis=1) * self.noise_variance
        return variances

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
            paired = (self.coordinates(term.workload) / self.factors[1]).reshape(*term.shape, -1)
            paired = paired.transpose(*moved, len(order))
            parts.append(paired.reshape(*paired.shape[:lead], -1, paired.shape[-1]))
        one, two = parts
        paired = np.matmul(one, np.swapaxes(two, -1, -2)) if crossed else (one * two).sum(axis=-1)[..., 0]
        return np.asarray(paired * self.noise_variance)

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

    def asked(self, workload: Workload | Sequence[str]) -> Workload:
        """Any workload, or the marginal on some attributes, as explicit queries."""
        try:
            return as_workload(self.domain, workload)[0].listed()
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
        if math.prod(int(self.domain.sizes[i]) for i in attributes) > MOST_CELLS:
            return attributes, None
        return attributes, Grouping(self.attributes, self.columns).over(attributes, self.domain.sizes)

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


_ENTRIES = 2**25  # of a reconstruction matrix held at a time


class MatrixEstimator(Estimator):
    """Best linear unbiased estimates.

    With Laplace noise intervals of an answer that is one measurement are exact (to the next integer), others wider by
    about 0.1 %.
    """

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        rows, columns = self.plan.strategy.shape
        asked = self.plan.workload.queries if self.plan.workload is not None else 0
        words = mark("{rows} integer combinations of {columns} groups of cells of {names}; {asked} queries were asked.")
        return say(words, rows=rows, columns=columns, names=", ".join(self.plan.names), asked=asked)

    @cached_property
    def cells(self) -> Floats:
        """Least squares, the sum of merged cells at the first of them, as queries that are answered allow."""
        U, s, Vt = self.plan.factors
        many = self.noisy.shape[:-1]
        cells = np.zeros((*many, len(self.plan.columns)))
        cells[..., first_cells(self.plan.columns)] = (self.noisy.astype(np.float64) @ U / s) @ Vt
        return cells.reshape((*many, *self.plan.shape))

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """Sums of the estimated cells."""
        many, own = self.noisy.shape[:-1], self.plan.attributes
        sums = self.cells.sum(axis=tuple(axis for axis, i in enumerate(own, start=len(many)) if i not in positions))
        table = np.zeros((*many, *(int(self.plan.domain.sizes[i]) for i in positions)))
        # An attribute that is not measured is asked evenly, if at all: all may stand at its first value.
        table[(..., *(slice(None) if i in own else 0 for i in positions))] = sums
        return table

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Over the deviation of the noise, of which rounding is a part."""
        grouping, rows, measured = super().whitened()
        share = self.plan.scale / math.sqrt(self.plan.noise_variance)
        return grouping, rows * share, measured * share

    def _whitened(self) -> Floats:
        return np.asarray(self.noisy / self.plan.scale)

    def cliques(self) -> list[Clique]:
        """All rows over the cells of the plan's attributes."""
        plan, columns = self.plan, self.plan.columns
        if plan.noise != NORMAL:
            return super().cliques()
        wide = np.where(columns >= 0, plan.strategy[:, np.maximum(columns, 0)], 0)
        norm = float(np.abs(wide).max())  # entries near one: mbi works with floating-point gradients
        stddev = math.sqrt(plan.noise_variance) / norm
        return [Clique(plan.attributes, self.noisy / norm, stddev, wide / norm)]

    def _reaches(self, asked: Answerable, miss: float) -> Floats:
        """From the coefficients of every measurement in every answer."""
        domain = self.plan.domain
        workload = combination_query(domain, asked) if isinstance(asked, Mapping) else self.plan.asked(asked)
        U, s, _ = self.plan.factors
        deviation = math.sqrt(self.plan.noise_variance)
        widths = np.empty(workload.queries)
        step = max(1, _ENTRIES // len(U))
        for start in range(0, workload.queries, step):
            rows = np.arange(start, min(start + step, workload.queries))
            part = _rows(workload, rows)
            coefficients = np.abs((self.plan.coordinates(part) / s) @ U.T)
            # Rounding leaves traces where a coefficient is 0; only leaving them in is safe.
            stddev = np.sqrt((coefficients**2).sum(axis=1)) * deviation
            with np.errstate(invalid="ignore", divide="ignore"):
                widths[rows] = np.where(stddev > 0, _reach(coefficients, self.plan.scale, miss) / stddev, 0.0)
        return self._in_order(asked, widths)

    def _in_order(self, asked: Answerable, found: Floats) -> Floats:
        """Widths of a table in the order in which its attributes were asked for."""
        if not isinstance(asked, tuple):
            return found
        positions = self.plan.domain.positions(asked)
        shape = [int(self.plan.domain.sizes[i]) for i in sorted(positions)]
        return np.asarray(found.reshape(shape).transpose(np.argsort(np.argsort(positions))).ravel())


def _reach(coefficients: Floats, scale: float, miss: float) -> Floats:
    """How far `Σ_k c_k N_k` strays, N_k rounded Laplace of this scale: each is within 1/2 of its Laplace variable."""
    largest = coefficients.max(axis=1, initial=0.0)
    rest = coefficients.sum(axis=1) - largest
    reach = reaches(coefficients * scale, miss) + coefficients.sum(axis=1) / 2
    alone = rest <= 1e-12 * largest
    return np.asarray(np.where(alone, (largest + rest) * single_reach(scale, miss), reach))


def _rows(workload: Workload, rows: Integers) -> Workload:
    if len(rows) == workload.queries:
        return workload
    if not len(rows):
        raise PlanError("there is no query to give an interval for.")
    labels = tuple(workload.labels[i] for i in rows)
    return Workload.of_matrix(
        workload.domain, workload.attributes, workload.matrix[rows], labels, workload.weights[rows].copy()
    )
