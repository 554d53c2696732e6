"""Plans of long ordered attributes crossed with others: correlated noise along the long ones, one plan for all tables.

Every long attribute gets the noise that is best for what is asked along it (`solver/ordered.py`), every other one the
strategy of a stand-in workload in which the long ones are short; then the noise on all blocks is best for these
strategies (`solver/maxima.py`), whatever tables without the long attributes are asked too. Nothing larger than one axis
or one block's price is ever formed.

The certificate: weights `q ⊗ uniform` on cells split the Gram matrix of the whole workload by sets S of the attributes
that are asked by their values, each times a matrix along the axis, `g_S G + h_S 11ᵀ` with G that of prefixes: again one
of prefixes, the last with more weight. So `(Σ_S dim_S tr (Q^½ (g_S G + h_S 11ᵀ) Q^½)^½)²` bounds every plan, in passes.

Plans along one long axis crossed with short attributes: each set of these has correlated noise of its own.

One noise for all blocks is best where all ask the same of the axis. Where levels are crossed with more attributes than
prefixes are, or values with others than ranges, each set of the other attributes has a Gram matrix of its own along the
axis, and the optimum over all plans is one noise for each, with common weights on the cells (`solver/ordered.py`). The
axis alone is the case of one set, the empty one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from residua.domain import Domain, Integers
from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.linalg.lattice import Set, subsets
from residua.plans.objectives import MaxVariance, TotalVariance, check_objective, of_queries
from residua.plans.operators.contract import Operator
from residua.plans.operators.correlated import Asked, Ordered, terms_of
from residua.plans.operators.path import ROUNDING, CorrelatedPath
from residua.plans.operators.tree import total_alone
from residua.plans.planners import crossed_noise
from residua.plans.planners.along import asked_by, check_axis, kinds_of
from residua.plans.planners.offers import Task, finished, proven_gap, relative_gap
from residua.plans.planners.products import best_noise, facts_of, of_sets, plan_products
from residua.plans.product.facts import coefficient
from residua.plans.product.plan import ProductPlan
from residua.plans.saddle import Solution
from residua.plans.solver.ordered import least_of_parts
from residua.plans.strategy import Plain, Strategy
from residua.plans.tolerances import CORRELATED_SLACK
from residua.privacy import GDP, AddRemove, Unit
from residua.workload import KINDS, AttributeQueries, Workload

LONG = 512  # values, crossed with others; below, the lattice form is quick, and knows more of persons
LONG_WITH_MORE = 1025  # where persons are limited in each value, or levels are asked too: others are slow beyond
MOST_CROSSED = 1024  # values of an axis that is crossed with others and measured like a short attribute
MOST_FIELD = 2**21  # cells of two axes along both of which noise is correlated
_STAND_IN = 48  # values of a long attribute while the others' strategies are sought
_NEAR = 0.02  # of the best: above it, noise of its own for each set of the other attributes is tried


def long_axes(workload: Workload, unit: Unit, *, least: int = LONG) -> tuple[int, ...]:
    """Positions of the attributes along which noise is to be correlated: long, and asked by their order.

    Levels may be asked beside it, but for records that are replaced: noise shaped for groups has no good price then.
    """
    axes = []
    for i, n in enumerate(workload.domain.sizes.tolist()):
        if n < least or workload.domain[workload.domain.names[i]].has_other:
            continue
        several = [kinds_of(family.queries[i]) for family in workload.families if i in family.used]
        kinds = {None if kind is None else kind.along for each in several for kind in each or (None,)}
        levels_fit = "groups" not in kinds or unit.contribution is not None
        if kinds & {"prefixes", "ranges"} and None not in kinds and levels_fit:
            axes.append(i)
    return tuple(axes)


def crosses(task: Task) -> tuple[int, ...]:
    """The long attributes of a workload that crosses them with others, where noise along them is chosen unasked."""
    if not task.workload.with_rows or not isinstance(task.objective, TotalVariance | MaxVariance):
        return ()
    if len(task.workload.lattice.used) < 2:  # one attribute alone has a form of its own
        return ()
    axes, limited = long_axes(task.workload, task.unit), task.reach.limits if task.reach else {}
    return () if any(i in limited for i in _short_of(task.workload, axes)) else axes


def _short_of(workload: Workload, axes: Sequence[int]) -> list[int]:
    """The axes that other forms plan too, not too slowly."""
    return [i for i in axes if workload.domain.sizes[i] < LONG_WITH_MORE]


def crossed_by_itself(task: Task) -> ProductPlan | None:
    """The plan along long attributes, where there are some and this form is better than the lattice's own."""
    axes = crosses(task)
    if not axes:
        return None
    if len(axes) == 1 and task.by_cells and _by_sets(task, axes[0]) is not None:
        return _near_or_apart(task, axes[0])
    plan = plan_crossed(task, uncrossed(task.workload, axes))
    by_levels = {i for each in task.workload.families for i in each.used if each.queries[i].by_levels}
    if plan.gap > _NEAR and by_levels & set(_short_of(task.workload, axes)):
        return None  # a strategy for each block is better, and not too slow
    return plan


