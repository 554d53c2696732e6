"""What a measured lattice says: marginals rebuilt from their blocks, and any queries of them."""

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
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Group
from residua.linalg.modes import contrasts
from residua.plans.cells import Grouping
from residua.plans.lattice.blocks import LatticeBlocks
from residua.plans.lattice.estimates import CrossedEstimator, PlainEstimator
from residua.plans.questions import combined
from residua.plans.reading import Clique, Combination, Reading
from residua.workload import Workload, applied

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

    def part(self, family: Lattice) -> PlainEstimator:
        """What rebuilds the marginals of a smaller family, with no more measurements in memory than these need.

        Raises:
            PlanError: strategies that do not rebuild tables in batches.
        """
        if not isinstance(self.estimator, PlainEstimator):
            raise PlanError("these measurements are not read in batches; read the tables one by one.")
        return self.estimator.within(family)

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """The queries of each term, from its marginal."""
        variances = self.plan.variances(workload)
        if not np.isfinite(variances).all():
            raise PlanError("the release does not answer all these queries; plan for a workload that asks for them.")
        if not workload.tabular:
            return np.asarray(workload.matrix @ self.marginal(workload.attributes).ravel()), variances
        parts = [applied(term, self.marginal(tuple(i for i, _ in term))).ravel() for term in workload.terms()]
        return np.concatenate(parts), variances

    def combination(self, combination: Combination) -> tuple[float, float]:
        """The sum over its marginals."""
        variance = float(self.plan.combination_variance(combination))  # says so, if it cannot be answered
        parts = combined(self.plan.domain, combination)
        return sum(float((self.marginal(members) * part).sum()) for members, part in parts.items()), variance


@dataclass(frozen=True, eq=False)
class LatticeReading(FamilyReading):
    """Estimates from measured blocks.

    Args:
        plan: the plan with the precisions really measured.
        blocks: what was measured.
        measurements: the noisy integers, in the order of `blocks.layout`, (cells,).
    """

    plan: Any
    blocks: LatticeBlocks
    measurements: NDArray[Any]

    @cached_property
    def estimator(self) -> Estimator:
        """All tables of one shape at once where every strategy is plain."""
        estimator = PlainEstimator if self.blocks.plain else CrossedEstimator
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
        found = [np.zeros(0)]
        for number, root in zip(blocks.measured.tolist(), roots.tolist(), strict=True):
            members = blocks.lattice.members(number)
            shape = [strategies[i].count for i in members]
            start = int(blocks.layout.starts[number])
            table = self.measurements[start : start + int(np.prod(shape))].reshape(shape).astype(np.float64)
            for axis, i in enumerate(members):
                if strategies[i].plain:  # n numbers of rank n − 1
                    table = np.moveaxis(np.tensordot(contrasts(shape[axis]), table, axes=(1, axis)), 0, axis)
            found.append(table.ravel() * root)
        return grouping, rows, np.concatenate(found)

    def cliques(self) -> list[Clique]:
        """The residual of every set measured, where strategies are plain."""
        blocks = self.blocks
        if not blocks.plain:
            return super().cliques()
        stddevs = np.sqrt(blocks.noise_variances)
        found = []
        for number, unit, stddev in zip(blocks.measured.tolist(), blocks.units, stddevs, strict=True):
            members = blocks.lattice.members(number)
            start = int(blocks.layout.starts[number])
            cells = int(np.prod([int(blocks.sizes[i]) for i in members], dtype=np.int64))
            found.append(Clique(members, self.measurements[start : start + cells] / unit, float(stddev)))
        return found
