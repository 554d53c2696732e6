"""What measured residuals say: marginals rebuilt from their blocks, and any queries of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import SetFamily
from residua.linalg.layout import Group
from residua.linalg.modes import contrasts
from residua.plans.cells import Grouping
from residua.plans.product.crossed_blocks import CrossedBlocks
from residua.plans.product.set_blocks import LatticeBlocks
from residua.plans.product.set_estimates import CrossedEstimator, PlainEstimator
from residua.plans.reading import Clique, Reading

Estimator = PlainEstimator | CrossedEstimator


class FamilyReading(Reading):
    """What is read off marginals of a family of sets, whatever noise was added to them."""

    @property
    @abstractmethod
    def estimator(self) -> Estimator:
        """What rebuilds marginals."""

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """Rebuilt from its blocks and those of its margins."""
        return self.estimator.marginal(positions)

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the family in batches of equal shape, streamed; see `PlainEstimator.all_marginals`."""
        return self.estimator.all_marginals() if isinstance(self.estimator, PlainEstimator) else super().all_marginals()

    def part(self, family: SetFamily) -> PlainEstimator:
        """What rebuilds the marginals of a smaller family, with no more measurements in memory than these need.

        Raises:
            PlanError: strategies that do not rebuild tables in batches.
        """
        if not isinstance(self.estimator, PlainEstimator):
            raise PlanError("these measurements are not read in batches; read the tables one by one.")
        return self.estimator.within(family)


@dataclass(frozen=True, eq=False)
class LatticeReading(FamilyReading):
    """Estimates from measured blocks.

    Args:
        plan: the plan with the precisions really measured.
        blocks: what was measured.
        measurements: the noisy integers, in the order of `blocks.layout`, (cells,); or of many groups, (many, cells).
    """

    plan: Any
    blocks: LatticeBlocks
    measurements: NDArray[Any]

    @cached_property
    def estimator(self) -> Estimator:
        """All tables of one shape at once where every strategy is plain."""
        estimator = PlainEstimator if self.blocks.plain and self.measurements.ndim == 1 else CrossedEstimator
        return estimator(self.blocks, self.measurements)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        blocks, workload = self.blocks, self.plan.workload
        over = f"over {len(self.plan.domain)} attributes"
        asked, queries = (0, 0) if workload is None else (len(workload), workload.queries)
        if blocks.plain:
            wanted = f"; {asked:,} table{' was' if asked == 1 else 's were'} asked for" if asked else ""
            return (
                f"{len(blocks.measured):,} residual{'s' * (len(blocks.measured) != 1)} of marginals {over}, "
                f"{blocks.cells:,} noisy integers in all{wanted}."
            )
        shaped = [name for name, one in zip(self.plan.domain.names, blocks.strategies, strict=True) if not one.plain]
        return (
            f"{len(blocks.measured):,} blocks of integer combinations {over} (with strategies of their own on "
            f"{', '.join(shaped)}), {blocks.cells:,} noisy integers in all; {asked:,} terms with {queries:,.0f} "
            "queries were asked for."
        )

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """The blocks one by one, along orthonormal contrasts where a strategy is plain."""
        grouping, rows = self.plan.over_cells()
        blocks, strategies = self.blocks, self.blocks.strategies
        roots = np.sqrt(self.plan.precisions[blocks.measured]) / blocks.units
        whitened = [np.zeros(0)]
        for number, root in zip(blocks.measured.tolist(), roots.tolist(), strict=True):
            members = blocks.lattice.members(number)
            shape = [strategies[i].count for i in members]
            start = int(blocks.layout.starts[number])
            table = self.measurements[start : start + int(np.prod(shape))].reshape(shape).astype(np.float64)
            for axis, i in enumerate(members):
                if strategies[i].plain:  # n numbers of rank n − 1
                    table = np.moveaxis(np.tensordot(contrasts(shape[axis]), table, axes=(1, axis)), 0, axis)
            whitened.append(table.ravel() * root)
        return grouping, rows, np.concatenate(whitened)

    def cliques(self) -> list[Clique]:
        """The residual of every set measured, where strategies are plain."""
        blocks = self.blocks
        if not blocks.plain:
            return super().cliques()
        stddevs = np.sqrt(blocks.noise_variances)
        cliques = []
        for number, unit, stddev in zip(blocks.measured.tolist(), blocks.units, stddevs, strict=True):
            members = blocks.lattice.members(number)
            start = int(blocks.layout.starts[number])
            cells = int(np.prod([int(blocks.sizes[i]) for i in members], dtype=np.int64))
            cliques.append(Clique(members, self.measurements[start : start + cells] / unit, float(stddev)))
        return cliques


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
        mean = total / weight
        for axis, i in enumerate(subset):
            mean = blocks.strategies[i].recover(mean, axis)
        return np.asarray(mean)

    def _telling(self, subset: tuple[int, ...]) -> list[tuple[int, float]]:
        """The measured sets that tell this one, and their precisions of it."""
        blocks, own = self.blocks, self.blocks.own_precisions
        wanted = int(blocks.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        telling = [(wanted, float(own[wanted]))] if own[wanted] else []
        for number, (_, _, members, axes) in blocks.along.items():
            summed = [i for i in members if i not in subset]
            if number != wanted and set(subset) < set(members) and set(summed) <= {members[at] for at in axes}:
                tells = np.prod([blocks.strategies[i].tells for i in summed])
                telling.append((number, float(own[number] * tells)))
        return telling

    def _measured(self, number: int, subset: tuple[int, ...]) -> Floats:
        """A measured set, axes that are not in the subset summed, as numbers of records, (r_1, …, r_k)."""
        at, shape, grid = self.blocks.where(number)
        table = self.measurements[at].reshape(shape)
        if number not in self.blocks.along:
            return np.asarray(table / grid)
        _, _, members, axes = self.blocks.along[number]
        kept = [i for place, i in enumerate(members) if place not in axes] + [members[place] for place in axes]
        for axis in range(len(shape) - 1, -1, -1):
            if kept[axis] not in subset:
                table = np.take(table, -1, axis=axis)  # the last running sum is the total
                del kept[axis]
        return np.asarray(table.transpose([kept.index(i) for i in subset]) / grid)


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
