"""The algebra of residual plans: exact, elementwise on precisions.

    run both            τ₁ + τ₂             `p + q`
    can p answer q?     τ_q ≤ τ_p           `p.answers(q)`
    what they share     min τ               `common([p, q, …])`
    what is left        τ_p − τ_q           `residual(p, given=q)`
    what is missing     max(0, τ_p − τ_q)   `top_up(p, given=q)`

Reference: common-mechanism, Theorems 3.5 and 5.4 and Eq. 1; on residual plans all matrices commute, so that the
maximal common mechanism is unique and needs no solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.lattice import Lattice, closure
from residua.plan.residual.plan import ResidualPlan
from residua.plan.residual.response import ResidualCoefficients
from residua.privacy import GDP, ZCDP, ApproxDP, Guarantee
from residua.workload import Marginals, renumber

Floats = NDArray[np.float64]


def compose(first: ResidualPlan, second: ResidualPlan) -> ResidualPlan:
    """The plan that runs both and pools what they measure."""
    lattice, (a, b) = _aligned([first, second])
    workload = first.workload + second.workload if first.workload and second.workload else None
    return _made(first, lattice, a + b, "both plans together", workload)


def answers(plan: ResidualPlan, other: ResidualPlan) -> bool:
    """Whether what `other` releases can be computed from what `plan` releases."""
    _, (have, wanted) = _aligned([plan, other])
    return bool((wanted <= have).all())


def common(plans: Sequence[ResidualPlan]) -> ResidualPlan:
    """The most that all these plans release, whichever of them is chosen: run it first, and nothing is wasted.

    Guarantee: every one of the plans answers the common plan, and any plan that all of them answer is answered
    by it.

    Raises:
        PlanError: no plans, or plans over different domains or units.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"age": 101, "gender": 2})
        >>> one = rs.independent(rs.marginals(domain, ways=1), rs.GDP(mu=1))
        >>> two = rs.independent(rs.marginals(domain, ways=2), rs.GDP(mu=1))
        >>> round(rs.common([one, two]).pcost, 4)  # half the budget can be spent before choosing
        0.505
    """
    if isinstance(plans, ResidualPlan):
        raise PlanError("plans is one plan; give a list of plans, such as [p, q].")
    if not plans:
        raise PlanError("plans is empty; give at least one plan.")
    lattice, precisions = _aligned(list(plans))
    return _made(plans[0], lattice, reduce(np.minimum, precisions), "common to all candidates")


def residual(plan: ResidualPlan, *, given: ResidualPlan) -> ResidualPlan:
    """What is left of a plan once `given` is known: measuring both amounts to the plan, exactly.

    Raises:
        PlanError: the plan does not answer `given`, so that some of it would be wasted.
    """
    lattice, (wanted, have) = _aligned([plan, given])
    if not (have <= wanted).all():
        raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
    return _made(plan, lattice, wanted - have, "what is left", plan.workload)


def top_up(plan: ResidualPlan, *, given: ResidualPlan) -> ResidualPlan:
    """The least to measure so that, pooled with `given`, everything is at least as accurate as the plan says."""
    lattice, (wanted, have) = _aligned([plan, given])
    return _made(plan, lattice, np.maximum(wanted - have, 0.0), "what is missing", plan.workload)


def guarantee_like(example: Guarantee | None, pcost: float) -> Guarantee | None:
    """What a cost guarantees, in the currency of another guarantee; nothing to guarantee for a cost of 0."""
    if pcost == 0:
        return None
    pcost *= 1.0 + 2.0**-40  # what is measured costs a rounding more than the sum of floats says
    if isinstance(example, GDP):
        return GDP.of_pcost(pcost)
    if isinstance(example, ApproxDP):
        return ApproxDP.of_pcost(pcost, delta=example.delta)
    return ZCDP.of_pcost(pcost)


def _aligned(plans: Sequence[ResidualPlan]) -> tuple[Lattice, list[Floats]]:
    """One family that holds the sets of all plans, and each plan's precisions on it."""
    first = plans[0]
    for plan in plans:
        if not isinstance(plan, ResidualPlan):
            raise PlanError(f"{plan!r} is not a plan; make one with rs.plan.")
        if plan.domain != first.domain:
            raise PlanError("the plans are over different domains; plan over one domain.")
        if plan.unit != first.unit:
            raise PlanError("the plans protect different units; plan with one unit.")
    lattice = reduce(Lattice.union, (plan.lattice for plan in plans))
    return lattice, [_on(lattice, plan) for plan in plans]


def _on(lattice: Lattice, plan: ResidualPlan) -> Floats:
    if plan.lattice.same_sets(lattice):
        return plan.precisions
    precisions = np.zeros(len(lattice))
    precisions[renumber(plan.lattice, lattice)] = plan.precisions
    return precisions


def _made(
    like: ResidualPlan,
    lattice: Lattice,
    precisions: Floats,
    objective: str,
    workload: Marginals | None = None,
) -> ResidualPlan:
    lattice, precisions = _trimmed(like, lattice, precisions)
    if workload is not None and not workload.lattice.same_sets(lattice):
        wider = workload.lattice.union(lattice)
        numbers = renumber(lattice, wider)
        spread = np.zeros(len(wider))
        spread[numbers] = precisions
        lattice, precisions = wider, spread
        workload = Marginals(
            workload.domain, wider, renumber(workload.lattice, wider)[workload.numbers], workload.weights
        )
    made = like.replaced(
        lattice=lattice,
        precisions=precisions,
        workload=workload,
        objective=objective,
        gap=np.inf,
        guarantee=None,
    )
    return made.replaced(guarantee=guarantee_like(like.guarantee, made.unit_pcost))


def _trimmed(like: ResidualPlan, lattice: Lattice, precisions: Floats) -> tuple[Lattice, Floats]:
    """Without the sets that are neither measured nor answered, nor have a superset that is."""
    coefficients = like.coefficients if lattice is like.lattice else ResidualCoefficients(lattice, like.domain.sizes)
    # A set with a one-valued attribute is never measured, but it is answered when the rest of it is.
    with np.errstate(divide="ignore"):
        kept = (precisions > 0) | np.isfinite(coefficients.cell_variances(1.0 / precisions))
    if kept.all():
        return lattice, precisions
    rows: list[NDArray[np.int32]] = []
    for k, level in enumerate(lattice.levels):
        block = slice(lattice.offsets[k], lattice.offsets[k + 1])
        rows.append(level[kept[block]])
    trimmed = closure(rows, lattice.attributes)
    return trimmed, precisions[renumber(trimmed, lattice)]
