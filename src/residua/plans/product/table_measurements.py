"""What measured tables come down to: which marginals, on which grids, with how much Laplace noise, and the epsilon.

A record is in one cell of each table. Adding it changes `t · m_A` by t in L1 norm, hence `Σ_A t_A/s_A`; replacing it
changes each by 2t at most. A person's k records change it by k t wherever they are: limits make them no cheaper, unless
an attribute has too few values for k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.measurements import Batch
from residua.plans.noise import INVISIBLE_SCALE, LAPLACE, Noise
from residua.plans.product.set_measurements import SetMeasurements
from residua.plans.verifier import WORD, Profile, even, require_scales, rounded_up

_FEWEST_RECORDS = 2**20
_LARGEST_SHARE = 2.0**40  # a finer grid than 2^40 is not used, and no larger scale is sampled
_MOST_CELLS = 2**31


@dataclass(frozen=True, eq=False)
class TableMeasurements(SetMeasurements):
    """Integer measurements `t · m_A + round(s z)` of marginals, z standard Laplace.

    Args:
        names: what the attributes are called, for units of protection that limit some.
        Others as for `SetMeasurements`.
    """

    noise: ClassVar[Noise] = LAPLACE
    in_place = True  # a measured table has the shape of the table itself

    names: tuple[str, ...] = ()

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """A record is in one cell of each table; each term is rounded up, so that the sum of thousands stays short."""
        pairs = [pair for each in several for pair in zip(each.grids.tolist(), each.scales.tolist(), strict=True)]
        return sum((rounded_up(t / Fraction(s)) for t, s in pairs), Fraction(0))

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """Out of one cell, into another."""
        return 2 * cls.added(several)

    def profile(self) -> Profile:
        """The same in every cell: epsilon squared."""
        return even(self.added([self]) ** 2)

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return (WORD - 2**50) // max(int(self.grids.max()), 1)

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """`t · m_A`, in place."""
        group, part, grids = batch.work
        cells = group.view(tables)[part].reshape(len(grids), -1)
        cells *= grids[:, None]
        return np.asarray(cells)

    def check(self) -> None:
        """Refuses also noise that cannot be sampled exactly, too many cells, and possible overflow."""
        super().check()
        require_scales(self.scales)
        if self.most_records < _FEWEST_RECORDS:
            raise VerificationError("a grid factor is so large that measurements could overflow; plan again.")
        cells = int(self.lattice.products(self.sizes.astype(np.float64))[self.measured].sum())
        if cells > _MOST_CELLS:
            raise VerificationError(f"{cells:,} cells would be measured, too many; ask for smaller tables.")

    # ---- accuracy

    @cached_property
    def cell_precisions(self) -> Floats:
        """One over the variance of a cell of each set as measured, rounding included, (sets,); 0 if not measured."""
        precisions = np.zeros(len(self.lattice))
        precisions[self.measured] = self.grids.astype(np.float64) ** 2 / LAPLACE.variance(self.scales)
        return precisions

    @cached_property
    def pooled_precisions(self) -> Floats:
        """τ_S of every residual after pooling all that say something of it, (sets,)."""
        return self.lattice.sum_over_supersets(self.cell_precisions, 1.0 / self.sizes)


# ---- for planners


def compile_tables(domain: Domain, lattice: SetFamily, shares: Floats) -> TableMeasurements:
    """The marginals of a family, each measured with its share ε_A of epsilon, (sets,); 0 means not measured.

    Grids are the least powers of two that make rounding invisible; noise is rounded up.

    Raises:
        PlanError: shares that do not fit the family, or whose noise cannot be sampled.
    """
    if shares.shape != (len(lattice),):
        raise PlanError(f"shares has shape {shares.shape}; give one for each of {len(lattice)} sets.")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise PlanError("shares must be finite and not negative, and not all 0.")
    if shares.max() > _LARGEST_SHARE or shares[shares > 0].min() < 1 / _LARGEST_SHARE:
        raise PlanError("a share is so large or so small that its noise cannot be sampled; plan again.")
    measured = np.flatnonzero(shares > 0)
    grids = 2 ** np.clip(np.ceil(np.log2(INVISIBLE_SCALE * shares[measured])), 0, 40).astype(np.int64)
    scales = grids / shares[measured] * (1.0 + 2.0**-48)
    return TableMeasurements(lattice, domain.sizes, measured, grids, scales, domain.names)