def _near_or_apart(task: Task, axis: int) -> ProductPlan | None:
    """The plan with one noise, which combines with others, where that is near the best; else noise of its own for each.

    Whether it is near is seen soon: a rough plan decides where it is far.
    """
    rough = replace(task, effort=replace(task.effort, tolerance=max(2 * _NEAR, task.effort.tolerance)))
    one = plan_crossed(rough, [axis])
    if one.gap <= _NEAR + rough.effort.tolerance:
        one = plan_crossed(task, [axis])
    return one if one.gap <= _NEAR else plan_by_sets(task, axis)


def crossed_by_request(task: Task, names: Sequence[str] = (), *, apart: bool = False) -> ProductPlan | None:
    """The same on axes of any length: those named, the long ones, or else the longest that is asked by its order.

    Args:
        task: what the plan is for.
        names: of the axes.
        apart: whether each set of the other attributes shall have noise of its own.

    Raises:
        PlanError: an attribute that is not asked by its order, or a workload that cannot be planned apart.
    """
    domain = task.workload.domain
    axes, possible = long_axes(task.workload, task.unit), long_axes(task.workload, task.unit, least=2)
    if names:
        axes = domain.positions(names)
        for i in axes:
            if i not in possible:
                raise PlanError(
                    f"attributes: {named(domain.names[i])} is not asked by prefixes, ranges, values and levels of "
                    "neighbours alone, or has a cell for other values; leave it out."
                )
    elif not possible or not isinstance(task.objective, TotalVariance | MaxVariance):
        return None
    axes = axes or (max(possible, key=lambda i: int(domain.sizes[i])),)
    if not apart:
        return plan_crossed(task, uncrossed(task.workload, axes))
    plan = plan_by_sets(task, axes[0]) if len(axes) == 1 else None
    if plan is None:
        raise PlanError(
            "apart=True is for one axis whose other attributes are asked by their values, in at most "
            f"{MOST_SETS} sets, for total variance, and for records that are added or removed; leave it out."
        )
    return plan


