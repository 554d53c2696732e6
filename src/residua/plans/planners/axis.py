"""Plans along one long ordered axis, where matrices over its values would not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.nested_noise import AxisNoise
from residua.linalg.roots import InverseRoot
from residua.plans.objectives import MaxVariance, TotalVariance
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.correlated_price import opposed, price
from residua.plans.operators.path import ROUNDING, CorrelatedPath
from residua.plans.operators.shapes import Asked
from residua.plans.planners.along import Along, Shaped, asked_along, nested_largest, nested_total
from residua.plans.planners.crossed import crossed_by_itself, crossed_by_request, crosses
from residua.plans.planners.ending import finished, relative_gap
from residua.plans.planners.forecast import Forecast
from residua.plans.planners.offers import Declared, Offer, Planner, Proof, Task
from residua.plans.product.plan import ProductPlan
from residua.plans.solver.ordered import KindScales, OrderedSolution, least_largest, least_of_kinds, least_total
from residua.plans.solver.ranges import least_range, quiet_ranges
from residua.plans.tolerances import CORRELATED_SLACK
from residua.workload import Workload

LONG = 512  # values; below, dense plans are as quick, and can be combined with every other plan
LONG_WITH_LIMITS = 1025  # values, where persons are limited in each: the lattice form is slow beyond
_MOST_RANGES = 1024  # values of which the largest variance of a range is left to the lattice form: minutes, to 0.1 %
_SECONDS, _BYTES = 3e-5, 800  # per value: to plan it, and to measure it
_SECONDS_NESTED = 2e-4  # with nested groups


def by_itself(task: Task) -> Along | None:
    """What is asked along one axis where this is chosen unasked; None elsewhere.

    That is not on short axes, nor where the lattice form prices persons better: where a person has few records in each
    value of the axis, k² is too much for many; the lattice form knows.
    """
    along = asked_along(task.workload)
    if along is None or not isinstance(task.objective, TotalVariance | MaxVariance):
        return None
    name, reach = task.workload.domain.names[along.attribute], task.unit.contribution
    limited = reach is not None and name in dict(reach.limits)
    if along.size < (LONG_WITH_LIMITS if limited else LONG):
        return None
    of_queries = isinstance(task.objective, MaxVariance) and task.objective.over == "queries"
    ranges = of_queries and any(asked.along == "ranges" for asked, *_ in along.parts)
    return None if ranges and along.size <= _MOST_RANGES else along


def plan_axis(task: Task) -> ProductPlan | None:
    """The best plan along one axis; None where the workload or the objective is not of that kind.

    Raises:
        PlanError: the axis is longer than this machine's memory.
    """
    found = asked_along(task.workload)
    if found is None or found.size < 2:
        return None
    n, tolerance, step = found.size, 0.9 * task.effort.tolerance, task.effort.progress
    seconds = n * (_SECONDS_NESTED if found.levels else _SECONDS)
    Forecast(seconds, float(n * _BYTES), f"an axis of {n:,} values").check()
    # Where records are replaced, noise shaped for groups has the worse price: Γ may have negative entries.
    joins = task.unit.contribution is not None
    if isinstance(task.objective, TotalVariance):
        if found.levels and joins:
            return _of_nested(task, found, nested_total(found, tolerance=tolerance, step=step), found.total)
        tried = []
        for asked in found.stand_ins():
            solution = least_total(asked.path(n), tolerance=tolerance, step=step)
            tried.append((asked, solution, found.total(_noise(asked, solution))))
        asked, solution, loss = min(tried, key=lambda each: each[2] * float(price(_noise(each[0], each[1]))))
        bound = tried[0][1].bound + found.least_of_levels
        return _made(task, found.attribute, asked, _noise(asked, solution), loss, bound)
    if not isinstance(task.objective, MaxVariance):
        return None
    scales, means = found.scales(task.objective, _products(task.workload)), task.objective.over == "terms"
    kinds = found.least_scales(scales)
    if kinds.ranges and not means:
        return _of_ranges(task, found, scales)

    def worst(noise: AxisNoise) -> float:
        return found.pull(noise, scales, means)[0]

    if kinds == KindScales(prefixes=kinds.prefixes) and not means and not found.levels:
        solution = least_largest(n, tolerance=tolerance, step=step)
        asked, bound = Asked(prefixes=tuple(solution.weights.tolist())), solution.bound / kinds.prefixes
        noise = _noise(asked, solution)
        return _made(task, found.attribute, asked, noise, worst(noise), bound)

    def nested() -> ProductPlan:
        shaped = nested_largest(found, scales, means, tolerance=tolerance, step=step)
        return _of_nested(task, found, shaped, worst)

    if found.levels and joins:
        return nested()
    made = _of_kinds(task, found, scales, means)
    if joins and not means and made.gap > task.effort.tolerance:  # values need weights of their own
        return min(made, nested(), key=lambda each: each.gap)
    return made


def _of_nested(task: Task, found: Along, shaped: Shaped, loss: Callable[[AxisNoise], float]) -> ProductPlan:
    """The plan with noise that is shaped for nested groups."""
    asked, q, root, bound = shaped
    noise = _noise_with(asked, q, root)
    return _made(task, found.attribute, asked, noise, loss(noise), bound)


def _of_kinds(task: Task, found: Along, scales: Floats, means: bool) -> ProductPlan:
    """The plan for the largest variance of several kinds, with noise along a path: one weight for all of a kind."""
    n, tolerance, step = found.size, 0.9 * task.effort.tolerance, task.effort.progress
    pull = partial(found.pull, scales=scales, means=means)
    solution, ranges, values = least_of_kinds(
        n, found.least_scales(scales), pull, means=means, tolerance=tolerance, step=step
    )
    weights = float(solution.weights[0]) if means else tuple(solution.weights.tolist())
    asked, bound = Asked(weights, ranges, values), solution.bound
    if found.levels:  # the weights know levels by the prefixes at their ends alone: another shape may serve better
        others = [(each, least_total(each.path(n), tolerance=tolerance, step=step)) for each in found.stand_ins()]
        asked, solution = min(
            [(asked, solution), *others],
            key=lambda each: found.pull(_noise(*each), scales, means)[0] * float(price(_noise(*each))),
        )
    noise = _noise(asked, solution)
    return _made(task, found.attribute, asked, noise, found.pull(noise, scales, means)[0], bound)


def _of_ranges(task: Task, found: Along, scales: Floats) -> ProductPlan:
    """The plan for the largest variance of all ranges, and of what else is asked.

    Each kind alone bounds the loss. The noise is that for ranges, or for prefixes where their scale is smaller.
    """
    n, kinds = found.size, found.least_scales(scales)
    tolerance, step = task.effort.tolerance, task.effort.progress
    quiet = quiet_ranges(n, tolerance=tolerance, step=step)
    bound = least_range(n, tolerance=tolerance, step=step) / kinds.ranges
    asked = Asked(ends=tuple(quiet.ends.astype(np.float32).astype(np.float64).tolist()))
    tried = [(asked, _noise_with(asked, quiet.q, quiet.root))]
    if kinds.values:
        bound = max(bound, 1 / kinds.values)
    if 0 < kinds.prefixes < kinds.ranges:
        prefixes = least_largest(n, tolerance=tolerance, step=step)
        bound = max(bound, prefixes.bound / kinds.prefixes)
        asked = Asked(prefixes=tuple(prefixes.weights.tolist()))
        tried.append((asked, _noise(asked, prefixes)))
    losses = [found.pull(noise, scales, False)[0] for _, noise in tried]
    best = min(range(len(tried)), key=lambda each: losses[each] * float(price(tried[each][1])))
    return _made(task, found.attribute, *tried[best], losses[best], bound)


def _noise(asked: Asked, solution: OrderedSolution) -> AxisNoise:
    """What will be sampled, before it is scaled."""
    return _noise_with(asked, solution.q, solution.root)


def _noise_with(asked: Asked, q: Floats, root: InverseRoot) -> AxisNoise:
    q = q.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
    return asked.noise(q, root.poles, root.weights)


def _made(task: Task, attribute: int, asked: Asked, noise: AxisNoise, loss: float, bound: float) -> ProductPlan:
    """The plan with this noise, scaled, whose loss this is; no plan has a loss × pcost below the bound."""
    cost = float(price(noise))
    per_unit = float(task.unit.scaled(1, 2 * (1 + opposed(noise))))
    reach = task.unit.contribution
    exact = reach is not None and not reach.limits  # only then k² times the largest diagonal entry is what others cost
    strategy = Ordered(noise.size, asked, noise.q, noise.poles, noise.weights)
    made = ProductPlan.along(
        task.workload.domain,
        attribute,
        {(): CorrelatedPath(strategy, 1.0)},
        task.guarantee,
        task.unit,
        _products(task.workload),
        "least total variance" if isinstance(task.objective, TotalVariance) else "least largest variance",
        gap=relative_gap(loss * cost, bound) + ROUNDING if exact else math.inf,
    )
    slack = CORRELATED_SLACK if task.allowed is not None else 1 - ROUNDING
    return finished(made, task, loss, slack=slack, cost=cost * per_unit)


def _products(workload: Workload) -> Workload:
    assert workload.tabular
    return workload


@dataclass(frozen=True)
class Axis(Planner[ProductPlan | ProductPlan]):
    """A plan along an ordered axis, with noise correlated along it: for values, prefixes and ranges of an attribute.

    Long axes get this form by themselves; say it for short ones.

    Args:
        attributes: the axes by name, where a workload crosses several attributes that are asked by their order; the
            long ones, or else the longest, if left out.
        apart: whether each set of the attributes that one axis is crossed with shall have noise of its own: the best
            there is, but not to be combined with other plans. Chosen by itself on long axes, where one noise for all is
            more than 2 % from the best.
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
        if not task.requested:
            along = None if task.laplace else by_itself(task)
            if along is None and (task.laplace or not crosses(task)):
                return None
        longest = int(task.workload.domain.sizes.max())
        return Offer(Proof.EVERY, Forecast(longest * _SECONDS, 0.0, f"an axis of {longest:,} values"), task)

    def plan(self, task: Task) -> ProductPlan | ProductPlan | None:
        """The best plan along the axis; of a workload that crosses it with others, a lattice plan.

        Raises:
            PlanError: it was asked for, and the workload or the objective is not of this kind.
        """
        if not task.requested:
            return plan_axis(task) if by_itself(task) is not None else crossed_by_itself(task)
        if task.laplace:
            raise PlanError("form=rs.Axis() has normal noise; leave the form out, or plan with ZCDP, GDP or ApproxDP.")
        made: ProductPlan | ProductPlan | None = None
        if not self.attributes and not self.apart:
            made = plan_axis(task)
        if made is None and task.workload.with_rows:
            made = crossed_by_request(task.workload, task, tuple(self.attributes), apart=self.apart)
        if made is None:
            raise PlanError(
                "form=rs.Axis() ([objective] axis = true) is for prefixes and ranges of an attribute, its values "
                "beside them, and its levels for records that are added or removed; alone or crossed with other "
                "attributes; for total variance or the largest one. Leave the form out."
            )
        return made
