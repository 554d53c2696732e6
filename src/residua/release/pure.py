"""Releases of pure plans: the same least squares, and intervals for sums of Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.plans.matrix.pure_blocks import PureBlocks
from residua.plans.matrix.pure_plan import PurePlan
from residua.release.base import Answerable
from residua.release.dense import StrategyRelease
from residua.release.intervals import check_confidence
from residua.release.laplace import reaches, single_reach
from residua.workload import Explicit, Products, as_explicit

Floats = NDArray[np.float64]
_ENTRIES = 2**25  # of a reconstruction matrix held at a time


@dataclass(frozen=True, eq=False, repr=False)
class PureRelease(StrategyRelease):
    """A measured pure plan. Answers are the best linear unbiased estimates.

    Guarantee: an interval holds the truth with at least the confidence stated: exactly (to the next integer of the
    measurement) for an answer that is one measurement, up to about 0.1 % of its width for others. Simultaneous
    intervals hold together by the union bound, whatever the correlations.
    """

    planned: PurePlan
    blocks: PureBlocks

    @property
    def plan(self) -> PurePlan:
        """The plan: its variances already include the rounding of strategy and noise to integers."""
        return self.planned

    def _widths(self, asked: Answerable, confidence: float, together: float) -> Floats:
        check_confidence(confidence)
        miss = (1.0 - confidence) / together
        if isinstance(asked, Mapping):
            asked = self.planned.combined(asked)
        if isinstance(asked, Products):
            asked = as_explicit(asked)
        workload = self.planned.asked(asked)
        U, s, _ = self.planned.factors
        deviation = math.sqrt(self.planned.noise_variance)
        found = np.empty(workload.queries)
        step = max(1, _ENTRIES // len(U))
        for start in range(0, workload.queries, step):
            rows = np.arange(start, min(start + step, workload.queries))
            part = _rows(workload, rows)
            coefficients = np.abs((self.planned.coordinates(part) / s) @ U.T)
            # Digits lost to the factors of B leave traces where a coefficient is 0; they may only be left in.
            stddev = np.sqrt((coefficients**2).sum(axis=1)) * deviation
            with np.errstate(invalid="ignore", divide="ignore"):
                found[rows] = np.where(stddev > 0, _reach(coefficients, self.planned.scale, miss) / stddev, 0.0)
        return self._in_order(asked, found)

    def _in_order(self, asked: Answerable, found: Floats) -> Floats:
        """Widths of a table in the order in which its attributes were asked for."""
        if not isinstance(asked, tuple):
            return found
        positions = self.domain.positions(asked)
        shape = [int(self.domain.sizes[i]) for i in sorted(positions)]
        return np.asarray(found.reshape(shape).transpose(np.argsort(np.argsort(positions))).ravel())


def _reach(coefficients: Floats, scale: float, miss: float) -> Floats:
    """How far `Σ_k c_k N_k` strays, N_k rounded Laplace of this scale: each is within 1/2 of its Laplace variable."""
    largest = coefficients.max(axis=1, initial=0.0)
    rest = coefficients.sum(axis=1) - largest
    found = reaches(coefficients * scale, miss) + coefficients.sum(axis=1) / 2
    alone = rest <= 1e-12 * largest
    return np.asarray(np.where(alone, (largest + rest) * single_reach(scale, miss), found))


def _rows(workload: Explicit, rows: NDArray[np.int64]) -> Explicit:
    if len(rows) == workload.queries:
        return workload
    if not len(rows):
        raise PlanError("there is no query to give an interval for.")
    labels = tuple(workload.labels[i] for i in rows)
    return Explicit(workload.domain, workload.attributes, workload.matrix[rows], labels, workload.weights[rows].copy())
