"""A residual plan is the product plan whose strategies are all plain: the same precisions, the same facts."""

from __future__ import annotations

from residua.errors import PlanError
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.strategy import Strategy
from residua.workload import as_products


def as_product(plan: object) -> ProductPlan:
    """The plan itself, or a residual plan as a product plan.

    Raises:
        PlanError: a plan that is neither.
    """
    if isinstance(plan, ProductPlan):
        return plan
    if not isinstance(plan, ResidualPlan):
        raise PlanError(f"{plan!r} is not a plan of marginals or products; make one with rs.plan.")
    return ProductPlan(
        domain=plan.domain,
        lattice=plan.lattice,
        precisions=plan.precisions,
        strategies=tuple(Strategy(int(n)) for n in plan.domain.sizes),
        guarantee=plan.guarantee,
        unit=plan.unit,
        workload=None if plan.workload is None else as_products(plan.workload),
        objective=plan.objective,
        gap=plan.gap,
    )
