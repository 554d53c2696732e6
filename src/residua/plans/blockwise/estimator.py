"""What measured blocks say: coordinates from the smallest block up, tables and answers from coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.language import mark, say
from residua.linalg.arrays import Floats
from residua.plans.blockwise.measurements import BlockwiseMeasurements
from residua.plans.cells import Grouping
from residua.plans.estimator import Clique, Estimator
from residua.plans.levels import Block, below, dimensions, places


@dataclass(frozen=True, eq=False)
class BlockwiseEstimator(Estimator):
    """Estimates from measured blocks.

    Args:
        plan: the plan with the precisions really measured.
        measurements: what was measured.
        noisy: the noisy integers, block by block, (cells,); or of many groups, (many, cells).
    """

    plan: Any
    measurements: BlockwiseMeasurements
    noisy: NDArray[Any]

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        measurements, workload = self.measurements, self.plan.workload
        queries = 0 if workload is None else workload.queries
        words = mark(
            "{blocks} blocks of integer combinations over {attributes} attributes, each by a strategy of its own, "
            "{cells} noisy integers in all; {queries} queries were asked."
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
            own = self.plan.facts.splits[block]
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
        for block in self.plan.facts.inside(table):
            cells[..., places(axes, table, block)] = self.coordinates[block]
        tensor = cells.reshape((*many, *shape))
        for axis, i in enumerate(positions, start=len(many)):
            tensor = axes[i].values(tensor, axis)
        return np.asarray(tensor)

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """The blocks one by one, over the standard deviations of their noise."""
        grouping, rows = self.plan.over_cells()
        roots = 1.0 / np.sqrt(self.measurements.noise_variances)
        values = [root * self.measured[block] for root, block in zip(roots, self.measurements.measured, strict=True)]
        return grouping, rows, np.concatenate(values)

    def cliques(self) -> list[Clique]:
        """The rows of every block over the values of its attributes."""
        deviations = np.sqrt(self.measurements.noise_variances).tolist()
        return [
            Clique(tuple(i for i, _ in block), self.measured[block], deviation, self.plan.value_rows(block))
            for block, deviation in zip(self.measurements.measured, deviations, strict=True)
        ]
