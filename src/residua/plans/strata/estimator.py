"""Estimates from measurements that differ by group: each group's own, and sums over groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.language import mark, say
from residua.linalg.arrays import Floats
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.estimator import Combination, Estimator, combination_query
from residua.plans.measurements import Measurements
from residua.plans.strata.asked import GroupQueries
from residua.plans.strata.measurements import StrataMeasurements
from residua.workload import Workload, marginals


@dataclass(frozen=True, eq=False)
class StrataEstimator(Estimator):
    """Estimates from each group's measurements.

    Args:
        plan: the plan as it was measured.
        measurements: what was measured.
        noisy: the noisy integers, (cells,).
        members: how the groups of each member are read, all at once.
    """

    plan: Any
    measurements: StrataMeasurements
    noisy: NDArray[Any]
    members: tuple[Any, ...]

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        by = ", ".join(self.plan.by_names)
        words = mark("{cells} measurements in {groups} groups of {by}.")
        return say(words, cells=self.measurements.cells, groups=self.plan.groups, by=by)

    def within(self, part: GroupQueries, some: slice | None = None) -> Floats:
        """The answers of every group, or some, to the queries within, (groups, queries within); 0 where nothing is.

        Args:
            part: what is asked.
            some: which groups are asked, all if left out.
        """
        first, stop, _ = (some or slice(None)).indices(self.plan.groups)
        answers_within = np.zeros((stop - first, part.inner.queries))
        for k, everywhere in enumerate(self.measurements.places):
            low, high = np.searchsorted(everywhere, (first, stop)).tolist()
            if low < high:
                member = replace(self.members[k], noisy=self.members[k].noisy[low:high])
                answers_within[everywhere[low:high] - first] = member.estimates(part.inner)
        return answers_within

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate of a marginal; not a number in groups of which it cannot be told."""
        domain = self.plan.domain
        workload = marginals(domain, [[domain.names[i] for i in positions]])
        (part,) = self.plan.parts(workload)
        estimates = self._answered(part)
        known = np.isfinite(self.plan.variances(workload))
        return np.where(known, estimates, np.nan).reshape([int(domain.sizes[i]) for i in positions])

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Sums over groups; of tables, not a number in the groups that cannot tell."""
        variances = self.plan.variances(workload)
        known = np.isfinite(variances)
        if not (known.any() if workload.tabular else known.all()):
            raise PlanError("what was measured in the groups does not answer these queries; ask of groups that do.")
        estimates = np.concatenate([self._answered(part) for part in self.plan.parts(workload)])
        return np.where(known, estimates, np.nan), variances

    def _answered(self, part: GroupQueries) -> Floats:
        within = self.within(part)
        if part.mixed is not None:
            return np.asarray(part.mixed @ within.ravel())
        assert part.rows is not None
        return np.asarray((part.rows @ within).ravel()[part.order])

    def combination(self, combination: Combination) -> tuple[float, float]:
        """One query."""
        values, variances = self.answers(combination_query(self.plan.domain, combination))
        return float(values[0]), float(variances[0])

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Each group's own, one after the other."""
        grouping, rows = self.plan.over_cells()
        own: dict[int, Any] = {}
        for k, places in enumerate(self.measurements.places):
            for place, numbers in zip(places.tolist(), self.members[k].noisy, strict=True):
                own[place] = replace(self.members[k], noisy=numbers).whitened()[2]
        return grouping, rows, np.concatenate([own[place] for place in sorted(own)])


def seen_in_groups(plan: Plan, measurements: Measurements, measured: NDArray[Any]) -> tuple[Grouping, Floats, Floats]:
    """What many groups with one plan measured, as rows with independent noise of variance 1: (groups, rows).

    What lies outside the space of the rows is left out, which no estimate would use.
    """
    grouping, rows = plan.over_cells()
    tables = plan.estimator(measurements, measured).marginal(grouping.attributes)
    return grouping, rows, grouping.merged(tables, rows.shape[1]) @ rows.T
