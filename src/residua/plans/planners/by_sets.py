"""Plans along one long axis crossed with short attributes: each set of these has correlated noise of its own.

One noise for all blocks is best where all ask the same of the axis. Where levels are crossed with more attributes than
prefixes are, or values with others than ranges, each set of the other attributes has a Gram matrix of its own along the
axis, and the optimum over all plans is one noise for each, with common weights on the cells (`solver/ordered.py`). The
axis alone is the case of one set, the empty one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.lattice import Set, subsets
from residua.plans.objectives import TotalVariance
from residua.plans.operators.contract import Operator
from residua.plans.operators.correlated import Asked, Ordered, terms_of
from residua.plans.operators.path import CorrelatedPath
from residua.plans.operators.total import TotalAlone
from residua.plans.planners.along import asked_by, kinds_of
from residua.plans.planners.crossed_noise import least_of_all, trace_of_groups
from residua.plans.planners.offers import Task, finished, proven_gap
from residua.plans.product.facts import coefficient
from residua.plans.product.plan import ProductPlan
from residua.plans.solver.ordered import least_of_parts
from residua.plans.strategy import Plain, Strategy
from residua.plans.tolerances import CORRELATED_SLACK
from residua.privacy import AddRemove
from residua.workload import AttributeQueries

SplitBySets = tuple[dict[Set, list[tuple[AttributeQueries, float]]], dict[Set, float]]
MOST_SETS = 256  # of the other attributes
_COARSE = 1e-3  # error of the rational functions while weights of cells are sought
_TINY = 1 / 40  # of the tolerance: what prefixes cost that are measured only so that all values are


def can_be_apart(task: Task, axis: int) -> bool:
    """Whether noise of its own for each set of the other attributes is known to be the best."""
    return task.by_cells and _by_sets(task, axis) is not None


def plan_by_sets(task: Task, axis: int) -> ProductPlan | None:
    """The best plan with noise of its own for each set of the other attributes; None where it is not of that kind.

    Args:
        task: what the plan is for; attributes other than the axis are asked by their values.
        axis: the position of the long attribute.
    """
    split = _by_sets(task, axis)
    if split is None:
        return None
    along, totals = split
    domain, tolerance = task.workload.domain, 0.9 * task.effort.tolerance
    n = int(domain.sizes[axis])
    shapes = {members: _shape(n, each, totals.pop(members, 0.0), tolerance) for members, each in along.items()}
    alike = list(dict.fromkeys(each for each, _ in shapes.values()))
    factors = [sum(math.sqrt(size) for each, size in shapes.values() if each == one) for one in alike]
    bare = sum(math.sqrt(each) for each in totals.values())
    shared, total, bound = least_of_parts(
        n, alike, factors, bare, tolerance=tolerance, coarse=_COARSE, step=task.effort.progress
    )
    noises = dict(zip(alike, shared, strict=True))
    sizes = domain.sizes.tolist()

    def factor(members: Set, size: float) -> float:
        """`κ_T` over the root of what the queries of a set were divided by."""
        return coefficient(members, members, sizes) / math.sqrt(size) * total

    parts: dict[Set, Operator] = {
        members: CorrelatedPath(noises[each], factor(members, size)) for members, (each, size) in shapes.items()
    }
    parts.update({members: TotalAlone(n, factor(members, size)) for members, size in totals.items()})
    plan = ProductPlan.along(domain, axis, parts, **task.stated)
    loss = plan.total_variance(task.workload)
    by_order = {kind.along for kind, _ in along.get((), ())} & {"prefixes", "ranges"}
    if list(parts) != [()] or not by_order:
        bound = _bound(task, axis, shared[0])
    plan = plan.replaced(gap=proven_gap(task, loss * float(plan.measurements.cost(AddRemove())), bound))
    return finished(plan, task, loss, slack=CORRELATED_SLACK, cost=float(plan.measurements.cost(task.unit)))


def _bound(task: Task, axis: int, noise: Ordered) -> float:
    """What no plan's total variance × pcost is below."""
    strategies: list[Strategy] = [Plain(int(size)) for size in task.workload.domain.sizes]
    strategies[axis] = noise
    return least_of_all(task.workload, strategies)


def _by_sets(task: Task, axis: int) -> SplitBySets | None:
    """What each set of the other attributes asks along the axis, rows and their weights, and the weight of its totals.

    A set T of the attributes A of a table has the part `κ_T² Π_A n Π_{A∖T} 1/n²` of its total variance, times its cost.

    None for another objective, for records that are replaced, for too many sets, and where another attribute is asked
    by more than its values, or the axis by rows of other kinds.
    """
    workload = task.workload
    if not isinstance(task.objective, TotalVariance) or task.unit.contribution is None:
        return None
    if len(workload.lattice) > 2 * MOST_SETS:  # each set, and with the axis
        return None
    sizes = workload.domain.sizes.tolist()
    along: dict[Set, list[tuple[AttributeQueries, float]]] = {}
    totals: dict[Set, float] = {}
    for asked, weight in terms_of(workload):
        rows, short = asked.get(axis), tuple(sorted(j for j in asked if j != axis))
        kinds = [] if rows is None else kinds_of(rows)
        if kinds is None or not all(asked[j].plain for j in short):
            return None
        cells = math.prod(sizes[j] for j in short)
        for members in subsets(short):
            share = weight * cells * coefficient(members, short, sizes) * coefficient(members, members, sizes)
            if not share:  # an attribute of one value
                continue
            if rows is None:
                totals[members] = totals.get(members, 0.0) + share
            else:
                along.setdefault(members, []).extend((kind, share) for kind in kinds)
    return (along, totals) if along and len(along) + len(totals) <= MOST_SETS else None


def _shape(
    n: int, rows: Sequence[tuple[AttributeQueries, float]], total: float, tolerance: float
) -> tuple[Asked, float]:
    """What is asked along the axis with a largest weight of 1, and that weight.

    Levels and values alone leave what is between them unknown, or cost matrices without an inverse: a little of all
    prefixes is added, which costs next to nothing.
    """
    size = max(total, *(weight for _, weight in rows))
    asked = asked_by((kind, weight / size) for kind, weight in rows)
    if total:  # a group of all values
        asked = replace(asked, groups=(*asked.groups, (0, n - 1, total / size)))
    if not asked.prefixes and not asked.ranges:
        even: Floats = np.full(n, 1.0 / n)
        of_prefixes = math.sqrt(n) * (1.1 + math.log(n) / math.pi)
        tiny = (_TINY * tolerance * trace_of_groups(n, asked, even) / of_prefixes) ** 2
        asked = replace(asked, prefixes=tiny)
    groups = tuple((first, last, _rounded(weight)) for first, last, weight in asked.groups)
    prefixes, ranges, values = (_rounded(each) for each in (asked.prefixes, asked.ranges, asked.values))
    return Asked(prefixes, ranges, values, groups=groups), size


def _rounded(weight: float | tuple[float, ...]) -> float:
    """A weight to twelve digits, so that sets that ask alike are found to."""
    assert isinstance(weight, float)
    return float(f"{weight:.12g}")
