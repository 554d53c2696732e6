"""Releases of residual plans: every marginal of the closure, consistent, from integer residuals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.linalg.layout import Group
from residua.plan.residual.blocks import ResidualBlocks
from residua.plan.residual.plan import ResidualPlan
from residua.release.base import Release
from residua.release.estimates import Estimator
from residua.workload import Explicit, Marginals

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ResidualRelease(Release):
    """A measured residual plan.

    Args:
        planned: the plan as it was made.
        blocks: what was really measured.
        measurements: the noisy integers, in the order of `blocks.layout`, (cells,).
        receipt: what the ledger recorded when it was debited.
    """

    planned: ResidualPlan
    blocks: ResidualBlocks
    measurements: NDArray[np.int64]
    receipt: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def plan(self) -> ResidualPlan:
        """The plan with the precisions really measured, the rounding of noise to integers included."""
        precisions = np.zeros(len(self.planned.lattice))
        precisions[self.blocks.measured] = 1.0 / self.blocks.noise_variances
        return replace(self.planned, precisions=precisions)

    @cached_property
    def _estimator(self) -> Estimator:
        return Estimator(self.blocks, self.measurements)

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The marginals that were asked for."""
        return self.planned.workload.sets if self.planned.workload is not None else ()

    @property
    def summary(self) -> str:
        """What was measured, in a sentence."""
        return (
            f"{len(self.blocks.measured):,} residuals of marginals over {len(self.domain)} attributes, "
            f"{self.blocks.cells:,} noisy integers in all; {len(self.sets):,} tables were asked for."
        )

    @property
    def asked_cells(self) -> float:
        """How many cells were asked for."""
        return float(self.planned.workload.queries) if self.planned.workload is not None else 1.0

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """Unbiased estimates of the marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: the release cannot answer this marginal.
        """
        positions = self.domain.positions(attributes)
        self.plan.variance(tuple(attributes))
        order = np.argsort(np.argsort(positions))
        return np.array(self._estimator.marginal(tuple(sorted(positions))).transpose(order), order="C")

    def all_estimates(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the closure in batches of equal shape, streamed; see `Estimator.all_marginals`."""
        return self._estimator.all_marginals()

    def __repr__(self) -> str:
        return f"Release({len(self.sets):,} tables, {self.planned.guarantee!r}, {self.planned.unit})"

    def _stddev(self, attributes: Sequence[str]) -> float:
        return math.sqrt(self.plan.variance(attributes))

    def _combined(self, combination: Mapping[Sequence[str], ArrayLike]) -> tuple[float, float]:
        variance = self.plan.combination_variance(combination)
        value = sum(
            float((self.estimates(tuple(names)) * np.asarray(coefficients, dtype=np.float64)).sum())
            for names, coefficients in combination.items()
        )
        return value, variance

    def _answered(self, workload: Explicit | Marginals) -> tuple[Floats, Floats]:
        if isinstance(workload, Marginals):
            parts = [self.estimates(names).ravel() for names in workload.sets]
            return np.concatenate(parts), self.plan.variances(workload)
        shape = workload.shape
        found = [
            self._combined({workload.names: workload.matrix[[i]].toarray().reshape(shape)})
            for i in range(workload.queries)
        ]
        return np.array([value for value, _ in found]), np.array([variance for _, variance in found])
