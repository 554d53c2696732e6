"""Plans for hierarchies with many values: levels of one attribute, crossed with tables of short attributes.

By the strategy of another plan, only how precisely each set S of short attributes is measured is chosen: a table's
variance is `Σ_S a_S / c_S`, c_S being the factor of set S on the other plan's precisions, and a leaf pays
`Σ_S c_S κ_S`, at most: the best factors go by the root (`Spending.apart`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.tree import Levels
from residua.plans.contract import Plan
from residua.plans.objectives import MaxVariance, TotalVariance, least_ratio, of_queries
from residua.plans.operators.nesting import Nodes
from residua.plans.operators.tree import TreeNodes, nodes_of
from residua.plans.planners import offers
from residua.plans.planners.along import asked_along
from residua.plans.planners.outline import MOST_SHORT, Outline, nested_attribute, outlined
from residua.plans.planners.pure_tree import LONG, pure_runs, pure_tree
from residua.plans.product.plan import ProductPlan
from residua.plans.solver.closed_form import Spending
from residua.plans.solver.maxima import QueryGame
from residua.plans.solver.nested import best_largest, best_total
from residua.plans.tolerances import CORRELATED_SLACK

MANY = 1025  # values: below, dense plans of hierarchies are quick, a little better, and combine with every other plan
_ROUNDING = 1e-8  # of a loss: rounding to integers adds less
_SECONDS, _BYTES = 1e-5, 200.0  # per node above the finest level and set: to plan it


@dataclass(frozen=True)
class Tree(offers.Planner[Plan]):
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
        offers.Declared(
            f"levels and values of an attribute of {MANY} values or more, alone or by up to {MOST_SHORT} others",
            "total, largest",
            "normal",
            offers.Proof.EVERY,
            "in proportion to the nodes and sets of the others",
        ),
        offers.Declared(
            f"prefixes, ranges and values, or levels, of an attribute of {LONG} values or more",
            "total, largest",
            "laplace",
            offers.Proof.LOOSE,
            "in proportion to the values; seconds for nested buckets",
        ),
    )

    precisions: Literal["node", "level"] = "node"
    like: Plan | None = None

    def offer(self, task: offers.Task) -> offers.Offer | None:
        """Where levels of many values are asked; with Laplace noise, also prefixes and ranges of many."""
        if not task.requested and not self._by_itself(task):
            return None
        proof, longest = (
            offers.Proof.LOOSE if task.laplace else offers.Proof.EVERY,
            int(task.workload.domain.sizes.max()),
        )
        return offers.Offer(proof, offers.Forecast(longest * _SECONDS, 0.0, f"a tree of {longest:,} values"), task)

    def _by_itself(self, task: offers.Task) -> bool:
        """Whether this form is chosen unasked."""
        if not task.laplace:
            known = isinstance(task.objective, TotalVariance | MaxVariance)
            return known and nested_attribute(task.workload, least=MANY) is not None
        along = asked_along(task.workload)
        ordered = along is not None and not along.levels and along.size >= LONG
        return not task.workload.plain and (ordered or nested_attribute(task.workload, LONG) is not None)

    def plan(self, task: offers.Task) -> Plan | None:
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
        if not isinstance(task.objective, TotalVariance | MaxVariance):
            raise PlanError(
                "form=rs.Tree() is for total variance, the largest variance, or targets; leave minimise out."
            )
        return plan_tree(task, attribute, self.precisions, self.like)

    def _laplace(self, task: offers.Task) -> ProductPlan:
        if self.like is not None:
            raise PlanError("like is for plans with Gaussian noise, which combine with others; leave it out.")
        plan = pure_tree(task, least=2)
        if plan is None:
            raise PlanError(
                "form=rs.Tree() with Laplace noise is for prefixes, ranges and values of one attribute, or for its "
                "levels; leave the form out."
            )
        return plan


def plan_tree(task: offers.Task, attribute: int, each: Literal["node", "level"], like: Plan | None) -> ProductPlan:
    """The best plan over the levels of an attribute.

    Args:
        task: what the plan is for: total variance, or the largest.
        attribute: the attribute with levels.
        each: what has a precision of its own.
        like: whose strategy to use.
    """
    outline, effort = outlined(task, attribute), task.effort
    nodes = sum(sum(part.tree.sizes) for part in outline.problem.parts)
    offers.Forecast(nodes * _SECONDS, nodes * _BYTES, f"a tree of {outline.nesting.sizes[0]:,} values").check()
    if isinstance(task.objective, TotalVariance):
        solution = best_total(outline.problem, each, effort.tolerance, effort.progress)
    else:
        over: Literal["nodes", "levels"] = "nodes" if of_queries(task.objective) else "levels"
        solution = best_largest(outline.problem, each, over, effort.tolerance, effort.progress)
    if like is None:
        parts = {
            members: TreeNodes(outline.nesting, start, _on_all_levels(outline, start, levels))
            for (members, start), levels in zip(outline.starts.items(), solution.plan, strict=True)
        }
        plan = ProductPlan.along(task.workload.domain, attribute, parts, **task.stated)
        loss, achieved = None, solution.loss
    else:
        plan = _by_strategy(like, task, outline).replaced(**task.stated)
        loss = _loss(task, plan, outline)
        achieved = loss * plan.pcost
    plan = plan.replaced(gap=offers.proven_gap(task, achieved, solution.bound, _ROUNDING))
    if task.allowed is not None:
        return offers.finished(plan, task, 0.0, slack=CORRELATED_SLACK)
    return offers.finished(plan, task, loss or _loss(task, plan, outline), slack=1.0 / (1.0 + _ROUNDING))


def _loss(task: offers.Task, plan: ProductPlan, outline: Outline) -> float:
    """What is to be small, of a plan."""
    if isinstance(task.objective, TotalVariance):
        return plan.total_variance(task.workload)
    largest = np.max if of_queries(task.objective) else np.mean
    trees, ratios = nodes_of(plan), []
    nodes = [trees[members] for members in outline.starts]
    for each in outline.problem.wanted:
        level = Nodes(outline.levels[each.level])
        ratios.append(largest(sum(share * nodes[k].variances_along(level) for k, share in each.sets)) / each.target)
    return float(max(ratios))


def _on_all_levels(outline: Outline, start: int, levels: Levels) -> tuple[Floats, ...]:
    """Precisions of asked levels on all of them, 0 where nothing is measured; of the finest level by parent."""
    nesting = outline.nesting
    own = [level for level in outline.levels if level >= start]
    precisions: list[Floats] = []
    for level in range(start, nesting.root + 1):
        if level not in own:
            precisions.append(np.zeros(1))
            continue
        each = np.asarray(levels[own.index(level)])
        each = each.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
        if level == start and len(each) > 1 and level < nesting.root:
            each = _by_parent(outline, start, each)
        precisions.append(each)
    return tuple(precisions)


def _by_parent(outline: Outline, start: int, each: Floats) -> Floats:
    """Precisions of the finest level, one per node of the next declared level."""
    nesting = outline.nesting
    if start == outline.levels[0]:  # one per node of the next asked level
        return np.asarray(each[nesting.between(start + 1, outline.levels[1])])
    least = np.full(nesting.sizes[start + 1], np.inf)  # one per node: children of one parent differ little
    np.minimum.at(least, nesting.parents[start], each)
    return least


# ---- by the strategy of another plan


def _by_strategy(like: Plan, task: offers.Task, outline: Outline) -> ProductPlan:
    """A plan for some tables by the strategy of `like`, at some budget.

    Raises:
        PlanError: no plan over a tree with Gaussian noise, another domain, or levels that it does not measure.
    """
    shared: ProductPlan = offers.checked_like(
        like, "nodes", "a plan over a tree with normal noise", task.workload.domain
    )
    trees = nodes_of(shared)
    places, starts = {members: number for number, members in enumerate(trees)}, list(outline.starts)
    wanted, largest = outline.problem.wanted, of_queries(task.objective)
    squares = np.zeros((len(wanted), len(trees)))
    for at, table in enumerate(wanted):
        level = outline.levels[table.level]
        for members, share in ((starts[k], share) for k, share in table.sets):
            if members not in trees or trees[members].start > level:
                raise offers.sees_too_little(", ".join(shared.domain.names[i] for i in (shared.attribute, *members)))
            nodes, asked = trees[members], Nodes(level)
            variance = float(nodes.variances_along(asked).max()) if largest else nodes.mean_along(asked)
            squares[at, places[members]] = share * variance
    prices = np.array([shared.with_parts({members: each}).pcost for members, each in trees.items()])
    game = QueryGame(squares, np.arange(len(squares)), Spending.apart(prices))
    if isinstance(task.objective, MaxVariance):
        noise = least_ratio(game, np.array([table.target for table in wanted]), task.effort).plan
    else:
        counts = [outline.nesting.sizes[outline.levels[table.level]] for table in wanted]
        noise = game.respond(np.array([table.weight for table in wanted]) * counts)[0]
    return shared.with_parts(
        {m: each.scaled(1.0 / float(noise[k])) for k, (m, each) in enumerate(trees.items()) if squares[:, k].any()}
    )
