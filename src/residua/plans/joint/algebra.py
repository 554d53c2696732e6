"""The algebra of blockwise plans that share their rows: exact, elementwise on the precisions of blocks.

Rows of all blocks together are independent of each other, so that Γ is ordered, added and met block by block, as for
lattice plans (`lattice/algebra.py`). Plans with other rows are compared as matrices over cells, on small domains.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import reduce

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.combining import Progress, register_closed
from residua.plans.joint.measured import Rows
from residua.plans.joint.plan import JointPlan
from residua.plans.levels.family import Block, rank
from residua.plans.noise import guarantee_like
from residua.plans.questions import Workload
from residua.plans.tolerances import ORDER_TOLERANCE


def agree(plans: Sequence[object]) -> bool:
    """Whether these are blockwise plans with the same levels, and the same rows for the blocks that they share."""
    if not all(isinstance(plan, JointPlan) for plan in plans):
        return False
    kin = [plan for plan in plans if isinstance(plan, JointPlan)]
    if any(plan.axes != kin[0].axes for plan in kin):
        return False
    known: dict[Block, Rows] = {}
    for plan in kin:
        for block in plan.blocks_of:
            if known.setdefault(block, plan.rows_of(block)) != plan.rows_of(block):
                return False
    return True


def compose(first: JointPlan, second: JointPlan) -> JointPlan:
    """The plan that runs both and pools what they measure."""
    like, (a, b) = _aligned([first, second])
    workload: Workload | None = None
    if first.workload is not None and second.workload is not None:
        workload = first.workload + second.workload
    return _made(like, a + b, "both plans together", workload)


def can_answer(plan: JointPlan, other: JointPlan) -> bool:
    """Whether what `other` releases can be computed from what `plan` releases."""
    _, (have, wanted) = _aligned([plan, other])
    return bool((wanted <= have * (1.0 + ORDER_TOLERANCE)).all())


def common(plans: Sequence[JointPlan], progress: Progress | None = None) -> JointPlan:
    """The most that all these plans release, whichever of them is chosen."""
    like, precisions = _aligned(plans)
    return _made(like, reduce(np.minimum, precisions), "common to all candidates", None)


def residual(plan: JointPlan, given: JointPlan) -> JointPlan:
    """What is left of a plan once `given` is known.

    Raises:
        PlanError: the plan does not answer `given`, so that some of it would be wasted.
    """
    like, (wanted, have) = _aligned([plan, given])
    if not (have <= wanted * (1.0 + ORDER_TOLERANCE)).all():
        raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
    return _made(like, _left(wanted, have), "what is left", plan.workload)


def top_up(plan: JointPlan, given: Sequence[JointPlan]) -> JointPlan:
    """The least to measure so that, pooled with all given, everything is at least as accurate as the plan says."""
    like, (wanted, *have) = _aligned([plan, *given])
    return _made(like, _left(wanted, np.sum(have, axis=0)), "what is missing", plan.workload)


def _left(wanted: Floats, have: Floats) -> Floats:
    """`max(0, τ_wanted − τ_have)`, less than ORDER_TOLERANCE being nothing; rounding never makes it more."""
    left = wanted * (1.0 - 2.0**-44) - have
    return np.where(left > ORDER_TOLERANCE * wanted, left, 0.0)


def _aligned(plans: Sequence[JointPlan]) -> tuple[JointPlan, list[Floats]]:
    """The first plan with the blocks of all, and everyone's precisions."""
    rows: dict[Block, Rows] = {}
    for plan in plans:
        for block in plan.blocks_of:
            rows.setdefault(block, plan.rows_of(block))
    blocks = tuple(sorted(rows, key=rank))
    strategies = tuple(dict.fromkeys(rows[block] for block in blocks))
    places = {own: number for number, own in enumerate(strategies)}
    at = {block: k for k, block in enumerate(blocks)}
    precisions = []
    for plan in plans:
        own = np.zeros(len(blocks))
        own[[at[block] for block in plan.blocks_of]] = plan.precisions
        precisions.append(own)
    like = plans[0].replaced(
        blocks_of=blocks,
        numbers=tuple(places[rows[block]] for block in blocks),
        strategies=strategies,
        precisions=precisions[0],
        workload=None,
    )
    return like, precisions


def _made(like: JointPlan, precisions: Floats, objective: str, workload: Workload | None) -> JointPlan:
    made = like.replaced(precisions=precisions, objective=objective, gap=np.inf, guarantee=None, workload=workload)
    return made.replaced(guarantee=guarantee_like(like.guarantee, made.unit_pcost))


register_closed(agree, sys.modules[__name__])