def uncrossed(workload: Workload, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes, but for those that are crossed with others so that noise along all of them cannot be drawn.

    Noise is correlated along two axes at most, of not too many cells together; a third, or the shorter of two, is then
    measured like short attributes.

    Raises:
        PlanError: one that is too long for that.
    """
    sizes = workload.domain.sizes
    kept: list[int] = []
    for i in sorted(axes, key=lambda each: -int(sizes[each])):
        crossed = [[j for j in kept if j in row] for row in workload.lattice if i in row]
        most = max((len(row) for row in crossed), default=0)
        cells = max((int(sizes[i]) * math.prod(int(sizes[j]) for j in row) for row in crossed if row), default=0)
        if most <= 1 and cells <= MOST_FIELD:
            kept.append(i)
        elif int(sizes[i]) > MOST_CROSSED:
            names = [workload.domain.names[j] for j in (*sorted({j for row in crossed for j in row}), i)]
            raise PlanError(
                f"{' and '.join(map(repr, names))} are crossed with each other, and none has at most {MOST_CROSSED:,} "
                f"values, nor all together at most {MOST_FIELD:,}; group the values of one (rs.Bins, levels), or ask "
                "for them one by one."
            )
    return tuple(sorted(kept))


def plan_crossed(task: Task, axes: Sequence[int], given: Sequence[Strategy | None] | None = None) -> ProductPlan:
    """The best plan with correlated noise along some attributes.

    Args:
        task: what the plan is for.
        axes: positions of the long attributes.
        given: for each attribute a strategy to keep, or None to choose one.

    Raises:
        PlanError: two long attributes crossed with each other, or an objective of another kind.
    """
    workload, sizes = task.workload, task.workload.domain.sizes
    check_objective(task.objective, workload, laplace=False, matrix=False)
    check_axis(int(sizes[list(axes)].max()))
    kept = list(given) if given is not None else [None] * len(sizes)
    tried = [crossed_noise.with_axes(task, axes, _short_strategies(task, axes, kept), kept)]
    if isinstance(task.objective, MaxVariance) and of_queries(task.objective):
        tried.append(crossed_noise.with_quiet_axes(task, task.objective, tried[0], kept))
    solved = [
        (each, best_noise(task, crossed_noise.game_of(workload, each), partial(facts_of, workload, each)))
        for each in dict.fromkeys(tried)
    ]
    strategies, solution = min(solved, key=lambda both: both[1].loss)
    plan = of_sets(task, strategies, solution)
    plan = plan.replaced(gap=_gap(plan, task, solution))
    return finished(plan, task, solution.loss * (1 + ROUNDING), slack=CORRELATED_SLACK)


def _short_strategies(task: Task, axes: Sequence[int], kept: Sequence[Strategy | None]) -> list[Strategy]:
    """Strategies of the attributes that are not long: plain ones where values are asked, else those of a stand-in."""
    workload = task.workload
    asked = {i for family in workload.families for i in family.used if not family.queries[i].plain}
    wanted = [i for i in asked if i not in axes and kept[i] is None]
    strategies: list[Strategy] = [kept[i] or Plain(int(n)) for i, n in enumerate(workload.domain.sizes.tolist())]
    if wanted:
        small = _stand_in(workload, axes)
        quick = replace(task, workload=small, guarantee=GDP(1.0), objective=TotalVariance(), tolerance=None)
        kept_short = [None if i in axes else one for i, one in enumerate(kept)]
        chosen = plan_products(quick, kept_short if any(kept_short) else None).strategies
        for i in wanted:
            strategies[i] = chosen[i]
    return strategies


def _stand_in(workload: Workload, axes: Sequence[int]) -> Workload:
    """The same workload with long attributes of few values, their queries as heavy together."""
    domain = workload.domain
    attributes = {
        name: Integers(0, _STAND_IN - 1) if i in axes else domain[name] for i, name in enumerate(domain.names)
    }
    small = Domain(attributes)
    families = []
    for family in workload.families:
        queries, factors = list(family.queries), np.ones(len(domain))
        for i in axes:
            word = family.queries[i].along  # levels of so few values are nearly values
            queries[i] = KINDS[word if word in ("prefixes", "ranges") else "identity"](_STAND_IN)
            factors[i] = family.queries[i].rows / queries[i].rows
        weights = family.weights * workload.lattice.products(factors)[family.numbers]
        families.append(replace(family, weights=weights, queries=tuple(queries)))
    return Workload.of_families(small, workload.lattice, families)


def _gap(plan: ProductPlan, task: Task, solution: Solution) -> float:
    """How far the plan is from the best, as far as that is proven; the rounding of running sums counted.

    The largest variance is at least every mean of variances: nature's weights on terms, the same for all of a term's
    queries, prove a bound on it too.
    """
    workload, objective = task.workload, task.objective
    if not task.by_cells:
        return math.inf
    if isinstance(objective, MaxVariance):
        by_means = objective.solve(workload, crossed_noise.game_of(workload, plan.strategies), task.effort).proof
        scales = objective.scales(workload)
        bound = max(
            crossed_noise.least_mean(workload, mass, scales, plan.strategies) for mass in (solution.proof, by_means)
        )
    else:
        bound = crossed_noise.least_of_all(workload, plan.strategies)
    return relative_gap(solution.loss * plan.pcost, bound) + ROUNDING


# ---- noise of its own for each set of the other attributes


SplitBySets = tuple[dict[Set, list[tuple[AttributeQueries, float]]], dict[Set, float]]
MOST_SETS = 256  # of the other attributes
_COARSE = 1e-3  # error of the rational functions while weights of cells are sought
_TINY = 1 / 40  # of the tolerance: what prefixes cost that are measured only so that all values are


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
    parts.update({members: total_alone(n, factor(members, size)) for members, size in totals.items()})
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
    return crossed_noise.least_of_all(task.workload, strategies)


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
        tiny = (_TINY * tolerance * crossed_noise.trace_of_groups(n, asked, even) / of_prefixes) ** 2
        asked = replace(asked, prefixes=tiny)
    groups = tuple((first, last, _rounded(weight)) for first, last, weight in asked.groups)
    prefixes, ranges, values = (_rounded(each) for each in (asked.prefixes, asked.ranges, asked.values))
    return Asked(prefixes, ranges, values, groups=groups), size


def _rounded(weight: float | tuple[float, ...]) -> float:
    """A weight to twelve digits, so that sets that ask alike are found to."""
    assert isinstance(weight, float)
    return float(f"{weight:.12g}")
