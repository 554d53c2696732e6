"""Plans for hierarchies with many values: levels of one attribute, crossed with tables of short attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.tree import Levels
from residua.plans.contract import Plan
from residua.plans.forms import Form, Task
from residua.plans.noise import guarantee_like
from residua.plans.objectives import MaxVariance, TotalVariance, described
from residua.plans.planners.forecast import Forecast
from residua.plans.planners.outline import MOST_SHORT, Outline, asked_tables, nested_attribute, outlined, products_of
from residua.plans.planners.pure_tree import pure_tree
from residua.plans.planners.tree_like import by_strategy
from residua.plans.solver.nested import NestedSolution, best_largest, best_total
from residua.plans.tree.facts import coefficient
from residua.plans.tree.nesting import nesting_of
from residua.plans.tree.plan import TreePlan
from residua.privacy import ZCDP

MANY = 1025  # values: below, dense plans of hierarchies are quick, a little better, and combine with every other plan
_SLACK = 1 - 2.0**-30
_SECONDS, _BYTES = 1e-5, 200.0  # per node above the finest level and set: to plan it


@dataclass(frozen=True)
class Tree(Form):
    """A plan over the levels of one attribute: for hierarchies, levels and values, crossed with short attributes.

    Hierarchies of many values get this form by themselves; say it for shorter ones.

    Args:
        precisions: `"node"`, a precision for each node, within a thousandth of the best possible; or `"level"`, one for
            each level, about a hundredth above it, priced by one sum of fractions; always so with Laplace noise.
        like: a plan over the same tree whose strategy to use, set of short attributes by set, so that `common`,
            `residual`, `top_up` and sessions work over any number of values; only how precisely each set is measured
            is then chosen. Plan the sum of the workloads first, and then each of them like that.
    """

    precisions: Literal["node", "level"] = "node"
    like: Plan | None = None

    def plan(self, task: Task) -> TreePlan:
        """The best plan over the tree.

        Raises:
            PlanError: the workload or the objective is not of this kind.
        """
        if self.precisions not in ("node", "level"):
            raise PlanError(f"precisions={self.precisions!r} is not 'node' or 'level'.")
        if task.laplace:
            return self._laplace(task)
        attribute = nested_attribute(task.workload, least=1)
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

    def _laplace(self, task: Task) -> TreePlan:
        if self.like is not None:
            raise PlanError("like is for plans with Gaussian noise, which combine with others; leave it out.")
        made = pure_tree(task, least=2)
        if made is None:
            raise PlanError(
                "form=rs.Tree() with Laplace noise is for prefixes, ranges and values of one attribute, or for its "
                "levels; leave the form out."
            )
        return made


def tree_by_itself(task: Task) -> int | None:
    """The attribute over whose levels a plan is made unasked; None where there is none, or not many values."""
    return nested_attribute(task.workload, least=MANY)


def plan_tree(
    task: Task, attribute: int, each: Literal["node", "level"] = "node", like: Plan | None = None
) -> TreePlan | None:
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


def _like(task: Task, attribute: int, like: Plan, bound: float) -> TreePlan:
    """The best plan by the strategy of another; its gap is against all plans."""
    first = by_strategy(
        like, task, asked_tables(task, attribute, nesting_of(like.domain[like.domain.names[attribute]]))
    )
    made = first.replaced(
        guarantee=task.guarantee,
        unit=task.unit,
        workload=products_of(task.workload),
        objective=described(task.objective),
    )
    return _priced(task, made.replaced(gap=max(_loss(task, made) * made.pcost / bound - 1.0, 0.0) + 1e-8))


def _made(task: Task, attribute: int, outline: Outline, solution: NestedSolution) -> TreePlan:
    found = []
    for start, levels in zip(outline.starts, solution.precisions, strict=True):
        found.append(_on_all_levels(outline, start, levels))
    made = TreePlan(
        task.workload.domain,
        attribute,
        tuple(outline.sets),
        tuple(outline.starts),
        tuple(found),
        task.guarantee,
        task.unit,
        products_of(task.workload),
        described(task.objective),
        gap=max(solution.loss / solution.bound - 1.0, 0.0) + 1e-8,
    )
    return _priced(task, made)


def _priced(task: Task, made: TreePlan) -> TreePlan:
    """The plan with precisions for the budget, or for the loss that was asked for."""
    unit_cost = made.unit_pcost
    factor = task.allowed * _SLACK / unit_cost if task.allowed is not None else _wanted_factor(task, made)
    reach = task.unit.contribution
    exact = reach is not None and not reach.limits
    made = made.replaced(
        precisions=tuple(tuple(each * factor for each in levels) for levels in made.precisions),
        gap=made.gap if exact else math.inf,
    )
    if task.guarantee is None:
        made = made.replaced(guarantee=guarantee_like(ZCDP(1.0), made.unit_pcost))
    return made


def _wanted_factor(task: Task, made: TreePlan) -> float:
    """By how much the precisions are to be multiplied for the loss that was asked for."""
    return _loss(task, made) / task.loss * (1.0 + 1e-8)  # rounding to integers adds less


def _loss(task: Task, made: TreePlan) -> float:
    """What is to be small, of a plan."""
    if isinstance(task.objective, TotalVariance):
        return made.total_variance(products_of(task.workload))
    over = task.objective.over if isinstance(task.objective, MaxVariance) else "queries"
    return max(
        float(_variances(made, short, level).max() if over == "queries" else _variances(made, short, level).mean())
        / target
        for short, level, _, target in asked_tables(task, made.attribute, made.nesting)
    )


def _variances(made: TreePlan, short: tuple[int, ...], level: int) -> Floats:
    """The variance of a cell of each node's table, (nodes,)."""
    sizes = made.domain.sizes.tolist()
    parts = (
        coefficient(facts.members, short, sizes) * facts.of_nodes(level, facts.solved.V)
        for facts in made.facts
        if set(facts.members) <= set(short)
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
