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
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.contract import Plan
from residua.plans.noise import LAPLACE, LARGEST_SCALE
from residua.plans.objectives import MaxVariance, TotalVariance, of_queries
from residua.plans.operators.buckets import NestedBuckets
from residua.plans.operators.nesting import branched, nesting_of
from residua.plans.operators.tree import TreeNodes
from residua.plans.planners.along import Along, asked_along
from residua.plans.planners.offers import Forecast, Task, finished_pure, pure_factor, relative_gap
from residua.plans.planners.outline import Outline, nested_attribute, outlined
from residua.plans.product.plan import ProductPlan
from residua.plans.search.regular_trees import OrderedLoss, branchings
from residua.plans.search.runs import WeightedRuns, weighted_runs
from residua.plans.search.strategies import Slopes, best_shares
from residua.plans.solver.nested import best_largest, best_total
from residua.plans.solver.ordered import least_largest, least_total
from residua.plans.statements import Candidate
from residua.plans.tolerances import BUDGET_SLACK
from residua.privacy import PureDP

LONG = 513  # values: below, a strategy of any kind is searched for, in up to a minute
_SECONDS, _BYTES = 2e-5, 500.0  # per value: to plan it
_BOUND_TOLERANCE, _BOUND_ROUNDS = 0.05, 60  # of the bound, which is loose anyway
_SHARPNESS = 24.0  # order of the norm that stands for a maximum
_STEEPEST, _NOTHING = 12.0, 1e-4
_TILTS = (0.0, 0.4, -0.4)  # how much heavier each level is than the one above, where a descent starts (logarithms)


class TriedTree(NamedTuple):
    """A tree that was tried.

    Args:
        loss: at epsilon 1.
        name: which one.
        precisions: of each level.
        counts: how its nodes branch; None for levels that are declared.
    """

    loss: float
    name: str
    precisions: tuple[Floats, ...]
    counts: tuple[int, ...] | None = None


def pure_tree(task: Task, least: int = LONG) -> ProductPlan | None:
    """The best tree found for a budget, or (without one) for a largest acceptable loss; None where none is wanted.

    Args:
        task: what the plan is for.
        least: how many values the attribute has at least.

    Raises:
        PlanError: many values, and an objective that is not planned over them.
    """
    if task.workload.plain:
        return None
    along = asked_along(task.workload)
    if along is not None and not along.levels and along.size >= least:
        Forecast(along.size * _SECONDS, along.size * _BYTES, f"an axis of {along.size:,} values").check()
        tried, bound = _ordered(task, along)
        return _of_best_tree(task, along.attribute, 0, tried, bound)
    nested = nested_attribute(task.workload, least)
    if nested is None:
        return None
    outline = outlined(task, nested)
    if len(outline.starts) > 1:
        raise PlanError(
            "levels of many values crossed with other attributes are not planned for Laplace noise; plan with ZCDP, "
            "GDP or ApproxDP, or ask for the levels alone."
        )
    tried, bound = _nested(task, outline)
    return _of_best_tree(task, nested, outline.starts[()], tried, bound)


# ---- prefixes, ranges and values


def _ordered(task: Task, along: Along) -> tuple[list[TriedTree], float]:
    """Trees by their loss at epsilon 1, best first; and the least loss of normal noise of pcost 1."""
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
    tried: list[TriedTree] = []
    for each in branchings(loss):
        precisions = tuple(np.array([w**2 / 2]) for w in each.weights.tolist())
        nodes = TreeNodes(branched(n, each.counts), 0, precisions)
        if loss.worst:
            value = max(nodes.largest_variance(part.asked) / part.scale for part in along.parts)
        else:
            value = sum(part.weight * part.asked.rows * nodes.mean_variance(part.asked) for part in along.parts)
        tried.append(TriedTree(value, each.name, precisions, each.counts))
        if task.effort.progress:
            task.effort.progress(len(tried), math.inf)
    if loss.worst:
        bound = least_largest(n, tolerance=_BOUND_TOLERANCE, most_rounds=_BOUND_ROUNDS).bound * loss.prefixes
    else:
        bound = least_total(n, asked, tolerance=_BOUND_TOLERANCE).bound
    return sorted(tried, key=lambda each: each.loss), bound


# ---- levels that are declared


