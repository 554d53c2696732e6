"""Plans with Laplace noise along one attribute of many values: by weighted trees, or rows over runs where better.

A record is in one node of each level, so weights ω of the levels cost `Σ ω` in epsilon, whatever the tree. Ordered
values get the tree that suits what is asked (`search/regular_trees`); levels that are declared are the tree.

The rows that `search/runs` finds cost epsilon 1; times a power of two they are rounded down to whole numbers, and the
noise is as large as these cost. So the price is exact, and every variance is that of the whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import numpy as np

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.contract import Plan
from residua.plans.noise import LAPLACE, LARGEST_SCALE
from residua.plans.objectives import MaxVariance, TotalVariance, of_queries
from residua.plans.operators.buckets import NestedBuckets
from residua.plans.operators.contract import Operator
from residua.plans.operators.nesting import branched
from residua.plans.operators.tree import TreeNodes
from residua.plans.planners.along import Along, asked_along
from residua.plans.planners.offers import Forecast, Task, finished_pure
from residua.plans.planners.outline import Outline, nested_attribute, outlined
from residua.plans.product.plan import ProductPlan
from residua.plans.saddle import smooth_maximum
from residua.plans.search.regular_trees import OrderedLoss, branchings
from residua.plans.search.runs import weighted_runs
from residua.plans.search.strategies import Slopes, best_shares
from residua.plans.solver.nested import best_largest, best_total
from residua.plans.solver.ordered import least_largest, least_total

LONG = 513  # values: below, a strategy of any kind is searched for, in up to a minute
_SECONDS, _BYTES = 2e-5, 500.0  # per value: to plan it
_BOUND_TOLERANCE, _BOUND_ROUNDS = 0.05, 60  # of the bound, which is loose anyway
_SHARPNESS = 24.0  # order of the norm that stands for a maximum
_STEEPEST, _NOTHING = 12.0, 1e-4
_TILTS = (0.0, 0.4, -0.4)  # how much heavier each level is than the one above, where a descent starts (logarithms)


class TriedAlong(NamedTuple):
    """What was tried along an attribute.

    Args:
        attribute: its position.
        tried: loss at epsilon 1, name and noise of each, best first.
        bound: the least loss of normal noise of pcost 1.
    """

    attribute: int
    tried: list[tuple[float, str, Operator]]
    bound: float


def pure_tree(task: Task, least: int = LONG) -> ProductPlan | None:
    """The best tree found for a budget, or (without one) for a largest acceptable loss; None where none is wanted.

    Args:
        task: what the plan is for.
        least: how many values the attribute has at least.

    Raises:
        PlanError: many values, and an objective that is not planned over them.
    """
    trees = _trees(task, least)
    return None if trees is None else _of_best(task, trees)


def _trees(task: Task, least: int) -> TriedAlong | None:
    """The trees that were tried; None where none is wanted."""
    if task.workload.plain:
        return None
    along = asked_along(task.workload)
    if along is not None and not along.levels and along.size >= least:
        Forecast(along.size * _SECONDS, along.size * _BYTES, f"an axis of {along.size:,} values").check()
        return _ordered(task, along)
    nested = nested_attribute(task.workload, least)
    if nested is None:
        return None
    outline = outlined(task, nested)
    if len(outline.starts) > 1:
        raise PlanError(
            "levels of many values crossed with other attributes are not planned for Laplace noise; plan with ZCDP, "
            "GDP or ApproxDP, or ask for the levels alone."
        )
    return _nested(task, nested, outline)


# ---- prefixes, ranges and values


def _ordered(task: Task, along: Along) -> TriedAlong:
    """Trees of many branchings."""
    n, asked, objective = along.size, along.asked, task.objective
    if isinstance(objective, TotalVariance):
        loss = OrderedLoss(n, float(np.max(asked.prefixes)), asked.ranges, asked.values)
    elif not isinstance(objective, MaxVariance) or not of_queries(objective):
        raise _not_for_pure(objective)
    elif asked.ranges:
        raise PlanError(
            "the largest variance of all ranges is not planned over many values with Laplace noise; ask for "
            "prefixes (a range is the difference of two), or minimise TotalVariance()."
        )
    else:
        along = along.scaled(objective)
        least = along.least_scales
        loss = OrderedLoss(n, 1 / least.prefixes, 0.0, 1 / least.values if least.values else 0.0, worst=True)
    tried: list[tuple[float, str, Operator]] = []
    for each in branchings(loss):
        precisions = tuple(np.array([w**2 / 2]) for w in each.weights.tolist())
        nodes = TreeNodes(branched(n, each.counts), 0, precisions, LAPLACE, each.counts)
        if loss.worst:
            value = max(nodes.largest_variance(part.asked) / part.scale for part in along.parts)
        else:
            value = sum(part.weight * part.asked.rows * nodes.mean_variance(part.asked) for part in along.parts)
        tried.append((value, each.name, nodes))
        if task.effort.progress:
            task.effort.progress(len(tried), math.inf)
    if loss.worst:
        bound = least_largest(n, tolerance=_BOUND_TOLERANCE, most_rounds=_BOUND_ROUNDS).bound * loss.prefixes
    else:
        bound = least_total(n, asked, tolerance=_BOUND_TOLERANCE).bound
    return TriedAlong(along.attribute, sorted(tried, key=lambda each: each[0]), bound)


# ---- levels that are declared


def _nested(task: Task, attribute: int, outline: Outline) -> TriedAlong:
    """Weights of declared levels."""
    problem, objective = outline.problem, task.objective
    part, worst = problem.parts[0], of_queries(objective)
    if worst:
        bound = best_largest(problem, "level", "nodes", _BOUND_TOLERANCE).bound
    elif isinstance(objective, TotalVariance):
        bound = best_total(problem, "level", _BOUND_TOLERANCE).bound
    else:
        raise _not_for_pure(objective)

    def loss(squares: Floats) -> tuple[float, float, Floats]:
        """The loss at these squares of weights; a smooth one in its place, and the slopes of that."""
        solved = part.tree.solved([np.array([w / 2]) for w in squares.tolist()])
        if worst:
            ratios = [v / own.target for v, own in zip(problem.variances([solved.V]), problem.wanted, strict=True)]
            # How many nodes each one kept stands for.
            many = [part.tree.many if own.level == 0 else np.ones(part.tree.sizes[own.level]) for own in problem.wanted]
            every, top = np.concatenate(ratios), max(float(r.max()) for r in ratios)
            smooth, powers = smooth_maximum(every, _SHARPNESS, np.concatenate(many))
            cuts = np.cumsum([len(r) for r in ratios])[:-1]
            each = [p / own.target for p, own in zip(np.split(powers, cuts), problem.wanted, strict=True)]
        else:
            each = [np.array([own.weight]) for own in problem.wanted]
            smooth = top = part.tree.total(problem.weights(each)[0], solved.V)
        return top, smooth, -0.5 * np.array([float(s.sum()) for s in solved.slopes(problem.weights(each)[0])])

    depth = part.tree.depth
    weights = {"all levels alike": np.full(depth, 1.0 / depth)}
    if depth > 1:
        weights["finest level alone"] = np.append(1.0, np.zeros(depth - 1))
    weights["weighted levels"] = _descended(lambda squares: loss(squares)[1:], depth)
    start = outline.starts[()]
    own = [level - start for level in outline.levels if level >= start]
    tried: list[tuple[float, str, Operator]] = []
    for name, omega in weights.items():
        precisions = [np.zeros(1) for _ in range(start, outline.nesting.root + 1)]
        for level, weight in zip(own, omega.tolist(), strict=True):
            precisions[level] = np.array([weight**2 / 2])
        tried.append((loss(omega**2)[0], name, TreeNodes(outline.nesting, start, tuple(precisions), LAPLACE)))
    return TriedAlong(attribute, sorted(tried, key=lambda each: each[0]), bound)


def _descended(loss: Slopes, depth: int) -> Floats:
    """The weights of levels after descents from several tilts of equal ones; they add up to 1."""
    omega = best_shares(loss, [-tilt * np.arange(depth) for tilt in _TILTS], _STEEPEST, 100)
    omega[1:][omega[1:] < _NOTHING] = 0.0
    return np.asarray(omega / omega.sum())


# ---- the plan


def _not_for_pure(objective: object) -> PlanError:
    return PlanError(
        f"{type(objective).__name__} is not for pure DP over many values; with PureDP, minimise TotalVariance, or "
        "MaxVariance over queries."
    )


def _of_best(task: Task, found: TriedAlong) -> ProductPlan:
    """The best noise at the scale that the budget, or the wanted loss, asks for."""
    plan = ProductPlan.along(task.workload.domain, found.attribute, {(): found.tried[0][2]}, **task.stated)
    loss = found.tried[0][0] / plan.epsilon**2
    named = [(name, value) for value, name, _ in found.tried]
    return finished_pure(plan, task, loss, found.bound, [found.attribute], named)


_FINE = 2.0**24  # what a column of whole numbers adds up to, about
_COARSE = 2.0**12  # at least
_FINER = 9  # powers of two more, at most, where epsilon is so large that noise would be too small to round


def pure_runs(task: Task) -> Plan | None:
    """The better of the best tree and the best rows over runs found; None where neither is wanted.

    Raises:
        PlanError: many values, and an objective that is not planned over them.
    """
    trees, along = _trees(task, LONG), asked_along(task.workload)
    if trees is None:
        return None
    tree = _of_best(task, trees)
    if along is None or along.levels or not isinstance(task.objective, TotalVariance):
        return tree
    n, asked, progress = along.size, along.asked, task.effort.progress
    assert isinstance(asked.prefixes, float)
    steps = count(1)
    weighted = weighted_runs(
        n,
        asked.prefixes * n,
        asked.ranges * n * (n + 1) / 2,
        asked.values * n,
        None if progress is None else lambda _: progress(next(steps), math.inf),
    )
    tried = list(trees.tried)
    for each in weighted:
        with suppress(VerificationError):  # a level that weighs next to nothing takes noise that cannot be sampled
            buckets = NestedBuckets(n, *_whole(each.rows, tree.epsilon))
            plan = ProductPlan.along(task.workload.domain, along.attribute, {(): buckets}, **task.stated)
            loss = plan.total_variance(task.workload) * plan.epsilon**2
            tried.append((loss, f"rows over buckets on {len(each.rows)} levels", buckets))
    return _of_best(task, trees._replace(tried=sorted(tried, key=lambda each: each[0])))


def _whole(rows: Sequence[Floats], epsilon: float) -> tuple[tuple[Integers, ...], Floats]:
    """Rows of whole numbers, and the noise scales with which they cost about epsilon."""
    wholes, scales = [], []
    for R in rows:
        weight = float(R.sum(axis=0).max())
        grid = _FINE / weight * 2.0 ** min(max(math.ceil(math.log2(max(epsilon, 1.0))) - 14, 0), _FINER)
        while grid * weight > _COARSE and grid / epsilon > LARGEST_SCALE / 4:
            grid /= 2
        whole = np.floor(R * grid).astype(np.int64)
        wholes.append(whole[whole.any(axis=1)])
        scales.append(float(whole.sum(axis=0).max()) / (weight * epsilon))
    return tuple(wholes), np.array(scales)
