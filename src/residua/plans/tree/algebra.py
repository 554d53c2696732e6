"""The algebra of plans over one tree that share their strategy: exact, one number per set of short attributes.

What is measured of a set S of short attributes is independent of other sets, and its privacy cost matrix along the tree
is the same in all plans of one strategy, but for a factor. So plans are ordered, added and met factor by factor, over
any number of values. (A plan takes the strategy of another with `rs.Tree(like=other)`.) Plans over trees with other
strategies are compared as matrices over cells, on small domains: levels are not independent of each other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.combining import Progress, register_closed
from residua.plans.noise import NORMAL, guarantee_like
from residua.plans.tolerances import ORDER_TOLERANCE
from residua.plans.tree.plan import TreePlan

Members = tuple[int, ...]
Shape = tuple[int, tuple[Floats, ...]]  # the finest measured level, and precisions from there to the root
_SAME = 1e-9  # relative: precisions that differ by less are rounding apart


def agree(plans: Sequence[object]) -> bool:
    """Whether these are plans over one tree, with one strategy for the sets that they share."""
    kin = [plan for plan in plans if isinstance(plan, TreePlan) and plan.noise == NORMAL]
    if len(kin) < len(plans) or any((p.attribute, p.counts) != (kin[0].attribute, kin[0].counts) for p in kin):
        return False
    shapes = shapes_of(kin)
    return all(factor_of(shapes[m], own) is not None for plan in kin for m, own in _own(plan).items())


def shapes_of(plans: Sequence[TreePlan]) -> dict[Members, Shape]:
    """The strategy of every set that one of the plans measures, few attributes first."""
    found: dict[Members, Shape] = {}
    for plan in plans:
        for members, own in _own(plan).items():
            found.setdefault(members, own)
    return {members: found[members] for members in sorted(found, key=lambda members: (len(members), members))}


def factor_of(shape: Shape, other: Shape) -> float | None:
    """By how much precisions are larger than those of a strategy; None if they are of another strategy."""
    (start, first), (own, second) = shape, other
    if start != own or [each.shape for each in first] != [each.shape for each in second]:
        return None
    factor = float(second[0].flat[0] / first[0].flat[0])
    same = (np.abs(b - factor * a) <= _SAME * np.abs(b) for a, b in zip(first, second, strict=True))
    return factor if all(bool(each.all()) for each in same) else None


def compose(first: TreePlan, second: TreePlan) -> TreePlan:
    """The plan that runs both and pools what they measure."""
    shapes, (a, b) = _aligned([first, second])
    joined = first.workload + second.workload if first.workload and second.workload else None
    return _made(first, shapes, a + b, "both plans together", joined)


def can_answer(plan: TreePlan, other: TreePlan) -> bool:
    """Whether what `other` releases can be computed from what `plan` releases."""
    _, (have, wanted) = _aligned([plan, other])
    return bool((wanted <= have * (1.0 + ORDER_TOLERANCE)).all())


def common(plans: Sequence[TreePlan], progress: Progress | None = None) -> TreePlan:
    """The most that all these plans release, whichever of them is chosen."""
    shapes, factors = _aligned(plans)
    return _made(plans[0], shapes, reduce(np.minimum, factors), "common to all candidates", None)


def residual(plan: TreePlan, given: TreePlan) -> TreePlan:
    """What is left of a plan once `given` is known.

    Raises:
        PlanError: the plan does not answer `given`, so that some of it would be wasted.
    """
    shapes, (wanted, have) = _aligned([plan, given])
    if not (have <= wanted * (1.0 + ORDER_TOLERANCE)).all():
        raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
    return _made(plan, shapes, _left(wanted, have), "what is left", plan.workload)


def top_up(plan: TreePlan, given: Sequence[TreePlan]) -> TreePlan:
    """The least to measure so that, pooled with all given, everything is at least as accurate as the plan says."""
    shapes, (wanted, *have) = _aligned([plan, *given])
    return _made(plan, shapes, _left(wanted, np.sum(have, axis=0)), "what is missing", plan.workload)


def _own(plan: TreePlan) -> dict[Members, Shape]:
    own = zip(plan.sets, plan.starts, plan.precisions, strict=True)
    return {members: (start, found) for members, start, found in own}


def _aligned(plans: Sequence[TreePlan]) -> tuple[dict[Members, Shape], list[Floats]]:
    """The strategy of every set, and every plan's factors on it, 0 where it measures nothing, (sets,) each."""
    shapes = shapes_of(plans)
    factors = []
    for plan in plans:
        own = _own(plan)
        factors.append(np.array([factor_of(shape, own[m]) if m in own else 0.0 for m, shape in shapes.items()]))
    return shapes, factors


def _left(wanted: Floats, have: Floats) -> Floats:
    """`max(0, wanted − have)`, less than ORDER_TOLERANCE being nothing; rounding never makes it more."""
    left = wanted * (1.0 - 2.0**-44) - have
    return np.where(left > ORDER_TOLERANCE * wanted, left, 0.0)


def _made(like: TreePlan, shapes: dict[Members, Shape], factors: Floats, objective: str, workload: Any) -> TreePlan:
    kept = [(m, shape, float(c)) for (m, shape), c in zip(shapes.items(), factors, strict=True) if c > 0]
    made = like.replaced(
        sets=tuple(members for members, _, _ in kept),
        starts=tuple(start for _, (start, _), _ in kept),
        precisions=tuple(tuple(each * c for each in found) for _, (_, found), c in kept),
        objective=objective,
        gap=np.inf,
        guarantee=None,
        workload=workload,
    )
    return made.replaced(guarantee=guarantee_like(like.guarantee, made.unit_pcost))


register_closed(agree, sys.modules[__name__])
