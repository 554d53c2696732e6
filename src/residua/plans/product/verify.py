"""The verifier of product plans: what measuring these blocks costs, exactly, from the blocks alone.

Small and trusted, as `residual/verify.py`: whole numbers and fractions only, every step rounded up.

Adding a record to a cell adds `t ⊗ R_i e_j` to block S, whose squared norm is `t² Π_i ‖R_i e_j‖²`. The cell that has
every attribute's heaviest value attains the largest norm in all blocks at once, so that
`Σ_S (t²/s²) Π_{i∈S} max_j ‖R_i e_j‖²` is the cost exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.plans.product.blocks import ProductBlocks
from residua.plans.product.strategy import Strategy, column_norms
from residua.plans.residual.replacement import MOST_ENUMERATED
from residua.plans.verifying import POINT, WORD, check_blocks, check_records, promised
from residua.privacy import Guarantee, ReplaceOne, Unit

FEWEST_RECORDS = 2**28
Share = tuple[tuple[int, ...], int]  # the attributes of a block, and its cost in whole numbers of 2^-200


def product_cost(blocks: ProductBlocks, guarantee: Guarantee | None, unit: Unit) -> Fraction:
    """The privacy cost of measuring these blocks, for this unit of protection, never less than the truth.

    Guarantee: measuring the blocks is within `guarantee` for `unit`, or VerificationError is raised.

    Raises:
        VerificationError: dearer than promised, not integer, noise outside the exact samplers' range, or numbers
            that could overflow 64 bits.
    """
    return promised(summed_cost([blocks], unit), guarantee)


def summed_cost(several: Sequence[ProductBlocks], unit: Unit) -> Fraction:
    """What measuring all these blocks of one domain costs this unit of protection, whatever was promised.

    Exact for records added or removed where all of them measure an attribute by one strategy: then one cell is the
    dearest of every block. Otherwise a bound: each at its own dearest cell.
    """
    point = 0
    alike: list[tuple[dict[int, Strategy], list[Share]]] = []  # blocks that measure each attribute by one strategy
    for blocks in several:
        check_blocks(blocks)
        _check_strategies(blocks)
        check_records(most_product_records(blocks), FEWEST_RECORDS)
        norms = [_heaviest(strategy) for strategy in blocks.strategies]
        sets = measured_sets(blocks)
        shares = [(row, _share(t, s, math.prod(norms[i] for i in row))) for row, t, s in sets]
        point += sum(cost for _, cost in shares)
        used = {i: blocks.strategies[i] for row, cost in shares if cost for i in row}
        for strategies, known in alike:
            if all(strategies.get(i, strategy) == strategy for i, strategy in used.items()):
                strategies.update(used)
                known.extend(shares)
                break
        else:
            alike.append((used, shares))
    pcost = Fraction(point, POINT)
    if not isinstance(unit, ReplaceOne):
        return unit.scaled(pcost)
    replaced = sum((_replacement(*group) for group in alike), Fraction(0))
    # A record changed to a value that is left out is a record removed.
    return unit.scaled(pcost, max(replaced, pcost) if any(blocks.drops for blocks in several) else replaced)


def measured_sets(blocks: ProductBlocks) -> list[tuple[tuple[int, ...], int, float]]:
    """The attributes, the grid factor and the noise scale of every block."""
    rows = list(blocks.lattice)
    members = [rows[number] for number in blocks.measured.tolist()]
    return list(zip(members, blocks.grids.tolist(), blocks.scales.tolist(), strict=True))


def most_product_records(blocks: ProductBlocks) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    entries = blocks.lattice.products(np.array([float(strategy.largest) for strategy in blocks.strategies]))
    largest = float((entries[blocks.measured] * blocks.grids).max())
    return int((WORD - 2**51) // math.ceil(largest * (1 + 2.0**-40)))


def _check_strategies(blocks: ProductBlocks) -> None:
    if [strategy.size for strategy in blocks.strategies] != blocks.sizes.tolist():
        raise VerificationError("the strategies do not fit the attributes; plan again.")
    if not all(np.issubdtype(strategy.matrix.dtype, np.integer) for strategy in blocks.strategies):
        raise VerificationError("a strategy is not made of whole numbers; only integers are measured.")


def _heaviest(strategy: Strategy) -> int:
    """`max_j ‖R e_j‖²` from the integers themselves, not from what the strategy says of itself."""
    if strategy.identity:
        return strategy.size * (strategy.size - 1)
    return max(column_norms(strategy.matrix), default=0)


def _share(grid: int, scale: float, norm: int) -> int:
    """`t² norm / s²` in fixed point, rounded up."""
    numerator, denominator = scale.as_integer_ratio()
    return -(-((grid * denominator) ** 2) * norm * POINT // (numerator * numerator))


def _least_inner(strategy: Strategy) -> int:
    """The least inner product of two columns of R, exactly."""
    if strategy.identity:
        return -strategy.size
    R = strategy.matrix
    if max(column_norms(R)) >= WORD:  # no partial sum is larger than a norm
        R = R.astype(object)
    return int((R.T @ R).min())


def _replacement(strategies: dict[int, Strategy], shares: list[Share]) -> Fraction:
    """`max_E 2 Σ_{S≠∅} cost_S (1 − Π_{i∈S∖E} r_i)`, with r_i the least inner product of two columns over the norm.

    A safe bound: no column is longer than the norm, and the sum is linear in each inner product, so that it is largest
    with each at its least or at the norm. With too many attributes to try all that, each block's own worst: its inner
    product is no less than its most negative factor times the norms of the others. The total does not change.
    """
    shares = [(row, cost) for row, cost in shares if row and cost]
    ratios = {i: Fraction(_least_inner(strategy), _heaviest(strategy)) for i, strategy in strategies.items()}
    if len(ratios) > MOST_ENUMERATED:
        worst = [max(-min(ratios[i] for i in row), Fraction(0)) for row, _ in shares]
        total = sum((2 * cost * (1 + apart) for (_, cost), apart in zip(shares, worst, strict=True)), Fraction(0))
        return Fraction(math.ceil(total), POINT)
    places = {i: axis for axis, i in enumerate(ratios)}
    shared: NDArray[np.object_] = np.zeros((2,) * len(places), dtype=object)
    for row, cost in shares:
        shared[tuple(int(i in row) for i in places)] += cost
    for i, axis in places.items():  # everything is multiplied by the denominator to stay whole
        least, norm = ratios[i].as_integer_ratio()
        without, with_i = np.take(shared, 0, axis=axis), np.take(shared, 1, axis=axis)
        shared = np.stack([without * norm + with_i * least, (without + with_i) * norm], axis=axis)
    largest = 2 * (shared[(1,) * len(places)] - shared.min())
    return Fraction(-(-largest // math.prod(ratio.denominator for ratio in ratios.values())), POINT)
