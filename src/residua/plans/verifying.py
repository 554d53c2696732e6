"""What every verifier of blocks on a family of sets checks: their form, and the price against the promise.

Small and trusted, like the verifiers themselves; it knows nothing of planners.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from residua.errors import VerificationError
from residua.plans.lattice.blocks_base import LARGEST_SCALE, SMALLEST_SCALE, LatticeBlocks
from residua.privacy import Guarantee

POINT = 2**200  # fixed point: a cost is a whole number of 2^-200, rounded up
WORD = 2**62


def check_blocks(blocks: LatticeBlocks) -> None:
    """Refuses blocks that are incomplete, not integer, listed twice, or whose noise cannot be sampled exactly.

    Raises:
        VerificationError: any of these.
    """
    count = len(blocks.measured)
    if not count or blocks.grids.shape != (count,) or blocks.scales.shape != (count,):
        raise VerificationError("the blocks are incomplete; each needs a set, a grid factor and a noise scale.")
    if not np.issubdtype(blocks.grids.dtype, np.integer) or (blocks.grids < 1).any():
        raise VerificationError("a grid factor is not a positive whole number; only integers are measured.")
    first, last = blocks.measured[0], blocks.measured[-1]
    if (np.diff(blocks.measured) <= 0).any() or not 0 <= first <= last < len(blocks.lattice):
        raise VerificationError("a set is measured twice or does not exist; list each once, in order.")
    if not ((blocks.scales >= SMALLEST_SCALE) & (blocks.scales <= LARGEST_SCALE)).all():  # also refuses NaN
        raise VerificationError("a noise scale is outside 1/2 to 2^40; noise cannot be sampled exactly there.")


def check_records(most: int, fewest: int) -> None:
    """Refuses blocks that could leave 64 bits with fewer records than any table may have.

    Raises:
        VerificationError: they could.
    """
    if most < fewest:
        raise VerificationError("a measured table is so large that its numbers could overflow; leave it out.")


def promised(cost: Fraction, guarantee: Guarantee | None) -> Fraction:
    """The cost, if it is within the guarantee.

    Raises:
        VerificationError: dearer than promised, or nothing is promised.
    """
    if guarantee is None:
        raise VerificationError("the plan promises no guarantee; plan again.")
    if cost > guarantee.pcost_allowed():
        raise VerificationError(
            f"what would be measured costs {float(cost):.6g}, more than {guarantee!r} allows; the plan was altered, "
            "plan again. Nothing was spent."
        )
    return cost
