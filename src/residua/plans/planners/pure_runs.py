"""Plans with Laplace noise along one attribute of many values: rows over runs where they are better than a tree.

The rows that `search/runs` finds cost epsilon 1; times a power of two they are rounded down to whole numbers, and the
noise is as large as these cost. So the price is exact, and every variance is that of the whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.candidates import Candidate
from residua.plans.contract import Plan
from residua.plans.noise import LARGEST_SCALE
from residua.plans.objectives import TotalVariance
from residua.plans.operators.buckets import NestedBuckets
from residua.plans.operators.shapes import Asked
from residua.plans.planners.along import asked_along
from residua.plans.planners.ending import relative_gap
from residua.plans.planners.offers import Task
from residua.plans.planners.outline import products_of
from residua.plans.planners.pure_tree import pure_tree
from residua.plans.product.plan import ProductPlan
from residua.plans.search.runs import Weighted, weighted_runs
from residua.plans.tolerances import BUDGET_SLACK
from residua.privacy import PureDP

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
            made.append(_made(task, along.attribute, each, asked, tree))
    return _best(task, made, asked, tree) if made else tree


def _made(task: Task, attribute: int, found: Weighted, asked: Asked, tree: ProductPlan) -> ProductPlan:
    """Whole rows with the noise that the budget, or the wanted loss, asks for."""
    guarantee, epsilon = task.guarantee, tree.epsilon
    for _ in range(2):  # the price of the unit, or the loss, is known once there is a plan
        rows, scales = _whole(found.rows, epsilon)
        domain = task.workload.domain
        buckets = NestedBuckets(int(domain.sizes[attribute]), rows, scales)
        plan = ProductPlan(
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
    return plan.replaced(parts={(): replace(buckets, scales=scales / factor)})


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
