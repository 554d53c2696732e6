"""Releases of pure marginal plans: every marginal of the family, consistent, pooled from noisy tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.linalg.layout import Group
from residua.plans.tables.blocks import PureMarginalBlocks
from residua.plans.tables.plan import PureMarginalPlan
from residua.release.base import Answerable
from residua.release.estimates import Estimator
from residua.release.family import FamilyRelease
from residua.release.intervals import check_confidence
from residua.release.laplace import reaches, single_reach
from residua.release.marginal_noise import noise_terms
from residua.release.pooling import pooled
from residua.workload import Explicit, Marginals, Products, as_explicit

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class PureMarginalRelease(FamilyRelease):
    """Measured marginals with Laplace noise.

    Guarantee: all tables agree; an interval holds the truth with at least the confidence stated (see
    `release.laplace`), several at once by the union bound.

    Args:
        planned: the plan.
        blocks: what was measured.
        measurements: the noisy integers, in the order of `blocks.layout`, (cells,).
        receipt: what the ledger recorded when it was debited.
    """

    planned: PureMarginalPlan
    blocks: PureMarginalBlocks
    measurements: NDArray[np.int64]
    receipt: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plan(self) -> PureMarginalPlan:
        """The plan: its variances already include the rounding of noise to integers."""
        return self.planned

    @cached_property
    def _estimator(self) -> Estimator:
        found = pooled(self.planned, self.blocks, self.measurements)
        return Estimator(found, found.numbers)

    @property
    def summary(self) -> str:
        """What was measured, in a sentence."""
        return (
            f"{len(self.blocks.measured):,} marginals over {len(self.domain)} attributes, "
            f"{self.blocks.cells:,} noisy integers in all; {len(self.sets):,} tables were asked for."
        )

    def all_estimates(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the family in batches of equal shape, streamed; see `Estimator.all_marginals`."""
        return self._estimator.all_marginals()

    def _marginal(self, positions: tuple[int, ...]) -> Floats:
        return self._estimator.marginal(positions)

    def _stddev(self, attributes: Sequence[str]) -> float:
        return math.sqrt(self.planned.variance(attributes))

    def _answered(self, workload: Explicit | Marginals | Products) -> tuple[Floats, Floats]:
        if isinstance(workload, Products):
            workload = as_explicit(workload)
        if isinstance(workload, Marginals):
            parts = [self.estimates(names).ravel() for names in workload.sets]
            return np.concatenate(parts), self.planned.variances(workload)
        found = [self._combined(combination) for combination in _combinations(workload)]
        return np.array([value for value, _ in found]), np.array([variance for _, variance in found])

    def _widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
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
            return np.array([self._combination_width(each, miss) for each in _combinations(asked)])
        return self._combination_width(asked, miss)

    def _cell_width(self, names: Sequence[str], miss: float) -> float:
        """The same for every cell of a marginal: it looks the same from each."""
        cell = np.zeros([int(self.domain[name].size) for name in names])
        cell.flat[0] = 1.0
        return self._combination_width({tuple(names): cell}, miss)

    def _combination_width(self, combination: Mapping[Sequence[str], ArrayLike], miss: float) -> float:
        stddev = math.sqrt(self.planned.combination_variance(combination))
        if stddev == 0:
            return 0.0
        # Several sets whose joint table is large: their reaches add up, each with its part of the chance.
        parts = noise_terms(self.planned, combination)
        return sum(_reach(terms, miss / len(parts)) for terms in parts) / stddev


def _reach(terms: tuple[Floats, Floats, Floats], miss: float) -> float:
    """How far a sum of rounded Laplace noise strays: coefficient, scale and multiplicity of its terms."""
    coefficients, scales, counts = terms
    if counts.sum() == 1:
        return float(coefficients[0]) * single_reach(float(scales[0]), miss)
    rounding = float((coefficients * counts).sum()) / 2
    return float(reaches((coefficients * scales)[None, :], miss, counts)[0]) + rounding


def _combinations(workload: Explicit) -> Iterator[Mapping[Sequence[str], ArrayLike]]:
    for i in range(workload.queries):
        yield {workload.names: workload.matrix[[i]].toarray().reshape(workload.shape)}
