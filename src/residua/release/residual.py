"""Releases of residual plans: every marginal of the closure, consistent, from integer residuals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.linalg.layout import Group
from residua.plans.lattice.of_residual import as_product
from residua.plans.lattice.residual_blocks import ResidualBlocks
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.release.estimates import Estimator
from residua.release.family import FamilyRelease
from residua.release.queried import applied
from residua.workload import Explicit, Marginals, Products

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ResidualRelease(FamilyRelease):
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
        return self.planned.replaced(precisions=self.blocks.precisions)

    @cached_property
    def _estimator(self) -> Estimator:
        return Estimator(self.blocks, self.measurements)

    @property
    def summary(self) -> str:
        """What was measured, in a sentence."""
        return (
            f"{len(self.blocks.measured):,} residuals of marginals over {len(self.domain)} attributes, "
            f"{self.blocks.cells:,} noisy integers in all; {len(self.sets):,} tables were asked for."
        )

    def all_estimates(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the closure in batches of equal shape, streamed; see `Estimator.all_marginals`."""
        return self._estimator.all_marginals()

    def _names(self, term: Sequence[tuple[int, Any]]) -> tuple[str, ...]:
        return tuple(self.domain.names[i] for i, _ in term)

    def _marginal(self, positions: tuple[int, ...]) -> Floats:
        return self._estimator.marginal(positions)

    def _stddev(self, attributes: Sequence[str]) -> float:
        return math.sqrt(self.plan.variance(attributes))

    def _answered(self, workload: Explicit | Marginals | Products) -> tuple[Floats, Floats]:
        if isinstance(workload, Products):
            parts = [applied(term, self.estimates(self._names(term))).ravel() for term in workload.terms()]
            return np.concatenate(parts), as_product(self.plan).variances(workload)
        if isinstance(workload, Marginals):
            parts = [self.estimates(names).ravel() for names in workload.sets]
            return np.concatenate(parts), self.plan.variances(workload)
        shape = workload.shape
        found = [
            self._combined({workload.names: workload.matrix[[i]].toarray().reshape(shape)})
            for i in range(workload.queries)
        ]
        return np.array([value for value, _ in found]), np.array([variance for _, variance in found])
