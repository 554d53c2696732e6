"""Releases of plans that measure one integer matrix: any query in the measured space, by least squares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.plans.matrix.blocks import StrategyBlocks
from residua.plans.matrix.dense_blocks import DenseBlocks
from residua.plans.matrix.plan import DensePlan
from residua.plans.matrix.strategy_plan import StrategyPlan
from residua.release.base import Release
from residua.workload import Explicit, Marginals, Products, explicit_of_products

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class StrategyRelease(Release):
    """A measured strategy. Answers are the best linear unbiased estimates.

    Args:
        planned: the plan.
        blocks: what was measured.
        measurements: the noisy integers, (rows,).
        receipt: what the ledger recorded when it was debited.
    """

    planned: StrategyPlan
    blocks: StrategyBlocks
    measurements: NDArray[np.int64]
    receipt: Mapping[str, Any] = field(default_factory=dict)

    @property
    @abstractmethod
    def plan(self) -> StrategyPlan:
        """The plan: its variances already include the rounding of strategy and noise to integers."""

    @property
    def summary(self) -> str:
        """What was measured, in a sentence."""
        rows, columns = self.blocks.strategy.shape
        asked = self.planned.workload.queries if self.planned.workload is not None else 0
        return (
            f"{rows:,} integer combinations of {columns:,} groups of cells of {', '.join(self.planned.names)}; "
            f"{asked:,} queries were asked."
        )

    @cached_property
    def _coordinates(self) -> Floats:
        """The measured vector in the orthonormal basis of the measured space, (r,)."""
        U, s, _ = self.planned.factors
        return np.asarray((U.T @ self.measurements.astype(np.float64)) / s)

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """Unbiased estimates of the marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: the release cannot answer this marginal.
        """
        positions = self.domain.positions(attributes)
        self.planned.variance(tuple(attributes))  # says which table, if it cannot be answered
        found, _ = self._answered(self.planned.asked(tuple(attributes)))
        shape = [int(self.domain.sizes[i]) for i in sorted(positions)]
        return np.array(found.reshape(shape).transpose(np.argsort(np.argsort(positions))), order="C")

    def __repr__(self) -> str:
        return f"Release({self.asked_cells:,.0f} queries, {self.planned.guarantee!r}, {self.planned.unit})"

    def _stddev(self, attributes: Sequence[str]) -> Floats:
        return np.sqrt(self.planned.variance(attributes))

    def _combined(self, combination: Mapping[Sequence[str], ArrayLike]) -> tuple[float, float]:
        values, variances = self._answered(self.planned.combined(combination))
        return float(values[0]), float(variances[0])

    def _answered(self, workload: Explicit | Marginals | Products) -> tuple[Floats, Floats]:
        if isinstance(workload, Products):
            workload = explicit_of_products(workload)
        s = self.planned.factors[1]
        inside = self.planned.coordinates(workload)
        return inside @ self._coordinates, ((inside / s) ** 2).sum(axis=1) * self.planned.noise_variance


@dataclass(frozen=True, eq=False, repr=False)
class DenseRelease(StrategyRelease):
    """A measured dense plan. Answers are the best linear unbiased estimates."""

    planned: DensePlan
    blocks: DenseBlocks

    @property
    def plan(self) -> DensePlan:
        """The plan: its variances already include the rounding of strategy and noise to integers."""
        return self.planned
