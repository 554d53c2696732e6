"""Projection of tables measured by plain strategies: the noise is alike in all directions of each residual space.

Noisy tables are projected as with normal noise of the same covariance, but simulated as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.layout import batches
from residua.linalg.modes import centred
from residua.plans.product.plan import ProductPlan
from residua.plans.product.set_blocks import LatticeBlocks
from residua.plans.product.table_reading import pooled_residuals
from residua.projection.family import FamilyProblem
from residua.projection.problem import Fit, ProjectionProblem, Terms
from residua.release.base import Release

_BATCH_CELLS = 500_000


class ResidualProblem(FamilyProblem):
    """Projection of releases of a plan of marginals."""

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        observed, stddevs = np.array(fit.array), np.sqrt(self._finite_variances)
        for group in self.layout:
            tables = group.view(observed)
            along = (-1, *[1] * len(group.shape))
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                noise = random.standard_normal(tables[part].shape) * stddevs[group.numbers[part]].reshape(along)
                tables[part] += centred(noise, 1)
        return observed

    def observed(self, release: Release) -> Floats:
        """The residuals of a release's unbiased estimates, in the order of the problem's layout, (cells,)."""
        blocks = cast("LatticeBlocks", release.blocks)
        observed = np.zeros(self.layout.cells)
        units = np.ones(len(blocks.lattice))
        units[blocks.measured] = blocks.units
        for group in self.layout:
            numbers = self._numbers[group.numbers]
            starts = blocks.layout.starts[numbers]
            tables = group.view(observed)
            for part in batches(len(numbers), group.cells, _BATCH_CELLS):
                measured = np.flatnonzero(starts[part] >= 0)  # an unmeasured residual is empty: zero
                places = starts[part][measured, None] + np.arange(group.cells)
                values = release.measurements[places] / units[numbers[part][measured], None]
                chosen = np.arange(part.start, part.stop)[measured]
                tables[chosen] = centred(values.reshape(-1, *group.shape), 1)
        return observed


@dataclass(frozen=True, eq=False)
class TablesProblem(ResidualProblem):
    """Projection of releases of a plan of noisy tables, whose pooled residuals have the covariance of a lattice plan.

    Args:
        measured: the plan; `plan` is what its pooled tables have the precisions of.
    """

    measured: ProductPlan

    @classmethod
    def posed(cls, plan: Any, terms: Terms) -> ProjectionProblem:
        """The problem of the family of tables that were measured."""
        return cls(plan.family, terms, plan)

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
        pooled = pooled_residuals(self.measured.tables, measurements)
        units = np.ones(len(pooled.lattice))
        units[pooled.measured] = pooled.units
        observed = np.empty(self.layout.cells)
        for group in self.layout:
            tables, own = group.view(observed), self._numbers[group.numbers]
            for j, number in enumerate(own):
                start = pooled.layout.starts[number]
                table = pooled.numbers[start : start + group.cells].reshape(group.shape)
                tables[j] = centred(table / units[number])
        return observed
