"""Releases along one attribute with the same operators, pooled: every measured piece is averaged by precision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import cast

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.noise import ORDERED
from residua.plans.operators.path import ROUNDING
from residua.plans.product.algebra import PRODUCTS
from residua.plans.product.estimator import ProductReading
from residua.plans.product.plan import ProductPlan
from residua.release.base import Release
from residua.workload import Workload


def pooled_operators(parts: Sequence[Release], workload: Workload | None) -> tuple[ProductPlan, Floats]:
    """The plan that measures as precisely as all these together, and averages on its grid, (cells,).

    Args:
        parts: the releases.
        workload: what the pool is asked for, for the record.
    """
    read = [cast("ProductReading", part.reading) for part in parts]
    known = [cast("ProductPlan", each.plan).replaced(workload=None) for each in read]  # the rounding of noise included
    plan = reduce(PRODUCTS.compose, known).replaced(workload=workload, guarantee=parts[0].planned.guarantee)
    if plan.noise == ORDERED:  # prefix sums are rounded to their grid once more
        plan = plan.scaled(1 - 2 * ROUNDING)
    blocks = plan.compile()
    place = {piece.members: number for number, piece in enumerate(blocks.pieces)}
    sums = np.zeros(blocks.cells)
    for one, own in zip(read, known, strict=True):
        for number, piece in enumerate(one.blocks.pieces):
            at = place[piece.members]
            share = own.parts[piece.members].ratio_to(plan.parts[piece.members])
            assert share is not None
            there = slice(blocks.starts[at], blocks.starts[at + 1])
            mine = one.blocks.of_piece(number, one.measurements)
            sums[there] += mine * (share * blocks.pieces[at].grid / piece.grid)
    return plan, sums
