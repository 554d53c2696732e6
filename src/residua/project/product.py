"""Projection of product releases: plain squares over the cells of every table that was asked about.

The noise of block S is not alike in all directions of a residual space, so that the release's own metric is not a
weight a set. Plain squares are, and what the noise adds up to in them is known: the covariance of block S over all
asked tables A ⊇ S has the eigenvalues `σ²_S Σ_A Π_{i∈A∖S} ‖v_i‖² · Π_{i∈S} eig(K_i)`, and blocks are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.plan.product.blocks import compile_product
from residua.plan.product.plan import ProductPlan
from residua.project.consistent import ConsistentTables, centred
from residua.project.estimated import EstimatedProblem
from residua.project.problem import Fit
from residua.release.product_estimates import ProductEstimator
from residua.release.queried import applied
from residua.workload import Marginals, renumber

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProductProblem(EstimatedProblem):
    """Projection of releases of a product plan.

    Tables of which the release tells too little (an attribute asked fewer queries than it has values) are left out.
    """

    plan: ProductPlan

    @property
    def _answered(self) -> NDArray[np.bool_]:
        sets = len(self.plan.lattice)
        family = Marginals(self.plan.domain, self.plan.lattice, np.arange(sets), np.ones(sets))
        return np.isfinite(self.plan.term_variances(family))

    @cached_property
    def _asked(self) -> NDArray[np.int64]:
        """Numbers of the sets that a term is about and that are answered, and of those in no larger one."""
        largest, workload = np.flatnonzero(self.lattice.is_maximal), self.plan.workload
        if workload is None:
            return largest
        asked = np.concatenate([family.sets.numbers for family in workload.families])
        numbers = renumber(workload.lattice, self.lattice)[asked]
        return np.union1d(numbers[numbers >= 0], largest)

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """The sum of the noise's variances exactly; of their squares, and the largest, bounds by adding up blocks."""
        lattice, strategies = self.lattice, self.plan.strategies
        asked = np.zeros(len(lattice))
        asked[self._asked] = 1.0
        spread = np.array([float(one.spread @ one.spread) for one in strategies])
        eigenvalues = [np.linalg.eigvalsh(one.inverse) for one in strategies]
        noise = self.plan.noise_variances[self._numbers]
        noise = np.where(np.isfinite(noise), noise, 0.0) * lattice.sum_over_supersets(asked, spread)  # empty: no noise
        sums = (np.array([float(f(a)) for a in eigenvalues]) for f in (np.sum, np.linalg.norm, np.max))
        total, length, largest = (float(noise @ lattice.products(each)) for each in sums)
        return total, min(length**2, total * largest), largest

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        assert isinstance(fit, ConsistentTables)
        blocks = compile_product(self.plan)  # its precisions are those measured, the rounding of noise included
        scales = np.zeros(len(blocks.lattice))
        scales[blocks.measured] = blocks.scales
        cells = [np.repeat(scales[group.numbers], group.cells) for group in blocks.layout]
        noise = ProductEstimator(blocks, random.standard_normal(blocks.cells) * np.concatenate(cells))
        observed = np.array(fit.residuals)
        for group in self.layout:
            tables = group.view(observed)
            for number, members in enumerate(group.members.tolist()):
                tables[number] += centred(noise.marginal(tuple(members)))
        return observed

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over all asked queries that are answered; without any, over cells."""
        workload, total, queries = self.plan.workload, 0.0, 0
        for term in () if workload is None else workload.terms():
            members = tuple(i for i, _ in term)
            if fit.supports(members):
                apart = applied(term, fit.marginal(members) - truth.marginal(members))
                total, queries = total + float(np.abs(apart).sum()), queries + apart.size
        return total / queries if queries else super().error(fit, truth)
