"""The algebra of lattice plans that share their strategies: exact, elementwise on precisions.

    run both            τ₁ + τ₂             `p + q`
    can p answer q?     τ_q ≤ τ_p           `p.can_answer(q)`
    what they share     min τ               `common([p, q, …])`
    what is left        τ_p − τ_q           `residual(p, given=q)`
    what is missing     max(0, τ_p − τ_q)   `top_up(p, given=q)`

Blocks of the same set measure multiples of one Gram matrix `⊗ R_iᵀR_i`, so that Γ is ordered, added and met block by
block; the maximal common mechanism is unique and needs no solver. Plans with other strategies on an attribute do not
compare so: on small domains they are compared as matrices over cells (`matrix/algebra.py`).

Reference: common-mechanism, Theorems 3.5 and 5.4 and Eq. 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import SetFamily, closure
from residua.plans.algebra import Precisions
from residua.plans.combining import register_closed
from residua.plans.noise import guarantee_like
from residua.plans.product.lattice_plan import LatticePlan
from residua.plans.strategy import Strategy, plain_strategies
from residua.workload import Workload, renumber


def agree(plans: Sequence[object]) -> bool:
    """Whether these are lattice plans that measure every attribute by one strategy."""
    kin = [plan for plan in plans if isinstance(plan, LatticePlan)]
    if len(kin) == len(plans) and all(plan.plain for plan in kin):
        return True  # at any number of attributes without a look at each
    return len(kin) == len(plans) and all(len(set(_used(i, kin))) < 2 for i in range(len(kin[0].domain)))


def asking(plan: LatticePlan, workload: Workload | None) -> LatticePlan:
    """The same plan, asked for these marginals or products; its family grows to hold them."""
    if workload is None or workload.lattice.same_sets(plan.lattice):
        return plan.replaced(workload=workload)
    wider = workload.lattice.union(plan.lattice)
    return plan.replaced(lattice=wider, precisions=plan.on(wider), workload=workload.on(wider))


def _aligned(plans: Sequence[LatticePlan]) -> tuple[LatticePlan, list[Floats]]:
    """The first plan on one family that holds the sets of all, with strategies for all, and everyone's precisions."""
    plain = all(plan.plain for plan in plans)
    strategies = plans[0].strategies if plain else tuple(_shared(i, plans) for i in range(len(plans[0].domain)))
    lattice = reduce(SetFamily.union, (plan.lattice for plan in plans))
    precisions = [plan.on(lattice) for plan in plans]
    like = plans[0].replaced(lattice=lattice, precisions=precisions[0], strategies=strategies, workload=None)
    return like, precisions


def _shared(attribute: int, plans: Sequence[LatticePlan]) -> Strategy:
    """The one strategy that all plans which measure an attribute have for it."""
    used = _used(attribute, plans)
    if len(set(used)) > 1:
        name = plans[0].domain.names[attribute]
        raise PlanError(
            f"the plans measure {name!r} by different strategies, so that neither tells exactly what the other lacks; "
            "plan one of them like the other, with form=rs.Lattice(like=other)."
        )
    return used[0] if used else plans[0].strategies[attribute]


def _used(attribute: int, plans: Sequence[LatticePlan]) -> list[Strategy]:
    """The strategies of the plans that measure an attribute."""
    return [plan.strategies[attribute] for plan in plans if plan.measures(attribute)]


def _made(like: LatticePlan, precisions: Floats, objective: str, workload: Workload | None) -> LatticePlan:
    made = like.replaced(precisions=precisions, objective=objective, gap=np.inf, guarantee=None)
    if made.plain:
        made = _trimmed(made)
    return asking(made.replaced(guarantee=guarantee_like(like.guarantee, made.unit_pcost)), workload)


def _trimmed(plan: LatticePlan) -> LatticePlan:
    """Without the sets that are neither measured nor answered, nor have a superset that is."""
    # A set with a one-valued attribute is never measured, but it is answered when the rest of it is.
    kept = (plan.precisions > 0) | np.isfinite(plan.facts.cell_variances)
    if kept.all():
        return plan
    lattice = plan.lattice
    rows = [level[kept[lattice.offsets[k] : lattice.offsets[k + 1]]] for k, level in enumerate(lattice.levels)]
    trimmed = closure(rows, lattice.attributes)
    return plan.replaced(lattice=trimmed, precisions=plan.precisions[renumber(trimmed, lattice)])


LATTICE = Precisions(_aligned, _made)
register_closed(agree, LATTICE)


def lattice_of(plan: Any) -> LatticePlan:
    """The lattice plan that measures the same of its attribute; its grid may be another."""
    path = plan.correlated
    strategies = list(plain_strategies(plan.domain.sizes))
    strategies[plan.attribute] = path.strategy
    lattice = closure([np.array([[plan.attribute]], dtype=np.int32)], len(plan.domain))
    return LatticePlan(
        plan.domain,
        lattice,
        np.array([0.0, 1.0 / path.factor]),
        plan.guarantee,
        plan.unit,
        plan.workload,
        plan.objective,
        plan.gap,
        tuple(strategies),
    )


def applies(plans: Sequence[Any]) -> bool:
    """Whether some are plans of correlated noise along an attribute, and all agree once they are lattice plans."""
    return any(getattr(plan, "correlated", None) for plan in plans) and agree(_as_lattices(plans))


def _as_lattices(plans: Sequence[Any]) -> list[Any]:
    return [lattice_of(plan) if getattr(plan, "correlated", None) else plan for plan in plans]


ALONG = Precisions(lambda plans: _aligned(_as_lattices(plans)), _made)
register_closed(applies, ALONG)
