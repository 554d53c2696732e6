"""What several dense measurements cost together, exactly: the dearest cell of the sum, not the sum of the dearest.

Each part costs a person in cell j `Σ_k B_kj² / s²`, whole numbers over a square. Parts may tell apart different
attributes: cells of the union that no part tells apart are taken together, and the sums are over those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.plan.dense.blocks import DenseBlocks, block_cost, column_norms
from residua.privacy import ReplaceOne, Unit

Integers = NDArray[np.int64]
_POINT = 2**200
_MOST_CELLS = 2**22
_MOST_GROUPS = 2**13  # for the cost of a replacement, which looks at pairs


def joint_dense_cost(measured: Sequence[DenseBlocks], unit: Unit) -> Fraction:
    """The privacy cost of measuring all these blocks, for this unit of protection.

    Guarantee: never less than the truth, and never more than the sum of what each costs alone; it is that sum where
    there are too many cells to look at each.
    """
    alone = sum((block_cost(blocks, unit) for blocks in measured), Fraction(0))  # also checks every block's form
    if len(measured) == 1:
        return alone
    if any(blocks.sizes.tolist() != measured[0].sizes.tolist() for blocks in measured):
        raise VerificationError("the blocks are over different domains; they have no cost together.")
    groups = _groups(measured)
    if groups is None:
        return alone
    profile = _profile(measured, groups)
    replaced = None
    if isinstance(unit, ReplaceOne):
        if groups.shape[1] > _MOST_GROUPS:
            return alone
        replaced = _replacement(measured, groups, max(profile))
    return min(alone, unit.scaled(max(profile), replaced))


def _groups(measured: Sequence[DenseBlocks]) -> Integers | None:
    """The distinct combinations of columns, one of each part (−1 for none), (parts, groups); None if too many cells."""
    union = sorted({i for blocks in measured for i in blocks.attributes})
    shape = [int(measured[0].sizes[i]) for i in union]
    if math.prod(shape) > _MOST_CELLS:
        return None
    key = np.zeros(math.prod(shape), dtype=np.int64)
    columns = []
    for blocks in measured:
        inner = [n if i in blocks.attributes else 1 for i, n in zip(union, shape, strict=True)]
        wide = np.broadcast_to(blocks.columns.reshape(inner), shape).ravel()
        columns.append(wide)
        # Renumbered each time: at most as many keys as cells, so that the product stays far below 64 bits.
        key = np.unique(key * (blocks.strategy.shape[1] + 1) + wide + 1, return_inverse=True)[1]
    first = np.unique(key, return_index=True)[1]
    return np.stack([wide[first] for wide in columns])


def _profile(measured: Sequence[DenseBlocks], groups: Integers) -> list[Fraction]:
    """What all parts cost a person in each group, in units of 2^-200, rounded up."""
    total = [0] * groups.shape[1]
    for blocks, columns in zip(measured, groups, strict=True):
        numerator, denominator = blocks.scale.as_integer_ratio()
        above, below = denominator * denominator * _POINT, numerator * numerator
        costs = [-(-norm * above // below) for norm in column_norms(blocks.strategy)]
        total = [sum_ + (costs[j] if j >= 0 else 0) for sum_, j in zip(total, columns.tolist(), strict=True)]
    return [Fraction(point, _POINT) for point in total]


def _replacement(measured: Sequence[DenseBlocks], groups: Integers, largest: Fraction) -> Fraction:
    """`max_ij Γ_ii + Γ_jj − 2 Γ_ij`, from floating-point products widened by a bound on their rounding."""
    gram, rows = np.zeros((groups.shape[1],) * 2), 0
    for blocks, columns in zip(measured, groups, strict=True):
        B = np.where(columns >= 0, blocks.strategy[:, np.maximum(columns, 0)], 0).astype(np.float64) / blocks.scale
        gram += B.T @ B
        rows += len(B)
    diagonal = np.diag(gram)
    found = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    # Entries are rounded twice, products of k terms are off by k·2^-52·‖B_i‖‖B_j‖ at most; four of them enter.
    slack = 4 * (rows + len(measured) + 8) * 2.0**-51 * float(largest)
    unasked = largest if any(blocks.drops for blocks in measured) else Fraction(0)  # a record removed
    return max(Fraction(found) + Fraction(slack), unasked)
