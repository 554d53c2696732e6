"""The best noise on the blocks of a lattice plan for a weighted sum of variances, in closed form.

With `θ_i` the mean of `wᵀKw` and `a_i` that of `(wᵀv)²` over the rows w asked of attribute i, the queries of a term A
have the mean variance `Σ_{S⊆A} σ²_S Π_{i∈S} θ_i Π_{i∈A∖S} a_i`. Weights λ on the terms give
`u_S = Π_{i∈S} θ_i Σ_{A⊇S} λ_A Π_{i∈A∖S} a_i`, summed over families that ask different rows. At privacy cost
`Σ_S cost_S / σ²_S = 1` the least weighted sum is `T²` with `T = Σ_S √(cost_S u_S)`, attained by
`σ²_S = T √(cost_S / u_S)`. Marginals are the case `θ_i = cost_i = 1 − 1/n_i`, `a_i = 1/n_i²`.

Reference: residual-planner, Theorems 4.5 and 4.7 and Lemma H.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.solver.spending import Spending
from residua.workload import Workload

_SMALLEST_WEIGHT = 1e-100  # relative to the largest; denormal numbers are slow and mean nothing here


@dataclass(frozen=True, eq=False)
class ResidualCoefficients:
    """How residual noise turns into privacy cost and into variances of cells.

    Args:
        lattice: the sets whose residuals are measured.
        sizes: how many values each attribute has, (attributes,).
        spending: what a person with limited records pays, in place of the cost of one record.
    """

    lattice: SetFamily
    sizes: Integers
    spending: Spending | None = None

    @cached_property
    def cost(self) -> Floats:
        """`κ_S`: privacy cost of measuring residual S with noise variance 1, (sets,)."""
        return self.lattice.products(1.0 - 1.0 / self.sizes)

    @cached_property
    def dilution(self) -> Floats:
        """`1/n_i²`: what is left of a variance spread over attribute i, (attributes,)."""
        return 1.0 / self.sizes.astype(np.float64) ** 2

    def cell_variances(self, noise: Floats) -> Floats:
        """Variance of a cell of every marginal of the family, given the residuals' noise variances, (sets,)."""
        # A residual with κ = 0 (an attribute with one value) is identically zero and needs no measurement.
        measured = np.where(self.cost > 0, noise, 0.0)
        return self.lattice.sum_over_subsets(self.cost * measured, self.dilution)

    def importance(self, weights: Floats) -> Floats:
        """`û_S`: how much noise on residual S hurts a weighted sum of cell variances, divided by κ_S, (sets,)."""
        return self.lattice.sum_over_supersets(weights, self.dilution)

    def value(self, weights: Floats) -> float:
        """`T²`: the least weighted sum of variances any mechanism reaches at privacy cost 1."""
        if self.spending is not None:
            return self.spending.value(self.cost * self.importance(weights))
        return float(self.cost @ np.sqrt(self.importance(weights))) ** 2

    def respond(self, weights: Floats) -> tuple[Floats, float]:
        """The noise variances that reach the least weighted sum at privacy cost 1, (sets,), and that sum."""
        floor = weights.max() * _SMALLEST_WEIGHT
        if self.spending is not None:
            noise, _, bound = self.spending.respond(self.cost * np.maximum(self.importance(weights), floor))
            return noise, bound
        root = np.sqrt(np.maximum(self.importance(weights), floor))
        T = float(self.cost @ root)
        return T / root, T * T


_NOTHING = 1e-30  # of the largest importance: a block that matters less is not measured
_UNFELT = 1e-9


