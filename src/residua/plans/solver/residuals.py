"""The best residual noise for a weighted sum of marginal variances, in closed form.

With `κ_S = Π_{i∈S}(1 − 1/n_i)` and a cell's variance `v_A = Σ_{S⊆A} κ_S σ²_S Π_{i∈A∖S} 1/n_i²`, weights λ on the
marginals give `û_S = Σ_{A⊇S} λ_A Π_{i∈A∖S} 1/n_i²`, and at privacy cost 1 the least `Σ λ_A v_A` is `T²` with
`T = Σ_S κ_S √û_S`, attained by `σ²_S = T / √û_S`.

Reference: residual-planner, Theorems 4.5 and 4.7 and Lemma H.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice

_SMALLEST_WEIGHT = 1e-100  # relative to the largest; denormal numbers are slow and mean nothing here


@dataclass(frozen=True, eq=False)
class ResidualCoefficients:
    """How residual noise turns into privacy cost and into variances of cells.

    Args:
        lattice: the sets whose residuals are measured.
        sizes: how many values each attribute has, (attributes,).
    """

    lattice: Lattice
    sizes: Integers

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
        return float(self.cost @ np.sqrt(self.importance(weights))) ** 2

    def respond(self, weights: Floats) -> tuple[Floats, float]:
        """The noise variances that reach the least weighted sum at privacy cost 1, (sets,), and that sum."""
        floor = weights.max() * _SMALLEST_WEIGHT
        root = np.sqrt(np.maximum(self.importance(weights), floor))
        T = float(self.cost @ root)
        return T / root, T * T
