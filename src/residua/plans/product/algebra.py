"""The algebra of product plans whose operators agree but for a factor: exact, one number per set of short attributes.

What is measured of a set of short attributes is independent of other sets, and its operator is the same in all plans of
one strategy, but for a factor. So plans are ordered, added and met factor by factor, over any number of values. (A plan
takes the strategy of another with `rs.Tree(like=other)`.) Plans with other operators are compared as matrices over
cells, on small domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.algebra import Precisions
from residua.plans.combining import register_closed
from residua.plans.noise import guarantee_like
from residua.plans.operators.contract import Operator
from residua.plans.product.facts import Set
from residua.plans.product.plan import ProductPlan


def agree(plans: Sequence[object]) -> bool:
    """Whether these are product plans along one attribute, with one operator for the sets that they share."""
    kin = [plan for plan in plans if isinstance(plan, ProductPlan) and plan.noise.gaussian]
    if len(kin) < len(plans) or any(plan.attribute != kin[0].attribute for plan in kin):
        return False
    first = _first_of_each(kin)
    return all(each.ratio_to(first[members]) is not None for plan in kin for members, each in plan.parts.items())


def _first_of_each(plans: Sequence[ProductPlan]) -> dict[Set, Operator]:
    """The operator of every set that one of the plans measures, few attributes first."""
    operators: dict[Set, Operator] = {}
    for plan in plans:
        for members, each in plan.parts.items():
            operators.setdefault(members, each)
    return {members: operators[members] for members in sorted(operators, key=lambda row: (len(row), row))}


def _aligned(plans: Sequence[ProductPlan]) -> tuple[ProductPlan, list[Floats]]:
    """The first plan with the operators of all, and everyone's factors on them, 0 where a set is not measured."""
    operators = _first_of_each(plans)
    factors = [
        np.array(
            [plan.parts[row].ratio_to(each) or 0.0 if row in plan.parts else 0.0 for row, each in operators.items()]
        )
        for plan in plans
    ]
    return plans[0].replaced(parts=operators, workload=None), factors


def _made(like: ProductPlan, factors: Floats, objective: str, workload: Any) -> ProductPlan:
    kept = {row: each.scaled(float(c)) for (row, each), c in zip(like.parts.items(), factors, strict=True) if c > 0}
    made = like.replaced(parts=kept, objective=objective, gap=np.inf, guarantee=None, workload=workload)
    return made.replaced(guarantee=guarantee_like(like.guarantee, made.unit_pcost))


PRODUCTS = Precisions(_aligned, _made)
register_closed(agree, PRODUCTS)