@dataclass(frozen=True, eq=False)
class ProductGame:
    """Our side of the planning game over the terms of a workload, with the attributes' strategies fixed (see `saddle`).

    Args:
        workload: what is asked.
        costs: privacy cost of each attribute's strategy, (attributes,).
        shares: θ_i for each family, (families, attributes).
        dilutions: a_i for each family, (families, attributes).
        spending: what a person with limited records pays, in place of the cost of one record.
    """

    workload: Workload
    costs: Floats
    shares: Floats
    dilutions: Floats
    spending: Spending | None = None

    @cached_property
    def cost(self) -> Floats:
        """Privacy cost of each block with noise of variance 1, (sets,)."""
        return self.workload.lattice.products(self.costs)

    @cached_property
    def share(self) -> Floats:
        """`Π_{i∈S} θ_i` for each family, (families, sets)."""
        return np.stack([self.workload.lattice.products(row) for row in self.shares])

    def importances(self, weights: Floats) -> Floats:
        """`u_S` of each family, from weights on the terms, (families, sets)."""
        lattice = self.workload.lattice
        spread = np.zeros((len(self.workload.families), len(lattice)))
        for row, family, part in zip(spread, self.workload.families, self._split(weights), strict=True):
            row[family.numbers] = part
        sums = [lattice.sum_over_supersets(row, a) for row, a in zip(spread, self.dilutions, strict=True)]
        return self.share * np.stack(sums)

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these weights on terms, the mean variances it gives, and their weighted sum."""
        u = self.importances(np.maximum(weights, weights.max() * _SMALLEST_WEIGHT)).sum(axis=0)
        needed = u > u.max() * _NOTHING
        if self.spending is not None:
            noise, _, bound = self.spending.respond(np.where(needed, u, 0.0))
            return noise, self.variances(noise), bound
        root = np.sqrt(np.where(needed, u, 0.0) * self.cost)
        T = float(root.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(needed & (self.cost > 0), T * np.sqrt(self.cost / u), np.inf)
        return noise, self.variances(noise), T * T

    def value(self, weights: Floats) -> float:
        """The least weighted sum of variances with these strategies at privacy cost 1."""
        if self.spending is not None:
            return self.spending.value(self.importances(weights).sum(axis=0))
        return float(np.sqrt(self.importances(weights).sum(axis=0) * self.cost).sum()) ** 2

    def variances(self, noise: Floats) -> Floats:
        """The mean variance of each term's queries under some noise, (terms,)."""
        lattice = self.workload.lattice
        found = []
        noise = np.where(np.isfinite(noise), noise, 0.0)  # nobody needs what is not measured
        for family, share, a in zip(self.workload.families, self.share, self.dilutions, strict=True):
            blocks = share * noise
            found.append(lattice.sum_over_subsets(np.where(self.cost > 0, blocks, 0.0), a)[family.numbers])
        return np.concatenate(found)

    def balances(self, weights: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Derivatives of the weighted sum by a_i and by θ_i, at this noise, (families, attributes) each.

        A block's part in the sum, `σ²_S u_S`, is proportional to every θ_i with i ∈ S; the rest of what the terms with
        i contribute is proportional to a_i, block by block.
        """
        lattice = self.workload.lattice
        u = self.importances(weights)
        parts = np.where(u > 0, u * np.where(np.isfinite(noise), noise, 0.0), 0.0)
        totals = self._split(weights * self.variances(noise))
        alpha, beta = np.zeros_like(self.shares), np.zeros_like(self.shares)
        for f, family in enumerate(self.workload.families):
            asked = np.zeros(len(lattice))
            asked[family.numbers] = totals[f]
            for i, (with_i, _) in enumerate(lattice.covers):
                if len(with_i):
                    rest = float(parts[f][with_i].sum())
                    spread = max(float(asked[with_i].sum()) - rest, 0.0)
                    beta[f, i] = rest / self.shares[f, i] if self.shares[f, i] > 0 else 0.0
                    alpha[f, i] = spread / self.dilutions[f, i] if self.dilutions[f, i] > 0 else 0.0
        return alpha, beta

    def _split(self, values: Floats) -> list[Floats]:
        bounds = np.cumsum([len(family) for family in self.workload.families])[:-1]
        return np.split(values, bounds)


def felt(dilutions: Floats, shares: Floats) -> Floats:
    """`a_i`, or for rows that hardly see how the total is spread (`wᵀv ≈ 0`) a little more, in proportion to `θ_i`.

    Their blocks without the attribute would get no budget at all, and rounding would make their noise felt after all.
    """
    return np.maximum(dilutions, _UNFELT * shares)
