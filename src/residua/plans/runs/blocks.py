"""What measuring over runs comes down to: whole rows over the parts of every run, and one noise scale per level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.plans.blocks import POINT, Batch, Blocks, Profile, even
from residua.plans.noise import LAPLACE, Noise
from residua.plans.runs.price import price, records
from residua.plans.runs.shape import Shape
from residua.privacy import AddRemove, Unit

_BATCH_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class RunsBlocks(Blocks):
    """`R x + round(s z)` in every run, x the counts of its parts.

    Args:
        sizes: how many values each attribute has, (attributes,).
        names: what the attributes are called.
        attribute: the position of the ordered one.
        shape: the runs of its values.
        strategies: R of each level, whole numbers, (rows, parts).
        scales: s of each level, (levels,).
        drops: whether changing a record may remove it from every table (a policy `drop`).
    """

    sizes: Integers
    names: tuple[str, ...]
    attribute: int
    shape: Shape
    strategies: tuple[Integers, ...]
    scales: Floats
    drops: bool = False

    @property
    def noise(self) -> Noise:
        """Laplace."""
        return LAPLACE

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the integers of each level begin, and where they all end."""
        found = [0]
        for count, R in zip(self.shape.counts, self.strategies, strict=True):
            found.append(found[-1] + count * len(R))
        return tuple(found)

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.starts[-1]

    def arrays(self) -> dict[str, Any]:
        """The noise scales: the plan says all else."""
        return {"scales": self.scales}

    def price(self, unit: Unit) -> Fraction:
        """What measuring costs this unit, by the verifier."""
        return price(self.shape, self.strategies, self.scales, unit, self.names, self.sizes, self.drops)

    def profile(self) -> Profile:
        """The most expensive cell stands for all; epsilon squared."""
        cost = self.cost(AddRemove()) ** 2
        return even(-(-cost.numerator * POINT // cost.denominator))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return records(self.strategies)

    # ---- measuring

    @property
    def counted(self) -> Layout:
        """The attribute's own table."""
        lattice = closure([np.array([[self.attribute]], dtype=np.int32)], len(self.sizes))
        return layout_of(lattice, self.sizes, lattice.is_maximal)

    def batches(self) -> Sequence[Batch]:
        """Some runs of one level at a time."""
        found = []
        for level, (count, R) in enumerate(zip(self.shape.counts, self.strategies, strict=True)):
            step = max(_BATCH_CELLS // (len(R) + R.shape[1]), 1)
            for low in range(0, count, step):
                runs = slice(low, min(low + step, count))
                scales = np.full(runs.stop - low, float(self.scales[level]))
                found.append(Batch(self.starts[level] + low * len(R), scales, (level, runs)))
        return found

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """R times the counts of the parts of some runs, exactly, (runs, rows)."""
        level, runs = batch.work
        finest = slice(*(each * self.shape.counts[0] // self.shape.counts[level] for each in (runs.start, runs.stop)))
        starts, sizes = self.shape.starts[finest], self.shape.sizes[0][finest]
        counts = tables[int(starts[0]) : int(starts[-1] + sizes[-1])]
        if level == 0:
            parts = self.shape.padded(counts, runs)
        else:
            totals = np.add.reduceat(counts, starts - starts[0])
            parts = totals.reshape((runs.stop - runs.start) * self.shape.parts[level], -1).sum(axis=1)
            parts = parts.reshape(-1, self.shape.parts[level])
        return np.ascontiguousarray((csr_array(self.strategies[level]) @ parts.T).T)
