"""What measuring a plan comes down to: integers, exact noise scales, and the price of both."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Array, Floats, Integers
from residua.linalg.lattice import Layout
from residua.machine import remembered
from residua.plans.noise import NORMAL, Currency, Noise
from residua.plans.verifier import Profile, composed, price
from residua.privacy import Unit
from residua.privacy.costs import Reach


@dataclass(frozen=True, eq=False)
class Batch:
    """Some measurements that are made together.

    Args:
        start: where the first of them lies among all measurements.
        scales: the noise scale of each table, (tables,).
        work: what the measurements need to know to make them.
    """

    start: int
    scales: Floats
    work: Any


@dataclass(frozen=True, eq=False)
class Portion:
    """Measurements that follow each other and can be made apart from all others, so that only their tables are held.

    Args:
        measurements: these measurements, as measurements of their own.
        start: where the first of them lies among all.
        kind: portions of one kind measure alike.
        by: positions of the attributes that make groups, increasing; none where all records are counted.
        groups: the groups whose records are counted, increasing, row by row among all groups.
    """

    measurements: Measurements
    start: int = 0
    kind: int = 0
    by: tuple[int, ...] = ()
    groups: Integers | None = None


@dataclass(frozen=True, eq=False)
class TableRows:
    """Integers that are measured of one table, with one noise scale.

    Args:
        number: which of the measurements it is.
        attributes: the table, positions in the domain's order.
        start: where the integers begin among all that are measured.
        cells: how many there are.
        scale: the noise scale.
    """

    number: int
    attributes: tuple[int, ...]
    start: int
    cells: int
    scale: float


class Measurements(ABC):
    """What is really measured: integers, exact noise scales, and nothing else. Measurements price themselves."""

    names: tuple[str, ...] = ()  # what the attributes of the domain are called
    sizes: Integers  # how many values each has
    drops: bool = False  # whether changing a record may remove it from every table (a policy `drop`)

    @property
    def noise(self) -> Noise:
        """What is added to every integer."""
        return NORMAL

    @property
    def currency(self) -> Currency:
        """What the price is in: a pcost for Gaussian noise, an epsilon for Laplace noise."""
        return self.noise.currency

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many integers are measured."""

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """What a saved release keeps of the measurements beside the plan."""

    # ---- price: what the verifier asks

    def price(self, unit: Unit) -> Fraction:
        """What measuring costs this unit of protection, by the verifier.

        Raises:
            VerificationError: not integer, noise outside the exact samplers' range, or numbers that could overflow.
        """
        return price([self], unit)

    @remembered
    def cost(self, unit: Unit) -> Fraction:
        """The price for this unit, computed once: measurements do not change."""
        return self.price(unit)

    @property
    def kin(self) -> Hashable:
        """Measurements of the same kin are priced together."""
        return type(self)

    @property
    def removable(self) -> bool:
        """Whether a record that changes may leave every table."""
        return self.drops

    @abstractmethod
    def check(self) -> None:
        """Refuses what cannot be measured exactly.

        Raises:
            VerificationError: not integers, noise outside the exact samplers' range, or numbers that could overflow.
        """

    @abstractmethod
    def profile(self) -> Profile:
        """What one record added or removed costs in each cell, never less; epsilon squared for Laplace noise."""

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """What one record added or removed costs all of these, never less, for Laplace noise an epsilon."""
        return composed(several[0].sizes, [each.profile() for each in several]).largest

    @classmethod
    @abstractmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """What one record replaced by another that is counted costs all of these, never less."""

    @classmethod
    def limited(cls, several: Sequence[Self], reach: Reach) -> Fraction | None:
        """What a person with limited records costs all of these, never less; None where nothing is known of it."""
        return None

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

    # ---- accuracy

    @property
    def scales_of_rows(self) -> Floats:
        """The noise scale of every integer, where all is independent.

        Raises:
            PlanError: noise that is not stated so.
        """
        raise PlanError("these measurements have no rows with Laplace noise that could be pooled with others.")

    def simulated(self, random: np.random.Generator) -> Array:
        """Noise like that of the measurements, (cells,): for forecasts, never for a release."""
        return self.noise.simulated(self.scales_of_rows, random)

    # ---- the same measurements measured in many groups at once

    @property
    def tables(self) -> Sequence[TableRows]:
        """What is measured, table by table, each integer with normal noise of its own.

        Raises:
            PlanError: noise that is not normal, or is correlated.
        """
        raise PlanError(
            "only plans of tables, products and queries with normal noise can be measured group by group; plan with "
            "ZCDP, GDP or ApproxDP, and without form=rs.Axis() or rs.Tree()."
        )

    def of_tables(self, rows: TableRows, tables: Integers) -> Integers:
        """What some rows measure of each of several tables (tables, n_1, …, n_k), exactly, (tables, cells)."""
        raise NotImplementedError


def holding(layout: Layout, buffer: Integers, attributes: tuple[int, ...]) -> tuple[Integers, tuple[int, ...]]:
    """The smallest table in a buffer that holds these attributes, (n_1, …), without copying, and its attributes."""
    start, members = next(each for each in _by_size(layout) if {*attributes} <= {*each[1]})
    shape = [int(layout.sizes[i]) for i in members]
    return buffer[start : start + math.prod(shape)].reshape(shape), members


@lru_cache(maxsize=8)
def _by_size(layout: Layout) -> list[tuple[int, tuple[int, ...]]]:
    """Where each table begins, and its attributes, the smallest first."""
    lattice, starts = layout.lattice, layout.starts.tolist()
    places = [(group.cells, starts[n], lattice.members(n)) for group in layout for n in group.numbers.tolist()]
    return [(start, members) for _, start, members in sorted(places)]
