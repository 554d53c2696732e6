"""Candidates: plans by name that a session can measure and pool, and how to tell one from another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from residua.errors import PlanError
from residua.plans.axis.plan import AxisPlan
from residua.plans.axis.strategy import MOST_DENSE
from residua.plans.composition import require_plan
from residua.plans.contract import Plan
from residua.plans.fibres import FibrePlan
from residua.plans.lattice.from_axis import lattice_of
from residua.privacy import Unit
from residua.workload import Workload


def poolable(plan: Plan, unit: Unit) -> Plan:
    """A plan, once it is known that a session for this unit of protection can measure it and pool what it measures.

    Raises:
        PlanError: no plan, one with Laplace noise or with a bias, or one for another unit.
    """
    require_plan(plan)
    if isinstance(plan, AxisPlan) and plan.size > MOST_DENSE:
        plan = lattice_of(plan)  # too long for a matrix: read together with plans that share its noise
    if isinstance(plan, FibrePlan):
        raise PlanError(
            f"{plan!r} has noise of its own for each set of attributes, and cannot be pooled with what a session "
            "measures; nothing was spent: use rs.measure, or plan with form=rs.Axis()."
        )
    if not plan.noise.gaussian:
        raise PlanError(
            f"{plan!r} cannot be pooled with what a session measures; nothing was spent: use rs.measure, or plan "
            "with ZCDP, GDP or ApproxDP."
        )
    if plan.unit != unit:
        raise PlanError(f"the plan protects {plan.unit}, the ledger {unit}; plan for that unit.")
    if plan.bias:
        raise PlanError("a biased plan cannot be pooled with others; plan without bias.")
    return plan


def by_name(candidates: Sequence[Plan] | Mapping[str, Plan], unit: Unit) -> dict[str, Plan]:
    """At least two plans over one domain, with names: their own, or "plan 1", "plan 2", …."""
    if isinstance(candidates, Plan) or not isinstance(candidates, Sequence | Mapping) or len(candidates) < 2:
        raise PlanError("candidates must be at least two plans; to measure one, use session.release.")
    if not isinstance(candidates, Mapping):
        candidates = {f"plan {i}": plan for i, plan in enumerate(candidates, 1)}
    named: dict[str, Plan] = {str(name): poolable(plan, unit) for name, plan in candidates.items()}
    first = next(iter(named.values()))
    for name, plan in named.items():
        if plan.domain != first.domain:
            raise PlanError(f"the candidate {name!r} is over another domain; plan all candidates over one domain.")
    return named


def require_domain(plan: Plan, held: Sequence[Plan]) -> None:
    """Refuses a plan over another domain than what was measured."""
    if held and plan.domain != held[0].domain:
        raise PlanError(
            "the plan and what the session has measured are over different domains; nothing was spent: plan over the "
            "session's domain, or make another session with a folder of its own as state."
        )


def name_of(candidate: str | Plan, candidates: Mapping[str, Plan]) -> str:
    """The name of a candidate, given by name or as the plan itself."""
    if isinstance(candidate, str):
        if candidate in candidates:
            return candidate
        raise PlanError(f"there is no candidate {candidate!r}; there are {', '.join(map(repr, candidates))}.")
    for name, plan in candidates.items():
        if plan is candidate or (isinstance(candidate, Plan) and same_plan(plan, candidate)):
            return name
    raise PlanError(f"{candidate!r} is not one of the candidates; name one of {', '.join(map(repr, candidates))}.")


def same_plan(first: Plan, second: Plan) -> bool:
    """Whether two plans measure the same, as a plan read from a file and its original do."""
    return type(first) is type(second) and first.domain == second.domain and first.to_body() == second.to_body()


def workload_of(plan: Plan, name: str) -> Workload:
    """What a candidate asks."""
    if plan.workload is None:
        raise PlanError(f"the candidate {name!r} was planned without a workload; say which queries are meant.")
    return plan.workload
