"""What measuring a tree comes down to: residuals of short attributes in every node, as integers, with a scale per node.

For each set S of short attributes and each measured level, the nodes' tables on S are measured as
`y = t (⊗_{i∈S} (n_i I − 11ᵀ)) m + round(s z)`. A record is in one node of each level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from residua.linalg.arrays import Integers
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, centre, layout_of
from residua.plans.blocks import POINT, Batch, Blocks, Profile, even
from residua.plans.noise import LAPLACE
from residua.plans.tree.price import price, price_together
from residua.plans.tree.sets import Measured, SetOfNodes
from residua.privacy import AddRemove, Unit

_BATCH_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class TreeBlocks(Measured, Blocks):
    """Integer measurements over the nodes of a tree."""

    exact_together = True

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the integers of each set begin, and where they all end; nodes of the finest level first."""
        found = [0]
        for each in self.sets:
            found.append(found[-1] + each.nodes(self.nesting) * each.cells)
        return tuple(found)

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.starts[-1]

    def place(self, number: int, level: int) -> int:
        """Where the integers of one set on one measured level begin."""
        each = self.sets[number]
        at = self.starts[number]
        for below in [each.start, *each.inner()]:
            if below == level:
                return at
            at += self.nesting.sizes[below] * each.cells
        raise ValueError("this level is not measured")

    def arrays(self) -> dict[str, Any]:
        """Grids and noise scales."""
        scales = [np.zeros(0), *(array for each in self.sets for array in each.scales)]
        return {
            "grids": np.array([each.grid for each in self.sets], dtype=np.int64).repeat(
                [sum(map(len, each.scales)) for each in self.sets]
            ),
            "scales": np.concatenate(scales),
        }

    def price(self, unit: Unit) -> Fraction:
        """What measuring costs this unit, by the verifier."""
        return price(self, unit)

    @classmethod
    def price_together(cls, several: Sequence[Self], unit: Unit) -> Fraction:
        """Leaf by leaf: the most expensive one is not the same for all sets."""
        return price_together(several, unit)

    def profile(self) -> Profile:
        """Nearly the same in every cell: the most expensive one stands for all; epsilon squared for Laplace noise."""
        cost = self.cost(AddRemove()) ** (2 if self.noise == LAPLACE else 1)
        return even(-(-cost.numerator * POINT // cost.denominator))

    # ---- measuring

    @cached_property
    def counted(self) -> Layout:
        """The table of all values and all short attributes."""
        members = np.array([sorted((self.attribute, *self.short))], dtype=np.int32)
        lattice = closure([members], len(self.sizes))
        return layout_of(lattice, self.sizes, lattice.is_maximal)

    def batches(self) -> Sequence[Batch]:
        """The values some at a time; of each set all coarser levels together."""
        found = []
        for number, each in enumerate(self.sets):
            if each.start == 0:
                rows = max(_BATCH_CELLS // each.cells, 1)
                for low in range(0, self.nesting.sizes[0], rows):
                    part = slice(low, min(low + rows, self.nesting.sizes[0]))
                    scales = each.scales_of(0, self.nesting, part)
                    found.append(Batch(self.starts[number] + low * each.cells, scales, (number, part)))
            coarse = each.inner() if each.start == 0 else [each.start, *each.inner()]
            if coarse:
                scales = np.concatenate([each.scales_of(level, self.nesting, slice(None)) for level in coarse])
                found.append(Batch(self.place(number, coarse[0]), scales, (number, None)))
        return found

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """`t Ĉ_S m` of some nodes, exactly, (nodes, cells)."""
        number, part = batch.work
        each = self.sets[number]
        if part is not None:
            return self._measured(each, self._on(each, tables, part))
        from residua.plans.tree.kernels import add_rows  # loads Numba

        coarse = each.inner() if each.start == 0 else [each.start, *each.inner()]
        below = np.zeros((self.nesting.sizes[coarse[0]], each.cells), dtype=np.int64)
        onto = self.nesting.between(0, coarse[0])
        for rows in self._parts(each.cells):
            add_rows(onto[rows], self._on(each, tables, rows), below)
        found = [below]
        for low, high in pairwise(coarse):
            above = np.zeros((self.nesting.sizes[high], each.cells), dtype=np.int64)
            add_rows(self.nesting.between(low, high), found[-1], above)
            found.append(above)
        return self._measured(each, np.concatenate(found))

    def _parts(self, cells: int) -> Iterator[slice]:
        rows = max(_BATCH_CELLS // max(cells, math.prod(int(self.sizes[i]) for i in self.short)), 1)
        return (slice(low, low + rows) for low in range(0, self.nesting.sizes[0], rows))

    def _on(self, each: SetOfNodes, tables: Integers, rows: slice) -> Integers:
        """The tables of some values on the set's attributes, (values, cells), a copy."""
        members = sorted((self.attribute, *self.short))
        table = np.moveaxis(tables.reshape([int(self.sizes[i]) for i in members]), members.index(self.attribute), 0)
        gone = tuple(1 + k for k, i in enumerate(self.short) if i not in each.members)
        found = table[rows].sum(axis=gone) if gone else table[rows].copy()
        return np.ascontiguousarray(found).reshape(-1, each.cells)

    @staticmethod
    def _measured(each: SetOfNodes, counts: Integers) -> Integers:
        shaped = counts.reshape(-1, *each.sizes)
        centre(shaped)
        counts *= each.grid
        return counts
