"""Releases of product plans: prefixes, ranges, levels and marginals, consistent, from integer measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.plans.lattice.blocks import ProductBlocks
from residua.plans.lattice.plan import ProductPlan
from residua.release.family import FamilyRelease
from residua.release.product_estimates import ProductEstimator
from residua.release.queried import applied
from residua.workload import Explicit, Marginals
from residua.workload.products import Products, as_products

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ProductRelease(FamilyRelease):
    """A measured product plan.

    Args:
        planned: the plan as it was made.
        blocks: what was really measured.
        measurements: the noisy integers, in the order of `blocks.layout`, (cells,).
        receipt: what the ledger recorded when it was debited.
    """

    _asked_as = "terms"
    planned: ProductPlan
    blocks: ProductBlocks
    measurements: NDArray[np.int64]
    receipt: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def plan(self) -> ProductPlan:
        """The plan with the precisions really measured, the rounding of noise to integers included."""
        return self.planned.replaced(precisions=self.blocks.precisions)

    @cached_property
    def estimator(self) -> ProductEstimator:
        """What reads marginals, and their parts block by block, off the measurements."""
        return ProductEstimator(self.blocks, self.measurements)

    @property
    def summary(self) -> str:
        """What was measured, in a sentence."""
        shaped = [name for name, one in zip(self.domain.names, self.blocks.strategies, strict=True) if not one.identity]
        return (
            f"{len(self.blocks.measured):,} blocks of integer combinations over {len(self.domain)} attributes "
            f"(with strategies of their own on {', '.join(shaped) or 'none'}), {self.blocks.cells:,} noisy integers in "
            f"all; {len(self.sets):,} terms with {self.asked_cells:,.0f} queries were asked for."
        )

    def _marginal(self, positions: tuple[int, ...]) -> Floats:
        return self.estimator.marginal(positions)

    def _stddev(self, attributes: Sequence[str]) -> Floats:
        return np.sqrt(self.plan.variance(tuple(attributes)))

    def _answered(self, workload: Explicit | Marginals | Products) -> tuple[Floats, Floats]:
        variances = self.plan.variances(workload)
        if not np.isfinite(variances).all():
            raise PlanError("the release does not answer all these queries; plan for a workload that asks for them.")
        if isinstance(workload, Explicit):
            return np.asarray(workload.matrix @ self.estimator.marginal(workload.attributes).ravel()), variances
        asked = as_products(workload)
        parts = [applied(term, self.estimator.marginal(tuple(i for i, _ in term))).ravel() for term in asked.terms()]
        return np.concatenate(parts), variances
