"""Plans along one long ordered axis, where matrices over its values would not fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError
from residua.plans.objectives import MaxVariance, TotalVariance, of_queries
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.path import ROUNDING, CorrelatedPath
from residua.plans.planners.along import SECONDS, Along, asked_along, check_axis, nested_largest
from residua.plans.planners.crossed import crossed_by_itself, crossed_by_request, crosses, plan_by_sets
from residua.plans.planners.offers import (
    Declared,
    Forecast,
    Offer,
    Planner,
    Proof,
    Task,
    finished,
    proven_gap,
    relative_gap,
)
from residua.plans.planners.products import of_sets, within_integers
from residua.plans.product.plan import ProductPlan
from residua.plans.saddle import Solution
from residua.plans.solver.ordered import KindScales, least_largest, least_of_kinds, least_total
from residua.plans.solver.ranges import least_range, quiet_ranges
from residua.plans.solver.replaced_axis import CURVES, halved, least_prefixes, least_ranges
from residua.plans.strategy import Plain, Strategy
from residua.plans.tolerances import CORRELATED_SLACK

LONG = 512  # values; below, dense plans are as quick, and can be combined with every other plan
LONG_WITH_LIMITS = 1025  # values, where persons are limited in each: the lattice form is slow beyond
_FREE = 2.0**14  # how much more precise than a cell the total is that is free, while noise is chosen
_EVEN = 0.2  # of the tolerance: how evenly cells cost, where records are replaced
_LONG_RANGES = 407  # values; of fewer, all pairs are weighed where a record is replaced
_MOST_RANGES = 1024  # values of which the largest variance of a range is left to the lattice form: minutes, to 0.1 %


def by_itself(task: Task) -> bool:
    """Whether a plan along one axis is chosen unasked.

    That is not on short axes, nor where the lattice form prices persons better: where a person has few records in each
    value of the axis, k² is too much for many; the lattice form knows.
    """
    along = asked_along(task.workload)
    if along is None or not isinstance(task.objective, TotalVariance | MaxVariance):
        return False
    long = LONG_WITH_LIMITS if task.reach is not None and along.attribute in task.reach.limits else LONG
    if task.unit.contribution is None and "ranges" in along.kinds:
        long = _LONG_RANGES
    if along.size < long:
        return False
    return along.size > _MOST_RANGES or "ranges" not in along.kinds or not of_queries(task.objective)


def plan_axis(task: Task, *, apart: bool = False) -> ProductPlan | None:
    """The best plan along one axis; None where the workload or the objective is not of that kind.

    Args:
        task: what the plan is for.
        apart: whether nothing may be measured beside the axis, not even a total that is free.

    Raises:
        PlanError: the axis is longer than this machine's memory.
    """
    along = asked_along(task.workload)
    if along is None or along.size < 2:
        return None
    check_axis(along.size, nested=bool(along.levels))
    # Where records are replaced, noise shaped for groups has the worse price: Γ may have negative entries.
    joins = task.unit.contribution is not None
    if isinstance(task.objective, TotalVariance):
        if joins:
            return plan_by_sets(task, along.attribute)
        return _by_path(task, along) if apart or task.workload.domain.drops else _replacing(task, along)
    if not isinstance(task.objective, MaxVariance):
        return None
    along = along.scaled(task.objective)
    kinds = along.least_scales
    if kinds.ranges and not along.means:
        return _of_ranges(task, along)
    if kinds == KindScales(prefixes=kinds.prefixes) and not along.means and not along.levels:
        quiet = least_largest(along.size, tolerance=0.9 * task.effort.tolerance, step=task.effort.progress)
        return _of_noise(task, along, quiet.noise, quiet.bound / kinds.prefixes)
    if along.levels and joins:
        return _of_nested(task, along)
    plan = _of_kinds(task, along)
    if joins and not along.means and plan.gap > task.effort.tolerance:  # values need weights of their own
        return min(plan, _of_nested(task, along), key=lambda each: each.gap)
    return plan


def _replacing(task: Task, along: Along) -> ProductPlan:
    """The plan of least total variance where records are replaced: beside the total, which is free.

    What is proven of prefixes and of ranges alone adds up.
    """
    asked, tolerance, step = along.asked, _EVEN * task.effort.tolerance, task.effort.progress
    assert isinstance(asked.prefixes, float)
    curves = [kind for kind in CURVES if kind in along.kinds]
    noises = [halved(along.size, kind, tolerance=tolerance, step=step) for kind in curves]
    if along.kinds - set(CURVES) or len(curves) > 1:
        noises += _stand_ins(task, along)
    tried = [_beside_total(task, along, noise) for noise in noises]
    plan = min(tried, key=lambda each: each.total_variance(task.workload) * each.unit_pcost)
    plan = within_integers(finished(plan, task, plan.total_variance(task.workload), slack=CORRELATED_SLACK))
    bound = asked.prefixes * least_prefixes(along.size, step=step) if asked.prefixes else 0.0
    bound += asked.ranges * least_ranges(along.size) if asked.ranges else 0.0
    return plan.replaced(gap=relative_gap(plan.total_variance(task.workload) * plan.unit_pcost, bound))


def _by_path(task: Task, along: Along) -> ProductPlan:
    """The plan where records are replaced and nothing is measured beside the axis; nothing is proven."""
    tried = [_along(task, along, noise) for noise in _stand_ins(task, along)]
    plan = min(tried, key=lambda each: each.total_variance(task.workload) * each.pcost)
    return finished(plan, task, plan.total_variance(task.workload), slack=_slack(task))


def _beside_total(task: Task, along: Along, noise: Ordered) -> ProductPlan:
    """The plan with this noise, and the total far more precisely than all else."""
    workload = task.workload
    strategies: list[Strategy] = [Plain(size) for size in workload.domain.sizes.tolist()]
    strategies[along.attribute] = noise
    solution = Solution(plan=np.where(workload.lattice.set_sizes == 0, 1 / _FREE, 1.0))
    return of_sets(task, tuple(strategies), solution)


def _stand_ins(task: Task, along: Along) -> list[Ordered]:
    """The noise of least total variance for each shape that may stand for what is asked."""
    tolerance, step = 0.9 * task.effort.tolerance, task.effort.progress
    return [least_total(along.size, asked, tolerance=tolerance, step=step).noise for asked in along.stand_ins()]


def _of_nested(task: Task, along: Along) -> ProductPlan:
    """The plan with noise that is shaped for nested groups."""
    return _of_noise(
        task, along, *nested_largest(along, tolerance=0.9 * task.effort.tolerance, step=task.effort.progress)
    )


def _of_kinds(task: Task, along: Along) -> ProductPlan:
    """The plan for the largest variance of several kinds, with noise along a path: one weight for all of a kind."""
    tolerance, step = 0.9 * task.effort.tolerance, task.effort.progress
    best = least_of_kinds(along.size, along.least_scales, along.pull, means=along.means, tolerance=tolerance, step=step)
    # The weights know levels by the prefixes at their ends alone: another shape may serve better.
    tried = [best.noise, *(_stand_ins(task, along) if along.levels else ())]
    return _of_noise(task, along, _best(along, tried), best.bound)


def _of_ranges(task: Task, along: Along) -> ProductPlan:
    """The plan for the largest variance of all ranges, and of what else is asked.

    Each kind alone bounds the loss. The noise is that for ranges, or for prefixes where their scale is smaller.
    """
    n, kinds = along.size, along.least_scales
    tolerance, step = task.effort.tolerance, task.effort.progress
    tried = [quiet_ranges(n, tolerance=tolerance, step=step)]
    bound = least_range(n, tolerance=tolerance, step=step) / kinds.ranges
    if kinds.values:
        bound = max(bound, 1 / kinds.values)
    if 0 < kinds.prefixes < kinds.ranges:
        quiet = least_largest(n, tolerance=tolerance, step=step)
        bound = max(bound, quiet.bound / kinds.prefixes)
        tried.append(quiet.noise)
    return _of_noise(task, along, _best(along, tried), bound)


def _best(along: Along, tried: list[Ordered]) -> Ordered:
    """The noise with the least loss for its price."""
    return min(tried, key=lambda each: along.worst(each.noise) * float(each.price)) if len(tried) > 1 else tried[0]


def _of_noise(task: Task, along: Along, noise: Ordered, bound: float) -> ProductPlan:
    """The plan with this noise, scaled; no plan has a loss × pcost below the bound."""
    loss, cost = along.worst(noise.noise), float(noise.price)
    plan = _along(task, along, noise).replaced(gap=proven_gap(task, loss * cost, bound, ROUNDING))
    paid = cost * float(task.unit.scaled(1, 2 * (1 + noise.opposed)))
    return finished(plan, task, loss, slack=_slack(task), cost=paid)


def _along(task: Task, along: Along, noise: Ordered) -> ProductPlan:
    return ProductPlan.along(task.workload.domain, along.attribute, {(): CorrelatedPath(noise, 1.0)}, **task.stated)


def _slack(task: Task) -> float:
    return CORRELATED_SLACK if task.allowed is not None else 1 - ROUNDING


@dataclass(frozen=True)
class Axis(Planner[ProductPlan]):
    """A plan along an ordered axis, with noise correlated along it: for values, prefixes and ranges of an attribute.

    Long axes get this form by themselves; say it for short ones.

    Args:
        attributes: the axes by name, where a workload crosses several attributes that are asked by their order; the
            long ones, or else the longest, if left out.
        apart: whether each set of the attributes that one axis is crossed with shall have noise of its own: the best
            there is, but not to be combined with other plans. Chosen by itself on long axes, where one noise for all is
            more than 2 % from the best. Of one axis alone, where records are replaced: whether nothing is measured
            beside it, not even the total, which is free; a release that grows with time needs that.
    """

    declares = (
        Declared(
            f"prefixes, ranges, values and levels of an attribute of {LONG} values or more",
            "total, largest",
            "normal",
            Proof.EVERY,
            "in proportion to the values",
        ),
        Declared(
            "the same, crossed with others",
            "total, largest",
            "normal",
            Proof.EVERY,
            "in proportion to the values and sets of the others",
        ),
    )

    attributes: tuple[str, ...] = ()
    apart: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.attributes, str):  # a name is a sequence of letters
            object.__setattr__(self, "attributes", (self.attributes,))

    def offer(self, task: Task) -> Offer | None:
        """Where a long attribute is asked by its order, alone or crossed with others."""
        if not task.requested and (task.laplace or not (by_itself(task) or crosses(task))):
            return None
        longest = int(task.workload.domain.sizes.max())
        return Offer(Proof.EVERY, Forecast(longest * SECONDS, 0.0, f"an axis of {longest:,} values"), task)

    def plan(self, task: Task) -> ProductPlan | None:
        """The best plan along the axis; of a workload that crosses it with others, a lattice plan.

        Raises:
            PlanError: it was asked for, and the workload or the objective is not of this kind.
        """
        if not task.requested:
            return plan_axis(task) if by_itself(task) else crossed_by_itself(task)
        if task.laplace:
            raise PlanError("form=rs.Axis() has normal noise; leave the form out, or plan with ZCDP, GDP or ApproxDP.")
        plan: ProductPlan | None = None
        if not self.attributes and not (self.apart and task.unit.contribution):
            plan = plan_axis(task, apart=self.apart)
        if plan is None and task.workload.with_rows:
            plan = crossed_by_request(task, tuple(self.attributes), apart=self.apart)
        if plan is None:
            raise PlanError(
                "form=rs.Axis() ([objective] axis = true) is for prefixes and ranges of an attribute, its values "
                "beside them, and its levels for records that are added or removed; alone or crossed with other "
                "attributes; for total variance or the largest one. Leave the form out."
            )
        return plan
