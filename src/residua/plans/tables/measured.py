"""Which marginals are measured as they are, on which grid and with how much Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Layout, layout_of
from residua.plans.noise import INVISIBLE_SCALE, rounded_laplace_variance


@dataclass(frozen=True, eq=False)
class MeasuredTables:
    """Marginals of a family, each measured with its share of epsilon.

    Args:
        domain: what the table may hold.
        lattice: all sets that can be answered.
        shares: ε_A of each of them, (sets,); 0 means not measured.
    """

    domain: Domain
    lattice: Lattice
    shares: Floats

    def __post_init__(self) -> None:
        shares = np.array(self.shares, dtype=np.float64)
        if shares.shape != (len(self.lattice),):
            raise PlanError(f"shares has shape {shares.shape}; give one for each of {len(self.lattice)} sets.")
        if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
            raise PlanError("shares must be finite and not negative, and not all 0.")
        shares.setflags(write=False)
        object.__setattr__(self, "shares", shares)

    @cached_property
    def measured(self) -> Integers:
        """Numbers of the sets that are measured, increasing."""
        return np.flatnonzero(self.shares > 0)

    @cached_property
    def grids(self) -> Integers:
        """t of each measured set: the least power of two that makes rounding invisible."""
        wanted = INVISIBLE_SCALE * self.shares[self.measured]
        return np.asarray(2 ** np.clip(np.ceil(np.log2(wanted)), 0, 40).astype(np.int64))

    @cached_property
    def scales(self) -> Floats:
        """s of each measured set, rounded up."""
        return np.asarray(self.grids / self.shares[self.measured] * (1.0 + 2.0**-48))

    @cached_property
    def layout(self) -> Layout:
        """Where each measured table lies among all measurements."""
        chosen = np.zeros(len(self.lattice), dtype=bool)
        chosen[self.measured] = True
        return layout_of(self.lattice, self.domain.sizes, chosen)

    @cached_property
    def cell_precisions(self) -> Floats:
        """One over the variance of a cell of each set as measured, rounding included, (sets,); 0 if not measured."""
        found = np.zeros(len(self.lattice))
        found[self.measured] = self.grids.astype(np.float64) ** 2 / rounded_laplace_variance(self.scales)
        return found

    @cached_property
    def pooled_precisions(self) -> Floats:
        """τ_S of every residual after pooling all that say something of it, (sets,)."""
        return self.lattice.sum_over_supersets(self.cell_precisions, 1.0 / self.domain.sizes)
