"""What measuring along an axis comes down to: running sums of counts on a grid, and noise correlated along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.linalg.nested_noise import AxisNoise, NestedNoise
from residua.plans.axis.price import opposed, price
from residua.plans.blocks import POINT, WORD, Batch, Blocks, Profile, even, rounded_up
from residua.plans.noise import LARGEST_SCALE, ORDERED, Noise
from residua.privacy import AddRemove, Unit


def held_along(noise: AxisNoise) -> int:
    """Numbers per value while noise is drawn: normals, stiffnesses or factors, running sums and bounds, in pairs."""
    return 32 if isinstance(noise, NestedNoise) else 16


@dataclass(frozen=True, eq=False)
class AxisBlocks(Blocks):
    """`t · running sums of x + round(t · running sums of the noise)`.

    Integers plus rounded noise are the rounding of integers plus noise, and running sums can be undone: a
    post-processing of `x + noise`, whatever t is.

    Args:
        sizes: how many values each attribute has, (attributes,).
        attribute: the position of the axis.
        correlated: the noise before rounding, per count.
        grid: t, a power of two.
    """

    sizes: Integers
    attribute: int
    correlated: AxisNoise
    grid: int

    @property
    def noise(self) -> Noise:
        """Normal, correlated along the axis."""
        return ORDERED

    @property
    def cells(self) -> int:
        """One running sum per value."""
        return int(self.sizes[self.attribute])

    def arrays(self) -> dict[str, Any]:
        """Nothing: the plan says all."""
        return {"scales": np.array([float(self.grid)])}

    def price(self, unit: Unit) -> Fraction:
        """The verifier; replacing a record costs at most twice as much as adding one if no entry of Γ is negative."""
        if not 0 <= self.attribute < len(self.sizes):
            raise VerificationError("the axis is no attribute of the domain; plan again.")
        if self.grid < 1 or self.grid & (self.grid - 1) or self.correlated.size != self.cells:
            raise VerificationError("the noise along the axis does not fit what is measured; plan again.")
        if self.most_records < 2**28:
            raise VerificationError("the grid is so fine that numbers could overflow; plan again.")
        cost = price(self.correlated)
        if float(self.correlated.variances()[0].max()) * float(self.grid) ** 2 > LARGEST_SCALE**2:
            raise VerificationError("the noise along the axis is larger than can be sampled; give a larger budget.")
        return rounded_up(unit.scaled(cost, 2 * (1 + opposed(self.correlated)) * cost))

    def profile(self) -> Profile:
        """Nearly the same in every cell: the most expensive one stands for all."""
        cost = self.cost(AddRemove())
        return even(-(-cost.numerator * POINT // cost.denominator))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return (WORD - 2**56) // self.grid

    @property
    def counted(self) -> Layout:
        """The axis's own table."""
        lattice = closure([np.array([[self.attribute]], dtype=np.int32)], len(self.sizes))
        return layout_of(lattice, self.sizes, lattice.is_maximal)

    @property
    def in_place(self) -> bool:
        """Running sums take the place of the counts."""
        return True

    @property
    def drawn_at_once(self) -> int:
        """Two words of every normal, should one not suffice, and what the passes along the axis hold."""
        return (2 * len(self.correlated.poles) + held_along(self.correlated)) * (self.cells + 1)

    def batches(self) -> Sequence[Batch]:
        """The axis."""
        return [Batch(0, np.array([float(self.grid)]), self.correlated)]

    def correlation(self, batch: Batch) -> tuple[AxisNoise]:
        """Along the axis."""
        return (self.correlated,)

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """Running sums on the grid, in place, (1, n)."""
        np.cumsum(tables, out=tables)
        tables *= self.grid
        return tables[None, :]
