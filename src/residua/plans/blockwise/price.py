"""The verifier of blockwise plans: what measuring integer rows of tables costs, exactly, from the integers alone.

Small and trusted. Adding a record adds one column of each block's rows: the cost of a cell is `Σ_b ‖B_b e_j‖² / s_b²`,
j its class in the block's table. Where the cells of all attributes together are few, all are tried; else each block
counts at its most expensive cell, which is never less. Changing a record adds a difference of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Objects
from residua.plans.blocks import POINT, WORD, require_scales
from residua.plans.blockwise.facts import Rows
from residua.plans.levels import AttributeLevels, Block, shape_of, table_for
from residua.privacy import Unit

FEWEST_RECORDS = 2**28


class _Priced(Protocol):
    """What the verifier looks at."""

    @property
    def axes(self) -> tuple[AttributeLevels, ...]: ...  # the levels of each attribute

    @property
    def measured(self) -> tuple[Block, ...]: ...  # the blocks that are measured

    @property
    def rows(self) -> tuple[Rows, ...]: ...  # the integers of each

    @property
    def scales(self) -> Floats: ...  # the noise scale s of each, (blocks,); a float is an exact rational

    @property
    def drops(self) -> bool: ...  # whether changing a record may remove it from every table


def price(blocks: _Priced, unit: Unit) -> Fraction:
    """What measuring costs this unit of protection, never less.

    Raises:
        VerificationError: not integer, noise outside the exact samplers' range, or numbers that could overflow.
    """
    return together([blocks], unit)


def together(several: Sequence[_Priced], unit: Unit) -> Fraction:
    """What several measurements with the same levels cost this unit in all, never less.

    Raises:
        VerificationError: as `price`.
    """
    for blocks in several:
        _check_form(blocks)
    added = Fraction(_largest(several), POINT)
    moved = [_sum(blocks, [rows.apart if block else 0 for block, rows in _pairs(blocks)]) for blocks in several]
    changed = min(Fraction(sum(moved), POINT), 4 * added)  # ‖a − b‖² ≤ 2‖a‖² + 2‖b‖²
    return unit.scaled(added, max(changed, added) if several[0].drops else changed)


def cell_costs(blocks: _Priced) -> tuple[tuple[int, ...], Objects] | None:
    """Which attributes there are and the cost of each of their cells in whole numbers of 2^-200; None: too many.

    Cells are classes of values that no block tells apart, (classes, …); each block is rounded up.
    """
    return _cell_costs([blocks])


def _cell_costs(several: Sequence[_Priced]) -> tuple[tuple[int, ...], Objects] | None:
    table = table_for(several[0].axes, [block for blocks in several for block in blocks.measured])
    if table is None:
        return None
    costs: Objects = np.zeros(table.shape, dtype=object)
    for blocks in several:
        for (block, own), scale in zip(_pairs(blocks), blocks.scales.tolist(), strict=True):
            shares = np.array([_share(norm, scale) for norm in own.norms], dtype=object)
            costs = np.asarray(costs + table.spread(block, shares), dtype=object)  # a number alone is no array
    return table.attributes, costs


def _largest(several: Sequence[_Priced]) -> int:
    """The cost of the most expensive cell, never less."""
    listed = _cell_costs(several)
    if listed is None:
        return sum(_sum(blocks, [rows.norm for rows in blocks.rows]) for blocks in several)
    return int(max(listed[1].ravel().tolist()))


def most_records(rows: Sequence[Rows]) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    return (WORD - 2**51) // max((each.largest for each in set(rows)), default=1)


def _pairs(blocks: _Priced) -> list[tuple[Block, Rows]]:
    return list(zip(blocks.measured, blocks.rows, strict=True))


def _sum(blocks: _Priced, norms: Sequence[int]) -> int:
    """`Σ norm / s²` in fixed point, each rounded up."""
    return sum(_share(norm, scale) for norm, scale in zip(norms, blocks.scales.tolist(), strict=True))


def _share(norm: int, scale: float) -> int:
    numerator, denominator = scale.as_integer_ratio()
    return -(-(denominator**2) * norm * POINT // (numerator * numerator))


def _check_form(blocks: _Priced) -> None:
    """Refuses blocks that are incomplete, not integer, listed twice, or whose noise cannot be sampled exactly."""
    count = len(blocks.measured)
    if not count or len(blocks.rows) != count or blocks.scales.shape != (count,):
        raise VerificationError("the blocks are incomplete; each needs its rows and a noise scale.")
    if len(set(blocks.measured)) < count:
        raise VerificationError("a block is measured twice; list each once.")
    require_scales(blocks.scales)
    for block, own in _pairs(blocks):
        cells = int(np.prod(shape_of(blocks.axes, block), dtype=np.int64))
        if not np.issubdtype(own.rows.dtype, np.integer) or own.rows.ndim != 2 or own.rows.shape[1] != cells:
            raise VerificationError("the rows of a block are not whole numbers, one per cell; plan again.")
    if most_records(blocks.rows) < FEWEST_RECORDS:
        raise VerificationError("the integers of a block are so large that numbers could overflow; plan again.")
