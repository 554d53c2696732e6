"""Integer measurements of tables on a family of attribute sets: what plans for marginals and products share.

Block S is an integer table times an integer grid factor t, plus rounded noise of scale s. A float is an exact rational.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import VerificationError
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Layout, layout_of
from residua.plans.base import Blocks

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

INVISIBLE_SCALE = 2.0**20  # at this noise scale, rounding adds less than one part in 10^13 to the variance
LARGEST_SCALE = 2.0**40
SMALLEST_SCALE = 0.5
_ROUNDING_VARIANCE = 1.0 / 12.0


@dataclass(frozen=True, eq=False)
class LatticeBlocks(Blocks):
    """Some sets of a family, with a grid factor and a noise scale each.

    Args:
        lattice: the family the sets belong to.
        sizes: how many values each attribute has, (attributes,).
        measured: numbers of the sets that are measured, (blocks,), increasing.
        grids: the integer factor t of each, (blocks,).
        scales: the noise scale s of each, (blocks,); a float is an exact rational.
    """

    lattice: Lattice
    sizes: Integers
    measured: Integers
    grids: Integers
    scales: Floats

    def __post_init__(self) -> None:
        for array in (self.measured, self.grids, self.scales):
            array.setflags(write=False)

    @property
    @abstractmethod
    def units(self) -> Floats:
        """What one step of the integer grid stands for, inverted, (blocks,)."""

    @cached_property
    def chosen(self) -> NDArray[np.bool_]:
        """Whether each set of the family is measured, (sets,)."""
        chosen = np.zeros(len(self.lattice), dtype=bool)
        chosen[self.measured] = True
        return chosen

    @cached_property
    def layout(self) -> Layout:
        """Where each measured table lies in the buffer of all measurements."""
        return layout_of(self.lattice, self.sizes, self.chosen)

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.layout.cells

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a saved release keeps of the blocks: which sets, on which grids, with which noise."""
        return {"measured": self.measured, "grids": self.grids, "scales": self.scales}


@dataclass(frozen=True, eq=False)
class GaussianBlocks(LatticeBlocks):
    """The same with Gaussian noise.

    Args:
        drops: whether changing a record may remove it from every table (a policy `drop`).
    """

    drops: bool = False

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S` of what is really measured, the rounding's own variance 1/12 included, (blocks,)."""
        return np.asarray((self.scales**2 + _ROUNDING_VARIANCE) / self.units**2)

    @cached_property
    def precisions(self) -> Floats:
        """`1/σ²_S` of every set of the family, 0 where it is not measured, (sets,)."""
        found = np.zeros(len(self.lattice))
        found[self.measured] = 1.0 / self.noise_variances
        return found


def gridded(
    domain: Domain, lattice: Lattice, precisions: Floats, units: Floats, up: float
) -> tuple[Integers, Integers, Floats]:
    """The sets that are measured, their grid factors, and their noise scales, rounded up.

    Args:
        domain: for names.
        lattice: the family.
        precisions: τ_S, (sets,).
        units: what one count is on the plain grid, (sets,).
        up: how much to add, relative, for the rounding of these numbers themselves.

    Raises:
        VerificationError: nothing to measure, or noise too large or too small for exact integer sampling.
    """
    measured = np.flatnonzero(precisions > 0)
    if not len(measured):
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    with np.errstate(divide="ignore", over="ignore"):  # infinite noise is refused below
        plain = units[measured] * np.sqrt(1.0 / precisions[measured])
        # The least power of two that makes the rounding invisible.
        grids = 2.0 ** np.maximum(np.ceil(np.log2(INVISIBLE_SCALE / plain)), 0.0)
    if grids.max() > 2.0**40:
        raise VerificationError("the plan's noise is far below one count; a budget this large gives no privacy.")
    scales = plain * grids * (1.0 + up)
    if scales.max() > LARGEST_SCALE:
        worst = lattice.members(int(measured[int(scales.argmax())]))
        names = tuple(domain.names[i] for i in worst)
        raise VerificationError(
            f"the noise on {names!r} is too large to sample exactly; raise the budget or leave the table out."
        )
    return measured, grids.astype(np.int64), scales
