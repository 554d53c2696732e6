"""What a product plan of residuals really measures: integer tables and exact noise scales.

Block S is `y = t (⊗_{i∈S} R_i) m_S + round(s z)`, with R_i the integer strategy of attribute i, an integer grid
factor t, and z standard normal, independently for every cell. Adding continuous noise to an integer and rounding is
adding rounded noise, so this is a post-processing of the ideal Gaussian mechanism and inherits its guarantee without
slack. A block says t and s and nothing else; the verifier (`set_price.py`) trusts nothing but blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from residua.domain import Domain
from residua.errors import PrivacyError, VerificationError, named
from residua.linalg.arrays import Array, Booleans, Floats, Integers
from residua.linalg.lattice import Group, Layout, SetFamily, batches, centre, layout_of
from residua.plans.cells import MOST_COLUMNS, Grouping
from residua.plans.measurements import Batch, Measurements, TableRows
from residua.plans.noise import INVISIBLE_SCALE, LARGEST_SCALE, NORMAL, Noise
from residua.plans.product import set_price as price
from residua.plans.strategy import Strategy
from residua.plans.verifier import Profile, even
from residua.privacy.costs import Reach

_BATCH_CELLS = 1_000_000


@dataclass(frozen=True, eq=False)
class SetMeasurements(Measurements):
    """Some sets of a family, with a grid factor and a noise scale each: what tables of any noise share.

    Args:
        lattice: the family the sets belong to.
        sizes: how many values each attribute has, (attributes,).
        measured: numbers of the sets that are measured, (blocks,), increasing.
        grids: the integer factor t of each, (blocks,).
        scales: the noise scale s of each, (blocks,); a float is an exact rational.
    """

    lattice: SetFamily
    sizes: Integers
    measured: Integers
    grids: Integers
    scales: Floats

    def __post_init__(self) -> None:
        for array in (self.measured, self.grids, self.scales):
            array.setflags(write=False)

    def check(self) -> None:
        """Refuses tables that are incomplete, not integer, or listed twice."""
        count = len(self.measured)
        if not count or self.grids.shape != (count,) or self.scales.shape != (count,):
            raise VerificationError("the blocks are incomplete; each needs a set, a grid factor and a noise scale.")
        if not np.issubdtype(self.grids.dtype, np.integer) or (self.grids < 1).any():
            raise VerificationError("a grid factor is not a positive whole number; only integers are measured.")
        first, last = self.measured[0], self.measured[-1]
        if (np.diff(self.measured) <= 0).any() or not 0 <= first <= last < len(self.lattice):
            raise VerificationError("a set is measured twice or does not exist; list each once, in order.")

    @cached_property
    def chosen(self) -> Booleans:
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

    @property
    def by_table(self) -> bool:
        """Where measured tables have their shape."""
        return self.in_place

    @property
    def counted(self) -> Layout:
        """The tables behind the measured ones."""
        return self.layout

    def arrays(self) -> dict[str, Array]:
        """Which sets, on which grids, with which noise."""
        return {"measured": self.measured, "grids": self.grids, "scales": self.scales}

    def batches(self) -> Sequence[Batch]:
        """Tables of equal shape that are measured alike, about a million cells at a time."""
        grids, scales = self.on_lattice
        listed = []
        for group in self.layout:
            for alike in self._alike(group):
                for part in batches(len(group.numbers[alike]), group.cells, _BATCH_CELLS):
                    places = part if isinstance(alike, slice) else alike[part]
                    start, numbers = group.start + group.cells * part.start, group.numbers[places]
                    listed.append(Batch(start, scales[numbers], (group, places, grids[numbers])))
        return listed

    def _alike(self, group: Group) -> Sequence[slice | Integers]:
        """The places of a group's tables that are measured alike, list by list: all of them."""
        return [slice(None)]

    @cached_property
    def on_lattice(self) -> tuple[Integers, Floats]:
        """Grid factor and noise scale of every set of the family, 0 where nothing is measured."""
        grids, scales = np.zeros(len(self.lattice), dtype=np.int64), np.zeros(len(self.lattice))
        grids[self.measured], scales[self.measured] = self.grids, self.scales
        return grids, scales

    @property
    def scales_of_rows(self) -> Floats:
        """The noise scale of every integer, in the order of the layout, (cells,)."""
        scales = self.on_lattice[1]
        return np.concatenate([np.repeat(scales[group.numbers], group.cells) for group in self.layout])


