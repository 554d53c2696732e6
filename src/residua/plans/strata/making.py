"""Plans for groups: made from plans for the table within a group, and combined group by group.

Groups in which the same members meet are of one kind; what is combined there is the members themselves, by their own
algebra.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product as crossed
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, named, nearest
from residua.linalg.arrays import Integers
from residua.plans.combining import Progress, algebra_of, register_closed
from residua.plans.contract import Plan
from residua.plans.noise import guarantee_like
from residua.plans.strata.plan import StrataPlan
from residua.workload import Family, Identity, Workload, marginals, on_one_lattice

_MOST_GROUPS = 2**24


def by_group(
    plan: Plan | Mapping[str, Plan],
    *,
    by: Sequence[str],
    chosen: Mapping[Any, str | None] | Sequence[str | None] | None = None,
) -> StrataPlan:
    """A plan measured within each group of people, or one of several plans, chosen group by group.

    Groups are the cells of the attributes `by`, disjoint people: the cost is that of the most expensive group, not a
    sum, and every group has the accuracy of its own plan.

    Args:
        plan: a plan over the whole domain that asks nothing of the attributes `by`; or several by name.
        by: the attributes that make groups.
        chosen: of several plans, which each group has: group → name, a group being its label, or a tuple of labels in
            the order of `by` (groups left out measure nothing); or a list with one name, or None, for each group, row
            by row with the attributes in the order of `by`.

    Raises:
        PlanError: unknown attributes, groups or names; a plan that measures what makes groups; or one that cannot be
            measured group by group (Laplace noise, long axes).

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain({"state": ["AC", "AL"], "sex": ["F", "M"], "age": rs.Integers(0, 9)})
        >>> one = rs.plan(rs.marginals(domain, [("sex",), ("age",)]), rs.ZCDP(0.5))
        >>> two = rs.plan(rs.marginals(domain, [("sex", "age")]), rs.ZCDP(0.5))
        >>> plan = rs.by_group({"one": one, "two": two}, by=["state"], chosen={"AC": "one", "AL": "two"})
        >>> round(plan.pcost, 6), round(plan.variance({"state": "AL", "sex": "F", "age": 3}), 3)
        (1.0, 1.0)
    """
    plans = {"plan": plan} if isinstance(plan, Plan) else dict(plan) if isinstance(plan, Mapping) else {}
    if not plans or not all(isinstance(each, Plan) for each in plans.values()):
        raise PlanError(f"plan={named(plan)} is neither a plan nor plans by name; make them with rs.plan.")
    first = next(iter(plans.values()))
    positions = _positions(first.domain, by)
    for name, each in plans.items():
        require_member(each, first, positions, name)
    groups = math.prod(int(first.domain.sizes[i]) for i in positions)
    if groups > _MOST_GROUPS:
        raise PlanError(f"by={named(by)} makes {groups:,} groups, more than {_MOST_GROUPS:,}; make fewer.")
    if chosen is None:
        if len(plans) > 1:
            raise PlanError("there are several plans; say with chosen which group has which.")
        which = np.zeros(groups, dtype=np.int64)
    else:
        which = chosen_of(first.domain, by, list(plans), chosen)
    return grouped(list(plans.values()), positions, which)


def grouped(plans: Sequence[Plan], by: tuple[int, ...], chosen: Integers, objective: str = "") -> StrataPlan:
    """A plan for groups from members that are known to fit."""
    used = np.unique(chosen[chosen >= 0])
    first = plans[0]
    asked = [lifted(workload, by) for workload in (plans[k].workload for k in used.tolist()) if workload is not None]
    given = [each for each in asked if each is not None]
    workload = None if not given or len(given) < len(used) else sum(given[1:], start=given[0])
    plan = StrataPlan(
        first.domain,
        by,
        tuple(plans),
        chosen,
        unit=first.unit,
        workload=workload,
        objective=objective or first.objective,
        gap=max((plans[k].gap for k in used.tolist()), default=math.inf),
    )
    return plan.replaced(guarantee=guarantee_like(first.guarantee, plan.unit_pcost))


def require_member(plan: Plan, first: Plan, by: tuple[int, ...], name: str) -> None:
    """Refuses a plan that cannot be measured within groups, by name."""
    if plan.domain != first.domain or plan.unit != first.unit:
        raise PlanError(f"{name!r} is over another domain or for another unit; plan all for one domain and unit.")
    asked = [plan.domain.names[i] for i in plan.measured_attributes if i in by]
    if asked:
        raise PlanError(
            f"{name!r} measures {asked[0]!r}, which makes groups; plan for the table within a group, of the other "
            "attributes alone."
        )
    if plan.bias or plan.by_names:
        raise PlanError(f"{name!r} cannot be measured within groups; give a plan without bias or groups of its own.")
    assert plan.measurements.tables  # says so, where there are none


def lifted(workload: Workload, by: tuple[int, ...]) -> Workload | None:
    """What is asked within each group, asked of all groups; None for queries that are listed one by one."""
    if not workload.tabular:
        return None
    domain, names = workload.domain, workload.domain.names
    families = []
    for family in workload.families:
        sets = [
            tuple(names[i] for i in sorted({*by, *family.lattice.members(int(number))})) for number in family.numbers
        ]
        over = marginals(domain, sets)
        queries = tuple(Identity(each.size) if i in by else each for i, each in enumerate(family.queries))
        families.append(Family(over.lattice, over.numbers, family.weights, queries))
    return Workload(domain, (on_one_lattice(domain, families),))


def chosen_of(
    domain: Domain, by: Sequence[str], names: Sequence[str], chosen: Mapping[Any, str | None] | Sequence[str | None]
) -> Integers:
    """Which of the plans each group has, in the domain's order of the groups, (groups,).

    Raises:
        PlanError: a group or a plan that does not exist.
    """
    positions = [domain.position(name) for name in by]
    shape = [int(domain.sizes[i]) for i in positions]
    number = {name: k for k, name in enumerate(names)}
    numbers = np.full(math.prod(shape), -1, dtype=np.int64)
    if isinstance(chosen, Mapping):
        codes = [{label: k for k, label in enumerate(domain[name].labels)} for name in by]
        for group, name in chosen.items():
            labels = group if isinstance(group, tuple) else (group,)
            if len(labels) != len(by) or any(label not in known for label, known in zip(labels, codes, strict=True)):
                raise PlanError(f"{named(group)} is no group of {', '.join(by)}; give a label for each, as a tuple.")
            place = tuple(known[label] for label, known in zip(labels, codes, strict=True))
            numbers[np.ravel_multi_index(place, shape)] = _number(name, number)
    else:
        listed = list(chosen)
        if isinstance(chosen, str) or len(listed) != len(numbers):
            raise PlanError(f"chosen has {len(listed):,} entries; give one for each of {len(numbers):,} groups.")
        numbers[:] = [_number(name, number) for name in listed]
    return np.ascontiguousarray(numbers.reshape(shape).transpose(np.argsort(positions))).ravel()


def groups_of(domain: Domain, by: Sequence[str]) -> list[Any]:
    """The labels of every group, row by row: one label, or a tuple of them."""
    labels = [domain[name].labels for name in by]
    return list(labels[0]) if len(by) == 1 else list(crossed(*labels))


def _number(name: object, numbers: Mapping[str, int]) -> int:
    if name is None:
        return -1
    if not isinstance(name, str) or name not in numbers:
        shown, remedy = nearest(name, numbers)
        raise PlanError(f"a group's plan{shown} is not among those given; {remedy}")
    return numbers[name]


def _positions(domain: Domain, by: object) -> tuple[int, ...]:
    if isinstance(by, str) or not isinstance(by, Sequence) or not by:
        raise PlanError(f"by={named(by)} names no attributes; give a list, such as ['state'].")
    try:
        positions = sorted({domain.position(name) for name in by})
    except (TypeError, ValueError) as problem:
        raise PlanError(f"by: {problem}") from None
    if len(positions) < len(by):
        raise PlanError(f"by={by!r} names an attribute twice; name each once.")
    return tuple(positions)


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
    kinds, kind = np.unique(np.stack([plan.chosen for plan in plans], axis=1), axis=0, return_inverse=True)
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
