"""The algebra of product plans that share strategies and operators: exact, elementwise on precisions.

    run both            τ₁ + τ₂             `p + q`
    can p answer q?     τ_q ≤ τ_p           `p.can_answer(q)`
    what they share     min τ               `common([p, q, …])`
    what is left        τ_p − τ_q           `residual(p, given=q)`
    what is missing     max(0, τ_p − τ_q)   `top_up(p, given=q)`

Blocks of the same set measure multiples of one Gram matrix `⊗ R_iᵀR_i ⊗ A_T`, so that Γ is ordered, added and met block
by block; the maximal common mechanism is unique and needs no solver. Plans with other strategies on an attribute, or
other operators than multiples of each other, do not compare so: on small domains they are compared as matrices over
cells (`matrix/algebra.py`). (A plan takes the strategies of another with `rs.Lattice(like=other)`, its operators with
`rs.Tree(like=other)`.)

Reference: common-mechanism, Theorems 3.5 and 5.4 and Eq. 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import Set, SetFamily, closure, closure_of
from residua.plans.algebra import ElementwiseAlgebra, priced
from residua.plans.combining import register_closed
from residua.plans.matrix.integers import nothing
from residua.plans.operators.contract import Operator
from residua.plans.product.plan import ProductPlan
from residua.plans.strategy import Strategy, plain_strategies
from residua.workload import Workload, renumber


def agree(plans: Sequence[object]) -> bool:
    """Whether these are product plans by the same strategies, and by the same operators but for a factor."""
    kin = [plan for plan in plans if isinstance(plan, ProductPlan)]
    if len(kin) < len(plans) or any(plan.attribute != kin[0].attribute or not plan.noise.gaussian for plan in kin):
        return False
    if kin[0].attribute >= 0:
        first = _first_of_each(kin)
        return all(each.ratio_to(first[members]) is not None for plan in kin for members, each in plan.parts.items())
    if all(plan.plain for plan in kin):
        return True  # at any number of attributes without a look at each
    return all(len(set(_used(i, kin))) < 2 for i in range(len(kin[0].domain)))


def asking(plan: ProductPlan, workload: Workload | None) -> ProductPlan:
    """The same plan, asked for this; a family of residuals grows to hold it."""
    if plan.attribute >= 0 or workload is None or workload.lattice.same_sets(plan.lattice):
        return plan.replaced(workload=workload)
    wider = workload.lattice.union(plan.lattice)
    return plan.replaced(lattice=wider, precisions=plan.on(wider), workload=workload.on(wider))


def _aligned(plans: Sequence[ProductPlan]) -> tuple[ProductPlan, list[Floats]]:
    """The first plan on one family that holds the sets of all, with strategies for all, and everyone's precisions."""
    if plans[0].attribute >= 0:
        operators = _first_of_each(plans)
        like = plans[0].with_parts(operators, workload=None)
        return like, [np.array([_ratio(plan, row, operators) for row in like.lattice]) for plan in plans]
    plain = all(plan.plain for plan in plans)
    strategies = plans[0].strategies if plain else tuple(_shared(i, plans) for i in range(len(plans[0].domain)))
    lattice = reduce(SetFamily.union, (plan.lattice for plan in plans))
    precisions = [plan.on(lattice) for plan in plans]
    like = plans[0].replaced(lattice=lattice, precisions=precisions[0], strategies=strategies, workload=None)
    return like, precisions


def _first_of_each(plans: Sequence[ProductPlan]) -> dict[Set, Operator]:
    """The operator of every set that one of the plans measures."""
    operators: dict[Set, Operator] = {}
    for plan in plans:
        for members, each in plan.parts.items():
            operators.setdefault(members, each)
    return operators


def _ratio(plan: ProductPlan, members: Set, operators: Mapping[Set, Operator]) -> float:
    """By how much a plan is more precise than these operators on a set; 0 where it does not measure it."""
    return (plan.parts[members].ratio_to(operators[members]) or 0.0) if members in plan.parts else 0.0


