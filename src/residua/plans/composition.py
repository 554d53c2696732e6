"""What running several plans costs together: the price of all that they really measure (`verifier.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.plans.verifier import Profile, composed, even, price


def require_plan(plan: object) -> None:
    """Refuses what is no plan.

    Raises:
        PlanError: it is not.
    """
    if not isinstance(plan, Plan):
        raise PlanError(f"plan={plan!r} is not a plan; make one with rs.plan.")


def priced(plan: Plan) -> tuple[Measurements, Fraction]:
    """What measuring one plan comes down to, and what that costs, by the verifier.

    Raises:
        VerificationError: more expensive than the plan promises, or not measurable.
    """
    require_plan(plan)
    measurements = plan.measurements
    return measurements, measurements.noise.promised(measurements.cost(plan.unit), plan.guarantee)


def composed_profile(plans: Sequence[Plan]) -> Profile:
    """The privacy profile of running all these plans, of what they really measure, in whole numbers."""
    return composed(
        plans[0].domain.sizes, [plan.measurements.profile() if plan.pcost else even(Fraction(0)) for plan in plans]
    )


def composed_cost(plans: Sequence[Plan]) -> Fraction:
    """What running all these plans of one domain costs the unit they protect, never less than the truth.

    Guarantee: at least the largest diagonal entry of the summed privacy cost matrices of what is really measured (for
    a replacement, the largest `(e_i − e_j)ᵀ Γ (e_i − e_j)`; for a person, the largest `zᵀΓz` over all that a person can
    have), and no more than the sum of their prices.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain({"age": rs.Integers(0, 9)})
        >>> young = rs.plan(rs.queries(domain, ["age < 5"]), rs.GDP(1.0))
        >>> old = rs.plan(rs.queries(domain, ["age >= 5"]), rs.GDP(1.0))
        >>> round(float(composed_cost([young, old])), 6)  # nobody is both
        1.0
    """
    measured = [plan for plan in plans if plan.pcost]
    if not measured:
        return Fraction(0)
    unit = measured[0].unit
    others = [plan for plan in measured if plan.unit != unit]
    if others:  # persons under another bound have other records counted: what they pay adds up
        return composed_cost([plan for plan in measured if plan.unit == unit]) + composed_cost(others)
    normal = [plan.measurements for plan in measured if plan.noise.gaussian]
    # An epsilon is as expensive as normal noise of its square.
    total = sum((plan.measurements.cost(unit) ** 2 for plan in measured if not plan.noise.gaussian), Fraction(0))
    if len(normal) == 1:
        return total + normal[0].cost(unit)
    return total + price(normal, unit) if normal else total
