"""Plans along one long axis crossed with short attributes where each set of these gets noise of its own.

One noise for all blocks is best where all ask the same of the axis. Where levels are crossed with more attributes than
prefixes are, or values with others than ranges, each set of the other attributes has a Gram matrix of its own along the
axis, and the optimum over all plans is one noise for each, with common weights on the cells (`solver/ordered.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.conductances import Network
from residua.linalg.path import Path
from residua.plans.objectives import TotalVariance, described
from residua.plans.operators.contract import Operator
from residua.plans.operators.correlated import Ordered, terms_of
from residua.plans.operators.path import ROUNDING, CorrelatedPath
from residua.plans.operators.shapes import Asked
from residua.plans.operators.total import TotalAlone
from residua.plans.planners.along import asked_by, kinds_of
from residua.plans.planners.crossed_noise import least_of_all, trace_of_groups
from residua.plans.planners.ending import finished, relative_gap
from residua.plans.planners.offers import Task
from residua.plans.product.plan import ProductPlan
from residua.plans.solver.ordered import least_of_parts
from residua.plans.strategy import Plain, Strategy
from residua.plans.tolerances import CORRELATED_SLACK
from residua.privacy import AddRemove
from residua.workload import AttributeQueries, Workload

Set = tuple[int, ...]
Split = tuple[dict[Set, list[tuple[AttributeQueries, float]]], dict[Set, float]]
MOST_SETS = 256  # of the other attributes
_COARSE = 1e-3  # error of the rational functions while weights of cells are sought
_TINY = 1 / 40  # of the tolerance: what prefixes cost that are measured only so that all values are


def can_be_apart(workload: Workload, task: Task, axis: int) -> bool:
    """Whether noise of its own for each set of the other attributes is known to be the best."""
    return _split(workload, task, axis) is not None


def plan_fibres(workload: Workload, task: Task, axis: int) -> ProductPlan | None:
    """The best plan with noise of its own for each set of the other attributes; None where that is not known to be it.

    Args:
        workload: what is asked, of attributes other than the axis by their values.
        task: what the plan is for.
        axis: the position of the long attribute.
    """
    split = _split(workload, task, axis)
    if split is None:
        return None
    along, totals = split
    tolerance = 0.9 * task.effort.tolerance
    n = int(workload.domain.sizes[axis])
    shaped = {members: _shaped(n, each, totals.pop(members, 0.0), tolerance) for members, each in along.items()}
    alike = list(dict.fromkeys(each for each, _ in shaped.values()))
    factors = [sum(math.sqrt(size) for each, size in shaped.values() if each == one) for one in alike]
    solution = least_of_parts(
        [_queries(n, each) for each in alike],
        factors,
        sum(math.sqrt(each) for each in totals.values()),
        tolerance=tolerance,
        coarse=_COARSE,
        step=task.effort.progress,
    )
    q = solution.q.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
    roots = dict(zip(alike, solution.roots, strict=True))
    noises = {each: Ordered(n, each, q, roots[each].poles, roots[each].weights) for each in alike}
    parts: dict[Set, Operator] = {
        members: CorrelatedPath(noises[each], _factor(workload, members, size) * solution.total)
        for members, (each, size) in shaped.items()
    }
    for members, size in totals.items():
        parts[members] = TotalAlone(n, _factor(workload, members, size) * solution.total)
    made = ProductPlan.along(
        workload.domain,
        axis,
        parts,
        task.guarantee,
        task.unit,
        workload,
        described(task.objective),
    )
    loss, cost = made.total_variance(workload), float(made.blocks.cost(AddRemove()))
    strategies: list[Strategy] = [Plain(int(size)) for size in workload.domain.sizes]
    strategies[axis] = next(iter(noises.values()))
    made = made.replaced(gap=relative_gap(loss * cost, least_of_all(workload, strategies)) + ROUNDING)
    return finished(made, task, loss, slack=CORRELATED_SLACK, cost=float(made.blocks.cost(task.unit)))


def _split(workload: Workload, task: Task, axis: int) -> Split | None:
    """What each set of the other attributes asks, where the task is one for noise apart, of not too many sets."""
    reach = task.unit.contribution
    if not isinstance(task.objective, TotalVariance) or reach is None or reach.limits:
        return None
    if len(workload.lattice) > 2 * MOST_SETS:  # each set, and with the axis
        return None
    split = _by_sets(workload, axis)
    return split if split and split[0] and len(split[0]) + len(split[1]) <= MOST_SETS else None


def _by_sets(workload: Workload, axis: int) -> Split | None:
    """What each set of the other attributes asks along the axis, rows and their weights, and the weight of its totals.

    None where another attribute is asked by more than its values, or the axis by rows of other kinds.
    """
    along: dict[Set, list[tuple[AttributeQueries, float]]] = {}
    totals: dict[Set, float] = {}
    for asked, weight in terms_of(workload):
        rows, short = asked.get(axis), tuple(sorted(j for j in asked if j != axis))
        kinds = [] if rows is None else kinds_of(rows)
        if kinds is None or not all(asked[j].plain for j in short):
            return None
        for members in (each for size in range(len(short) + 1) for each in combinations(short, size)):
            share = weight * _share(workload, short, members)
            if not share:  # an attribute of one value
                continue
            if rows is None:
                totals[members] = totals.get(members, 0.0) + share
            else:
                along.setdefault(members, []).extend((kind, share) for kind in kinds)
    return along, totals


def _share(workload: Workload, short: tuple[int, ...], members: tuple[int, ...]) -> float:
    """`κ_T² Π_{j∈A} n_j Π_{j∈A∖T} 1/n_j²`: the part of a table's total variance in one set, times its cost."""
    sizes = {j: float(workload.domain.sizes[j]) for j in short}
    inside = math.prod(sizes[j] * (1 - 1 / sizes[j]) ** 2 for j in members)
    return inside * math.prod(1 / sizes[j] for j in short if j not in members)


def _factor(workload: Workload, members: Set, size: float) -> float:
    """`κ_T` over the root of what the queries of a set were divided by."""
    return math.prod(1 - 1 / float(workload.domain.sizes[j]) for j in members) / math.sqrt(size)


def _shaped(
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


def _queries(n: int, asked: Asked) -> Path | Network:
    return asked.network(n) if asked.is_nested else asked.path(n)
