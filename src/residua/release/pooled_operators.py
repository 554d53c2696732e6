"""Releases along one attribute with the same operators, pooled: every measured piece is averaged by precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import cast

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.noise import ORDERED
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.path import ROUNDING
from residua.plans.product.algebra import PRODUCTS
from residua.plans.product.crossed_blocks import CrossedBlocks
from residua.plans.product.piece_reading import ProductReading
from residua.plans.product.plan import ProductPlan
from residua.plans.product.set_blocks import LatticeBlocks, gridded
from residua.release.base import Release
from residua.workload import Workload, renumber


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


_FINENESS = 2.0**20  # of the pool's grid, which nothing is drawn on


def pooled_along(plan: ProductPlan, parts: Sequence[Release]) -> Release:
    """The pool of releases that share their strategies, stated as one.

    Args:
        plan: what they tell together.
        parts: the releases.
    """
    known = [_blocks(part, plan) for part in parts]
    own = np.zeros(len(plan.lattice))
    places = [renumber(blocks.lattice, plan.lattice) for blocks in known]
    for blocks, numbers in zip(known, places, strict=True):
        own[numbers] += blocks.own_precisions
    measured = np.flatnonzero(own > 0)
    grids, scales = np.ones(len(own), dtype=np.int64), np.zeros(len(own))
    for number in measured.tolist():
        members = plan.lattice.members(number)
        unit = math.prod(plan.strategies[i].unit for i in members)
        axes = [one for i in members if isinstance(one := plan.strategies[i], Ordered)]
        if axes:
            scales[number] = unit**2 / own[number] / (1 + ROUNDING)
            finest = math.sqrt(math.prod(float(axis.value_variances.min()) for axis in axes) * scales[number])
            grids[number] = 2 ** max(math.ceil(math.log2(_FINENESS / finest)), 0)
        else:
            whole, stddevs = gridded(np.array([unit / math.sqrt(own[number])]))
            grids[number], scales[number] = int(whole[0]), float(stddevs[0])
    domain = plan.domain
    pool = CrossedBlocks(
        plan.lattice,
        domain.sizes,
        measured,
        grids[measured],
        scales[measured],
        plan.strategies,
        domain.drops,
        domain.names,
    )
    sums = np.zeros(pool.cells)
    for part, blocks, numbers in zip(parts, known, places, strict=True):
        for number in blocks.measured.tolist():
            there, _, fine = pool.where(int(numbers[number]))
            here, _, grid = blocks.where(number)
            share = blocks.own_precisions[number] / own[numbers[number]]
            sums[there] += part.measurements[here] * (share * fine / grid)
    return Release(plan, pool, np.rint(sums).astype(np.int64))


def _blocks(part: Release, plan: ProductPlan) -> CrossedBlocks:
    """A part's blocks with the strategies of all."""
    if cast("ProductPlan", part.plan).axes:
        return cast("CrossedBlocks", part.blocks)
    blocks = cast("LatticeBlocks", part.blocks)
    kept = (blocks.measured.copy(), blocks.grids.copy(), blocks.scales.copy())
    return CrossedBlocks(blocks.lattice, blocks.sizes, *kept, plan.strategies, blocks.drops, blocks.names)
