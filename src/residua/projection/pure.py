"""Projection of releases with Laplace noise: as with normal noise of the same covariance, but simulated as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from residua.plans.matrix.pure_plan import PurePlan
from residua.plans.tables.blocks import compile_pure_marginals
from residua.plans.tables.plan import PureMarginalPlan
from residua.projection.consistent import centred
from residua.projection.dense import DenseProblem
from residua.projection.problem import Fit, Terms
from residua.projection.residual import ResidualProblem
from residua.release.pooling import pooled
from residua.release.pure_marginals import PureMarginalRelease

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PureProblem(DenseProblem):
    """Projection of releases of a pure plan: one integer matrix, measured with Laplace noise."""

    plan: PurePlan

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        U, s, _ = self.plan.factors
        noise = np.rint(random.laplace(0.0, self.plan.scale, len(U)))
        return np.asarray(self._coordinates(fit) + (U.T @ noise) / s)


@dataclass(frozen=True, eq=False)
class PureMarginalProblem(ResidualProblem):
    """Projection of releases of a pure marginal plan, whose pooled residuals have the covariance of a residual plan.

    Args:
        measured: the plan; `plan` is what its pooled tables have the precisions of.
    """

    measured: PureMarginalPlan

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        blocks = compile_pure_marginals(self.measured)
        place = np.searchsorted(blocks.measured, np.arange(len(blocks.lattice)))
        numbers = np.empty(blocks.layout.cells)
        for group in blocks.layout:
            tables = group.view(numbers)
            for j, (number, members) in enumerate(zip(group.numbers, group.members.tolist(), strict=True)):
                at = place[number]
                noise = np.rint(random.laplace(0.0, blocks.scales[at], group.shape))
                tables[j] = blocks.grids[at] * fit.marginal(members) + noise
        return self.residuals(numbers)

    def residuals(self, measurements: NDArray[np.int64] | Floats) -> Floats:
        """The residuals of all tables that measurements tell, pooled, in the order of the layout, (cells,)."""
        found = pooled(self.measured, compile_pure_marginals(self.measured), measurements)
        units = np.ones(len(found.lattice))
        units[found.measured] = found.units
        observed = np.empty(self.layout.cells)
        for group in self.layout:
            tables, own = group.view(observed), self._numbers[group.numbers]
            for j, number in enumerate(own):
                start = found.layout.starts[number]
                table = found.numbers[start : start + group.cells].reshape(group.shape)
                tables[j] = centred(table / units[number])
        return observed


def pure_marginal_problem(plan: PureMarginalPlan, terms: Terms) -> PureMarginalProblem:
    """The projection of releases of a pure marginal plan."""
    return PureMarginalProblem(plan.pooled, terms, plan)


def observed_pooled(problem: PureMarginalProblem, release: PureMarginalRelease) -> Floats:
    """The residuals of a release's unbiased estimates, in the order of the problem's layout, (cells,)."""
    return problem.residuals(release.measurements)
