"""The algebra of blockwise plans that share their rows: exact, elementwise on the precisions of blocks.

Rows of all blocks together are independent of each other, so that Γ is ordered, added and met block by block, as for
lattice plans (`product/algebra.py`). Plans with other rows are compared as matrices over cells, on small domains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.algebra import ElementwiseAlgebra, priced
from residua.plans.blockwise.facts import BlockRows
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.combining import register_closed
from residua.plans.levels import Block, rank
from residua.workload import Workload


def agree(plans: Sequence[object]) -> bool:
    """Whether these are blockwise plans with the same levels, and the same rows for the blocks that they share."""
    if not all(isinstance(plan, BlockwisePlan) for plan in plans):
        return False
    kin = [plan for plan in plans if isinstance(plan, BlockwisePlan)]
    if any(plan.axes != kin[0].axes for plan in kin):
        return False
    known: dict[Block, BlockRows] = {}
    for plan in kin:
        for block in plan.blocks_of:
            if known.setdefault(block, plan.rows_of(block)) != plan.rows_of(block):
                return False
    return True


def _aligned(plans: Sequence[BlockwisePlan]) -> tuple[BlockwisePlan, list[Floats]]:
    """The first plan with the blocks of all, and everyone's precisions."""
    rows: dict[Block, BlockRows] = {}
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


def _with_precisions(like: BlockwisePlan, precisions: Floats, workload: Workload | None) -> BlockwisePlan:
    return like.replaced(precisions=precisions, workload=workload)


BLOCKWISE = ElementwiseAlgebra(_aligned, priced(_with_precisions))
register_closed(agree, BLOCKWISE)
