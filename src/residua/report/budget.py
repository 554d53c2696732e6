"""What the budget went to: the share of the privacy cost that each part of the measurements takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, singledispatch

import numpy as np

from residua.language import say, say_many
from residua.linalg.arrays import Floats, Integers
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.contract import Plan
from residua.plans.operators.tree import nodes_of
from residua.plans.product.plan import ProductPlan
from residua.plans.strata.plan import StrataPlan

SHOWN = 12


@dataclass(frozen=True)
class Share:
    """A part of the measurements and its share of the budget, of 1."""

    title: str
    share: float
    parts: int = 1


@dataclass(frozen=True)
class Budget:
    """What the budget went to.

    Args:
        ways: by the number of attributes, by level, or by group.
        largest: the parts that take most; none where `ways` says it all.
        parts: how many parts are measured.
        words: what the budget is divided over, in a sentence.
        by: what `ways` are told by.
        each: what the parts of one of them are called.
    """

    ways: tuple[Share, ...]
    largest: tuple[Share, ...]
    parts: int
    words: str
    by: str
    each: str


@singledispatch
def budget(plan: Plan) -> Budget | None:
    """What a plan's budget goes to; None for a plan that measures one matrix, which has no parts by table."""
    return None


@budget.register
def _(plan: BlockwisePlan) -> Budget | None:
    """By block of attributes and levels: each at its most expensive cell."""
    sizes = np.array([len(block) for block in plan.blocks_of])
    part = say("A part is what a set of attributes, each at a level of its values, adds to the coarser ones.")
    return _by_size(plan.precisions, sizes, part, partial(_block_title, plan))


@budget.register
def _(plan: ProductPlan) -> Budget | None:
    if plan.attribute >= 0:
        return _of_tree(plan) if nodes_of(plan) else _of_sets(plan)
    costs, part = plan.precisions * plan.costs, say("A part is what a table adds to the smaller tables in it.")
    if plan.shares is not None:
        costs, part = plan.shares, say("A part is a table.")
    return _by_size(costs, plan.lattice.set_sizes, part, partial(_set_title, plan))


def _by_size(costs: Floats, sizes: Integers, part: str, title: Callable[[int], str]) -> Budget | None:
    """By the number of attributes of each part; only the parts that take most get a title."""
    total = float(costs.sum())
    if not total > 0:
        return None
    shares = costs / total
    measured = np.flatnonzero(shares > 0)
    ways = tuple(
        Share(_ways(int(k)), float(shares[measured][sizes[measured] == k].sum()), int((sizes[measured] == k).sum()))
        for k in np.unique(sizes[measured])
    )
    order = measured[np.argsort(-shares[measured], kind="stable")][:SHOWN]
    largest = tuple(Share(title(int(number)), float(shares[number])) for number in order)
    return Budget(ways, largest, len(measured), _divided(len(measured), part), say("attributes"), say("parts"))


def _set_title(plan: ProductPlan, number: int) -> str:
    return " × ".join(plan.domain.names[i] for i in plan.lattice.members(number)) or say("the total")


def _block_title(plan: BlockwisePlan, number: int) -> str:
    """A block in words: attributes, and how many classes each has where that is not all of its values."""
    names, words = plan.domain.names, []
    for i, level in plan.blocks_of[number]:
        classes = plan.axes[i].count(level)
        words.append(
            names[i]
            if classes == plan.axes[i].size
            else say("{name} in {classes} classes", name=names[i], classes=classes)
        )
    return " × ".join(words) or say("the total")


def _divided(parts: int, part: str) -> str:
    divided = say_many("The budget is spent on one part.", "The budget is divided over {n} parts.", parts)
    return f"{divided} {part} {say('Nothing is measured twice, and all tables are put together from the parts.')}"


def paid_by_level(plan: ProductPlan) -> Floats:
    """What a record pays on each level, from the values to the root, on average over the values; adds up to pcost."""
    trees = nodes_of(plan)
    nesting = next(iter(trees.values())).nesting
    costs = np.zeros(len(nesting.sizes))
    for members, tree in trees.items():
        # A residual on short attributes costs a record the share of its own cell in it.
        share = float(np.prod([1 - 1 / int(plan.domain.sizes[i]) for i in members])) if members else 1.0
        for level, precisions in enumerate(tree.precisions, start=tree.start):
            if precisions.size == 1:
                costs[level] += share * float(precisions.flat[0])
                continue
            over = nesting.between(0, level if precisions.size == nesting.sizes[level] else level + 1)
            costs[level] += share * float(precisions[over].mean())
    return costs


def _of_sets(plan: ProductPlan) -> Budget | None:
    """By set of short attributes along one attribute, each at its most expensive cell."""
    along = {members: (plan.name,) if each.has_values else () for members, each in plan.parts.items()}
    sets = [(*names, *(plan.domain.names[i] for i in members)) for members, names in along.items()]
    costs = np.array([plan.with_parts({members: each}).pcost for members, each in plan.parts.items()])
    sizes = np.array([len(names) for names in sets])
    whole = _by_size(costs, sizes, "", lambda number: " × ".join(sets[number]) or say("the total"))
    words = say("Noise along {name} is divided over the sets of attributes that it is crossed with.", name=plan.name)
    return None if whole is None else replace(whole, words=words)


def _of_tree(plan: ProductPlan) -> Budget | None:
    nesting, costs = next(iter(nodes_of(plan).values())).nesting, paid_by_level(plan)
    if not costs.sum() > 0:
        return None
    names = [plan.name, *(name or say("the total") for name in nesting.names[1:])]
    ways = tuple(
        Share(name, float(cost / costs.sum()), size)
        for name, cost, size in zip(names, costs, nesting.sizes, strict=True)
        if cost > 0
    )[::-1]
    words = say(
        "A record is counted in its own value and in every group that it lies in, up to the total. The levels add up, "
        "because all of them come from the same estimates. Shares are means over the values."
    )
    return Budget(ways, (), len(ways), words, say("level"), say("groups"))


@budget.register
def _(plan: StrataPlan) -> Budget | None:
    """By plan: how many groups have it, and how much of the budget each of these groups uses."""
    if not plan.pcost > 0:
        return None
    ways = [
        Share(_asked(member, number), member.pcost / plan.pcost, count)
        for number, (member, count) in enumerate(zip(plan.members, plan.counts, strict=True), 1)
        if count
    ]
    none = int((plan.chosen < 0).sum())
    if none:
        ways.append(Share(say("nothing"), 0.0, none))
    words = say(
        "Every record belongs to one group of {names}, and every group has a plan of its own. What is spent on one "
        "group takes nothing from the others.",
        names=" × ".join(plan.by_names),
    )
    return Budget(tuple(ways), (), len(ways), words, say("what is measured in a group"), say("groups"))


def _asked(plan: Plan, number: int) -> str:
    """What a plan within groups was made for, as far as that can be said in a line."""
    workload = plan.workload
    if workload is not None and workload.plain:
        tables = ", ".join(" × ".join(names) or say("the total") for names in workload.sets[:4])
        return tables + (", …" if len(workload) > 4 else "")
    return say("plan {number}", number=number)


def _ways(count: int) -> str:
    return say_many("one attribute", "{n} attributes", count) if count else say("the total")
