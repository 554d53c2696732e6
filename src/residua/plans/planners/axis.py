"""Plans along one long ordered axis, where matrices over its values would not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError
from residua.linalg.chain import OrderedNoise
from residua.plans.axis.asked import Asked
from residua.plans.axis.plan import AxisPlan
from residua.plans.axis.price import price
from residua.plans.axis.rows import terms_of
from residua.plans.forms import Form, Task
from residua.plans.lattice.plan import LatticePlan
from residua.plans.noise import guarantee_like
from residua.plans.objectives import MaxVariance, TotalVariance
from residua.plans.planners.crossed import crossed_by_request
from residua.plans.planners.forecast import Forecast
from residua.plans.questions import Workload
from residua.plans.solver.ordered import OrderedSolution, least_largest, least_total
from residua.privacy import ZCDP
from residua.workload import Identity, Marginals, Products, as_products
from residua.workload.ordered import Prefixes, Ranges

LONG = 512  # values; below, dense plans are as quick, and can be combined with every other plan
LONG_WITH_LIMITS = 1025  # values, where persons are limited in each: the lattice form is slow beyond
_SLACK = 1 - 2.0**-30
_SECONDS, _BYTES = 3e-5, 800  # per value: to plan it, and to measure it
_FINENESS = 2.0**6  # of the grid: the least standard deviation in steps of it
_ROUNDING = 1 / (6 * _FINENESS**2)  # what rounding two running sums adds to the variance of their difference, at most


def by_itself(task: Task) -> bool:
    """Whether this form is chosen unasked: not on short axes, nor where the lattice form prices persons better.

    Where a person has few records in each value of the axis, k² is too much for many; the lattice form knows.
    """
    found = along_axis(task.workload)
    if found is None:
        return False
    name, reach = task.workload.domain.names[found[0]], task.unit.contribution
    limited = reach is not None and name in dict(reach.limits)
    return int(task.workload.domain.sizes[found[0]]) >= (LONG_WITH_LIMITS if limited else LONG)


def plan_axis(task: Task) -> AxisPlan | None:
    """The best plan along one axis; None where the workload or the objective is not of that kind.

    Args:
        task: what the plan is for.
    """
    found = along_axis(task.workload)
    if found is None or int(task.workload.domain.sizes[found[0]]) < 2:
        return None
    attribute, asked = found
    n = int(task.workload.domain.sizes[attribute])
    Forecast(n * _SECONDS, float(n * _BYTES), f"an axis of {n:,} values").check()
    tolerance = task.effort.tolerance
    if isinstance(task.objective, TotalVariance):
        solution = least_total(asked.path(n), tolerance=0.9 * tolerance, step=task.effort.progress)
    elif _largest(task.objective, asked):
        solution = least_largest(n, tolerance=0.9 * tolerance, step=task.effort.progress)
        asked = Asked(prefixes=tuple(solution.weights.tolist()))
    else:
        return None
    return _made(task, attribute, asked, solution)


def along_axis(workload: Workload) -> tuple[int, Asked] | None:
    """The axis and what is asked along it, if nothing else is."""
    if not isinstance(workload, Products | Marginals):
        return None
    members = {i for row in workload.lattice for i in row}
    if len(members) != 1:
        return None
    (attribute,) = members
    domain = workload.domain
    if domain[domain.names[attribute]].has_other:
        return None
    weights = {Prefixes: 0.0, Ranges: 0.0, Identity: 0.0}
    for asked, weight in terms_of(workload):
        kind = type(asked.get(attribute))
        if kind not in weights:
            return None
        weights[kind] += weight
    if not weights[Prefixes] + weights[Ranges]:
        return None
    return attribute, Asked(weights[Prefixes], weights[Ranges], weights[Identity])


def _largest(objective: object, asked: Asked) -> bool:
    """Whether the largest variance of prefixes is to be small, all alike."""
    if not isinstance(objective, MaxVariance) or objective.over != "queries" or asked.ranges or asked.values:
        return False
    return objective.targets is None or isinstance(objective.targets, int | float)


def _made(task: Task, attribute: int, asked: Asked, solution: OrderedSolution) -> AxisPlan:
    q = solution.q.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
    n = len(q)
    noise = OrderedNoise(asked.path(n), q, solution.root.poles, solution.root.weights)
    cost = float(price(noise))
    per_unit = float(task.unit.scaled(1, 2))
    sums, single = noise.variances()
    scale = _scale(task.objective)
    if isinstance(task.objective, TotalVariance):
        loss = asked.values * single.sum() + float(np.sum(asked.prefixes) * sums.sum())
        if asked.ranges:
            loss += asked.ranges * noise.sum_of_range_variances()
    else:
        loss = float(sums.max()) / scale
    reach = task.unit.contribution
    exact = reach is not None and not reach.limits  # only then k² times the largest diagonal entry is what others cost
    gap = loss * cost / (solution.bound / scale) - 1 if exact else math.inf
    factor = (
        cost * per_unit / (task.allowed * _SLACK) if task.allowed is not None else task.loss / loss * (1 - _ROUNDING)
    )
    noise = noise.scaled(factor)
    finest = math.sqrt(float(single.min()) * factor)
    grid = 2 ** max(math.ceil(math.log2(_FINENESS / finest)), 0)
    made = AxisPlan(
        task.workload.domain,
        attribute,
        asked,
        q,
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


def _scale(objective: object) -> float:
    """What the loss is divided by: the target of the largest variance."""
    targets = objective.targets if isinstance(objective, MaxVariance) else None
    return 1.0 if targets is None else float(targets)  # type: ignore[arg-type]


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