def _nested(task: Task, outline: Outline) -> tuple[list[TriedTree], float]:
    """Weights of declared levels by their loss at epsilon 1, best first; and the least loss of normal noise."""
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
            top = max(float(r.max()) for r in ratios)
            powers = [(r / top) ** (_SHARPNESS - 1) for r in ratios]
            total = 0.0
            for p, r, own in zip(powers, ratios, problem.wanted, strict=True):
                many = part.tree.many if own.level == 0 else np.ones(len(r))  # nodes that each one kept stands for
                total += float((p * r / top) @ many)
            each = [
                p * total ** (1 / _SHARPNESS - 1) / own.target for p, own in zip(powers, problem.wanted, strict=True)
            ]
            smooth = top * total ** (1 / _SHARPNESS)
        else:
            each = [np.array([own.weight]) for own in problem.wanted]
            smooth = top = part.tree.total(problem.weights(each)[0], solved.V)
        slopes = solved.slopes(problem.weights(each)[0])
        return top, smooth, -0.5 * np.array([float(s.sum()) for s in slopes])

    depth = part.tree.depth
    weights = {"all levels alike": np.full(depth, 1.0 / depth)}
    if depth > 1:
        weights["finest level alone"] = np.append(1.0, np.zeros(depth - 1))
    weights["weighted levels"] = _descended(lambda squares: loss(squares)[1:], depth)
    start = outline.starts[()]
    own = [level - start for level in outline.levels if level >= start]
    tried = []
    for name, omega in weights.items():
        precisions = [np.zeros(1) for _ in range(start, outline.nesting.root + 1)]
        for level, weight in zip(own, omega.tolist(), strict=True):
            precisions[level] = np.array([weight**2 / 2])
        tried.append(TriedTree(loss(omega**2)[0], name, tuple(precisions)))
    return sorted(tried, key=lambda each: each.loss), bound


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


def _of_best_tree(task: Task, attribute: int, start: int, tried: Sequence[TriedTree], bound: float) -> ProductPlan:
    """The best tree with the noise that the budget, or the wanted loss, asks for."""
    best, domain = tried[0], task.workload.domain
    along = domain[domain.names[attribute]]
    nesting = nesting_of(along) if best.counts is None else branched(along.size, best.counts)
    nodes = TreeNodes(nesting, start, best.precisions, LAPLACE, best.counts)
    plan = ProductPlan.along(domain, attribute, {(): nodes}, **task.stated)
    return finished_pure(plan, task, best.loss, bound, [attribute], [(each.name, each.loss) for each in tried])


_FINE = 2.0**24  # what a column of whole numbers adds up to, about
_COARSE = 2.0**12  # at least
_FINER = 9  # powers of two more, at most, where epsilon is so large that noise would be too small to round


def pure_runs(task: Task) -> Plan | None:
    """The better of the best tree and the best rows over runs found; None where neither is wanted.

    Raises:
        PlanError: many values, and an objective that is not planned over them.
    """
    tree, along = pure_tree(task), asked_along(task.workload)
    if tree is None or along is None or along.levels or not isinstance(task.objective, TotalVariance):
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
    plans = []
    for each in weighted or ():
        with suppress(VerificationError):  # a level that weighs next to nothing takes noise that cannot be sampled
            name = f"rows over buckets on {len(each.rows)} levels"
            plans.append((name, _whole_runs(task, along.attribute, each, tree)))
    return _better(task, plans, tree) if plans else tree


def _whole_runs(task: Task, attribute: int, weighted: WeightedRuns, tree: ProductPlan) -> ProductPlan:
    """Whole rows with the noise that the budget, or the wanted loss, asks for."""
    epsilon, domain = tree.epsilon, task.workload.domain
    for _ in range(2):  # the price of the unit, or the loss, is known once there is a plan
        rows, scales = _whole(weighted.rows, epsilon)
        buckets = NestedBuckets(int(domain.sizes[attribute]), rows, scales)
        plan = ProductPlan.along(domain, attribute, {(): buckets}, **task.stated)
        factor = pure_factor(plan, task, partial(plan.total_variance, task.workload))
        epsilon = plan.epsilon * factor
    return plan.with_parts({(): replace(buckets, scales=scales / factor)})


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


def _better(task: Task, plans: Sequence[tuple[str, ProductPlan]], tree: ProductPlan) -> Plan:
    """The plan with the least loss, and all that was tried; for a wanted loss, the one with the least epsilon."""
    wanted = task.guarantee is None
    losses = [
        plan.total_variance(task.workload) * (plan.epsilon / tree.epsilon) ** (2 if wanted else 0) for _, plan in plans
    ]
    tried = [Candidate(name, loss) for (name, _), loss in zip(plans, losses, strict=True)]
    candidates = tuple(sorted([*tried, *tree.candidates], key=lambda each: each.loss))
    number = int(np.argmin(losses))
    if losses[number] >= tree.candidates[0].loss:
        return tree.replaced(candidates=candidates)
    _, plan = plans[number]
    # The bound is about a budget; for a wanted loss, plans are compared at the budget of the one that is kept.
    scale = (tree.epsilon / plan.epsilon) ** 2 if wanted else 1.0
    bound = tree.lower_bound * scale
    return plan.replaced(
        gap=relative_gap(losses[number] * scale, bound),
        candidates=tuple(Candidate(each.name, each.loss * scale) for each in candidates),
        lower_bound=bound,
        guarantee=PureDP(plan.unit_epsilon / BUDGET_SLACK) if wanted else plan.guarantee,
    )
