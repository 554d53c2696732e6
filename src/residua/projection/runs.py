"""Projection of ordered values that were measured in runs: as along an axis, running sums that never fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.projection.axis import AxisProblem
from residua.projection.problem import Fit


@dataclass(frozen=True, eq=False)
class RunsProblem(AxisProblem):
    """Projection of releases of a plan over runs; observed are running sums, (n,).

    Args:
        plan: the plan, a `RunsPlan`.
        terms: what the counts must meet.
    """

    plan: Any

    @property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Not known: no bound is stated for Laplace noise."""
        raise PlanError("no bound is known for projections with Laplace noise; simulate errors instead.")

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """Not known."""
        raise PlanError("no bound is known for projections with Laplace noise; simulate errors instead.")

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth: noise through the same reading, added."""
        blocks = self.plan.blocks
        noise = np.empty(blocks.cells, dtype=np.int64)
        for low, high, scale in zip(blocks.starts, blocks.starts[1:], blocks.scales.tolist(), strict=False):
            noise[low:high] = np.rint(random.laplace(0.0, scale, high - low))
        return np.cumsum(fit.array + self.plan.reading(blocks, noise).values)
