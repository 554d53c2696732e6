"""Plans for hierarchies with many values: levels of one attribute, crossed with tables of short attributes.

By the strategy of another plan, only how precisely each set S of short attributes is measured is chosen: a table's
variance is `Σ_S a_S / c_S`, c_S being the factor of set S on the other plan's precisions, and a leaf pays
`Σ_S c_S κ_S`, at most: the best factors go by the root (`RootGame`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.tree import Levels
from residua.plans.contract import Plan
from residua.plans.noise import NORMAL
from residua.plans.objectives import MaxVariance, Scaled, TotalVariance, described
from residua.plans.operators.nesting import Nodes, nesting_of
from residua.plans.operators.tree import TreeNodes, nodes_of
from residua.plans.planners.along import asked_along
from residua.plans.planners.ending import finished, relative_gap
from residua.plans.planners.forecast import Forecast
from residua.plans.planners.offers import Declared, Offer, Planner, Proof, Task
from residua.plans.planners.outline import MOST_SHORT, Outline, asked_tables, nested_attribute, outlined, products_of
from residua.plans.planners.pure_tree import LONG, pure_runs, pure_tree
from residua.plans.product.facts import coefficient
from residua.plans.product.plan import ProductPlan
from residua.plans.saddle import RootGame, least_maximum
from residua.plans.solver.nested import NestedSolution, best_largest, best_total
from residua.plans.tolerances import CORRELATED_SLACK

MANY = 1025  # values: below, dense plans of hierarchies are quick, a little better, and combine with every other plan
_ROUNDING = 1e-8  # of a loss: rounding to integers adds less
_SECONDS, _BYTES = 1e-5, 200.0  # per node above the finest level and set: to plan it


@dataclass(frozen=True)
class Tree(Planner[Plan]):
    """A plan over the levels of one attribute: for hierarchies, levels and values, crossed with short attributes.

    Hierarchies of many values get this form by themselves; say it for shorter ones.

    Args:
        precisions: `"node"`, a precision for each node, within a thousandth of the best possible; or `"level"`, one for
            each level, about a hundredth above it, priced by one sum of fractions; always so with Laplace noise.
        like: a plan over the same tree whose strategy to use, set of short attributes by set, so that `common`,
            `residual`, `top_up` and sessions work over any number of values; only how precisely each set is measured
            is then chosen. Plan the sum of the workloads first, and then each of them like that.
    """

    declares = (
        Declared(
            f"levels and values of an attribute of {MANY} values or more, alone or by up to {MOST_SHORT} others",
            "total, largest",
            "normal",
            Proof.EVERY,
            "in proportion to the nodes and sets of the others",
        ),
        Declared(
            f"prefixes, ranges and values, or levels, of an attribute of {LONG} values or more",
            "total, largest",
            "laplace",
            Proof.LOOSE,
            "in proportion to the values; seconds for rows over runs",
        ),
    )

    precisions: Literal["node", "level"] = "node"
    like: Plan | None = None

    def offer(self, task: Task) -> Offer | None:
        """Where levels of many values are asked; with Laplace noise, also prefixes and ranges of many."""
        proof = Proof.LOOSE if task.laplace else Proof.EVERY
        if not task.requested and not (self._laplace_by_itself(task) if task.laplace else self._by_itself(task)):
            return None
        longest = int(task.workload.domain.sizes.max())
        return Offer(proof, Forecast(longest * _SECONDS, 0.0, f"a tree of {longest:,} values"), task)

    def _by_itself(self, task: Task) -> bool:
        known = isinstance(task.objective, TotalVariance | MaxVariance)
        return known and nested_attribute(task.workload, least=MANY) is not None

    def _laplace_by_itself(self, task: Task) -> bool:
        if task.workload.plain:
            return False
        along = asked_along(task.workload)
        ordered = along is not None and not along.levels and along.size >= LONG
        return ordered or nested_attribute(task.workload, LONG) is not None

    def plan(self, task: Task) -> Plan | None:
        """The best plan over the tree.

        Raises:
            PlanError: the workload or the objective is not of this kind.
        """
        if not task.requested and task.laplace:
            return pure_runs(task)
        if self.precisions not in ("node", "level"):
            raise PlanError(f"precisions={self.precisions!r} is not 'node' or 'level'.")
        if task.laplace:
            return self._laplace(task)
        attribute = nested_attribute(task.workload, least=1 if task.requested else MANY)
        if attribute is None:
            raise PlanError(
                "form=rs.Tree() is for levels and values of one attribute, crossed with values of at most "
                f"{MOST_SHORT} others; leave the form out."
            )
        made = plan_tree(task, attribute, each=self.precisions, like=self.like)
        if made is None:
            raise PlanError(
                "form=rs.Tree() is for total variance, the largest variance, or targets; leave minimise out."
            )
        return made

    def _laplace(self, task: Task) -> ProductPlan:
        if self.like is not None:
            raise PlanError("like is for plans with Gaussian noise, which combine with others; leave it out.")
        made = pure_tree(task, least=2)
        if made is None:
            raise PlanError(
                "form=rs.Tree() with Laplace noise is for prefixes, ranges and values of one attribute, or for its "
                "levels; leave the form out."
            )
        return made


def plan_tree(
    task: Task, attribute: int, each: Literal["node", "level"] = "node", like: Plan | None = None
) -> ProductPlan | None:
    """The best plan over the levels of an attribute; None where the objective is not of that kind.

    Args:
        task: what the plan is for.
        attribute: the attribute with levels.
        each: what has a precision of its own.
        like: whose strategy to use.
    """
    if not isinstance(task.objective, TotalVariance | MaxVariance):
        return None
    outline = outlined(task, attribute)
    nodes = sum(sum(part.tree.sizes) for part in outline.problem.parts)
    Forecast(nodes * _SECONDS, nodes * _BYTES, f"a tree of {outline.nesting.sizes[0]:,} values").check()
    if isinstance(task.objective, TotalVariance):
        solution = best_total(outline.problem, each, task.effort.tolerance, task.effort.progress)
    else:
        over: Literal["nodes", "levels"] = "nodes" if task.objective.over == "queries" else "levels"
        solution = best_largest(outline.problem, each, over, task.effort.tolerance, task.effort.progress)
    if like is not None:
        return _like(task, attribute, like, solution.bound)
    return _made(task, attribute, outline, solution)


def _like(task: Task, attribute: int, like: Plan, bound: float) -> ProductPlan:
    """The best plan by the strategy of another; its gap is against all plans."""
    first = _by_strategy(
        like, task, asked_tables(task, attribute, nesting_of(like.domain[like.domain.names[attribute]]))
    )
    made = first.replaced(
        guarantee=task.guarantee,
        unit=task.unit,
        workload=products_of(task.workload),
        objective=described(task.objective),
    )
    return _priced(task, made.replaced(gap=relative_gap(_loss(task, made) * made.pcost, bound) + _ROUNDING))


def _made(task: Task, attribute: int, outline: Outline, solution: NestedSolution) -> ProductPlan:
    parts = {
        members: TreeNodes(outline.nesting, start, _on_all_levels(outline, start, levels))
        for members, start, levels in zip(outline.sets, outline.starts, solution.precisions, strict=True)
    }
    made = ProductPlan.along(
        task.workload.domain,
        attribute,
        parts,
        task.guarantee,
        task.unit,
        products_of(task.workload),
        described(task.objective),
        gap=relative_gap(solution.loss, solution.bound) + _ROUNDING,
    )
    return _priced(task, made)


def _priced(task: Task, made: ProductPlan) -> ProductPlan:
    """The plan with precisions for the budget, or for the loss that was asked for."""
    reach = task.unit.contribution
    exact = reach is not None and not reach.limits
    made = made.replaced(gap=made.gap if exact else math.inf)
    if task.allowed is not None:
        return finished(made, task, 0.0, slack=CORRELATED_SLACK)
    return finished(made, task, _loss(task, made), slack=1.0 / (1.0 + _ROUNDING))


def _loss(task: Task, made: ProductPlan) -> float:
    """What is to be small, of a plan."""
    if isinstance(task.objective, TotalVariance):
        return made.total_variance(products_of(task.workload))
    over = task.objective.over if isinstance(task.objective, MaxVariance) else "queries"
    return max(
        float(_variances(made, short, level).max() if over == "queries" else _variances(made, short, level).mean())
        / target
        for short, level, _, target in asked_tables(task, made.attribute, nesting_of(made.domain[made.name]))
    )


def _variances(made: ProductPlan, short: tuple[int, ...], level: int) -> Floats:
    """The variance of a cell of each node's table, (nodes,)."""
    sizes = made.domain.sizes.tolist()
    parts = (
        coefficient(members, short, sizes) * nodes.variances_along(Nodes(level))
        for members, nodes in nodes_of(made).items()
        if set(members) <= set(short)
    )
    return np.asarray(sum(parts))


