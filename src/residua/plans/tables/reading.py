"""What noisy tables say: every marginal of the family, consistent, pooled from all that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.cells import Grouping
from residua.plans.lattice.estimates import PlainEstimator
from residua.plans.lattice.reading import FamilyReading
from residua.plans.reading import Answerable, Combination
from residua.plans.tables.measured import MeasuredTables
from residua.plans.tables.noise_terms import noise_terms
from residua.plans.tables.pooling import Pooled, pooled
from residua.plans.tails import check_confidence, reaches, single_reach
from residua.workload import Explicit, Marginals, Products, as_explicit


@dataclass(frozen=True, eq=False)
class TablesReading(FamilyReading):
    """Estimates pooled from noisy tables.

    Guarantee: all tables agree; an interval holds the truth with at least the confidence stated (`tails.py`), several
    at once by the union bound.

    Args:
        plan: the plan; its variances include the rounding of noise to integers.
        tables: what was measured.
        measurements: the noisy integers, in the order of `tables.layout`, (cells,).
    """

    plan: Any
    tables: MeasuredTables
    measurements: NDArray[Any]

    @cached_property
    def pooled(self) -> Pooled:
        """What all tables together say of every residual."""
        return pooled(self.tables, self.measurements)

    @cached_property
    def estimator(self) -> PlainEstimator:
        """What rebuilds marginals."""
        return PlainEstimator(self.pooled, self.pooled.numbers)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        asked = 0 if self.plan.workload is None else len(self.plan.workload)
        return (
            f"{len(self.tables.measured):,} marginals over {len(self.plan.domain)} attributes, "
            f"{len(self.measurements):,} noisy integers in all; {asked:,} tables were asked for."
        )

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Laplace noise has no such form."""
        raise PlanError(f"{self.plan!r} has Laplace noise; give releases with Gaussian noise.")

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """From the coefficient of every measured cell in an answer."""
        check_confidence(confidence)
        miss = (1.0 - confidence) / together
        if isinstance(asked, Products):
            asked = as_explicit(asked)
        if isinstance(asked, tuple):
            return self._cell_width(asked, miss)
        if isinstance(asked, Marginals):
            widths = [self._cell_width(names, miss) for names in asked.sets]
            return np.repeat(widths, asked.cells.astype(np.int64))
        if isinstance(asked, Explicit):
            return np.array([self._width(each, miss) for each in _combinations(asked)])
        return self._width(asked, miss)

    def _cell_width(self, names: Sequence[str], miss: float) -> float:
        """The same for every cell of a marginal: it looks the same from each."""
        cell = np.zeros([int(self.plan.domain[name].size) for name in names])
        cell.flat[0] = 1.0
        return self._width({tuple(names): cell}, miss)

    def _width(self, combination: Combination, miss: float) -> float:
        stddev = math.sqrt(self.plan.combination_variance(combination))
        if stddev == 0:
            return 0.0
        # Several sets whose joint table is large: their reaches add up, each with its part of the chance.
        parts = noise_terms(self.tables, combination)
        return sum(_reach(terms, miss / len(parts)) for terms in parts) / stddev


def _reach(terms: tuple[Floats, Floats, Floats], miss: float) -> float:
    """How far a sum of rounded Laplace noise strays: coefficient, scale and multiplicity of its terms."""
    coefficients, scales, counts = terms
    if counts.sum() == 1:
        return float(coefficients[0]) * single_reach(float(scales[0]), miss)
    rounding = float((coefficients * counts).sum()) / 2
    return float(reaches((coefficients * scales)[None, :], miss, counts)[0]) + rounding


def _combinations(workload: Explicit) -> Iterator[Combination]:
    for i in range(workload.queries):
        yield {workload.names: workload.matrix[[i]].toarray().reshape(workload.shape)}
