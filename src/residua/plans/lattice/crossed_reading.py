"""What a measured lattice with long axes says: every block pooled with what the blocks along axes tell of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.cells import Grouping
from residua.plans.lattice.crossed import CrossedBlocks
from residua.plans.lattice.estimates import CrossedEstimator
from residua.plans.lattice.reading import FamilyReading


@dataclass(frozen=True, eq=False)
class AlongEstimator(CrossedEstimator):
    """Reads marginals off measurements, of which some are running sums along an axis.

    Args:
        blocks: what was measured, and on which grid.
        measurements: the noisy integers, (cells,).
    """

    blocks: CrossedBlocks  # type: ignore[assignment]
    measurements: NDArray[Any]

    def part(self, subset: tuple[int, ...]) -> Floats:
        """What the block on S adds to what its facets tell: of all that tell it, their mean by precision."""
        blocks = self.blocks
        shape = [int(blocks.sizes[i]) for i in subset]
        wanted = int(blocks.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        if wanted < 0 or not blocks.precisions[wanted]:
            return np.zeros(shape)
        total = np.zeros([blocks.strategies[i].count for i in subset])
        weight = 0.0
        for number, precision, left_out in self._telling(subset):
            total += precision * self._measured(number, subset, left_out)
            weight += precision
        found = total / weight
        for axis, i in enumerate(subset):
            found = blocks.strategies[i].recover(found, axis)
        return np.asarray(found)

    def _telling(self, subset: tuple[int, ...]) -> list[tuple[int, float, int | None]]:
        """The measured sets that tell this one, their precisions of it, and the axis that is summed out of each."""
        blocks = self.blocks
        wanted = int(blocks.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        found: list[tuple[int, float, int | None]] = []
        if wanted in self._own:
            found.append((wanted, self._own[wanted], None))
        for number, (_, _, members, place) in blocks.along.items():
            axis = members[place]
            if tuple(i for i in members if i != axis) == subset:
                found.append((number, self._own[number] * blocks.strategies[axis].tells, axis))
        return found

    @cached_property
    def _own(self) -> dict[int, float]:
        """The precision of each measured set by itself."""
        blocks = self.blocks
        white = {} if blocks.white is None else {int(k): blocks.white.precisions[k] for k in blocks.white.measured}
        units = [strategy.unit for strategy in blocks.strategies]
        along = {
            number: math.prod(units[i] ** 2 for i in members) / factor
            for number, (_, factor, members, _) in blocks.along.items()
        }
        return {**white, **along}

    def _measured(self, number: int, subset: tuple[int, ...], left_out: int | None) -> Floats:
        """A measured set, its axis (if one is left out) summed, as numbers of records, (r_1, …, r_k)."""
        blocks = self.blocks
        if number not in blocks.along:
            assert blocks.white is not None
            shape = [blocks.strategies[i].count for i in subset]
            start = int(blocks.white.layout.starts[number])
            own = self.measurements[start : start + math.prod(shape)].reshape(shape)
            return np.asarray(own / blocks.white.on_lattice[0][number])
        grid, _, members, place = blocks.along[number]
        others = [blocks.strategies[i].count for at, i in enumerate(members) if at != place]
        shape = [*others, blocks.strategies[members[place]].count]
        start = blocks.starts[number]
        sums = self.measurements[start : start + math.prod(shape)].reshape(shape)
        if left_out is not None:
            return np.asarray(sums[..., -1] / grid)
        return np.moveaxis(sums / grid, -1, place)


@dataclass(frozen=True, eq=False)
class CrossedReading(FamilyReading):
    """Estimates from measured blocks, some of them along axes.

    Args:
        plan: the plan with the precisions really measured.
        blocks: what was measured.
        measurements: the noisy integers, (cells,).
    """

    plan: Any
    blocks: CrossedBlocks
    measurements: NDArray[Any]

    @cached_property
    def estimator(self) -> AlongEstimator:
        """Tables rebuilt one by one."""
        return AlongEstimator(self.blocks, self.measurements)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        names, workload = self.plan.domain.names, self.plan.workload
        axes = " and ".join(repr(names[i]) for i in self.plan.axes)
        asked = 0 if workload is None else len(workload)
        return (
            f"{len(self.blocks.measured):,} blocks, of which {len(self.blocks.along):,} are running sums along {axes} "
            f"with noise correlated along it, {self.blocks.cells:,} noisy integers in all; {asked:,} terms were asked "
            "for."
        )

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """None: the noise along an axis has no independent rows that are kept.

        Raises:
            PlanError: always.
        """
        raise PlanError(
            "a release along a long axis is read with others only if they share its strategies; plan with "
            "form=rs.Lattice(like=…)."
        )