def _on_all_levels(outline: Outline, start: int, levels: Levels) -> tuple[Floats, ...]:
    """Precisions of asked levels on all of them, 0 where nothing is measured; of the finest level by parent."""
    nesting = outline.nesting
    own = [level for level in outline.levels if level >= start]
    found: list[Floats] = []
    for level in range(start, nesting.root + 1):
        if level not in own:
            found.append(np.zeros(1))
            continue
        each = np.asarray(levels[own.index(level)])
        each = each.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
        if level == start and len(each) > 1 and level < nesting.root:
            each = _by_parent(outline, start, each)
        found.append(each)
    return tuple(found)


def _by_parent(outline: Outline, start: int, each: Floats) -> Floats:
    """Precisions of the finest level, one per node of the next declared level."""
    nesting = outline.nesting
    if start == outline.levels[0]:  # one per node of the next asked level
        above = outline.levels[1]
        return each[nesting.between(start + 1, above)]
    least = np.full(nesting.sizes[start + 1], np.inf)  # one per node: children of one parent differ little
    np.minimum.at(least, nesting.parents[start], each)
    return least


# ---- by the strategy of another plan


def _by_strategy(like: Plan, task: Task, tables: Sequence[tuple[tuple[int, ...], int, float, float]]) -> ProductPlan:
    """A plan for some tables (short attributes, level, weight, target) by the strategy of `like`, at some budget.

    Raises:
        PlanError: no plan over a tree with Gaussian noise, another domain, or levels that it does not measure.
    """
    trees = nodes_of(like) if isinstance(like, ProductPlan) else {}
    if not isinstance(like, ProductPlan) or not trees or like.noise != NORMAL:
        raise PlanError(f"like={like!r} is not a plan over a tree with Gaussian noise; plan it with form=rs.Tree().")
    if like.domain != task.workload.domain:
        raise PlanError("like is a plan over another domain; plan over one domain.")
    places = {members: number for number, members in enumerate(trees)}
    largest = isinstance(task.objective, MaxVariance) and task.objective.over == "queries"
    sizes = like.domain.sizes.tolist()
    squares = np.zeros((len(tables), len(trees)))
    for at, (short, level, _, _) in enumerate(tables):
        for chosen in range(2 ** len(short)):
            members = tuple(i for k, i in enumerate(short) if chosen >> k & 1)
            if any(sizes[i] == 1 for i in members):
                continue
            if members not in trees or trees[members].start > level:
                names = ", ".join(like.domain.names[i] for i in (like.attribute, *members))
                raise PlanError(
                    f"like sees too little of {names} for what is asked here; plan the sum of the workloads first, and "
                    "then each of them like that."
                )
            nodes = trees[members]
            variance = nodes.variances_along(Nodes(level)).max() if largest else nodes.mean_along(Nodes(level))
            squares[at, places[members]] = coefficient(members, short, sizes) * float(variance)
    prices = np.array([like.with_parts({members: each}).pcost for members, each in trees.items()])
    game = RootGame(squares * prices)
    if isinstance(task.objective, MaxVariance):
        targets, effort = np.array([target for *_, target in tables]), task.effort
        noise = least_maximum(
            game, Scaled(1.0 / targets), len(targets), effort.tolerance, effort.limit, effort.progress
        ).noise
    else:
        levels = next(iter(trees.values())).nesting.sizes
        cells = [float(np.prod([sizes[i] for i in short])) * levels[level] for short, level, *_ in tables]
        noise = game.respond(np.array([weight for _, _, weight, _ in tables]) * cells)[0]
    factors = 1.0 / (noise * prices)
    return like.with_parts(
        {m: each.scaled(float(factors[k])) for k, (m, each) in enumerate(trees.items()) if squares[:, k].any()}
    )
