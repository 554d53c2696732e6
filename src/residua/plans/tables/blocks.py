"""What a pure marginal plan really measures: integer tables with exact Laplace noise, and the epsilon that costs.

A record is in one cell of each table. Adding it changes `t · m_A` by t in L1 norm, hence `Σ_A t_A/s_A`; replacing it
changes each by 2t at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.plans.contract import Currency
from residua.plans.lattice.blocks_base import LARGEST_SCALE, SMALLEST_SCALE, LatticeBlocks
from residua.plans.matrix.blocks import rounded_up
from residua.plans.matrix.pure_blocks import within
from residua.plans.tables.plan import PureMarginalPlan
from residua.privacy import AddRemove, Guarantee, ReplaceOne, Unit

_FEWEST_RECORDS = 2**20
_MOST_CELLS = 2**31
_WORD = 2**62


@dataclass(frozen=True, eq=False)
class PureMarginalBlocks(LatticeBlocks):
    """Integer measurements `t · m_A + round(s z)` of marginals, z standard Laplace."""

    @property
    def currency(self) -> Currency:
        """Laplace noise is priced in epsilon."""
        return "epsilon"

    @property
    def units(self) -> NDArray[np.float64]:
        """t, (blocks,)."""
        return self.grids.astype(np.float64)


def compile_pure_marginals(plan: PureMarginalPlan) -> PureMarginalBlocks:
    """The integer measurements of a plan."""
    return PureMarginalBlocks(plan.lattice, plan.domain.sizes, plan.measured, plan.grids, plan.scales)


def pure_marginals_cost(blocks: PureMarginalBlocks, guarantee: Guarantee | None, unit: Unit) -> Fraction:
    """The epsilon of measuring these blocks, for this unit of protection, never less than the truth.

    Raises:
        VerificationError: dearer than promised, not integer, noise outside the samplers' range, or overflow.
    """
    _check_form(blocks)
    # Each term is rounded up to 2^-200, so that the sum of thousands stays short.
    parts = zip(blocks.grids.tolist(), blocks.scales.tolist(), strict=True)
    total = sum((rounded_up(t / Fraction(s)) for t, s in parts), Fraction(0))
    if isinstance(unit, ReplaceOne):
        return within(2 * total, guarantee)
    if isinstance(unit, AddRemove):
        return within(unit.records * total, guarantee)
    raise VerificationError(f"unit={unit!r} is not one that Laplace noise is priced for; use AddRemove or ReplaceOne.")


def most_pure_marginal_records(blocks: PureMarginalBlocks) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    return (_WORD - 2**50) // max(int(blocks.grids.max()), 1)


def _check_form(blocks: PureMarginalBlocks) -> None:
    count = len(blocks.measured)
    if not count or blocks.grids.shape != (count,) or blocks.scales.shape != (count,):
        raise VerificationError("the plan has nothing to measure, or its parts do not fit; plan again.")
    if not all(np.issubdtype(array.dtype, np.integer) for array in (blocks.measured, blocks.grids)):
        raise VerificationError("a grid factor is not a whole number; only integers are measured.")
    if (np.diff(blocks.measured) <= 0).any() or not 0 <= blocks.measured[0] <= blocks.measured[-1] < len(
        blocks.lattice
    ):
        raise VerificationError("a marginal would be measured twice, or does not exist; plan again.")
    if (blocks.grids < 1).any():
        raise VerificationError("a grid factor is below 1; plan again.")
    if not ((blocks.scales >= SMALLEST_SCALE) & (blocks.scales <= LARGEST_SCALE)).all():  # also refuses NaN
        raise VerificationError("a noise scale is outside 1/2 to 2^40; noise cannot be sampled exactly there.")
    if most_pure_marginal_records(blocks) < _FEWEST_RECORDS:
        raise VerificationError("a grid factor is so large that measurements could overflow; plan again.")
    rows = list(blocks.lattice)
    cells = sum(math.prod(int(blocks.sizes[i]) for i in rows[number]) for number in blocks.measured.tolist())
    if cells > _MOST_CELLS:
        raise VerificationError(f"{cells:,} cells would be measured, too many; ask for smaller tables.")
