"""What a dense plan really measures: one integer matrix on merged cells, one noise scale, and its exact price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.plan.base import Blocks
from residua.plan.dense.plan import DensePlan
from residua.plan.residual.blocks import LARGEST_SCALE, SMALLEST_SCALE
from residua.privacy import Guarantee, ReplaceOne, Unit

Integers = NDArray[np.int64]
_FEWEST_RECORDS = 2**28
_WORD = 2**62


@dataclass(frozen=True, eq=False)
class DenseBlocks(Blocks):
    """Integer measurements `y = B x + round(s z)` of the merged cells of some attributes.

    Args:
        sizes: how many values each attribute of the domain has, (attributes,).
        attributes: positions of the attributes whose cells are told apart.
        columns: the column of each of their cells, −1 for none, (cells,).
        strategy: B, whole numbers, (rows, columns).
        scale: s; a float is an exact rational.
        drops: whether changing a record may remove it from every table (a policy `drop`).
    """

    sizes: Integers
    attributes: tuple[int, ...]
    columns: Integers
    strategy: Integers
    scale: float
    drops: bool = False

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return len(self.strategy)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The noise scale; the strategy is in the plan itself."""
        return {"scales": np.array([self.scale])}

    @property
    def counted(self) -> Layout:
        """The one table that must be counted."""
        lattice = closure([np.array([self.attributes], dtype=np.int32).reshape(1, -1)], len(self.sizes))
        return layout_of(lattice, self.sizes, lattice.is_maximal)

    def merged(self, table: Integers) -> Integers:
        """The counts of the columns, from those of the cells, (columns,). True counts: for the measuring step."""
        found = np.zeros(self.strategy.shape[1], dtype=np.int64)
        asked = self.columns >= 0
        np.add.at(found, self.columns[asked], table[asked])
        return found


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
    _check_form(blocks)
    numerator, denominator = blocks.scale.as_integer_ratio()
    square = Fraction(denominator * denominator, numerator * numerator)
    norms = _column_norms(blocks.strategy)
    replaced = _replacement(blocks, norms) * square if isinstance(unit, ReplaceOne) else None
    return _rounded_up(unit.scaled(max(norms) * square, replaced))


def most_dense_records(blocks: DenseBlocks) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    return (_WORD - 2**50) // max(int(blocks.strategy.max()), -int(blocks.strategy.min()), 1)


def _check_form(blocks: DenseBlocks) -> None:
    for array in (blocks.strategy, blocks.columns):
        if not np.issubdtype(array.dtype, np.integer):
            raise VerificationError("a strategy is not made of whole numbers; only integers are measured.")
    if blocks.strategy.ndim != 2 or not blocks.strategy.any():
        raise VerificationError("the plan has nothing to measure; plan for a workload.")
    cells = math.prod(int(blocks.sizes[i]) for i in blocks.attributes)
    if (
        blocks.columns.shape != (cells,)
        or not -1 <= blocks.columns.min() <= blocks.columns.max() < blocks.strategy.shape[1]
    ):
        raise VerificationError("the strategy does not fit the cells; plan again.")
    if not SMALLEST_SCALE <= blocks.scale <= LARGEST_SCALE:  # also refuses NaN
        raise VerificationError("a noise scale is outside 1/2 to 2^40; noise cannot be sampled exactly there.")
    if most_dense_records(blocks) < _FEWEST_RECORDS:
        raise VerificationError("a strategy's entries are so large that measurements could overflow; plan again.")


def replacement_norm(blocks: DenseBlocks) -> Fraction:
    """`max_ij ‖B_i − B_j‖²` in whole numbers, never less than the truth: what the noise scale must be set by."""
    return _replacement(blocks, _column_norms(blocks.strategy))


def _column_norms(B: Integers) -> list[int]:
    """`Σ_k B_kj²` exactly: entries are split into halves whose products stay in 64 bits."""
    high, low = B >> 20, B & (2**20 - 1)  # B = high·2^20 + low, |high| < 2^14 for entries below 2^34
    if np.abs(high).max(initial=0) >= 2**20 or len(B) >= 2**21:
        return [sum(int(b) * int(b) for b in column) for column in B.T]
    parts = ((high * high).sum(axis=0), (high * low).sum(axis=0), (low * low).sum(axis=0))
    return [(int(a) << 40) + (int(b) << 21) + int(c) for a, b, c in zip(*parts, strict=True)]


def _replacement(blocks: DenseBlocks, norms: list[int]) -> Fraction:
    """`max_ij ‖B_i − B_j‖²`, from floating-point products widened by a bound on their rounding."""
    B = blocks.strategy.astype(np.float64)
    gram = B.T @ B
    diagonal = np.diag(gram)
    largest = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    # Each entry of the product of k terms is off by at most k·2^-52·‖B_i‖‖B_j‖; four of them enter.
    slack = 4 * (len(B) + 4) * 2.0**-52 * float(max(norms))
    # A record changed to a cell nobody asks about, or to a value that is left out, is a record removed.
    unasked = max(norms) if (blocks.columns < 0).any() or blocks.drops else 0
    return max(Fraction(largest) + Fraction(slack), Fraction(unasked))


def _rounded_up(cost: Fraction) -> Fraction:
    """A cost as a whole number of 2^-200, so that the ledger's sums stay short."""
    return Fraction(-(-cost.numerator * 2**200 // cost.denominator), 2**200)
