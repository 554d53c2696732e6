"""Plans over a tree by the strategy of another: only how precisely each set of short attributes is measured is chosen.

A table's variance is `Σ_S a_S / c_S`, c_S being the factor of set S on the other plan's precisions, and a leaf pays
`Σ_S c_S κ_S`, at most: the best factors go by the root, as for blocks (`joint_like.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.forms import Task
from residua.plans.noise import NORMAL
from residua.plans.objectives import MaxVariance, Scaled
from residua.plans.planners.joint_like import Roots
from residua.plans.saddle import least_maximum
from residua.plans.tree.facts import coefficient
from residua.plans.tree.plan import TreePlan
from residua.plans.tree.rows import Nodes

Table = tuple[tuple[int, ...], int, float, float]  # short attributes, level, weight, target


def by_strategy(like: Plan, task: Task, tables: Sequence[Table]) -> TreePlan:
    """A plan for some tables by the strategy of `like`, at some budget.

    Raises:
        PlanError: no plan over a tree with Gaussian noise, another domain, or levels that it does not measure.
    """
    if not isinstance(like, TreePlan) or like.noise != NORMAL:
        raise PlanError(f"like={like!r} is not a plan over a tree with Gaussian noise; plan it with form=rs.Tree().")
    if like.domain != task.workload.domain:
        raise PlanError("like is a plan over another domain; plan over one domain.")
    known = {facts.members: number for number, facts in enumerate(like.facts)}
    largest = isinstance(task.objective, MaxVariance) and task.objective.over == "queries"
    sizes = like.domain.sizes.tolist()
    squares = np.zeros((len(tables), len(known)))
    for at, (short, level, _, _) in enumerate(tables):
        for chosen in range(2 ** len(short)):
            members = tuple(i for k, i in enumerate(short) if chosen >> k & 1)
            if any(sizes[i] == 1 for i in members):
                continue
            number = known.get(members)
            if number is None or like.starts[number] > level:
                names = ", ".join(like.domain.names[i] for i in (like.attribute, *members))
                raise PlanError(
                    f"like sees too little of {names} for what is asked here; plan the sum of the workloads first, and "
                    "then each of them like that."
                )
            facts = like.facts[number]
            variance = facts.variances(Nodes(level)).max() if largest else facts.mean_variance(Nodes(level))
            squares[at, number] = coefficient(members, short, sizes) * float(variance)
    prices = np.array([_alone(like, number).pcost for number in range(len(known))])
    game = Roots(squares * prices)
    if isinstance(task.objective, MaxVariance):
        targets, effort = np.array([target for *_, target in tables]), task.effort
        noise = least_maximum(
            game, Scaled(1.0 / targets), len(targets), effort.tolerance, effort.limit, effort.progress
        ).noise
    else:
        cells = [float(np.prod([sizes[i] for i in short])) * like.nesting.sizes[level] for short, level, *_ in tables]
        noise = game.respond(np.array([weight for _, _, weight, _ in tables]) * cells)[0]
    used = [k for k in range(len(known)) if squares[:, k].any()]
    factors = 1.0 / (noise * prices)
    return like.replaced(
        sets=tuple(like.sets[k] for k in used),
        starts=tuple(like.starts[k] for k in used),
        precisions=tuple(tuple(each * float(factors[k]) for each in like.precisions[k]) for k in used),
    )


def _alone(like: TreePlan, number: int) -> TreePlan:
    """One set of a plan by itself."""
    own = (like.sets[number],), (like.starts[number],), (like.precisions[number],)
    return like.replaced(sets=own[0], starts=own[1], precisions=own[2], workload=None)
