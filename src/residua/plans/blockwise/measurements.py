"""What a blockwise plan really measures: integer combinations of tables, each block with its own noise scale.

Block b is `y = B_b m_b + round(s z)`, with m_b the table of its attributes at their levels, B_b integer rows, and z
standard normal, independently for every row.

What that costs follows exactly from the integers alone. Adding a record adds one column of each block's rows: the cost
of a cell is `Σ_b ‖B_b e_j‖² / s_b²`, j its class in the block's table. Where the cells of all attributes together are
few, all are tried; else each block counts at its most expensive cell, which is never less. Changing a record adds a
difference of columns.

Estimates are read from the smallest block up: coordinates first, tables and answers from these.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from residua.errors import VerificationError
from residua.language import mark, say
from residua.linalg.arrays import Array, Floats, Integers, Objects, integer_product
from residua.linalg.lattice import Layout, batches, layout_of_sets
from residua.plans.blockwise.facts import BlockRows
from residua.plans.cells import Grouping
from residua.plans.estimator import Clique, Estimator
from residua.plans.levels import MOST_CELLS, AttributeLevels, Block, below, dimensions, places, shape_of, table_for
from residua.plans.measurements import Batch, Measurements, TableRows
from residua.plans.noise import NORMAL
from residua.plans.verifier import FEWEST_RECORDS, POINT, WORD, Profile, even, require_scales, share

_BATCH_TABLES = 256


@dataclass(frozen=True, eq=False)
class BlockwiseMeasurements(Measurements):
    """Integer measurements of blocks.

    Args:
        axes: the levels of each attribute.
        measured: the blocks that are measured, in the order of their measurements.
        rows: the integers of each.
        scales: the noise scale s of each, (blocks,).
        drops: whether changing a record may remove it from every table (a policy `drop`).
        names: of all attributes.
    """

    axes: tuple[AttributeLevels, ...]
    measured: tuple[Block, ...]
    rows: tuple[BlockRows, ...]
    scales: Floats
    drops: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.scales.setflags(write=False)

    @cached_property
    def starts(self) -> Integers:
        """Where each block's measurements begin, and where all end, (blocks + 1,)."""
        return np.cumsum([0, *(len(own.rows) for own in self.rows)])

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return int(self.starts[-1])

    # ---- files, and accuracy

    def arrays(self) -> dict[str, Array]:
        """The noise scales; the plan keeps the rest."""
        return {"scales": self.scales}

    @cached_property
    def noise_variances(self) -> Floats:
        """The variance of what is really added to the rows, over their units, rounding included, (blocks,)."""
        return np.asarray(NORMAL.variance(self.scales) / np.array([own.unit for own in self.rows]) ** 2)

    # ---- price

    @property
    def sizes(self) -> Integers:  # type: ignore[override]
        """How many values each attribute has, (attributes,)."""
        return np.array([axis.size for axis in self.axes], dtype=np.int64)

    @property
    def kin(self) -> Hashable:
        """With the same levels."""
        return type(self), self.axes, self.drops

    def check(self) -> None:
        """Refuses blocks that are incomplete, not integer, listed twice, or whose noise cannot be sampled exactly."""
        count = len(self.measured)
        if not count or len(self.rows) != count or self.scales.shape != (count,):
            raise VerificationError("the blocks are incomplete; each needs its rows and a noise scale.")
        if len(set(self.measured)) < count:
            raise VerificationError("a block is measured twice; list each once.")
        require_scales(self.scales)
        for block, own in zip(self.measured, self.rows, strict=True):
            cells = int(np.prod(shape_of(self.axes, block), dtype=np.int64))
            if not np.issubdtype(own.rows.dtype, np.integer) or own.rows.ndim != 2 or own.rows.shape[1] != cells:
                raise VerificationError("the rows of a block are not whole numbers, one per cell; plan again.")
        if self.most_records < FEWEST_RECORDS:
            raise VerificationError("the integers of a block are so large that numbers could overflow; plan again.")

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """The most expensive cell, or block by block where the cells are too many."""
        listed = _cell_costs(several)
        if listed is None:
            return Fraction(sum(each._sum([rows.norm for rows in each.rows]) for each in several), POINT)
        return Fraction(max(listed[1].ravel().tolist()), POINT)

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """In each block a difference of columns; nothing of the total, which stays."""
        moved = [
            each._sum([rows.apart if block else 0 for block, rows in zip(each.measured, each.rows, strict=True)])
            for each in several
        ]
        return Fraction(sum(moved), POINT)

    def _sum(self, norms: Sequence[int]) -> int:
        """`Σ norm / s²` in fixed point, each rounded up."""
        return sum(share(norm, scale) for norm, scale in zip(norms, self.scales.tolist(), strict=True))

    def profile(self) -> Profile:
        """Cell by cell where the cells of all attributes together are few; else the largest stands for all."""
        listed = _cell_costs([self])
        if listed is not None and math.prod(self.axes[i].size for i in listed[0]) <= MOST_CELLS:
            attributes, values = listed
            sizes = [self.axes[i].size for i in attributes]
            codes = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
            at = tuple(self.axes[i].finest[codes[k]] for k, i in enumerate(attributes))
            cells = values[at].ravel() if attributes else values.ravel()
            return Profile(Grouping(attributes, np.arange(len(cells))), cells, 0, crossed=True)
        return even(self.added([self]))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return (WORD - 2**51) // max((each.largest for each in set(self.rows)), default=1)

    # ---- measuring

    @cached_property
    def counted(self) -> Layout:
        """The tables of values behind the blocks."""
        return layout_of_sets({rows.attributes for rows in self.tables}, self.sizes)

    def batches(self) -> Sequence[Batch]:
        """Blocks that are measured alike, some at a time."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for number, (block, own) in enumerate(zip(self.measured, self.rows, strict=True)):
            alike.setdefault((own, *((self.axes[i], level) for i, level in block)), []).append(number)
        some_batches = []
        for numbers in alike.values():
            parts = (numbers[some] for some in batches(len(numbers), 1, _BATCH_TABLES))
            some_batches += [Batch(0, self.scales[part], part) for part in parts]
        return some_batches

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """`B m` for blocks that are measured alike, exactly, (blocks, rows)."""
        numbers = batch.work
        shape = [self.axes[i].size for i, _ in self.measured[numbers[0]]]
        members = ([i for i, _ in self.measured[number]] for number in numbers)
        starts = np.array([self.counted.starts[self.counted.lattice.number(each)] for each in members])
        m = tables[starts[:, None] + np.arange(int(np.prod(shape, dtype=np.int64)))].reshape(len(numbers), *shape)
        return self.of_tables(self.tables[numbers[0]], m)

    @cached_property
    def tables(self) -> Sequence[TableRows]:
        """One for each measured block."""
        starts, scales = self.starts.tolist(), self.scales.tolist()
        return [
            TableRows(number, tuple(i for i, _ in block), starts[number], len(own.rows), scales[number])
            for number, (block, own) in enumerate(zip(self.measured, self.rows, strict=True))
        ]

    def of_tables(self, rows: TableRows, tables: Integers) -> Integers:
        """`B m` of one block, or of some that are alike."""
        for axis, (i, level) in enumerate(self.measured[rows.number], start=1):
            tables = self.axes[i].merged(tables, level, axis)
        return integer_product(tables.reshape(len(tables), -1), self.rows[rows.number].rows.T)

    def store(self, batch: Batch, measured: Integers, out: Integers) -> None:
        """Each block in its place."""
        for number, own in zip(batch.work, measured, strict=True):
            out[self.starts[number] : self.starts[number + 1]] = own


def _cell_costs(several: Sequence[BlockwiseMeasurements]) -> tuple[tuple[int, ...], Objects] | None:
    """Which attributes there are and the cost of each of their cells in whole numbers of 2^-200; None: too many.

    Cells are classes of values that no block tells apart, (classes, …); each block is rounded up.
    """
    table = table_for(several[0].axes, [block for each in several for block in each.measured])
    if table is None:
        return None
    costs: Objects = np.zeros(table.shape, dtype=object)
    for each in several:
        for block, own, scale in zip(each.measured, each.rows, each.scales.tolist(), strict=True):
            shares = np.array([share(norm, scale) for norm in own.norms], dtype=object)
            costs = np.asarray(costs + table.spread(block, shares), dtype=object)  # a number alone is no array
    return table.attributes, costs


# ---- estimates


class BlockwiseEstimator(Estimator):
    """Estimates from measured blocks."""

    measurements: BlockwiseMeasurements

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        measurements, workload = self.measurements, self.plan.workload
        queries = 0 if workload is None else workload.queries
        words = mark(
            "{queries} queries were asked for. What was measured: {cells} noisy integers in {blocks} blocks over "
            "{attributes} attributes, each by a strategy of its own."
        )
        figures = {"blocks": len(measurements.measured), "attributes": len(self.plan.domain)}
        return say(words, **figures, cells=measurements.cells, queries=queries)

    @cached_property
    def measured(self) -> dict[Block, Floats]:
        """What was measured of each block, over its unit."""
        starts = self.measurements.starts
        return {
            block: self.noisy[..., starts[k] : starts[k + 1]] / own.unit
            for k, (block, own) in enumerate(zip(self.measurements.measured, self.measurements.rows, strict=True))
        }

    @cached_property
    def coordinates(self) -> dict[Block, Floats]:
        """The estimate of every block's coordinates; 0 of those that are not measured."""
        axes, many = self.plan.axes, self.noisy.shape[:-1]
        coordinates: dict[Block, Floats] = {}
        for block in self.plan.blocks_of:  # smallest first
            if block not in self.measured:
                coordinates[block] = np.zeros((*many, dimensions(axes, block)))
                continue
            own = self.plan.splits[block]
            y = self.measured[block]
            if own.lower.shape[1]:
                y = y - np.concatenate([coordinates[each] for each in below(block)[:-1]], axis=-1) @ own.lower.T
            coordinates[block] = y @ own.recovery.T
        return coordinates

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """From the coordinates of the blocks of these attributes."""
        axes, many = self.plan.axes, self.noisy.shape[:-1]
        table = tuple((i, axes[i].depth) for i in positions)
        shape = [axes[i].starts[-1] for i in positions]
        cells = np.zeros((*many, math.prod(shape)))
        for block in self.plan.inside(table):
            cells[..., places(axes, table, block)] = self.coordinates[block]
        tensor = cells.reshape((*many, *shape))
        for axis, i in enumerate(positions, start=len(many)):
            tensor = axes[i].values(tensor, axis)
        return np.asarray(tensor)

    def _whitened(self) -> Floats:
        """The blocks one by one, over the standard deviations of their noise."""
        roots = 1.0 / np.sqrt(self.measurements.noise_variances)
        values = [root * self.measured[block] for root, block in zip(roots, self.measurements.measured, strict=True)]
        return np.concatenate(values)

    def cliques(self) -> list[Clique]:
        """The rows of every block over the values of its attributes."""
        deviations = np.sqrt(self.measurements.noise_variances).tolist()
        return [
            Clique(tuple(i for i, _ in block), self.measured[block], deviation, self.plan.value_rows(block))
            for block, deviation in zip(self.measurements.measured, deviations, strict=True)
        ]
