"""Plans with Laplace noise along one attribute of many values: prefixes, ranges, values and levels, by weighted trees.

A record is in one node of each level, so weights ω of the levels cost `Σ ω` in epsilon, whatever the tree. Ordered
values get the tree that suits what is asked (`search/regular_trees`); levels that are declared are the tree.

Plans with Laplace noise along one attribute of many values: rows over runs where they are better than a tree.

The rows that `search/runs` finds cost epsilon 1; times a power of two they are rounded down to whole numbers, and the
noise is as large as these cost. So the price is exact, and every variance is that of the whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.candidates import Candidate
from residua.plans.contract import Plan
from residua.plans.noise import LAPLACE, LARGEST_SCALE
from residua.plans.objectives import MaxVariance, TotalVariance, described
from residua.plans.operators.buckets import NestedBuckets
from residua.plans.operators.nesting import Nesting, branched, nesting_of
from residua.plans.operators.shapes import Asked
from residua.plans.operators.tree import TreeNodes
from residua.plans.planners.along import asked_along
from residua.plans.planners.ending import finished_pure, relative_gap
from residua.plans.planners.forecast import Forecast
from residua.plans.planners.offers import Task
from residua.plans.planners.outline import Outline, nested_attribute, outlined, products_of
from residua.plans.product.plan import ProductPlan
from residua.plans.search.regular_trees import OrderedLoss, branchings
from residua.plans.search.runs import WeightedRuns, weighted_runs
from residua.plans.search.strategies import Slopes, best_shares
from residua.plans.solver.nested import best_largest, best_total
from residua.plans.solver.ordered import least_largest, least_total
from residua.plans.targets import listed_targets
from residua.plans.tolerances import BUDGET_SLACK
from residua.privacy import PureDP

LONG = 513  # values: below, a strategy of any kind is searched for, in up to a minute
_SECONDS, _BYTES = 2e-5, 500.0  # per value: to plan it
_BOUND_TOLERANCE, _BOUND_ROUNDS = 0.05, 60  # of the bound, which is loose anyway
_SHARPNESS = 24.0  # order of the norm that stands for a maximum
_STEEPEST, _NOTHING = 12.0, 1e-4
_TILTS = (0.0, 0.4, -0.4)  # how much heavier each level is than the one above, where a descent starts (logarithms)

Found = tuple[float, str, tuple[int, ...] | None, tuple[Floats, ...]]


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
        n = along.size
        Forecast(n * _SECONDS, n * _BYTES, f"an axis of {n:,} values").check()
        found, bound = _ordered(task, n, along.asked)
        return _made(task, along.attribute, 0, found, bound)
    nested = nested_attribute(task.workload, least)
    if nested is None:
        return None
    outline = outlined(task, nested)
    if len(outline.sets) > 1:
        raise PlanError(
            "levels of many values crossed with other attributes are not planned for Laplace noise; plan with ZCDP, "
            "GDP or ApproxDP, or ask for the levels alone."
        )
    found, bound = _nested(task, outline)
    return _made(task, nested, outline.starts[0], found, bound)


# ---- prefixes, ranges and values


def _ordered(task: Task, n: int, asked: Asked) -> tuple[list[Found], float]:
    """Trees by their loss at epsilon 1, best first; and the least loss of normal noise of pcost 1."""
    weights = {"prefixes": float(np.max(asked.prefixes)), "ranges": asked.ranges, "values": asked.values}
    loss, target = OrderedLoss(n, weights["prefixes"], weights["ranges"], weights["values"]), 1.0
    objective = task.objective
    if isinstance(objective, MaxVariance):
        target = _one_target(objective, task.workload.queries)
        if asked.ranges:
            raise PlanError(
                "the largest variance of all ranges is not planned over many values with Laplace noise; ask for "
                "prefixes (a range is the difference of two), or minimise TotalVariance()."
            )
        # Without targets the largest of weight · variance counts.
        factors = {key: value if objective.targets is None else bool(value) / target for key, value in weights.items()}
        loss = OrderedLoss(n, factors["prefixes"], 0.0, factors["values"], worst=True)
    elif not isinstance(objective, TotalVariance):
        raise _not_for_pure(objective)
    found: list[Found] = []
    for each in branchings(loss):
        precisions = tuple(np.array([w**2 / 2]) for w in each.weights.tolist())
        value = _exactly(loss, branched(n, each.counts), precisions)
        found.append((value, each.name, each.counts, precisions))
        if task.effort.progress:
            task.effort.progress(len(found), math.inf)
    found.sort(key=lambda one: one[0])
    if loss.worst:
        bound = least_largest(n, tolerance=_BOUND_TOLERANCE, most_rounds=_BOUND_ROUNDS).bound * loss.prefixes
    else:
        bound = least_total(asked.path(n), tolerance=_BOUND_TOLERANCE).bound
    return found, bound


def _one_target(objective: MaxVariance, queries: int) -> float:
    """The variance that every query may have; 1 where none is given."""
    if objective.over != "queries" or isinstance(objective.targets, Mapping):
        raise _several_targets()
    targets: Any = 1.0 if objective.targets is None else objective.targets
    if isinstance(targets, bool) or not isinstance(targets, int | float | np.number):
        listed = listed_targets(targets, queries)
        if listed.min() < listed.max():
            raise _several_targets()
        targets = listed[0]
    if not 0 < targets < math.inf:
        raise PlanError(f"targets={targets!r} is not a positive finite variance; correct it.")
    return float(targets)


def _several_targets() -> PlanError:
    return PlanError("along many values with Laplace noise, targets is one variance for every query; give one number.")


def _exactly(loss: OrderedLoss, nesting: Nesting, precisions: tuple[Floats, ...]) -> float:
    """The loss of a tree as it is."""
    order = TreeNodes(nesting, 0, precisions).order
    assert order is not None
    V = order.solved.V[0]
    if loss.worst:
        prefix = float(order.prefixes().max()) if loss.prefixes else 0.0
        return max(loss.prefixes * prefix, loss.values * float(V.max()))
    total = loss.values * float(V @ order.solved.tree.many)
    total += loss.prefixes * float(order.prefixes().sum()) if loss.prefixes else 0.0
    return total + (loss.ranges * order.sum_over_ranges() if loss.ranges else 0.0)


# ---- levels that are declared


def _nested(task: Task, outline: Outline) -> tuple[list[Found], float]:
    """Weights of declared levels by their loss at epsilon 1, best first; and the least loss of normal noise."""
    problem, objective = outline.problem, task.objective
    part, worst = problem.parts[0], isinstance(objective, MaxVariance)
    if isinstance(objective, TotalVariance):
        bound = best_total(problem, "level", _BOUND_TOLERANCE).bound
    elif isinstance(objective, MaxVariance) and objective.over == "queries":
        bound = best_largest(problem, "level", "nodes", _BOUND_TOLERANCE).bound
    else:
        raise _not_for_pure(objective)

    def loss(squares: Floats) -> tuple[float, Floats]:
        """The loss at these squares of weights, and its slopes."""
        solved = part.tree.solved([np.array([w / 2]) for w in squares.tolist()])
        variances = problem.variances([solved.V])
        if worst:
            ratios = [v / wanted.target for v, wanted in zip(variances, problem.wanted, strict=True)]
            top = max(float(r.max()) for r in ratios)
            powers = [(r / top) ** (_SHARPNESS - 1) for r in ratios]
            many = [
                _many(part.tree.many, wanted.level, len(r)) for r, wanted in zip(ratios, problem.wanted, strict=True)
            ]
            total = sum(float((p * r / top) @ m) for p, r, m in zip(powers, ratios, many, strict=True))
            each = [
                p * total ** (1 / _SHARPNESS - 1) / wanted.target
                for p, wanted in zip(powers, problem.wanted, strict=True)
            ]
            value = top * total ** (1 / _SHARPNESS)
        else:
            each = [np.array([wanted.weight]) for wanted in problem.wanted]
            value = part.tree.total(problem.weights(each)[0], solved.V)
        slopes = solved.slopes(problem.weights(each)[0])
        return value, -0.5 * np.array([float(s.sum()) for s in slopes])

    def exactly(omega: Floats) -> float:
        if not worst:
            return loss(omega**2)[0]
        solved = part.tree.solved([np.array([w**2 / 2]) for w in omega.tolist()])
        variances = problem.variances([solved.V])
        return max(float(v.max()) / wanted.target for v, wanted in zip(variances, problem.wanted, strict=True))

    depth = part.tree.depth
    tried: list[tuple[str, Floats]] = [("all levels alike", np.full(depth, 1.0 / depth))]
    if depth > 1:
        tried.append(("finest level alone", np.append(1.0, np.zeros(depth - 1))))
    tried.append(("weighted levels", _descended(loss, depth)))
    found: list[Found] = []
    for name, omega in tried:
        precisions = [np.zeros(1) for _ in range(outline.starts[0], outline.nesting.root + 1)]
        own = [level for level in outline.levels if level >= outline.starts[0]]
        for level, weight in zip(own, omega.tolist(), strict=True):
            precisions[level - outline.starts[0]] = np.array([weight**2 / 2])
        found.append((exactly(omega), name, None, tuple(precisions)))
    return sorted(found, key=lambda one: one[0]), bound


def _many(many: Floats, level: int, nodes: int) -> Floats:
    """How many nodes each one kept stands for."""
    return many if level == 0 else np.ones(nodes)


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


def _made(task: Task, attribute: int, start: int, found: Sequence[Found], bound: float) -> ProductPlan:
    """The best tree with the noise that the budget, or the wanted loss, asks for."""
    loss, _, counts, precisions = found[0]
    domain = task.workload.domain
    along = domain[domain.names[attribute]]
    nesting = nesting_of(along) if counts is None else branched(along.size, counts)
    plan = ProductPlan.along(
        domain,
        attribute,
        {(): TreeNodes(nesting, start, precisions, LAPLACE, counts)},
        task.guarantee,
        task.unit,
        products_of(task.workload),
        described(task.objective),
    )
    return finished_pure(plan, task, loss, bound, [attribute], [(name, value) for value, name, *_ in found])


_FINE = 2.0**24  # what a column of whole numbers adds up to, about
_COARSE = 2.0**12  # at least
_FINER = 9  # powers of two more, at most, where epsilon is so large that noise would be too small to round


def pure_runs(task: Task) -> Plan | None:
    """The better of the best tree and the best rows over runs found; None where neither is wanted.

    Raises:
        PlanError: many values, and an objective that is not planned over them.
    """
    tree = pure_tree(task)
    along = asked_along(task.workload)
    branching = tree is not None and tree.parts[()].counts is not None  # type: ignore[attr-defined]
    if tree is None or not branching or along is None or not isinstance(task.objective, TotalVariance):
        return tree
    n, asked = along.size, along.asked
    if not isinstance(asked.prefixes, float):
        return tree
    told = task.effort.progress
    steps = iter(range(1, 10_000))
    found = weighted_runs(
        n,
        asked.prefixes * n,
        asked.ranges * n * (n + 1) / 2,
        asked.values * n,
        None if told is None else lambda _: told(next(steps), math.inf),
    )
    if not found:
        return tree
    made = []
    for each in found:
        with suppress(VerificationError):  # a level that weighs next to nothing takes noise that cannot be sampled
            made.append(_whole_runs(task, along.attribute, each, asked, tree))
    return _best(task, made, asked, tree) if made else tree


def _whole_runs(task: Task, attribute: int, found: WeightedRuns, asked: Asked, tree: ProductPlan) -> ProductPlan:
    """Whole rows with the noise that the budget, or the wanted loss, asks for."""
    guarantee, epsilon = task.guarantee, tree.epsilon
    for _ in range(2):  # the price of the unit, or the loss, is known once there is a plan
        rows, scales = _whole(found.rows, epsilon)
        domain = task.workload.domain
        buckets = NestedBuckets(int(domain.sizes[attribute]), rows, scales)
        plan = ProductPlan.along(
            domain,
            attribute,
            {(): buckets},
            guarantee,
            task.unit,
            products_of(task.workload),
            tree.objective,
        )
        if guarantee is None:
            factor = math.sqrt(_loss(plan, asked) / task.loss) / BUDGET_SLACK
        else:
            assert isinstance(guarantee, PureDP)
            factor = guarantee.epsilon / plan.unit_epsilon * BUDGET_SLACK
        epsilon = plan.epsilon * factor
    return plan.with_parts({(): replace(buckets, scales=scales / factor)})


def _whole(rows: Sequence[Floats], epsilon: float) -> tuple[tuple[Integers, ...], Floats]:
    """Rows of whole numbers, and the noise scales with which they cost about epsilon."""
    found, scales = [], []
    for R in rows:
        weight = float(R.sum(axis=0).max())
        grid = _FINE / weight * 2.0 ** min(max(math.ceil(math.log2(max(epsilon, 1.0))) - 14, 0), _FINER)
        while grid * weight > _COARSE and grid / epsilon > LARGEST_SCALE / 4:
            grid /= 2
        whole = np.floor(R * grid).astype(np.int64)
        found.append(whole[whole.any(axis=1)])
        scales.append(float(whole.sum(axis=0).max()) / (weight * epsilon))
    return tuple(found), np.array(scales)


def _loss(plan: ProductPlan, asked: Asked) -> float:
    """The total variance of what is asked, each kind times its weight."""
    buckets = plan.parts[()]
    assert isinstance(buckets, NestedBuckets)
    totals = buckets.totals
    assert isinstance(asked.prefixes, float)
    return asked.prefixes * totals.prefixes + asked.ranges * totals.ranges + asked.values * totals.values


def _best(task: Task, made: Sequence[ProductPlan], asked: Asked, tree: ProductPlan) -> Plan:
    """The plan with the least loss, and all that was tried; for a wanted loss, the one with the least epsilon."""
    wanted = task.guarantee is None
    losses = [_loss(plan, asked) * (plan.epsilon / tree.epsilon) ** (2 if wanted else 0) for plan in made]
    tried = [Candidate(_name(plan), loss) for plan, loss in zip(made, losses, strict=True)]
    candidates = tuple(sorted([*tried, *tree.candidates], key=lambda each: each.loss))
    number = int(np.argmin(losses))
    if losses[number] >= tree.candidates[0].loss:
        return tree.replaced(candidates=candidates)
    plan = made[number]
    # The bound is about a budget; for a wanted loss, plans are compared at the budget of the one that is kept.
    scale = (tree.epsilon / plan.epsilon) ** 2 if wanted else 1.0
    bound = tree.lower_bound * scale
    loss = losses[number] * scale
    return plan.replaced(
        gap=relative_gap(loss, bound),
        candidates=tuple(Candidate(each.name, each.loss * scale) for each in candidates),
        lower_bound=bound,
        guarantee=PureDP(plan.unit_epsilon / BUDGET_SLACK) if wanted else plan.guarantee,
    )


def _name(plan: ProductPlan) -> str:
    return f"rows over buckets on {len(plan.parts[()].scales)} levels"  # type: ignore[attr-defined]
