"""How every planner ends: scale to the budget, or to the loss that was asked for, and attach gap and guarantee."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TypeVar

from residua.errors import PlanError
from residua.plans.candidates import Candidate
from residua.plans.contract import Plan
from residua.plans.noise import guarantee_like
from residua.plans.persons import most_alike
from residua.plans.planners.offers import Task
from residua.plans.tolerances import BUDGET_SLACK, PROOF_SLACK
from residua.privacy import ZCDP, PureDP

P = TypeVar("P", bound=Plan)


def relative_gap(achieved: float, bound: float) -> float:
    """How far what is achieved is from what is proven, relatively; infinite where nothing is."""
    return max(achieved / bound - 1.0, 0.0) if bound > 0 else math.inf


def finished(plan: P, task: Task, loss: float, *, slack: float = BUDGET_SLACK, cost: float | None = None) -> P:
    """A plan with normal noise, scaled to the budget; or without one to the acceptable loss, with what it guarantees.

    Args:
        plan: any precisions; what its unit pays, and its loss, are in proportion and in inverse proportion to them.
        task: the budget, or the acceptable loss.
        loss: the plan's own.
        slack: the share of the budget that is spent, for rounding.
        cost: what its unit pays, where that is known.

    Raises:
        PlanError: the unit pays nothing.
    """
    if task.allowed is None:
        plan = plan.scaled(loss / task.loss / slack)
    paid = plan.unit_pcost if cost is None or task.allowed is None else cost
    if paid <= 0:
        raise PlanError("replacing a record changes none of these tables; they can be published without noise.")
    if task.allowed is None:
        return plan.replaced(guarantee=guarantee_like(ZCDP(1.0), paid))
    return plan.scaled(task.allowed / paid * slack)


def finished_pure(
    plan: P, task: Task, loss: float, bound: float, attributes: Collection[int], tried: Sequence[tuple[str, float]]
) -> P:
    """The same for Laplace noise, with what was tried and the gap to what no strategy goes below.

    Args:
        plan: any noise; losses go as 1/ε².
        task: the budget, or the acceptable loss.
        loss: the plan's own.
        bound: the least loss of normal noise of pcost 1; Laplace noise of epsilon 1 has twice that, at least.
        attributes: positions of those that are asked: a person can have so many records alike in them.
        tried: the names and losses of all strategies, the plan's own first.
    """
    if task.guarantee is None:
        factor = math.sqrt(loss / task.loss) / BUDGET_SLACK
    else:
        assert isinstance(task.guarantee, PureDP)
        factor = task.guarantee.epsilon / plan.unit_epsilon * BUDGET_SLACK
    plan = with_bound(plan.scaled(factor**2), task, loss / factor**2, bound, attributes, tried)
    return plan if task.guarantee is not None else plan.replaced(guarantee=PureDP(plan.unit_epsilon / BUDGET_SLACK))


def with_bound(
    plan: P, task: Task, loss: float, bound: float, attributes: Collection[int], tried: Sequence[tuple[str, float]]
) -> P:
    """A plan with Laplace noise, what was tried and the gap to what no strategy goes below; as `finished_pure`."""
    alike = most_alike(task.unit, plan.domain.names, plan.domain.sizes, attributes)
    proven = 2 * bound * (alike / plan.unit_epsilon) ** 2 * PROOF_SLACK
    share = loss / tried[0][1]
    candidates = tuple(Candidate(name, value * share) for name, value in tried)
    return plan.replaced(gap=relative_gap(loss, proven), candidates=candidates, lower_bound=proven)
