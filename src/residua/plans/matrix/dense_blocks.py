"""What a dense plan really measures: one integer matrix on merged cells, one noise scale, and its exact price."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.plans.contract import Currency
from residua.plans.matrix.blocks import StrategyBlocks, check_form, rounded_up
from residua.plans.matrix.plan import DensePlan, moved_columns
from residua.privacy import Guarantee, ReplaceOne, Unit

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DenseBlocks(StrategyBlocks):
    """Integer measurements `y = B x + round(s z)` of the merged cells of some attributes, z standard normal."""

    @property
    def currency(self) -> Currency:
        """Gaussian noise is priced in pcost."""
        return "pcost"


def compile_dense(plan: DensePlan) -> DenseBlocks:
    """The integer measurements of a dense plan: its own strategy."""
    return DenseBlocks(plan.domain.sizes, plan.attributes, plan.columns, plan.strategy, plan.scale, plan.domain.drops)


def dense_cost(blocks: DenseBlocks, guarantee: Guarantee | None, unit: Unit) -> Fraction:
    """The privacy cost of measuring a dense block, for this unit of protection, never less than the truth.

    Adding a record to a cell adds its column to `B x`: the cost is the largest `Σ_k B_kj²` over s², in whole numbers.

    Raises:
        VerificationError: dearer than promised, not integer, noise outside the samplers' range, or overflow.
    """
    cost = block_cost(blocks, unit)
    if guarantee is None or cost > guarantee.pcost_allowed():
        raise VerificationError(
            f"what would be measured costs {float(cost):.6g}, more than {guarantee!r} allows; the plan was altered, "
            "plan again. Nothing was spent."
        )
    return cost


def block_cost(blocks: DenseBlocks, unit: Unit) -> Fraction:
    """The same price, whatever was promised."""
    check_form(blocks)
    numerator, denominator = blocks.scale.as_integer_ratio()
    square = Fraction(denominator * denominator, numerator * numerator)
    norms = column_norms(blocks.strategy)
    replaced = _replacement(blocks, norms) * square if isinstance(unit, ReplaceOne) else None
    return rounded_up(unit.scaled(max(norms) * square, replaced))


def replacement_norm(blocks: DenseBlocks) -> Fraction:
    """`max_ij ‖B_i − B_j‖²` in whole numbers, never less than the truth: what the noise scale must be set by."""
    return _replacement(blocks, column_norms(blocks.strategy))


def column_norms(B: Integers) -> list[int]:
    """`Σ_k B_kj²` exactly: entries are split into halves whose products stay in 64 bits."""
    high, low = B >> 20, B & (2**20 - 1)  # B = high·2^20 + low, |high| < 2^14 for entries below 2^34
    if np.abs(high).max(initial=0) >= 2**20 or len(B) >= 2**21:
        return [sum(int(b) * int(b) for b in column) for column in B.T]
    parts = ((high * high).sum(axis=0), (high * low).sum(axis=0), (low * low).sum(axis=0))
    return [(int(a) << 40) + (int(b) << 21) + int(c) for a, b, c in zip(*parts, strict=True)]


def _replacement(blocks: DenseBlocks, norms: list[int]) -> Fraction:
    """`max_ij ‖B_i − B_j‖²`, from floating-point products widened by a bound on their rounding."""
    B = moved_columns(blocks.strategy)
    gram = B.T @ B
    diagonal = np.diag(gram)
    largest = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    # Each entry of the product of k terms is off by at most k·2^-52·‖B_i‖‖B_j‖; four of them enter.
    slack = 4 * (len(B) + 4) * 2.0**-52 * float(diagonal.max())
    # A record changed to a cell nobody asks about, or to a value that is left out, is a record removed.
    unasked = max(norms) if (blocks.columns < 0).any() or blocks.drops else 0
    return max(Fraction(largest) + Fraction(slack), Fraction(unasked))
