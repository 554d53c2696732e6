"""Plans that differ by group: within each cell of some attributes, one of a few plans, or nothing.

Groups are disjoint people, so that Γ is block-diagonal, with the chosen plan's own matrix in each group: costs do not
add up over groups, and every fact is a sum over groups of facts of the plans within (`asked.py`). Estimates too are
each group's own, and sums over groups.

Reference: common-mechanism, §7.5: one-way or two-way tables, decided for each state and occupation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.language import mark, say
from residua.linalg.arrays import Array, Floats, Integers, keep_fixed
from residua.machine import csr_array, linalg
from residua.plans.cells import MOST_COLUMNS, Grouping, Refinement, refine
from residua.plans.contract import Plan
from residua.plans.estimator import Estimator
from residua.plans.measurements import Measurements
from residua.plans.strata.asked import GroupQueries, only, parts_of
from residua.plans.strata.measurements import StrataMeasurements
from residua.workload import Workload, marginals

_MOST_ENTRIES = 2**27


@dataclass(frozen=True, eq=False)
class StrataPlan(Plan):
    """Which plan is measured in each group. Made by `rs.by_group` and by `Session.choose(…, by=…)`.

    Guarantee: measuring this plan costs at most `unit_pcost`, within `guarantee`, for the unit of protection `unit`.

    Args:
        domain: what the table may hold.
        by: positions of the attributes that make groups, increasing.
        members: plans over the domain that ask nothing of those attributes.
        chosen: which of them each group has, −1 for none, (groups,); groups run row by row.
        guarantee: what measuring the plan guarantees; None when there is nothing to measure.
        unit: whom it protects.
        workload: what was asked, if anything.
        objective: what the plan was optimised for, in words.
        gap: the largest of the members' own.
    """

    kinds: ClassVar[tuple[str, ...]] = ("groups",)

    by: tuple[int, ...]
    members: tuple[Plan, ...]
    chosen: Integers

    def __post_init__(self) -> None:
        keep_fixed(self, "chosen", dtype=np.int64)
        groups = math.prod(int(self.domain.sizes[i]) for i in self.by)
        if self.chosen.shape != (groups,) or not (-1 <= self.chosen.min() <= self.chosen.max() < len(self.members)):
            raise PlanError(
                f"chosen does not fit; give one of {len(self.members)} plans for each of {groups:,} groups."
            )
        for plan in self.members:
            asked = [self.domain.names[i] for i in plan.measured_attributes if i in self.by]
            if plan.domain != self.domain or asked:
                what = f"measures {asked[0]!r}, which makes groups" if asked else "is over another domain"
                raise PlanError(f"a plan for groups {what}; plan over the same domain, of the other attributes alone.")
            if plan.unit != self.unit:
                raise PlanError("the plans for groups protect different units; plan with one unit.")

    @property
    def by_names(self) -> tuple[str, ...]:
        """The attributes that make groups."""
        return tuple(self.domain.names[i] for i in self.by)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.chosen)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many groups have each member."""
        return tuple(np.bincount(self.chosen[self.chosen >= 0], minlength=len(self.members)).tolist())

    # ---- cost

    @cached_property
    def pcost(self) -> float:
        """The privacy cost for one record added or removed: that of the most expensive group."""
        return max((plan.pcost for plan, count in zip(self.members, self.counts, strict=True) if count), default=0.0)

    @property
    def slack(self) -> float:
        """0 where the price is exact; infinite for persons with limits, of whom a bound alone is known."""
        reach = self.unit.contribution
        return math.inf if reach is not None and reach.limits else 0.0

    # ---- accuracy

    def kinds_of(self, part: GroupQueries) -> tuple[Integers, Floats]:
        """The kind of each group, and the variances of the queries within a group of each kind."""
        within = [plan.variances(part.inner) for plan in self.members]
        return self.chosen % (len(self.members) + 1), np.stack([*within, np.full(part.inner.queries, np.inf)])

    def _variances(self, workload: Workload) -> Floats:
        return np.concatenate([part.summed(*self.kinds_of(part)) for part in self.parts(workload)])

    def parts(self, workload: Workload) -> Iterator[GroupQueries]:
        """What a workload asks of the groups and within them."""
        return parts_of(self.domain, self.by, workload)

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        others = list(self.parts(second))
        return np.vstack([np.hstack([self._between(part, each) for each in others]) for part in self.parts(first)])

    def _between(self, first: GroupQueries, second: GroupQueries) -> Floats:
        """Covariances between the queries of two parts, summed over the groups of each kind."""
        one, two = first.over(), second.over()
        total = np.zeros((first.queries, second.queries))
        for k, plan in enumerate(self.members):
            here = np.flatnonzero(self.chosen == k)
            if not len(here):
                continue
            mine, other = _columns(one, here, first.inner.queries), _columns(two, here, second.inner.queries)
            used, used_too = _used(mine, first.inner.queries), _used(other, second.inner.queries)
            covariance = np.zeros((first.inner.queries, second.inner.queries))
            if len(used) and len(used_too):
                asked, other_asked = only(first.inner, used), only(second.inner, used_too)
                covariance[np.ix_(used, used_too)] = plan.covariance(asked, other_asked)
            total += _contracted(mine, covariance, other, len(here))
        return total

    # ---- measuring

    def compile(self) -> StrataMeasurements:
        """The integer measurements of each member, in the groups that have it."""
        return StrataMeasurements(
            self.domain.sizes, self.by, tuple(plan.measurements for plan in self.members), self.chosen
        )

    def saved_measurements(self, arrays: Mapping[str, Array]) -> StrataMeasurements:
        """As compiled, with the grids and scales that a file keeps."""
        return self.compile().with_arrays(arrays, self.members)

    poses = "strata"

    def estimator(self, measurements: Measurements, noisy: Array) -> StrataEstimator:
        """Tables of each group from what was measured in it."""
        assert isinstance(measurements, StrataMeasurements)
        members = tuple(
            plan.estimator(own, measurements.of_member(noisy, k))
            for k, (plan, own) in enumerate(zip(self.members, measurements.members, strict=True))
        )
        return StrataEstimator(
            self.replaced(members=tuple(each.plan for each in members)), measurements, noisy, members
        )

    @cached_property
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes of which more than the total is measured."""
        inner = {
            i for plan, count in zip(self.members, self.counts, strict=True) if count for i in plan.measured_attributes
        }
        return tuple(sorted({*self.by, *inner}))

    # ---- algebra

    def scaled(self, factor: float) -> Self:
        """The same plan with the precisions of every member multiplied by a number."""
        return self.replaced(members=tuple(plan.scaled(factor) for plan in self.members))

    def over_cells(self) -> tuple[Grouping, Floats]:
        """Rows L with `LᵀL = Γ`, on small domains: each group's own rows over its own cells."""
        own = [plan.over_cells() for plan in self.members]
        cells = refine(self.domain.sizes, [grouping for grouping, _ in own])
        width = len(cells.sizes)
        if self.groups * width > MOST_COLUMNS:
            raise PlanError(
                f"{self.groups:,} groups of {width:,} cells are too many for a matrix of at most {MOST_COLUMNS:,} "
                "columns; combine plans that make the same groups."
            )
        lifted = [np.asarray(cells.lifted(rows, k), dtype=np.float64) for k, (_, rows) in enumerate(own)]
        rows = linalg.block_diag(*(lifted[k] if k >= 0 else np.zeros((0, width)) for k in self.chosen.tolist()))
        return cells_by_group(self.domain.sizes, self.by, cells), rows

    # ---- what people are shown

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How many groups have which plan."""
        held = [f"{count:,} {_told(plan)}" for plan, count in zip(self.members, self.counts, strict=True) if count]
        none = int((self.chosen < 0).sum())
        text = f"{self.groups:,} of {', '.join(self.by_names)}: " + "; ".join(
            [*held, *([f"{none:,} none"] if none else [])]
        )
        return (("Groups", text), *super().remarks)

    @property
    def details(self) -> dict[str, Any]:
        """How many groups have each plan, and that a price is a bound of unknown slack, where it is."""
        return {"groups": {"by": list(self.by_names), "of_each_plan": list(self.counts)}, **super().details}

    def __repr__(self) -> str:
        return (
            f"StrataPlan({self.groups:,} groups of {', '.join(self.by_names)}, {len(self.members)} plans, "
            f"pcost={self.pcost:.6g}, {self.guarantee!r})"
        )

    # ---- files

    def kept(self) -> dict[str, Any]:
        """The members, and which each group has."""
        members = [plan.to_body() for plan in self.members]
        return {"by": list(self.by), "members": members, "chosen": self.chosen.tolist()}

    @classmethod
    def of_kept(cls, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> StrataPlan:
        """The plan that plain values describe."""
        by = tuple(int(i) for i in body["by"])
        if not by or list(by) != sorted(set(by)) or not 0 <= by[0] <= by[-1] < len(domain):
            raise ValueError("its groups are made by attributes that the domain lacks")
        if any(each["kind"] == "groups" for each in body["members"]):
            raise ValueError("groups are not made within groups")
        members = tuple(map(Plan.of_body, body["members"]))
        return cls(domain, by, members, np.array(body["chosen"], dtype=np.int64), **stated)


def cells_by_group(sizes: Integers, by: tuple[int, ...], cells: Refinement) -> Grouping:
    """The cells of every group, one group after the other."""
    members, groups = tuple(sorted({*by, *cells.attributes})), math.prod(int(sizes[i]) for i in by)
    group, inner = Grouping(by, np.arange(groups)).over(members, sizes), cells.over(members, sizes)
    return Grouping(members, np.where(inner >= 0, group * len(cells.sizes) + inner, -1))


def _told(plan: Plan) -> str:
    if plan.workload is None:
        return f"measure {len(plan.measured_attributes)} attributes"
    return f"are asked {plan.workload.queries:,} queries"


def _columns(matrix: csr_array, groups: Integers, each: int) -> csr_array:
    """The columns of some groups, (queries, groups · each)."""
    return csr_array(matrix.tocsc()[:, (groups[:, None] * each + np.arange(each)).ravel()])


def _used(matrix: csr_array, each: int) -> Integers:
    return np.unique(matrix.indices % each) if each else np.zeros(0, dtype=np.int64)


def _contracted(one: csr_array, covariance: Floats, two: csr_array, groups: int) -> Floats:
    """`A (I ⊗ C) Bᵀ` for coefficients over the same groups, (queries, queries)."""
    first, second = covariance.shape
    if one.nnz * second > _MOST_ENTRIES:
        raise PlanError("these are too many queries for one covariance matrix over groups; ask for fewer.")
    at = one.tocoo()
    group, query = np.divmod(at.coords[1], first)
    columns = (group[:, None] * second + np.arange(second)).ravel()
    rows = np.repeat(at.coords[0], second)
    data = (at.data[:, None] * covariance[query]).ravel()
    return np.asarray((csr_array((data, (rows, columns)), shape=(one.shape[0], groups * second)) @ two.T).toarray())


@dataclass(frozen=True, eq=False)
class StrataEstimator(Estimator):
    """Estimates from each group's measurements.

    Args:
        members: how the groups of each member are read, all at once.
        Others as for `Estimator`.
    """

    measurements: StrataMeasurements
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

    combination = Estimator.as_query

    def _whitened(self) -> Floats:
        """Each group's own, one after the other."""
        own: dict[int, Any] = {}
        for k, places in enumerate(self.measurements.places):
            for place, numbers in zip(places.tolist(), self.members[k].noisy, strict=True):
                own[place] = replace(self.members[k], noisy=numbers)._whitened()
        return np.concatenate([own[place] for place in sorted(own)])


def seen_in_groups(plan: Plan, measurements: Measurements, measured: Array) -> tuple[Grouping, Floats, Floats]:
    """What many groups with one plan measured, as rows with independent noise of variance 1: (groups, rows).

    What lies outside the space of the rows is left out, which no estimate would use.
    """
    grouping, rows = plan.over_cells()
    tables = plan.estimator(measurements, measured).marginal(grouping.attributes)
    return grouping, rows, grouping.merged(tables, rows.shape[1]) @ rows.T
