"""What a blockwise plan really measures: integer combinations of tables, each block with its own noise scale.

Block b is `y = B_b m_b + round(s z)`, with m_b the table of its attributes at their levels, B_b integer rows, and z
standard normal, independently for every row.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Layout, layout_of_sets
from residua.linalg.modes import integer_product
from residua.plans.blockwise import price
from residua.plans.blockwise.facts import BlockRows
from residua.plans.cells import Grouping
from residua.plans.levels import MOST_CELLS, AttributeLevels, Block
from residua.plans.measurements import Batch, Measurements, TableRows
from residua.plans.noise import NORMAL, Noise
from residua.plans.verifier import Profile, even

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

    @property
    def noise(self) -> Noise:
        """Normal."""
        return NORMAL

    @cached_property
    def starts(self) -> Integers:
        """Where each block's measurements begin, and where all end, (blocks + 1,)."""
        return np.cumsum([0, *(len(own.rows) for own in self.rows)])

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return int(self.starts[-1])

    # ---- files, and accuracy

    def arrays(self) -> dict[str, NDArray[Any]]:
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
        price.check(self)

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """Cell by cell, or block by block where the cells are too many."""
        return price.added(several)

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """Block by block."""
        return price.replaced(several)

    def profile(self) -> Profile:
        """Cell by cell where the cells of all attributes together are few; else the largest stands for all."""
        listed = price.cell_costs(self)
        if listed is not None and math.prod(self.axes[i].size for i in listed[0]) <= MOST_CELLS:
            attributes, values = listed
            sizes = [self.axes[i].size for i in attributes]
            codes = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
            at = tuple(self.axes[i].finest[codes[k]] for k, i in enumerate(attributes))
            cells = values[at].ravel() if attributes else values.ravel()
            return Profile(Grouping(attributes, np.arange(len(cells))), cells, 0, crossed=True)
        return even(price.added([self]))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return price.most_records(self.rows)

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
            for start in range(0, len(numbers), _BATCH_TABLES):
                some = numbers[start : start + _BATCH_TABLES]
                some_batches.append(Batch(0, self.scales[some], some))
        return some_batches

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """`B m` for blocks that are measured alike, exactly, (blocks, rows)."""
        numbers = batch.work
        shape = [self.axes[i].size for i, _ in self.measured[numbers[0]]]
        starts = np.array([self._start(self.measured[number]) for number in numbers])
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

    def _start(self, block: Block) -> int:
        row = np.array([[i for i, _ in block]], dtype=np.int32).reshape(1, -1)
        return int(self.counted.starts[self.counted.lattice.find(row)[0]])
