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
from residua.linalg.lattice import Group, SetFamily
from residua.linalg.modes import contrasts
from residua.plans.cells import Grouping
from residua.plans.estimator import Clique, Estimator
from residua.plans.product.crossed_measurements import CrossedMeasurements
from residua.plans.product.set_estimates import CrossedReconstruction, PlainReconstruction
from residua.plans.product.set_measurements import ResidualMeasurements

Reconstruction = PlainReconstruction | CrossedReconstruction


class FamilyEstimator(Estimator):
    """What is read off marginals of a family of sets, whatever noise was added to them."""

    @property
    @abstractmethod
    def reconstruction(self) -> Reconstruction:
        """What rebuilds marginals."""

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """Rebuilt from its blocks and those of its margins."""
        return self.reconstruction.marginal(positions)

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the family in batches of equal shape, streamed; see `PlainReconstruction.all_marginals`."""
        return (
            self.reconstruction.all_marginals()
            if isinstance(self.reconstruction, PlainReconstruction)
            else super().all_marginals()
        )

    def part(self, family: SetFamily) -> PlainReconstruction:
        """What rebuilds the marginals of a smaller family, with no more measurements in memory than these need.

        Raises:
            PlanError: strategies that do not rebuild tables in batches.
        """
        if not isinstance(self.reconstruction, PlainReconstruction):
            raise PlanError("these measurements are not read in batches; read the tables one by one.")
        return self.reconstruction.within(family)


@dataclass(frozen=True, eq=False)
class ResidualEstimator(FamilyEstimator):
    """Estimates from measured blocks.

    Args:
        plan: the plan with the precisions really measured.
        measurements: what was measured.
        noisy: the noisy integers, in the order of `measurements.layout`, (cells,); or of many groups, (many, cells).
    """

    plan: Any
    measurements: ResidualMeasurements
    noisy: NDArray[Any]

    @cached_property
    def reconstruction(self) -> Reconstruction:
        """All tables of one shape at once where every strategy is plain."""
        reconstruction = (
            PlainReconstruction if self.measurements.plain and self.noisy.ndim == 1 else CrossedReconstruction
        )
        return reconstruction(self.measurements, self.noisy)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        measurements, workload = self.measurements, self.plan.workload
        over = f"over {len(self.plan.domain)} attributes"
        asked, queries = (0, 0) if workload is None else (len(workload), workload.queries)
        if measurements.plain:
            wanted = f"; {asked:,} table{' was' if asked == 1 else 's were'} asked for" if asked else ""
            number = len(measurements.measured)
            residuals = f"{number:,} residual{'s' * (number != 1)} of marginals {over}"
            return f"{residuals}, {measurements.cells:,} noisy integers in all{wanted}."
        shaped = [
            name for name, one in zip(self.plan.domain.names, measurements.strategies, strict=True) if not one.plain
        ]
        return (
            f"{len(measurements.measured):,} blocks of integer combinations {over} (with strategies of their own on "
            f"{', '.join(shaped)}), {measurements.cells:,} noisy integers in all; {asked:,} terms with {queries:,.0f} "
            "queries were asked for."
        )

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """The blocks one by one, along orthonormal contrasts where a strategy is plain."""
        grouping, rows = self.plan.over_cells()
        measurements, strategies = self.measurements, self.measurements.strategies
        roots = np.sqrt(self.plan.precisions[measurements.measured]) / measurements.units
        whitened = [np.zeros(0)]
        for number, root in zip(measurements.measured.tolist(), roots.tolist(), strict=True):
            members = measurements.lattice.members(number)
            shape = [strategies[i].count for i in members]
            start = int(measurements.layout.starts[number])
            table = self.noisy[start : start + int(np.prod(shape))].reshape(shape).astype(np.float64)
            for axis, i in enumerate(members):
                if strategies[i].plain:  # n numbers of rank n − 1
                    table = np.moveaxis(np.tensordot(contrasts(shape[axis]), table, axes=(1, axis)), 0, axis)
            whitened.append(table.ravel() * root)
        return grouping, rows, np.concatenate(whitened)

    def cliques(self) -> list[Clique]:
        """The residual of every set measured, where strategies are plain."""
        measurements = self.measurements
        if not measurements.plain:
            return super().cliques()
        stddevs = np.sqrt(measurements.noise_variances)
        cliques = []
        for number, unit, stddev in zip(measurements.measured.tolist(), measurements.units, stddevs, strict=True):
            members = measurements.lattice.members(number)
            start = int(measurements.layout.starts[number])
            cells = int(np.prod([int(measurements.sizes[i]) for i in members], dtype=np.int64))
            cliques.append(Clique(members, self.noisy[start : start + cells] / unit, float(stddev)))
        return cliques


@dataclass(frozen=True, eq=False)
class AlongReconstruction(CrossedReconstruction):
    """Reads marginals off measurements, of which some are running sums along an axis.

    Args:
        measurements: what was measured, and on which grid.
        noisy: the noisy integers, (cells,).
    """

    measurements: CrossedMeasurements  # type: ignore[assignment]
    noisy: NDArray[Any]

    def part(self, subset: tuple[int, ...]) -> Floats:
        """What the block on S adds to what its facets tell: of all that tell it, their mean by precision."""
        measurements = self.measurements
        shape = [int(measurements.sizes[i]) for i in subset]
        wanted = int(measurements.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        if wanted < 0 or not measurements.precisions[wanted]:
            return np.zeros(shape)
        total = np.zeros([measurements.strategies[i].count for i in subset])
        weight = 0.0
        for number, precision in self._telling(subset):
            total += precision * self._measured(number, subset)
            weight += precision
        mean = total / weight
        for axis, i in enumerate(subset):
            mean = measurements.strategies[i].recover(mean, axis)
        return np.asarray(mean)

    def _telling(self, subset: tuple[int, ...]) -> list[tuple[int, float]]:
        """The measured sets that tell this one, and their precisions of it."""
        measurements, own = self.measurements, self.measurements.own_precisions
        wanted = int(measurements.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        telling = [(wanted, float(own[wanted]))] if own[wanted] else []
        for number, (_, _, members, axes) in measurements.along.items():
            summed = [i for i in members if i not in subset]
            if number != wanted and set(subset) < set(members) and set(summed) <= {members[at] for at in axes}:
                tells = np.prod([measurements.strategies[i].tells for i in summed])
                telling.append((number, float(own[number] * tells)))
        return telling

    def _measured(self, number: int, subset: tuple[int, ...]) -> Floats:
        """A measured set, axes that are not in the subset summed, as numbers of records, (r_1, …, r_k)."""
        at, shape, grid = self.measurements.where(number)
        table = self.noisy[at].reshape(shape)
        if number not in self.measurements.along:
            return np.asarray(table / grid)
        _, _, members, axes = self.measurements.along[number]
        kept = [i for place, i in enumerate(members) if place not in axes] + [members[place] for place in axes]
        for axis in range(len(shape) - 1, -1, -1):
            if kept[axis] not in subset:
                table = np.take(table, -1, axis=axis)  # the last running sum is the total
                del kept[axis]
        return np.asarray(table.transpose([kept.index(i) for i in subset]) / grid)


@dataclass(frozen=True, eq=False)
class CrossedEstimator(FamilyEstimator):
    """Estimates from measured blocks, some of them along axes.

    Args:
        plan: the plan with the precisions really measured.
        measurements: what was measured.
        noisy: the noisy integers, (cells,).
    """

    plan: Any
    measurements: CrossedMeasurements
    noisy: NDArray[Any]

    @cached_property
    def reconstruction(self) -> AlongReconstruction:
        """Tables rebuilt one by one."""
        return AlongReconstruction(self.measurements, self.noisy)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        names, workload, measurements = self.plan.domain.names, self.plan.workload, self.measurements
        axes = " and ".join(repr(names[i]) for i in self.plan.axes)
        asked = 0 if workload is None else len(workload)
        return (
            f"{len(measurements.measured):,} blocks, of which {len(measurements.along):,} are prefix sums along {axes} "
            f"with noise correlated along it, {measurements.cells:,} noisy integers in all; {asked:,} terms were asked "
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