@dataclass(frozen=True, eq=False)
class ResidualMeasurements(SetMeasurements):
    """Integer measurements of products of strategies.

    Args:
        strategies: the integer strategy of each attribute.
        drops: whether changing a record may remove it from every table (a policy `drop`).
        names: what the attributes are called, for units of protection that limit some.
        Others as for `SetMeasurements`.
    """

    noise: ClassVar[Noise] = NORMAL

    strategies: tuple[Strategy, ...]
    drops: bool = False
    names: tuple[str, ...] = ()

    @cached_property
    def plain(self) -> bool:
        """Whether every attribute is measured by the plain residual: then measuring is centring, in place."""
        return all(strategy.plain for strategy in self.strategies)

    @property
    def in_place(self) -> bool:
        """Centred tables keep their shape."""
        return self.plain

    @cached_property
    def rows(self) -> Integers:
        """How many integers are measured along each attribute, (attributes,)."""
        return np.array([strategy.count for strategy in self.strategies], dtype=np.int64)

    @cached_property
    def layout(self) -> Layout:
        """Where each measured table, of shape (r_i), lies in the buffer of all measurements."""
        return layout_of(self.lattice, self.rows, self.chosen)

    @cached_property
    def counted(self) -> Layout:
        """Where each marginal behind a measured table, of shape (n_i), lies in a buffer of counts."""
        return self.layout if self.plain else layout_of(self.lattice, self.sizes, self.chosen)

    # ---- accuracy

    @cached_property
    def units(self) -> Floats:
        """`t · Π_{i∈S} unit_i`: what one step of the integer grid stands for, inverted, (blocks,)."""
        units = np.array([strategy.unit for strategy in self.strategies])
        return np.asarray(self.grids * self.lattice.products(units)[self.measured])

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S` of what is really measured, the rounding's own variance included, (blocks,)."""
        return np.asarray(NORMAL.variance(self.scales) / self.units**2)

    @cached_property
    def own_precisions(self) -> Floats:
        """`1/σ²_S` of every set by its own measurement, 0 where there is none, (sets,)."""
        precisions = np.zeros(len(self.lattice))
        precisions[self.measured] = 1.0 / self.noise_variances
        return precisions

    @property
    def precisions(self) -> Floats:
        """What is known of every set of the family by all that is measured, (sets,)."""
        return self.own_precisions

    def where(self, number: int) -> tuple[slice, list[int], int]:
        """Where a measured set lies among the measurements, its shape there, and its grid."""
        shape = [int(self.rows[i]) for i in self.lattice.members(number)]
        start = int(self.layout.starts[number])
        return slice(start, start + math.prod(shape)), shape, int(self.on_lattice[0][number])

    # ---- price

    @property
    def independent(self) -> Any:
        """Which blocks have independent noise: all of them."""
        return slice(None)

    @cached_property
    def costs(self) -> list[int]:
        """What a record costs each block at most, in whole numbers of 2^-200."""
        return price.costs_of(self)

    def check(self) -> None:
        """Refuses also strategies that do not fit or are not integer, and noise that cannot be sampled exactly."""
        super().check()
        price.check(self)

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """Each block at its heaviest values; cell by cell where strategies differ and the cells are few."""
        whole = price.added(several)
        return whole if len(several) == 1 else min(whole, super().added(several))

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """By patterns of agreement."""
        return price.replaced(several)

    @classmethod
    def limited(cls, several: Sequence[Self], reach: Reach) -> Fraction | None:
        """By pairs of records that agree."""
        return price.limited(several, reach)

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return price.most_records(self)

    def profile(self) -> Profile:
        """The same in every cell for plain strategies; cell by cell where the cells are few; else the largest."""
        listed = price.cell_costs(self, MOST_COLUMNS)
        if listed is not None and listed[0]:
            attributes, values = listed
            return Profile(Grouping(attributes, np.arange(values.size)), values.ravel(), 0, crossed=True)
        return even(price.added([self]))

    # ---- measuring

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """`t · (⊗_{i∈S} R_i) m_S` for tables of one shape, exactly, (tables, cells)."""
        group, places, grids = batch.work
        if self.plain:
            own = group.view(tables)[places]
            centre(own)
            cells = own.reshape(len(own), -1)
            cells *= grids[:, None]
            return np.asarray(cells)
        numbers, members = group.numbers[places], group.members[places[0]]
        shape = [int(self.sizes[i]) for i in members]
        own = tables[self.counted.starts[numbers, None] + np.arange(int(np.prod(shape)))].reshape(len(places), *shape)
        return np.asarray(self._applied(members, own) * grids[:, None])

    def _applied(self, members: Sequence[int], tables: Integers) -> Integers:
        """`(⊗ R_i) m` of several tables, (tables, cells)."""
        for axis, i in enumerate(members, start=1):
            tables = self.strategies[i].apply(tables, axis)
        return tables.reshape(len(tables), -1)

    def store(self, batch: Batch, measured: Integers, out: Integers) -> None:
        """Each table in its place in the group."""
        group, places, _ = batch.work
        group.view(out).reshape(len(group.numbers), -1)[places] = measured

    @cached_property
    def tables(self) -> Sequence[TableRows]:
        """One for each measured set."""
        if self.noise != NORMAL:
            return super().tables
        tables = []
        for number, (own, scale) in enumerate(zip(self.measured.tolist(), self.scales.tolist(), strict=True)):
            members = self.lattice.members(own)
            cells = math.prod(int(self.rows[i]) for i in members)
            tables.append(TableRows(number, members, int(self.layout.starts[own]), cells, scale))
        return tables

    def of_tables(self, rows: TableRows, tables: Integers) -> Integers:
        """`t (⊗ R_i) m` of each table."""
        return np.asarray(self._applied(rows.attributes, tables) * self.grids[rows.number])

    @cached_property
    def _kinds(self) -> Integers:
        """A number for each attribute, the same where the strategy is the same, (attributes,)."""
        known = {strategy: number for number, strategy in enumerate(dict.fromkeys(self.strategies))}
        return np.array([known[strategy] for strategy in self.strategies], dtype=np.int64)

    def _alike(self, group: Group) -> Sequence[slice | Integers]:
        """Those that have the same strategies along the same axes."""
        if self.plain:
            return super()._alike(group)
        rows = self._kinds[group.members]
        inverse = np.unique(rows, axis=0, return_inverse=True)[1].ravel() if rows.shape[1] else np.zeros(len(rows), int)
        order = np.argsort(inverse, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)


# ---- for planners


def compile_residuals(
    domain: Domain, lattice: SetFamily, precisions: Floats, strategies: tuple[Strategy, ...]
) -> ResidualMeasurements:
    """The integer measurements that realise precisions, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise too large for exact integer sampling.
        PrivacyError: noise far below one count.
    """
    units = lattice.products(np.array([strategy.unit for strategy in strategies]))
    # A product of k ≤ 20 rounded factors; of roots, unless all are plain.
    up = 2.0**-48 if all(strategy.plain for strategy in strategies) else 2.0**-46
    measured = np.flatnonzero(precisions > 0)
    if not len(measured):
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    with np.errstate(divide="ignore", over="ignore"):  # infinite noise is refused below
        grids, scales = gridded(units[measured] * np.sqrt(1.0 / precisions[measured]))
    if grids.max() > 2.0**40:
        raise PrivacyError("the plan's noise is far below one count; a budget this large gives no privacy.")
    scales = scales * (1.0 + up)
    if scales.max() > LARGEST_SCALE:
        names = tuple(domain.names[i] for i in lattice.members(int(measured[int(scales.argmax())])))
        raise VerificationError(
            f"the noise on {named(names)} is too large to sample exactly; raise the budget or leave the table out."
        )
    whole = grids.astype(np.int64)
    return ResidualMeasurements(lattice, domain.sizes, measured, whole, scales, strategies, domain.drops, domain.names)


def gridded(stddevs: Floats) -> tuple[Floats, Floats]:
    """Grid factors, powers of two that make rounding invisible, and noise scales on them, for plain deviations."""
    grids = 2.0 ** np.maximum(np.ceil(np.log2(INVISIBLE_SCALE / stddevs)), 0.0)
    return grids, stddevs * grids
