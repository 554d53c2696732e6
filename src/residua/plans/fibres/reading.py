"""What measured fibres say: tables rebuilt from the fibres of all sets of short attributes that they hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.cells import Grouping
from residua.plans.fibres.blocks import FibreBlocks
from residua.plans.lattice.reading import FamilyReading


@dataclass(frozen=True, eq=False)
class FibreEstimator:
    """Reads tables off measurements.

    Args:
        blocks: what was measured, and on which grid.
        attribute: the position of the axis.
        measurements: the noisy integers, (cells,).
    """

    blocks: FibreBlocks
    attribute: int
    measurements: NDArray[Any]

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """`Σ_T` of what is centred along T, spread over the other attributes; attributes in the domain's order.

        What no measurement sees counts as zero.
        """
        axis, sizes = self.attribute, self.blocks.sizes
        short = tuple(j for j in positions if j != axis)
        along = axis in positions
        found = np.zeros([*(int(sizes[j]) for j in short), int(sizes[axis]) if along else 1])
        for size in range(len(short) + 1):
            for members in combinations(short, size):
                part = self._centred(members, along)
                if part is None:
                    continue
                others = [j for j in short if j not in members]
                shape = [int(sizes[j]) if j in members else 1 for j in short]
                found += part.reshape([*shape, -1]) / np.prod([float(sizes[j]) for j in others])
        if not along:
            return np.asarray(found[..., 0])
        return np.moveaxis(found, -1, positions.index(axis))

    def _centred(self, members: tuple[int, ...], along: bool) -> Floats | None:
        """What is centred along some attributes, by the values of the axis or in all, (…, n) or (…, 1)."""
        blocks, axis = self.blocks, self.attribute
        number = self._number(tuple(sorted((*members, axis))))
        if number not in blocks.noises:
            number = self._number(members)
            if number not in blocks.measured:
                return None
        at, shape, grid = blocks.where(number)
        found = self.measurements[at].reshape(shape) / grid
        if number in blocks.noises:
            found = np.diff(found, axis=-1, prepend=0.0) if along else found[..., -1:]
        elif along:  # the total alone is known: evenly, which is right for all queries that are answered
            n = int(blocks.sizes[axis])
            found = np.repeat(found[..., None] / n, n, axis=-1)
        else:
            found = found[..., None]
        for place, j in enumerate(members):
            found = blocks.strategies[j].recover(found, place)
        return np.asarray(found)

    def _number(self, members: tuple[int, ...]) -> int:
        return int(self.blocks.lattice.find(np.array([members], dtype=np.int32).reshape(1, -1))[0])


@dataclass(frozen=True, eq=False)
class FibreReading(FamilyReading):
    """Estimates from measured fibres.

    Args:
        plan: the plan.
        blocks: what was measured.
        measurements: the noisy integers, (cells,).
    """

    plan: Any
    blocks: FibreBlocks
    measurements: NDArray[Any]

    @cached_property
    def estimator(self) -> Any:
        """Tables rebuilt one by one."""
        return FibreEstimator(self.blocks, self.plan.attribute, self.measurements)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        axis, workload = self.plan.domain.names[self.plan.attribute], self.plan.workload
        asked = 0 if workload is None else len(workload)
        return (
            f"{len(self.blocks.noises):,} sets of attributes by running sums along {axis!r}, each with noise of its "
            f"own that is correlated along it, and {len(self.blocks.measured) - len(self.blocks.noises):,} without it, "
            f"{self.blocks.cells:,} noisy integers in all; {asked:,} terms were asked for."
        )

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Of the axis by itself, from its own running sums."""
        noise, factor = self.plan.facts.noises.get((), (None, 0.0))
        if position != self.plan.attribute or noise is None:
            return None
        sums = np.cumsum(self.marginal((position,)))
        return sums - q * sums[-1], factor * noise.beside_total(q)

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """None: the noise along an axis has no independent rows that are kept.

        Raises:
            PlanError: always.
        """
        raise PlanError(
            "a release with noise of its own for each set of attributes is not read with others; plan with "
            "form=rs.Axis(), and others like that plan (form=rs.Lattice(like=…))."
        )
