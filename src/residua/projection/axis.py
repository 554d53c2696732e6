"""Projection along an ordered axis: prefix sums that never fall, nearest to those released, in one pass.

The metric is squares over all prefixes. Without negative counts prefix sums do not fall; those nearest to given
numbers are their isotonic regression, and with a total that of all but the last, cut off at 0 and at the total. Both
are exact: the gap is 0. Values that were measured in runs are projected in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.product.plan import ProductPlan
from residua.projection.problem import Fit, Histogram, Metric, Progress, ProjectionProblem
from residua.release.base import Release


class AxisProblem(ProjectionProblem):
    """Projection of releases along one attribute alone; observed are prefix sums, (n,)."""

    plan: ProductPlan

    def __post_init__(self) -> None:
        self.only_total("along an axis")

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Where the noise is correlated along the axis."""
        return self.plan.correlated is not None

    @classmethod
    def metrics(cls, plan: Any) -> tuple[tuple[Metric, ...], str]:
        """Plain squares alone."""
        return ("plain",), "along an axis it is squares over prefixes; leave metric out."

    def observed(self, release: Release) -> Floats:
        """The released prefix sums."""
        return np.cumsum(release.estimates([self.plan.name]))

    def solve(self, observed: Floats, progress: Progress | None = None) -> Histogram:
        """The nearest prefix sums that meet the terms."""
        from scipy.optimize import isotonic_regression  # takes long to load

        total = float(self.terms.facts[0].values) if self.terms.facts else None
        open_ones = observed if total is None else observed[:-1]
        if self.terms.nonnegative and len(open_ones):
            open_ones = np.clip(isotonic_regression(open_ones).x, 0.0, total)
        sums = open_ones if total is None else np.append(open_ones, total)
        return self.unprojected(sums)

    def unprojected(self, observed: Floats) -> Histogram:
        """The released counts."""
        return self.fit_of(np.diff(observed, prepend=0.0), 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Histogram:
        """The fit that a saved projection keeps."""
        if array.shape != (self.plan.size,):
            raise ValueError("the counts do not fit the plan; they belong to another projection")
        return Histogram((self.plan.attribute,), array, gap, infeasibility)

    def seen(self, fit: Fit) -> Floats:
        """All prefix sums."""
        return np.cumsum(fit.array)

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """The sum of the variances of all prefixes; no eigenvalue is above the largest sum of a row."""
        path = self.plan.correlated
        if path is None:
            raise PlanError("no bound is known for projections with Laplace noise; simulate errors instead.")
        sums, _ = path.strategy.noise.variances()
        ones = csr_array(np.ones((1, self.plan.size)))
        total, largest = path.factor * float(sums.sum()), path.factor * float(path.strategy.noise.applied(ones).max())
        return total, total * largest, largest

    @property
    def cells(self) -> float:
        """One number per prefix."""
        return float(self.plan.size)

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth: noise through the same estimator, added."""
        blocks = self.plan.compile()
        noise = self.plan.reading(blocks, blocks.simulated(random))
        return np.asarray(self.seen(fit) + np.cumsum(noise.marginal((self.plan.attribute,))))
