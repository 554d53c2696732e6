"""What measured blocks say: coordinates from the smallest block up, tables and answers from coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats
from residua.plans.blockwise.blocks import BlockwiseBlocks
from residua.plans.cells import Grouping
from residua.plans.levels import Block, below, dimensions, places
from residua.plans.reading import Clique, Reading


@dataclass(frozen=True, eq=False)
class BlockwiseReading(Reading):
    """Estimates from measured blocks.

    Args:
        plan: the plan with the precisions really measured.
        blocks: what was measured.
        measurements: the noisy integers, block by block, (cells,); or of many groups, (many, cells).
    """

    plan: Any
    blocks: BlockwiseBlocks
    measurements: NDArray[Any]

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        workload = self.plan.workload
        queries = 0 if workload is None else workload.queries
        return (
            f"{len(self.blocks.measured):,} blocks of integer combinations over {len(self.plan.domain)} attributes, "
            f"each by a strategy of its own, {self.blocks.cells:,} noisy integers in all; {queries:,} queries were "
            "asked."
        )

    @cached_property
    def measured(self) -> dict[Block, Floats]:
        """What was measured of each block, over its unit."""
        starts = self.blocks.starts
        return {
            block: self.measurements[..., starts[k] : starts[k + 1]] / own.unit
            for k, (block, own) in enumerate(zip(self.blocks.measured, self.blocks.rows, strict=True))
        }

    @cached_property
    def coordinates(self) -> dict[Block, Floats]:
        """The estimate of every block's coordinates; 0 of those that are not measured."""
        axes, many = self.plan.axes, self.measurements.shape[:-1]
        coordinates: dict[Block, Floats] = {}
        for block in self.plan.blocks_of:  # smallest first
            if block not in self.measured:
                coordinates[block] = np.zeros((*many, dimensions(axes, block)))
                continue
            own = self.plan.facts.splits[block]
            y = self.measured[block]
            if own.lower.shape[1]:
                y = y - np.concatenate([coordinates[each] for each in below(block)[:-1]], axis=-1) @ own.lower.T
            coordinates[block] = y @ own.recovery.T
        return coordinates

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """From the coordinates of the blocks of these attributes."""
        axes, many = self.plan.axes, self.measurements.shape[:-1]
        table = tuple((i, axes[i].depth) for i in positions)
        shape = [axes[i].starts[-1] for i in positions]
        cells = np.zeros((*many, math.prod(shape)))
        for block in self.plan.facts.inside(table):
            cells[..., places(axes, table, block)] = self.coordinates[block]
        tensor = cells.reshape((*many, *shape))
        for axis, i in enumerate(positions, start=len(many)):
            tensor = axes[i].values(tensor, axis)
        return np.asarray(tensor)

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """The blocks one by one, over the standard deviations of their noise."""
        grouping, rows = self.plan.over_cells()
        roots = 1.0 / np.sqrt(self.blocks.noise_variances)
        values = [root * self.measured[block] for root, block in zip(roots, self.blocks.measured, strict=True)]
        return grouping, rows, np.concatenate(values)

    def cliques(self) -> list[Clique]:
        """The rows of every block over the values of its attributes."""
        deviations = np.sqrt(self.blocks.noise_variances).tolist()
        return [
            Clique(tuple(i for i, _ in block), self.measured[block], deviation, self.plan.value_rows(block))
            for block, deviation in zip(self.blocks.measured, deviations, strict=True)
        ]
