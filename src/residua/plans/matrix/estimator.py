"""What was measured of merged cells: estimates by least squares, and how far they stray."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from residua.language import mark, say
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import batches
from residua.plans.cells import Grouping
from residua.plans.estimator import Answerable, Clique, Estimator, as_workload, combination_query
from residua.plans.noise import NORMAL
from residua.plans.tails import reaches, single_reach


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
        return [Clique(plan.attributes, self.noisy / norm, math.sqrt(plan.noise_variance) / norm, wide / norm)]

    def _reaches(self, asked: Answerable, miss: float) -> Floats:
        """From the coefficients of every measurement in every answer."""
        given = combination_query(self.plan.domain, asked) if isinstance(asked, Mapping) else asked
        workload = self.plan.asked(given)
        U, s, _ = self.plan.factors
        deviation = math.sqrt(self.plan.noise_variance)
        widths = np.empty(workload.queries)
        for rows in batches(workload.queries, len(U), _ENTRIES):
            coefficients = np.abs((self.plan.coordinates(workload.some(rows)) / s) @ U.T)
            # Rounding leaves traces where a coefficient is 0; only leaving them in is safe.
            stddev = np.sqrt((coefficients**2).sum(axis=1)) * deviation
            with np.errstate(invalid="ignore", divide="ignore"):
                widths[rows] = np.where(stddev > 0, _reach(coefficients, self.plan.scale, miss) / stddev, 0.0)
        return widths[as_workload(self.plan.domain, given)[1]]


def _reach(coefficients: Floats, scale: float, miss: float) -> Floats:
    """How far `Σ_k c_k N_k` strays, N_k rounded Laplace of this scale: each is within 1/2 of its Laplace variable."""
    largest = coefficients.max(axis=1, initial=0.0)
    rest = coefficients.sum(axis=1) - largest
    reach = reaches(coefficients * scale, miss) + coefficients.sum(axis=1) / 2
    return np.asarray(np.where(rest <= 1e-12 * largest, (largest + rest) * single_reach(scale, miss), reach))
