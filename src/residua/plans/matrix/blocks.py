"""What a strategy plan really measures: one integer matrix on merged cells, and one noise scale."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.plans.contract import Blocks, Currency
from residua.plans.lattice.blocks_base import LARGEST_SCALE, SMALLEST_SCALE

Integers = NDArray[np.int64]
_FEWEST_RECORDS = 2**28
_WORD = 2**62


@dataclass(frozen=True, eq=False)
class StrategyBlocks(Blocks):
    """Integer measurements `y = B x + round(s z)` of the merged cells of some attributes, z independent noise.

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
    @abstractmethod
    def currency(self) -> Currency:
        """What the verifier's price is in, which says what noise is added."""

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


def most_strategy_records(blocks: StrategyBlocks) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    return (_WORD - 2**50) // max(int(blocks.strategy.max()), -int(blocks.strategy.min()), 1)


def check_form(blocks: StrategyBlocks) -> None:
    """Refuses what cannot be measured exactly.

    Raises:
        VerificationError: not integer, noise outside the samplers' range, or overflow.
    """
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
    if most_strategy_records(blocks) < _FEWEST_RECORDS:
        raise VerificationError("a strategy's entries are so large that measurements could overflow; plan again.")


def rounded_up(cost: Fraction) -> Fraction:
    """A cost as a whole number of 2^-200, so that the ledger's sums stay short."""
    return Fraction(-(-cost.numerator * 2**200 // cost.denominator), 2**200)
