"""What measured blocks say: coordinates from the smallest block up, tables and answers from coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.blockwise.blocks import BlockwiseBlocks
from residua.plans.blockwise.facts import asked
from residua.plans.cells import Grouping
from residua.plans.levels import Block, below, places
from residua.plans.questions import combined
from residua.plans.reading import Clique, Combination, Reading
from residua.workload import Workload


@dataclass(frozen=True, eq=False)
class BlockwiseReading(Reading):
    """Estimates from measured blocks.

    Args:
        plan: the plan with the precisions really measured.
        blocks: what was measured.
        measurements: the noisy integers, block by block, (cells,).
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
            block: self.measurements[starts[k] : starts[k + 1]] / own.unit
            for k, (block, own) in enumerate(zip(self.blocks.measured, self.blocks.rows, strict=True))
        }

    @cached_property
    def coordinates(self) -> dict[Block, Floats]:
        """The estimate of every block's coordinates."""
        found: dict[Block, Floats] = {}
        for block in self.blocks.measured:  # smallest first
            own = self.plan.facts.splits[block]
            y = self.measured[block]
            if own.lower.shape[1]:
                known = [found.get(each) for each in below(block)[:-1]]
                sizes = self.plan.sizes_below(block)
                lower = [np.zeros(n) if one is None else one for one, n in zip(known, sizes, strict=True)]
                y = y - own.lower @ np.concatenate(lower)
            found[block] = own.recovery @ y
        return found

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """From the coordinates of the blocks of these attributes."""
        axes = self.plan.axes
        table = tuple((i, axes[i].depth) for i in positions)
        found = np.zeros(math.prod(axes[i].starts[-1] for i in positions))
        for block in self.plan.facts.inside(table):
            if block in self.coordinates:
                found[places(axes, table, block)] = self.coordinates[block]
        tensor = found.reshape([axes[i].starts[-1] for i in positions])
        for axis, i in enumerate(positions):
            tensor = axes[i].values(tensor, axis)
        return np.asarray(tensor)

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """The queries of each part, from the table of its attributes."""
        variances = self.plan.variances(workload)
        if not np.isfinite(variances).all():
            raise PlanError("the release does not answer all these queries; plan for a workload that asks for them.")
        found = np.empty(workload.queries)
        known: dict[tuple[int, ...], Floats] = {}
        for attributes, rows, at in asked(workload):
            if attributes not in known:
                known = {attributes: self.marginal(attributes).ravel()}
            found[at] = rows.reshape(len(rows), -1) @ known[attributes]
        return found, variances

    def combination(self, combination: Combination) -> tuple[float, float]:
        """The sum over its marginals."""
        variance = float(self.plan.combination_variance(combination))  # says so, if it cannot be answered
        parts = combined(self.plan.domain, combination)
        return sum(float((self.marginal(members) * part).sum()) for members, part in parts.items()), variance

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
