"""Projection of noisy tables: as with normal noise of the same covariance, but simulated as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.tables.plan import TablesPlan
from residua.plans.tables.pooling import pooled
from residua.projection.consistent import centred
from residua.projection.plain import ResidualProblem
from residua.projection.problem import Fit
from residua.release.base import Release


@dataclass(frozen=True, eq=False)
class TablesProblem(ResidualProblem):
    """Projection of releases of a pure marginal plan, whose pooled residuals have the covariance of a residual plan.

    Args:
        measured: the plan; `plan` is what its pooled tables have the precisions of.
    """

    measured: TablesPlan

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        blocks = self.measured.compile()
        place = np.searchsorted(blocks.measured, np.arange(len(blocks.lattice)))
        numbers = np.empty(blocks.layout.cells)
        for group in blocks.layout:
            tables = group.view(numbers)
            for j, (number, members) in enumerate(zip(group.numbers, group.members.tolist(), strict=True)):
                at = place[number]
                noise = np.rint(random.laplace(0.0, blocks.scales[at], group.shape))
                tables[j] = blocks.grids[at] * fit.marginal(members) + noise
        return self.residuals(numbers)

    def observed(self, release: Release) -> Floats:
        """The residuals of a release's unbiased estimates, in the order of the problem's layout, (cells,)."""
        return self.residuals(release.measurements)

    def residuals(self, measurements: Integers | Floats) -> Floats:
        """The residuals of all tables that measurements tell, pooled, in the order of the layout, (cells,)."""
        found = pooled(self.measured.tables, measurements)
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
