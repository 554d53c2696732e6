"""What several measurements of one dataset cost together: the largest diagonal entry of the sum of their Γ, exactly.

Γ of a residual plan has a constant diagonal, so that for a record added or removed residual parts just add up; dense parts add cell by
cell, and what two parts measure in disjoint cells costs the larger of the two. Other kinds of measurement count with
what they cost alone, which is never too little: `max(a + b) ≤ max a + max b`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from residua.plan.base import Blocks
from residua.plan.dense.blocks import DenseBlocks
from residua.plan.dense.joint import joint_dense_cost
from residua.plan.residual.blocks import ResidualBlocks
from residua.plan.residual.verify import joint_cost
from residua.privacy import ReplaceOne, Unit


def composed_cost(measured: Iterable[tuple[Blocks, Fraction]], unit: Unit) -> Fraction:
    """The privacy cost of all these measurements together, for this unit of protection.

    Guarantee: never less than the truth, and never more than the sum of what each costs alone.

    Args:
        measured: each measurement's blocks, and what they cost alone by their own verifier.
        unit: whom the cost is for.
    """
    residual: list[ResidualBlocks] = []
    dense: list[DenseBlocks] = []
    cost = Fraction(0)
    for blocks, alone in measured:
        if isinstance(blocks, ResidualBlocks) and isinstance(unit, ReplaceOne):
            residual.append(blocks)
        elif isinstance(blocks, DenseBlocks):
            dense.append(blocks)
        else:
            cost += alone
    if residual:
        cost += joint_cost(residual, unit)
    if dense:
        cost += joint_dense_cost(dense, unit)
    return cost
