"""The algebra of plans that make the same groups: group by group, each kind of group once.

Groups in which the same members meet are of one kind; what is combined there is the members themselves, by their own
algebra.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Integers
from residua.plans.combining import Progress, algebra_of, register_closed
from residua.plans.contract import Plan
from residua.plans.noise import guarantee_like
from residua.plans.strata.plan import StrataPlan
from residua.workload import Workload

Members = Sequence[Plan | None]


def agree(plans: Sequence[object]) -> bool:
    """Whether all make the same groups."""
    first = plans[0]
    return isinstance(first, StrataPlan) and all(isinstance(plan, StrataPlan) and plan.by == first.by for plan in plans)


def compose(first: StrataPlan, second: StrataPlan) -> StrataPlan:
    """The plan that runs both."""
    joined = first.workload + second.workload if first.workload and second.workload else None

    def both(members: Members) -> Plan | None:
        held = [plan for plan in members if plan is not None]
        return held[0] + held[1] if len(held) == 2 else held[0] if held else None

    return by_kind([first, second], both, "both plans together").replaced(workload=joined)


def can_answer(plan: StrataPlan, other: StrataPlan) -> bool:
    """Whether each group's plan answers the other's in that group."""
    kinds, _ = kinds_of([plan, other])
    for have, wanted in kinds:
        if wanted is not None and wanted.pcost and (have is None or not have.can_answer(wanted)):
            return False
    return True


def common(
    plans: Sequence[StrataPlan], serving: Workload | None = None, progress: Progress | None = None
) -> StrataPlan:
    """The most that all release, group by group; nothing in a group where one measures nothing."""

    def shared(members: Members) -> Plan | None:
        held = [plan for plan in members if plan is not None]
        return algebra_of(held).common(held, serving, progress) if len(held) == len(members) else None

    return by_kind(plans, shared, "common to all candidates")


def residual(plan: StrataPlan, given: StrataPlan) -> StrataPlan:
    """What is left of a plan once `given` is known."""

    def left(members: Members) -> Plan | None:
        wanted, have = members
        if have is None or not have.pcost:
            return wanted
        if wanted is None:
            raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
        rest: Plan = algebra_of([wanted, have]).residual(wanted, have)
        return rest

    return by_kind([plan, given], left, "what is left").replaced(workload=plan.workload)


def top_up(plan: StrataPlan, given: Sequence[StrataPlan]) -> StrataPlan:
    """What is missing of a plan beside all that is given."""

    def missing(members: Members) -> Plan | None:
        wanted, *have = members
        held = [each for each in have if each is not None and each.pcost]
        if wanted is None or not held:
            return wanted
        missing: Plan = algebra_of([wanted, *held]).top_up(wanted, held)
        return missing

    return by_kind([plan, *given], missing, "what is missing").replaced(workload=plan.workload)


def kinds_of(plans: Sequence[StrataPlan]) -> tuple[list[list[Plan | None]], Integers]:
    """The plans that meet in each kind of group, and the kind of each group, (groups,)."""
    rows = np.stack([plan.chosen for plan in plans], axis=1)
    kinds, kind = np.unique(rows, axis=0, return_inverse=True)
    met = [[plan.members[k] if k >= 0 else None for plan, k in zip(plans, row, strict=True)] for row in kinds.tolist()]
    return met, kind.ravel()


def by_kind(plans: Sequence[StrataPlan], combine: Callable[[Members], Plan | None], objective: str) -> StrataPlan:
    """Combines what meets in each kind of group; what measures nothing is left out."""
    like = plans[0]
    met, kind = kinds_of(plans)
    combined = [combine(members) for members in met]
    kept = [k for k, plan in enumerate(combined) if plan is not None and plan.pcost > 0]
    number = np.full(len(combined), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    members = tuple(plan for plan in (combined[k] for k in kept) if plan is not None)
    strata = like.replaced(
        members=members, chosen=number[kind], workload=None, objective=objective, gap=np.inf, guarantee=None
    )
    return strata.replaced(guarantee=guarantee_like(like.guarantee, strata.unit_pcost))


register_closed(agree, sys.modules[__name__])
