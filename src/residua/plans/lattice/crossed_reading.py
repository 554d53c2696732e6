"""What a measured lattice with long axes says: every block pooled with what the blocks along axes tell of it."""

from __future__ import annotations

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
        for number, precision in self._telling(subset):
            total += precision * self._measured(number, subset)
            weight += precision
        found = total / weight
        for axis, i in enumerate(subset):
            found = blocks.strategies[i].recover(found, axis)
        return np.asarray(found)

    def _telling(self, subset: tuple[int, ...]) -> list[tuple[int, float]]:
        """The measured sets that tell this one, and their precisions of it."""
        blocks, own = self.blocks, self.blocks.own_precisions
        wanted = int(blocks.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        found = [(wanted, float(own[wanted]))] if own[wanted] else []
        for number, (_, _, members, axes) in blocks.along.items():
            summed = [i for i in members if i not in subset]
            if number != wanted and set(subset) < set(members) and set(summed) <= {members[at] for at in axes}:
                tells = np.prod([blocks.strategies[i].tells for i in summed])
                found.append((number, float(own[number] * tells)))
        return found

    def _measured(self, number: int, subset: tuple[int, ...]) -> Floats:
        """A measured set, axes that are not in the subset summed, as numbers of records, (r_1, …, r_k)."""
        at, shape, grid = self.blocks.where(number)
        found = self.measurements[at].reshape(shape)
        if number not in self.blocks.along:
            return np.asarray(found / grid)
        _, _, members, axes = self.blocks.along[number]
        kept = [i for place, i in enumerate(members) if place not in axes] + [members[place] for place in axes]
        for axis in range(len(shape) - 1, -1, -1):
            if kept[axis] not in subset:
                found = np.take(found, -1, axis=axis)  # the last running sum is the total
                del kept[axis]
        return np.asarray(found.transpose([kept.index(i) for i in subset]) / grid)


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
