"""What measuring a plan comes down to: integers, exact noise scales, and the price of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers, Objects
from residua.linalg.layout import Layout
from residua.plans.cells import Grouping
from residua.plans.noise import LARGEST_SCALE, SMALLEST_SCALE, Currency, Noise
from residua.privacy import Unit

POINT = 2**200  # fixed point: a cost is a whole number of 2^-200, rounded up
WORD = 2**62
_EVERYWHERE = Grouping((), np.array([-1]))


@dataclass(frozen=True, eq=False)
class Profile:
    """What measurements cost a person in each cell: the diagonal of their privacy cost matrix, never less.

    Args:
        grouping: the cells that are told apart.
        values: the cost of each group, in whole numbers of 2^-200, (groups,).
        everywhere: what is to be added in every cell, in the same unit.
        crossed: whether the cells are those of a product of attributes, which may be too many beside others.
    """

    grouping: Grouping
    values: Objects
    everywhere: int
    crossed: bool = False

    @property
    def largest(self) -> Fraction:
        """The most expensive cell."""
        return Fraction(max(self.values, default=0) + self.everywhere, POINT)

    @property
    def flat(self) -> Profile:
        """The profile with every cell as expensive as the most expensive one."""
        return even(max(self.values, default=0) + self.everywhere)


def even(everywhere: int) -> Profile:
    """A profile that is the same in all cells."""
    return Profile(_EVERYWHERE, np.zeros(0, dtype=object), everywhere)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some measurements that are made together.

    Args:
        start: where the first of them lies among all measurements.
        scales: the noise scale of each table, (tables,).
        work: what the blocks need to know to make them.
    """

    start: int
    scales: Floats
    work: Any


@dataclass(frozen=True, eq=False)
class Portion:
    """Measurements that follow each other and can be made apart from all others, so that only their tables are held.

    Args:
        blocks: these measurements, as blocks of their own.
        start: where the first of them lies among all.
        kind: portions of one kind measure alike.
        by: positions of the attributes that make groups, increasing; none where all records are counted.
        groups: the groups whose records are counted, increasing, row by row among all groups.
    """

    blocks: Blocks
    start: int = 0
    kind: int = 0
    by: tuple[int, ...] = ()
    groups: Integers | None = None


class Blocks(ABC):
    """What is really measured: integers, exact noise scales, and nothing else. Blocks price themselves."""

    exact_together: ClassVar[bool] = False  # whether `price_together` adds up cell by cell, for every unit

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """What is added to every integer."""

    @property
    def currency(self) -> Currency:
        """What the price is in: a pcost for Gaussian noise, an epsilon for Laplace noise."""
        return self.noise.currency

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many integers are measured."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a saved release keeps of the blocks beside the plan."""

    # ---- price

    @abstractmethod
    def price(self, unit: Unit) -> Fraction:
        """The verifier: what measuring costs this unit of protection, whatever was promised; never less than the truth.

        Raises:
            VerificationError: not integer, noise outside the exact samplers' range, or numbers that could overflow.
        """

    @cached_property
    def _prices(self) -> dict[Unit, Fraction]:
        return {}

    def cost(self, unit: Unit) -> Fraction:
        """The price for this unit, computed once: blocks do not change."""
        if unit not in self._prices:
            self._prices[unit] = self.price(unit)
        return self._prices[unit]

    @classmethod
    def price_together(cls, several: Sequence[Self], unit: Unit) -> Fraction:
        """What measuring several blocks of one form and one domain costs together; their sum, if nothing is better."""
        return sum((blocks.price(unit) for blocks in several), Fraction(0))

    @abstractmethod
    def profile(self) -> Profile:
        """What measuring costs a person in each cell, one record added or removed."""

    @property
    @abstractmethod
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""

    # ---- measuring: true counts pass through these, for the measuring step alone

    @property
    @abstractmethod
    def counted(self) -> Layout:
        """The tables that must be known."""

    @property
    def in_place(self) -> bool:
        """Whether measurements take the place of the tables themselves, which saves the memory of one of them."""
        return False

    @property
    def by_table(self) -> bool:
        """Whether the integers are those of whole tables, one after the other, so that each can be read by itself."""
        return False

    def portions(self, most_cells: int) -> Sequence[Portion]:
        """The parts that can be measured one after the other; here all is measured at once.

        Args:
            most_cells: about how many cells the tables of a portion may have.
        """
        return [Portion(self)]

    @abstractmethod
    def batches(self) -> Sequence[Batch]:
        """All measurements, some at a time."""

    def correlation(self, batch: Batch) -> Any:
        """The noise that is correlated along the rows of a batch; None where it is independent in all cells."""
        return None

    @property
    def drawn_at_once(self) -> int:
        """How many random numbers are held at once while noise is drawn, where it is more than a batch."""
        return 0

    @abstractmethod
    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """What a batch measures, exactly and without noise, (tables, cells); in place a view of the tables."""

    def store(self, batch: Batch, measured: Integers, out: Integers) -> None:
        """Puts the noisy integers of a batch where they belong among all measurements."""
        out[batch.start : batch.start + measured.size] = measured.ravel()


def require_scales(scales: Floats) -> None:
    """Refuses noise that cannot be sampled exactly.

    Raises:
        VerificationError: a scale is out of range, or no number.
    """
    if not ((scales >= SMALLEST_SCALE) & (scales <= LARGEST_SCALE)).all():  # also refuses NaN
        raise VerificationError("a noise scale is outside 1/2 to 2^40; noise cannot be sampled exactly there.")


def rounded_up(cost: Fraction) -> Fraction:
    """A cost as a whole number of 2^-200, so that the ledger's sums stay short."""
    return Fraction(-(-cost.numerator * POINT // cost.denominator), POINT)
