"""What measuring integer rows of tables costs, exactly, from the integers alone: what the verifier asks of them.

Adding a record adds one column of each block's rows: the cost of a cell is `Σ_b ‖B_b e_j‖² / s_b²`,
j its class in the block's table. Where the cells of all attributes together are few, all are tried; else each block
counts at its most expensive cell, which is never less. Changing a record adds a difference of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Objects
from residua.plans.blockwise.facts import BlockRows
from residua.plans.levels import Block, shape_of, table_for
from residua.plans.verifier import FEWEST_RECORDS, POINT, WORD, require_scales, share

Priced = Any  # blocks: the levels of each attribute, which blocks are measured, the integers and the scale of each


def replaced(several: Sequence[Priced]) -> Fraction:
    """What a changed record costs: in each block a difference of columns; nothing of the total, which stays."""
    moved = [
        _sum(measurements, [rows.apart if block else 0 for block, rows in _pairs(measurements)])
        for measurements in several
    ]
    return Fraction(sum(moved), POINT)


def cell_costs(measurements: Priced) -> tuple[tuple[int, ...], Objects] | None:
    """Which attributes there are and the cost of each of their cells in whole numbers of 2^-200; None: too many.

    Cells are classes of values that no block tells apart, (classes, …); each block is rounded up.
    """
    return _cell_costs([measurements])


def _cell_costs(several: Sequence[Priced]) -> tuple[tuple[int, ...], Objects] | None:
    table = table_for(several[0].axes, [block for measurements in several for block in measurements.measured])
    if table is None:
        return None
    costs: Objects = np.zeros(table.shape, dtype=object)
    for measurements in several:
        for (block, own), scale in zip(_pairs(measurements), measurements.scales.tolist(), strict=True):
            shares = np.array([share(norm, scale) for norm in own.norms], dtype=object)
            costs = np.asarray(costs + table.spread(block, shares), dtype=object)  # a number alone is no array
    return table.attributes, costs


def added(several: Sequence[Priced]) -> Fraction:
    """The cost of the most expensive cell, never less."""
    listed = _cell_costs(several)
    if listed is None:
        return Fraction(
            sum(_sum(measurements, [rows.norm for rows in measurements.rows]) for measurements in several), POINT
        )
    return Fraction(max(listed[1].ravel().tolist()), POINT)


def most_records(rows: Sequence[BlockRows]) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    return (WORD - 2**51) // max((each.largest for each in set(rows)), default=1)


def _pairs(measurements: Priced) -> list[tuple[Block, BlockRows]]:
    return list(zip(measurements.measured, measurements.rows, strict=True))


def _sum(measurements: Priced, norms: Sequence[int]) -> int:
    """`Σ norm / s²` in fixed point, each rounded up."""
    return sum(share(norm, scale) for norm, scale in zip(norms, measurements.scales.tolist(), strict=True))


def check(measurements: Priced) -> None:
    """Refuses blocks that are incomplete, not integer, listed twice, or whose noise cannot be sampled exactly."""
    count = len(measurements.measured)
    if not count or len(measurements.rows) != count or measurements.scales.shape != (count,):
        raise VerificationError("the blocks are incomplete; each needs its rows and a noise scale.")
    if len(set(measurements.measured)) < count:
        raise VerificationError("a block is measured twice; list each once.")
    require_scales(measurements.scales)
    for block, own in _pairs(measurements):
        cells = int(np.prod(shape_of(measurements.axes, block), dtype=np.int64))
        if not np.issubdtype(own.rows.dtype, np.integer) or own.rows.ndim != 2 or own.rows.shape[1] != cells:
            raise VerificationError("the rows of a block are not whole numbers, one per cell; plan again.")
    if most_records(measurements.rows) < FEWEST_RECORDS:
        raise VerificationError("the integers of a block are so large that numbers could overflow; plan again.")
