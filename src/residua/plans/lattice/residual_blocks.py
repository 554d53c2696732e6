"""What will really be measured: integer queries and the exact scale of the noise added to each.

The residual on S is measured as `y = t · Ĉ_S m_S + round(s · z)` with the integer matrix `Ĉ_S = ⊗_{i∈S}(n_i I − 11ᵀ)`,
an integer grid factor t, and z standard normal, independently for every cell. Adding continuous noise to an integer
and rounding is adding rounded noise, so this is a post-processing of the ideal Gaussian mechanism and inherits its
guarantee without slack. A block says t and s and nothing else; the verifier (`verify.py`) trusts nothing but blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.plans.lattice.blocks_base import GaussianBlocks, gridded
from residua.plans.lattice.residual_plan import ResidualPlan

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ResidualBlocks(GaussianBlocks):
    """Integer measurements of residuals."""

    @cached_property
    def units(self) -> Floats:
        """`t · Π_{i∈S} n_i`: what one step of the integer grid stands for, inverted, (blocks,)."""
        cells = self.lattice.products(self.sizes.astype(np.float64))[self.measured]
        return np.asarray(self.grids * cells)


def compile_blocks(plan: ResidualPlan) -> ResidualBlocks:
    """The integer measurements that realise a plan, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise too large or too small for exact integer sampling.
    """
    cells = plan.lattice.products(plan.domain.sizes.astype(np.float64))
    up = 2.0**-48  # a product of k ≤ 20 rounded factors
    measured, grids, scales = gridded(plan.domain, plan.lattice, plan.precisions, cells, up)
    return ResidualBlocks(plan.lattice, plan.domain.sizes, measured, grids, scales, plan.domain.drops)
