"""Projection along an ordered axis: running sums that never fall, nearest to those released, in one pass.

The metric is squares over all prefixes. Without negative counts running sums do not fall; those nearest to given
numbers are their isotonic regression, and with a total that of all but the last, cut off at 0 and at the total. Both
are exact: the gap is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.product.plan import ProductPlan
from residua.projection.facts import shown
from residua.projection.problem import Fit, Problem, Progress, Terms
from residua.release.base import Release


@dataclass(frozen=True, eq=False)
class Along(Fit):
    """What the projection along an axis found.

    Args:
        attribute: the position of the axis.
        counts: one per value, (n,).
        gap: 0.
        infeasibility: the largest violation of the total, in counts.
    """

    attribute: int
    counts: Floats
    gap: float = 0.0
    infeasibility: float = 0.0

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    def supports(self, members: Sequence[int]) -> bool:
        """The axis, and the total."""
        return set(members) <= {self.attribute}

    def marginal(self, members: Sequence[int]) -> Floats:
        """The counts of the values, or the total."""
        return self.counts if len(members) else np.array(self.counts.sum())

    @property
    def array(self) -> Floats:
        """What a saved projection keeps."""
        return self.counts


@dataclass(frozen=True, eq=False)
class AxisProblem(Problem):
    """Projection of releases of an axis plan; observed are running sums, (n,).

    Args:
        plan: the plan.
        terms: what the counts must meet.
    """

    plan: ProductPlan
    terms: Terms

    def __post_init__(self) -> None:
        for fact in self.terms.facts:
            if fact.members:
                raise PlanError(
                    "known: along an axis only the total can be given, not "
                    f"{shown(self.plan.domain, fact.members)}; leave it out."
                )

    def observed(self, release: Release) -> Floats:
        """The released running sums."""
        return np.cumsum(release.estimates([self.plan.name]))

    def solve(self, observed: Floats, progress: Progress | None = None) -> Along:
        """The nearest running sums that meet the terms."""
        from scipy.optimize import isotonic_regression  # takes long to load

        total = float(self.terms.facts[0].values) if self.terms.facts else None
        open_ones = observed if total is None else observed[:-1]
        if self.terms.nonnegative and len(open_ones):
            open_ones = np.clip(isotonic_regression(open_ones).x, 0.0, total)
        sums = open_ones if total is None else np.append(open_ones, total)
        return self.fit_of(np.diff(sums, prepend=0.0), 0.0, 0.0)

    def unprojected(self, observed: Floats) -> Along:
        """The released counts."""
        return self.fit_of(np.diff(observed, prepend=0.0), 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Along:
        """The fit that a saved projection keeps."""
        if array.shape != (self.plan.size,):
            raise ValueError("the counts do not fit the plan; they belong to another projection")
        return Along(self.plan.attribute, array, gap, infeasibility)

    def moved(self, observed: Floats, fit: Fit) -> float:
        """The squared distance over all prefixes."""
        apart = observed - _sums(fit)
        return float(apart @ apart)

    def size(self, fit: Fit) -> float:
        """The squared length over all prefixes."""
        return float(_sums(fit) @ _sums(fit))

    @property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Bounds alone are known of a long axis: as if all noise were in one direction."""
        total, _, largest = self.noise_sums
        return np.array([largest]), np.array([total / largest])

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
        return _sums(fit) + np.cumsum(noise.marginal((self.plan.attribute,)))

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over all prefixes."""
        return float(np.abs(_sums(fit) - _sums(truth)).mean())


def _sums(fit: Fit) -> Floats:
    assert isinstance(fit, Along)
    return np.cumsum(fit.counts)
