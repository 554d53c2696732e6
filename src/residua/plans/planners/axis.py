"""Plans along one long ordered axis, where matrices over its values would not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from residua.errors import PlanError
from residua.linalg.chain import OrderedNoise
from residua.plans.axis.asked import Asked
from residua.plans.axis.plan import AxisPlan
from residua.plans.axis.price import price
from residua.plans.forms import Form, Task
from residua.plans.lattice.plan import LatticePlan
from residua.plans.noise import guarantee_like
from residua.plans.objectives import MaxVariance, TotalVariance
from residua.plans.planners.along import asked_along
from residua.plans.planners.crossed import crossed_by_request
from residua.plans.planners.forecast import Forecast
from residua.plans.questions import Workload
from residua.plans.solver.ordered import OrderedSolution, Scales, least_largest, least_of_kinds, least_total
from residua.privacy import ZCDP
from residua.workload import Marginals, Products, as_products

LONG = 512  # values; below, dense plans are as quick, and can be combined with every other plan
LONG_WITH_LIMITS = 1025  # values, where persons are limited in each: the lattice form is slow beyond
_MOST_RANGES = 1024  # values of which the largest variance of a range is left to the lattice form: minutes
_SLACK = 1 - 2.0**-30
_SECONDS, _BYTES = 3e-5, 800  # per value: to plan it, and to measure it
_FINENESS = 2.0**6  # of the grid: the least standard deviation in steps of it
_ROUNDING = 1 / (6 * _FINENESS**2)  # what rounding two running sums adds to the variance of their difference, at most


def by_itself(task: Task) -> bool:
    """Whether this form is chosen unasked: not on short axes, nor where the lattice form prices persons better.

    Where a person has few records in each value of the axis, k² is too much for many; the lattice form knows.
    """
    found = asked_along(task.workload)
    if found is None:
        return False
    name, reach = task.workload.domain.names[found.attribute], task.unit.contribution
    limited = reach is not None and name in dict(reach.limits)
    return found.size >= (LONG_WITH_LIMITS if limited else LONG)


def plan_axis(task: Task) -> AxisPlan | None:
    """The best plan along one axis; None where the workload or the objective is not of that kind.

    Args:
        task: what the plan is for.

    Raises:
        PlanError: the axis is too long for this objective.
    """
    found = asked_along(task.workload)
    if found is None or found.size < 2:
        return None
    n, tolerance, step = found.size, 0.9 * task.effort.tolerance, task.effort.progress
    Forecast(n * _SECONDS, float(n * _BYTES), f"an axis of {n:,} values").check()
    if isinstance(task.objective, TotalVariance):
        tried = []
        for asked in found.stand_ins():
            solution = least_total(asked.path(n), tolerance=tolerance, step=step)
            tried.append((asked, solution, found.total(_noise(asked, solution))))
        asked, solution, loss = min(tried, key=lambda each: each[2] * float(price(_noise(each[0], each[1]))))
        return _made(task, found.attribute, asked, solution, loss, tried[0][1].bound + found.least_of_levels)
    if not isinstance(task.objective, MaxVariance):
        return None
    scales, means = found.scales(task.objective, _products(task.workload)), task.objective.over == "terms"
    kinds = found.least_scales(scales)
    if kinds.ranges and not means:
        if n <= _MOST_RANGES:
            return None
        raise PlanError(
            f"the largest variance of all ranges of {n:,} values is not planned for: it takes matrices over values, at "
            f"most {_MOST_RANGES:,} of them. Ask for their least total variance (leave minimise and targets out), "
            'for rs.MaxVariance(over="terms"), or for the largest variance of prefixes.'
        )
    if kinds == Scales(prefixes=kinds.prefixes) and not means and not found.levels:
        solution = least_largest(n, tolerance=tolerance, step=step)
        asked, bound = Asked(prefixes=tuple(solution.weights.tolist())), solution.bound / kinds.prefixes
    else:
        pull = partial(found.pull, scales=scales, means=means)
        solution, ranges, values = least_of_kinds(n, kinds, pull, means=means, tolerance=tolerance, step=step)
        weights = float(solution.weights[0]) if means else tuple(solution.weights.tolist())
        asked, bound = Asked(weights, ranges, values), solution.bound
        if found.levels:  # the weights know levels by the prefixes at their ends alone: another shape may serve better
            others = [(each, least_total(each.path(n), tolerance=tolerance, step=step)) for each in found.stand_ins()]
            asked, solution = min(
                [(asked, solution), *others],
                key=lambda each: found.pull(_noise(*each), scales, means)[0] * float(price(_noise(*each))),
            )
    return _made(task, found.attribute, asked, solution, found.pull(_noise(asked, solution), scales, means)[0], bound)


def _noise(asked: Asked, solution: OrderedSolution) -> OrderedNoise:
    """What will be sampled, before it is scaled."""
    q = solution.q.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
    return OrderedNoise(asked.path(len(q)), q, solution.root.poles, solution.root.weights)


def _made(task: Task, attribute: int, asked: Asked, solution: OrderedSolution, loss: float, bound: float) -> AxisPlan:
    """The plan of a solution, whose noise has this loss; no plan has a loss × pcost below the bound."""
    noise = _noise(asked, solution)
    cost = float(price(noise))
    per_unit = float(task.unit.scaled(1, 2))
    reach = task.unit.contribution
    exact = reach is not None and not reach.limits  # only then k² times the largest diagonal entry is what others cost
    gap = loss * cost / bound - 1 if exact else math.inf
    factor = (
        cost * per_unit / (task.allowed * _SLACK) if task.allowed is not None else task.loss / loss * (1 - _ROUNDING)
    )
    noise = noise.scaled(factor)
    finest = math.sqrt(float(noise.variances()[1].min()))
    grid = 2 ** max(math.ceil(math.log2(_FINENESS / finest)), 0)
    made = AxisPlan(
        task.workload.domain,
        attribute,
        asked,
        noise.q,
        noise.poles,
        noise.weights,
        grid,
        task.guarantee,
        task.unit,
        _products(task.workload),
        "least total variance" if isinstance(task.objective, TotalVariance) else "least largest variance",
        gap=float(max(gap, 0.0)) + _ROUNDING,
    )
    if task.guarantee is None:
        made = made.replaced(guarantee=guarantee_like(ZCDP(1.0), made.unit_pcost))
    return made


def _products(workload: Workload) -> Products:
    assert isinstance(workload, Products | Marginals)
    return as_products(workload)


@dataclass(frozen=True)
class Axis(Form):
    """A plan along an ordered axis, with noise correlated along it: for values, prefixes and ranges of an attribute.

    Long axes get this form by themselves; say it for short ones.

    Args:
        attributes: the axes by name, where a workload crosses several attributes that are asked by their order; the
            long ones, or else the longest, if left out.
    """

    attributes: tuple[str, ...] = ()

    def plan(self, task: Task) -> AxisPlan | LatticePlan:
        """The best plan along the axis; of a workload that crosses it with others, a lattice plan.

        Raises:
            PlanError: the workload or the objective is not of this kind.
        """
        if task.laplace:
            raise PlanError("form=rs.Axis() has normal noise; leave the form out, or plan with ZCDP, GDP or ApproxDP.")
        made: AxisPlan | LatticePlan | None = None if self.attributes else plan_axis(task)
        if made is None and isinstance(task.workload, Products):
            made = crossed_by_request(task.workload, task, tuple(self.attributes))
        if made is None:
            raise PlanError(
                "form=rs.Axis() is for prefixes and ranges of an attribute, its values beside them, alone or crossed "
                "with other attributes, and for total variance or the largest one; leave the form out."
            )
        return made
