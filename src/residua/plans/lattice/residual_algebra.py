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
from residua.plans.currency import guarantee_like
from residua.plans.lattice.precisions import ORDER_TOLERANCE, on
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.solver.residuals import ResidualCoefficients
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
    return bool((wanted <= have * (1.0 + ORDER_TOLERANCE)).all())


def common(plans: Sequence[ResidualPlan], progress: object = None) -> ResidualPlan:
    """The most that all these plans release."""
    lattice, precisions = _aligned(plans)
    return _made(plans[0], lattice, reduce(np.minimum, precisions), "common to all candidates")


def residual(plan: ResidualPlan, given: ResidualPlan) -> ResidualPlan:
    """What is left of a plan once `given` is known."""
    lattice, (wanted, have) = _aligned([plan, given])
    if not (have <= wanted * (1.0 + ORDER_TOLERANCE)).all():
        raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
    return _made(plan, lattice, _left(wanted, have), "what is left", plan.workload)


def top_up(plan: ResidualPlan, given: ResidualPlan) -> ResidualPlan:
    """The least to measure so that, pooled with `given`, everything is as accurate as the plan says."""
    lattice, (wanted, have) = _aligned([plan, given])
    return _made(plan, lattice, _left(wanted, have), "what is missing", plan.workload)


def _left(wanted: Floats, have: Floats) -> Floats:
    """`max(0, τ_wanted − τ_have)`, less than ORDER_TOLERANCE being nothing.

    Noise scales are rounded up, by some 2^-48, when plans are compiled; giving up 2^-45 of the precision makes sure
    that what is left and what was known never cost more together than the plan itself.
    """
    left = wanted - have
    return np.where(left > ORDER_TOLERANCE * wanted, left - 2.0**-45 * wanted, 0.0)


def _aligned(plans: Sequence[ResidualPlan]) -> tuple[Lattice, list[Floats]]:
    """One family that holds the sets of all plans, and each plan's precisions on it."""
    lattice = reduce(Lattice.union, (plan.lattice for plan in plans))
    return lattice, [on(lattice, plan) for plan in plans]


def _made(
    like: ResidualPlan,
    lattice: Lattice,
    precisions: Floats,
    objective: str,
    workload: Marginals | None = None,
) -> ResidualPlan:
    lattice, precisions = _trimmed(like, lattice, precisions)
    made = like.replaced(
        lattice=lattice,
        precisions=precisions,
        workload=None,
        objective=objective,
        gap=np.inf,
        guarantee=None,
    )
    return asking(made.replaced(guarantee=guarantee_like(like.guarantee, made.unit_pcost)), workload)


def asking(plan: ResidualPlan, workload: Marginals | None) -> ResidualPlan:
    """The same plan, asked for these marginals; its family grows to hold them."""
    if workload is None or workload.lattice.same_sets(plan.lattice):
        return plan.replaced(workload=workload)
    wider = workload.lattice.union(plan.lattice)
    numbers = renumber(workload.lattice, wider)[workload.numbers]
    asked = Marginals(workload.domain, wider, numbers, workload.weights)
    return plan.replaced(lattice=wider, precisions=on(wider, plan), workload=asked)


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