def _shared(attribute: int, plans: Sequence[ProductPlan]) -> Strategy:
    """The one strategy that all plans which measure an attribute have for it."""
    used = _used(attribute, plans)
    if len(set(used)) > 1:
        name = plans[0].domain.names[attribute]
        raise PlanError(
            f"the plans measure {name!r} by different strategies, so that neither tells exactly what the other lacks; "
            "plan one of them like the other, with form=rs.Lattice(like=other)."
        )
    return used[0] if used else plans[0].strategies[attribute]


def _used(attribute: int, plans: Sequence[ProductPlan]) -> list[Strategy]:
    """The strategies of the plans that measure an attribute."""
    return [plan.strategies[attribute] for plan in plans if plan.measures(attribute)]


def _with_precisions(like: ProductPlan, precisions: Floats, workload: Workload | None) -> ProductPlan:
    plan = like.replaced(precisions=precisions)
    return asking(_trimmed(plan) if plan.plain else plan, workload)


def _trimmed(plan: ProductPlan) -> ProductPlan:
    """Without the sets that are neither measured nor answered, nor have a superset that is."""
    # A set with a one-valued attribute is never measured, but it is answered when the rest of it is.
    kept = (plan.precisions > 0) | np.isfinite(plan.cell_variances)
    if kept.all():
        return plan
    lattice = plan.lattice
    rows = [level[kept[lattice.offsets[k] : lattice.offsets[k + 1]]] for k, level in enumerate(lattice.levels)]
    trimmed = closure(rows, lattice.attributes)
    return plan.replaced(lattice=trimmed, precisions=plan.precisions[renumber(trimmed, lattice)])


PRODUCTS = ElementwiseAlgebra(_aligned, priced(_with_precisions))
register_closed(agree, PRODUCTS)


def _of_tables(plans: Sequence[Any]) -> bool:
    """Whether all measure whole tables with Laplace noise."""
    return all(getattr(plan, "shares", None) is not None for plan in plans)


def _aligned_tables(plans: Sequence[ProductPlan]) -> tuple[ProductPlan, list[Floats]]:
    """The first plan on one family, and everyone's `ε_A²`: the precision of independent measurements adds up so."""
    lattice = reduce(SetFamily.union, (plan.lattice for plan in plans))
    squares = np.zeros((len(plans), len(lattice)))
    for own, plan in zip(squares, plans, strict=True):
        own[renumber(plan.lattice, lattice)] = np.asarray(plan.shares) ** 2
    return plans[0].replaced(lattice=lattice, shares=np.sqrt(squares.max(axis=0)), workload=None), list(squares)


def _with_squares(like: ProductPlan, squares: Floats, workload: Workload | None) -> Any:
    if not squares.any():
        return nothing(like, like.objective)
    return like.replaced(shares=np.sqrt(squares), workload=workload, candidates=(), lower_bound=0.0)


register_closed(_of_tables, ElementwiseAlgebra(_aligned_tables, priced(_with_squares)))


def by_residuals(plan: Any) -> ProductPlan:
    """A plan of correlated noise along one attribute as one of residuals with the same strategy; grids may differ."""
    path = plan.correlated
    strategies = list(plain_strategies(plan.domain.sizes))
    strategies[plan.attribute] = path.strategy
    lattice = closure_of([(plan.attribute,)], len(plan.domain))
    kept = {name: getattr(plan, name) for name in ("guarantee", "unit", "workload", "objective", "gap")}
    return ProductPlan(plan.domain, lattice, np.array([0.0, 1.0 / path.factor]), tuple(strategies), **kept)


def _as_residuals(plans: Sequence[Any]) -> list[Any]:
    return [by_residuals(plan) if getattr(plan, "correlated", None) else plan for plan in plans]


def agree_as_residuals(plans: Sequence[Any]) -> bool:
    """Whether some are plans of correlated noise along an attribute, and all agree once they are plans of residuals."""
    return any(getattr(plan, "correlated", None) for plan in plans) and agree(_as_residuals(plans))


register_closed(
    agree_as_residuals, ElementwiseAlgebra(lambda plans: _aligned(_as_residuals(plans)), priced(_with_precisions))
)
