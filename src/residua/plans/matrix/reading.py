"""What a measured matrix says: any query in the measured space, by least squares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.cells import Grouping
from residua.plans.noise import NORMAL
from residua.plans.reading import Answerable, Clique, Combination, Reading
from residua.plans.tails import check_confidence, reaches, single_reach
from residua.workload import Workload

_ENTRIES = 2**25  # of a reconstruction matrix held at a time


@dataclass(frozen=True, eq=False)
class MatrixReading(Reading):
    """Best linear unbiased estimates.

    Guarantee: with Laplace noise an interval holds the truth with at least the confidence stated: exactly (to the next
    integer of the measurement) for an answer that is one measurement, up to about 0.1 % of its width for others.
    Simultaneous intervals hold together by the union bound, whatever the correlations.

    Args:
        plan: the plan; its variances include the rounding of strategy and noise to integers.
        measurements: the noisy integers, (rows,).
    """

    plan: Any
    measurements: NDArray[Any]

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        rows, columns = self.plan.strategy.shape
        asked = self.plan.workload.queries if self.plan.workload is not None else 0
        return (
            f"{rows:,} integer combinations of {columns:,} groups of cells of {', '.join(self.plan.names)}; "
            f"{asked:,} queries were asked."
        )

    @cached_property
    def coordinates(self) -> Floats:
        """The measured vector in the orthonormal basis of the measured space, (r,)."""
        U, s, _ = self.plan.factors
        return np.asarray((U.T @ self.measurements.astype(np.float64)) / s)

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """Its cells as queries."""
        names = tuple(self.plan.domain.names[i] for i in positions)
        shape = [int(self.plan.domain.sizes[i]) for i in positions]
        return self.answers(self.plan.asked(names))[0].reshape(shape)

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Least squares."""
        inside = self.plan.coordinates(workload)
        variances = ((inside / self.plan.factors[1]) ** 2).sum(axis=1) * self.plan.noise_variance
        return inside @ self.coordinates, variances

    def combination(self, combination: Combination) -> tuple[float, float]:
        """One query."""
        values, variances = self.answers(self.plan.combined(combination))
        return float(values[0]), float(variances[0])

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """The measurements over the standard deviation of their noise."""
        plan, deviation = self.plan, math.sqrt(self.plan.noise_variance)
        if plan.noise != NORMAL:
            raise PlanError(f"{plan!r} has Laplace noise; give releases with Gaussian noise.")
        return Grouping(plan.attributes, plan.columns), plan.strategy / deviation, self.measurements / deviation

    def cliques(self) -> list[Clique]:
        """All rows over the cells of the plan's attributes."""
        plan, columns = self.plan, self.plan.columns
        if plan.noise != NORMAL:
            return super().cliques()
        wide = np.where(columns >= 0, plan.strategy[:, np.maximum(columns, 0)], 0)
        norm = float(np.abs(wide).max())  # entries near one: mbi works with floating-point gradients
        stddev = math.sqrt(plan.noise_variance) / norm
        return [Clique(plan.attributes, self.measurements / norm, stddev, wide / norm)]

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """For Laplace noise, from the coefficients of every measurement in every answer."""
        if self.plan.noise == NORMAL:
            return super().widths(asked, confidence, together)
        check_confidence(confidence)
        miss = (1.0 - confidence) / together
        workload = self.plan.combined(asked) if isinstance(asked, Mapping) else self.plan.asked(asked)
        U, s, _ = self.plan.factors
        deviation = math.sqrt(self.plan.noise_variance)
        found = np.empty(workload.queries)
        step = max(1, _ENTRIES // len(U))
        for start in range(0, workload.queries, step):
            rows = np.arange(start, min(start + step, workload.queries))
            part = _rows(workload, rows)
            coefficients = np.abs((self.plan.coordinates(part) / s) @ U.T)
            # Rounding leaves traces where a coefficient is 0; only leaving them in is safe.
            stddev = np.sqrt((coefficients**2).sum(axis=1)) * deviation
            with np.errstate(invalid="ignore", divide="ignore"):
                found[rows] = np.where(stddev > 0, _reach(coefficients, self.plan.scale, miss) / stddev, 0.0)
        return self._in_order(asked, found)

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
    found = reaches(coefficients * scale, miss) + coefficients.sum(axis=1) / 2
    alone = rest <= 1e-12 * largest
    return np.asarray(np.where(alone, (largest + rest) * single_reach(scale, miss), found))


def _rows(workload: Workload, rows: Integers) -> Workload:
    if len(rows) == workload.queries:
        return workload
    if not len(rows):
        raise PlanError("there is no query to give an interval for.")
    labels = tuple(workload.labels[i] for i in rows)
    return Workload.of_matrix(
        workload.domain, workload.attributes, workload.matrix[rows], labels, workload.weights[rows].copy()
    )
