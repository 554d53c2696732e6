"""Estimates from measurements that differ by group: each group's own, and sums over groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.blocks import Blocks
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.reading import Combination, Reading
from residua.plans.strata.asked import Part
from residua.plans.strata.blocks import StrataBlocks
from residua.plans.strata.members import member_of, merged_cells
from residua.workload import Identity, Workload, applied, marginals


@dataclass(frozen=True, eq=False)
class StrataReading(Reading):
    """Estimates from each group's measurements.

    Args:
        plan: the plan as it was measured.
        blocks: what was measured.
        measurements: the noisy integers, (cells,).
    """

    plan: Any
    blocks: StrataBlocks
    measurements: NDArray[Any]

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        return f"{self.blocks.cells:,} measurements in {self.plan.groups:,} groups of {', '.join(self.plan.by_names)}."

    def within(self, part: Part, some: slice | None = None) -> Floats:
        """The answers of every group, or some, to the queries within, (groups, queries within); 0 where nothing is.

        Args:
            part: what is asked.
            some: which groups are asked, all if left out.
        """
        first, stop, _ = (some or slice(None)).indices(self.plan.groups)
        found = np.zeros((stop - first, part.inner.queries))
        for k, everywhere in enumerate(self.blocks.places):
            low, high = np.searchsorted(everywhere, (first, stop)).tolist()
            places = everywhere[low:high] - first
            if not len(places):
                continue
            measured, member = self.blocks.of_member(self.measurements, k)[low:high], member_of(self.blocks.members[k])
            if not part.inner.tabular:
                tables = member.table(measured, part.inner.attributes).reshape(len(places), -1)
                found[places] = (part.inner.matrix @ tables.T).T
            else:
                (term,) = part.inner.terms()
                table = member.table(measured, tuple(i for i, _ in term))
                every = (-1, Identity(len(places)))  # the groups, along the first axis
                found[places] = applied([every, *term], table).reshape(len(places), -1)
        return found

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate of a marginal; not a number in groups of which it cannot be told."""
        domain = self.plan.domain
        workload = marginals(domain, [[domain.names[i] for i in positions]])
        (part,) = self.plan.parts(workload)
        found = self._answered(part)
        known = np.isfinite(self.plan.variances(workload))
        return np.where(known, found, np.nan).reshape([int(domain.sizes[i]) for i in positions])

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Sums over groups; of tables, not a number in the groups that cannot tell."""
        variances = self.plan.variances(workload)
        known = np.isfinite(variances)
        if not (known.any() if workload.tabular else known.all()):
            raise PlanError("what was measured in the groups does not answer these queries; ask of groups that do.")
        found = np.concatenate([self._answered(part) for part in self.plan.parts(workload)])
        return np.where(known, found, np.nan), variances

    def _answered(self, part: Part) -> Floats:
        within = self.within(part)
        if part.mixed is not None:
            return np.asarray(part.mixed @ within.ravel())
        assert part.rows is not None
        return np.asarray((part.rows @ within).ravel()[part.order])

    def combination(self, combination: Combination) -> tuple[float, float]:
        """One query."""
        values, variances = self.answers(self.plan.combined(combination))
        return float(values[0]), float(variances[0])

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Each group's own, one after the other."""
        grouping, rows = self.plan.over_cells()
        own: dict[int, Any] = {}
        for k, places in enumerate(self.blocks.places):
            measured = self.blocks.of_member(self.measurements, k)
            for place, numbers in zip(places.tolist(), measured, strict=True):
                own[place] = self.plan.members[k].reading(self.blocks.members[k], numbers).whitened()[2]
        return grouping, rows, np.concatenate([own[place] for place in sorted(own)])


def seen_in_groups(plan: Plan, blocks: Blocks, measured: NDArray[Any]) -> tuple[Grouping, Floats, Floats]:
    """What many groups with one plan measured, as rows with independent noise of variance 1: (groups, rows).

    What lies outside the space of the rows is left out, which no estimate would use.
    """
    grouping, rows = plan.over_cells()
    tables = member_of(blocks).table(measured, grouping.attributes).reshape(len(measured), -1)
    return grouping, rows, merged_cells(tables, grouping.columns, rows.shape[1]) @ rows.T
