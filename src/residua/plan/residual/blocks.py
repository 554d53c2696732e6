"""What will really be measured: integer queries and the exact scale of the noise added to each.

The residual on S is measured as `y = t · Ĉ_S m_S + round(s · z)` with the integer matrix `Ĉ_S = ⊗_{i∈S}(n_i I − 11ᵀ)`,
an integer grid factor t, and z standard normal, independently for every cell. Adding continuous noise to an integer
and rounding is adding rounded noise, so this is a post-processing of the ideal Gaussian mechanism and inherits its
guarantee without slack. A block says t and s and nothing else; the verifier (`verify.py`) trusts nothing but blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Layout, layout_of
from residua.plan.base import Blocks
from residua.plan.residual.plan import ResidualPlan

Floats = NDArray[np.float64]

INVISIBLE_SCALE = 2.0**20  # at this noise scale, rounding adds less than one part in 10^13 to the variance
LARGEST_SCALE = 2.0**40
SMALLEST_SCALE = 0.5
_ROUNDING_VARIANCE = 1.0 / 12.0


@dataclass(frozen=True, eq=False)
class ResidualBlocks(Blocks):
    """Integer measurements of residuals.

    Args:
        lattice: the family the sets belong to.
        sizes: how many values each attribute has, (attributes,).
        measured: numbers of the sets that are measured, (blocks,), increasing.
        grids: the integer factor t of each, (blocks,).
        scales: the noise scale s of each, (blocks,); a float is an exact rational.
        drops: whether changing a record may remove it from every table (a policy `drop`).
    """

    lattice: Lattice
    sizes: NDArray[np.int64]
    measured: NDArray[np.int64]
    grids: NDArray[np.int64]
    scales: Floats
    drops: bool = False

    def __post_init__(self) -> None:
        for array in (self.measured, self.grids, self.scales):
            array.setflags(write=False)

    @cached_property
    def layout(self) -> Layout:
        """Where each measured table lies in the buffer of all measurements."""
        chosen = np.zeros(len(self.lattice), dtype=bool)
        chosen[self.measured] = True
        return layout_of(self.lattice, self.sizes, chosen)

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.layout.cells

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Sets measured, grid factors, noise scales."""
        return {"measured": self.measured, "grids": self.grids, "scales": self.scales}

    @cached_property
    def units(self) -> Floats:
        """`t · Π_{i∈S} n_i`: what one step of the integer grid stands for, inverted, (blocks,)."""
        cells = self.lattice.products(self.sizes.astype(np.float64))[self.measured]
        return np.asarray(self.grids * cells)

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S` of what is really measured, the rounding's own variance 1/12 included, (blocks,)."""
        return np.asarray((self.scales**2 + _ROUNDING_VARIANCE) / self.units**2)


def compile_blocks(plan: ResidualPlan) -> ResidualBlocks:
    """The integer measurements that realise a plan, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise too large or too small for exact integer sampling.
    """
    measured = np.flatnonzero(plan.precisions > 0)
    if not len(measured):
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    cells = plan.lattice.products(plan.domain.sizes.astype(np.float64))[measured]
    plain = cells * np.sqrt(plan.noise_variances[measured])
    # The least power of two that makes the rounding invisible.
    grids = 2.0 ** np.maximum(np.ceil(np.log2(INVISIBLE_SCALE / plain)), 0.0)
    if grids.max() > 2.0**40:
        raise VerificationError("the plan's noise is far below one count; a budget this large gives no privacy.")
    scales = plain * grids * (1.0 + 2.0**-48)  # a product of k ≤ 20 rounded factors, then rounded against us
    if scales.max() > LARGEST_SCALE:
        worst = plan.lattice.members(int(measured[int(scales.argmax())]))
        names = tuple(plan.domain.names[i] for i in worst)
        raise VerificationError(
            f"the noise on {names!r} is too large to sample exactly; raise the budget or leave the marginal out."
        )
    return ResidualBlocks(plan.lattice, plan.domain.sizes, measured, grids.astype(np.int64), scales, plan.domain.drops)
