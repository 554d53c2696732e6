"""The algebra of product plans that share their strategies: exact, elementwise on precisions, as for residual plans.

Blocks of the same set measure multiples of one Gram matrix `⊗ R_iᵀR_i`, so that Γ is ordered, added and met block by
block. Plans with other strategies on an attribute do not compare so: on small domains they are compared as matrices
over cells (`dense/algebra.py`). A residual plan is the product plan whose strategies are all plain, and may be mixed
with those that agree with it.

Reference: common-mechanism, Theorem 3.5 and Eq. 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.lattice import Lattice
from residua.plans.contract import Plan
from residua.plans.currency import guarantee_like
from residua.plans.lattice.of_residual import as_product
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.precisions import ORDER_TOLERANCE, on
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.strategy import Strategy
from residua.workload import Family, Marginals, Products, as_products, renumber

Floats = NDArray[np.float64]
Kin = ProductPlan | ResidualPlan


def compose(first: Kin, second: Kin) -> ProductPlan:
    """The plan that runs both and pools what they measure."""
    like, (a, b) = _aligned([first, second])
    workload = None
    if first.workload is not None and second.workload is not None:
        joined = first.workload + second.workload
        assert isinstance(joined, Products | Marginals)  # neither was explicit
        workload = as_products(joined)
    return _made(like, a + b, "both plans together", workload)


def answers(plan: Kin, other: Kin) -> bool:
    """Whether what `other` releases can be computed from what `plan` releases."""
    _, (have, wanted) = _aligned([plan, other])
    return bool((wanted <= have * (1.0 + ORDER_TOLERANCE)).all())


def common(plans: Sequence[Kin], progress: object = None) -> ProductPlan:
    """The most that all these plans release, whichever of them is chosen."""
    like, precisions = _aligned(plans)
    return _made(like, reduce(np.minimum, precisions), "common to all candidates", None)


def residual(plan: Kin, given: Kin) -> ProductPlan:
    """What is left of a plan once `given` is known.

    Raises:
        PlanError: the plan does not answer `given`, so that some of it would be wasted.
    """
    like, (wanted, have) = _aligned([plan, given])
    if not (have <= wanted * (1.0 + ORDER_TOLERANCE)).all():
        raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
    return _made(like, _left(wanted, have), "what is left", like.workload)


def top_up(plan: Kin, given: Kin) -> ProductPlan:
    """The least to measure so that, pooled with `given`, everything is at least as accurate as the plan says."""
    like, (wanted, have) = _aligned([plan, given])
    return _made(like, _left(wanted, have), "what is missing", like.workload)


def agree(plans: Sequence[Plan]) -> bool:
    """Whether these are plans of products or marginals that measure every attribute by one strategy."""
    kin = [as_product(plan) for plan in plans if isinstance(plan, ProductPlan | ResidualPlan)]
    return len(kin) == len(plans) and all(len(set(_used(i, kin))) < 2 for i in range(len(plans[0].domain)))


def asking(plan: ProductPlan, workload: Products | None) -> ProductPlan:
    """The same plan, asked for these products; its family grows to hold them."""
    if workload is None:
        return plan.replaced(workload=None)
    wider = plan.lattice.union(workload.lattice)
    asked = Products(workload.domain, wider, tuple(_moved(family, wider) for family in workload.families))
    return plan.replaced(lattice=wider, precisions=on(wider, plan), workload=asked)


def _left(wanted: Floats, have: Floats) -> Floats:
    """`max(0, τ_wanted − τ_have)`, less than ORDER_TOLERANCE being nothing.

    Noise scales are rounded up when plans are compiled; giving up 2^-44 of the precision makes sure that what is left
    and what was known never cost more together than the plan itself.
    """
    left = wanted * (1.0 - 2.0**-44) - have
    return np.where(left > ORDER_TOLERANCE * wanted, left, 0.0)


def _aligned(plans: Sequence[Kin]) -> tuple[ProductPlan, list[Floats]]:
    """The first plan on one family that holds the sets of all, with strategies for all, and everyone's precisions."""
    made = [as_product(plan) for plan in plans]
    first = made[0]
    for plan in made:
        if plan.domain != first.domain:
            raise PlanError("the plans are over different domains; plan over one domain.")
        if plan.unit != first.unit:
            raise PlanError("the plans protect different units; plan with one unit.")
    strategies = tuple(_shared(i, made) for i in range(len(first.domain)))
    lattice = reduce(Lattice.union, (plan.lattice for plan in made))
    precisions = [on(lattice, plan) for plan in made]
    return first.replaced(lattice=lattice, precisions=precisions[0], strategies=strategies), precisions


def _shared(attribute: int, plans: Sequence[ProductPlan]) -> Strategy:
    """The one strategy that all plans which measure an attribute have for it."""
    used = _used(attribute, plans)
    if len(set(used)) > 1:
        name = plans[0].domain.names[attribute]
        raise PlanError(
            f"the plans measure {name!r} by different strategies, so that neither tells exactly what the other lacks; "
            "plan one of them like the other: rs.plan(…, like=other)."
        )
    return used[0] if used else plans[0].strategies[attribute]


def _used(attribute: int, plans: Sequence[ProductPlan]) -> list[Strategy]:
    """The strategies of the plans that measure an attribute."""
    return [plan.strategies[attribute] for plan in plans if plan.measures(attribute)]


def _made(like: ProductPlan, precisions: Floats, objective: str, workload: Products | None) -> ProductPlan:
    made = like.replaced(precisions=precisions, workload=None, objective=objective, gap=np.inf, guarantee=None)
    return asking(made.replaced(guarantee=guarantee_like(like.guarantee, made.unit_pcost)), workload)


def _moved(family: Family, lattice: Lattice) -> Family:
    sets = family.sets
    numbers = renumber(sets.lattice, lattice)[sets.numbers]
    return Family(Marginals(sets.domain, lattice, numbers, sets.weights), family.queries)
