"""What a product plan really measures: integer tables, exact noise scales, and their exact price.

Block S is `y = t (⊗_{i∈S} R_i) m_S + round(s z)`. Adding a record to a cell adds `t ⊗ R_i e_j`, whose squared norm is
`t² Π_i ‖R_i e_j‖²`. The cell that has every attribute's heaviest value attains the largest norm in all blocks at once,
so that `Σ_S (t²/s²) Π_{i∈S} max_j ‖R_i e_j‖²` is the cost exactly; it is computed in whole numbers and rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Group, Layout, layout_of
from residua.plan.base import Blocks
from residua.plan.product.plan import ProductPlan
from residua.plan.product.strategy import Strategy, column_norms
from residua.plan.residual.blocks import INVISIBLE_SCALE, LARGEST_SCALE, SMALLEST_SCALE
from residua.privacy import Guarantee, ReplaceOne, Unit

Floats = NDArray[np.float64]
FEWEST_RECORDS = 2**28
WORD = 2**62
POINT = 2**200  # fixed point: a cost is a whole number of 2^-200, rounded up
_ROUNDING_VARIANCE = 1.0 / 12.0


@dataclass(frozen=True, eq=False)
class ProductBlocks(Blocks):
    """Integer measurements of products.

    Args:
        lattice: the family the sets belong to.
        sizes: how many values each attribute has, (attributes,).
        strategies: the integer matrix of each attribute.
        measured: numbers of the sets that are measured, (blocks,), increasing.
        grids: the integer factor t of each, (blocks,).
        scales: the noise scale s of each, (blocks,); a float is an exact rational.
        drops: whether changing a record may remove it from every table (a policy `drop`).
    """

    lattice: Lattice
    sizes: NDArray[np.int64]
    strategies: tuple[Strategy, ...]
    measured: NDArray[np.int64]
    grids: NDArray[np.int64]
    scales: Floats
    drops: bool = False

    def __post_init__(self) -> None:
        for array in (self.measured, self.grids, self.scales):
            array.setflags(write=False)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """How many integers are measured along each attribute, (attributes,)."""
        return np.array([strategy.count for strategy in self.strategies], dtype=np.int64)

    @cached_property
    def _chosen(self) -> NDArray[np.bool_]:
        chosen = np.zeros(len(self.lattice), dtype=bool)
        chosen[self.measured] = True
        return chosen

    @cached_property
    def layout(self) -> Layout:
        """Where each measured table, of shape (r_i), lies in the buffer of all measurements."""
        return layout_of(self.lattice, self.rows, self._chosen)

    @cached_property
    def counted(self) -> Layout:
        """Where each marginal behind a measured table, of shape (n_i), lies in a buffer of counts."""
        return layout_of(self.lattice, self.sizes, self._chosen)

    @cached_property
    def _kinds(self) -> NDArray[np.int64]:
        """A number for each attribute, the same where the strategy is the same, (attributes,)."""
        known = {strategy: number for number, strategy in enumerate(dict.fromkeys(self.strategies))}
        return np.array([known[strategy] for strategy in self.strategies], dtype=np.int64)

    def alike(self, group: Group) -> list[NDArray[np.int64]]:
        """The places of a group's tables that have the same strategies along the same axes, list by list."""
        rows = self._kinds[group.members]
        inverse = np.unique(rows, axis=0, return_inverse=True)[1].ravel() if rows.shape[1] else np.zeros(len(rows), int)
        order = np.argsort(inverse, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.layout.cells

    @cached_property
    def units(self) -> Floats:
        """`t · Π_{i∈S} unit_i`: what one step of the integer grid stands for, inverted, (blocks,)."""
        units = np.array([strategy.unit for strategy in self.strategies])
        return np.asarray(self.grids * self.lattice.products(units)[self.measured])

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S` of what is really measured, the rounding's own variance 1/12 included, (blocks,)."""
        return np.asarray((self.scales**2 + _ROUNDING_VARIANCE) / self.units**2)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a saved release keeps of the blocks: which sets, on which grids, with which noise."""
        return {"measured": self.measured, "grids": self.grids, "scales": self.scales}


def compile_product(plan: ProductPlan) -> ProductBlocks:
    """The integer measurements that realise a plan, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise too large or too small for exact integer sampling.
    """
    measured = np.flatnonzero(plan.precisions > 0)
    if not len(measured):
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    units = plan.lattice.products(np.array([strategy.unit for strategy in plan.strategies]))[measured]
    plain = units * np.sqrt(plan.noise_variances[measured])
    grids = 2.0 ** np.maximum(np.ceil(np.log2(INVISIBLE_SCALE / plain)), 0.0)
    if grids.max() > 2.0**40:
        raise VerificationError("the plan's noise is far below one count; a budget this large gives no privacy.")
    scales = plain * grids * (1.0 + 2.0**-46)  # a product of k ≤ 20 roots and factors, then rounded against us
    if scales.max() > LARGEST_SCALE:
        worst = plan.lattice.members(int(measured[int(scales.argmax())]))
        names = tuple(plan.domain.names[i] for i in worst)
        raise VerificationError(
            f"the noise on {names!r} is too large to sample exactly; raise the budget or leave the term out."
        )
    return ProductBlocks(
        plan.lattice, plan.domain.sizes, plan.strategies, measured, grids.astype(np.int64), scales, plan.domain.drops
    )


def product_cost(blocks: ProductBlocks, guarantee: Guarantee | None, unit: Unit) -> Fraction:
    """The privacy cost of measuring these blocks, for this unit of protection, never less than the truth.

    Guarantee: measuring the blocks is within `guarantee` for `unit`, or VerificationError is raised.

    Raises:
        VerificationError: dearer than promised, not integer, noise outside the exact samplers' range, or numbers
            that could overflow 64 bits.
    """
    cost = summed_cost([blocks], unit)
    if guarantee is None:
        raise VerificationError("the plan promises no guarantee; plan again.")
    if cost > guarantee.pcost_allowed():
        raise VerificationError(
            f"what would be measured costs {float(cost):.6g}, more than {guarantee!r} allows; the plan was altered, "
            "plan again. Nothing was spent."
        )
    return cost


def summed_cost(several: Sequence[ProductBlocks], unit: Unit) -> Fraction:
    """What measuring all these blocks of one domain costs this unit of protection, whatever was promised.

    Exact for records added or removed where all of them measure an attribute by one strategy: then one cell is the
    dearest of every block. Otherwise a bound: each at its own dearest cell.
    """
    point, replaced = 0, Fraction(0)
    for blocks in several:
        _check_form(blocks)
        norms = [_heaviest(strategy) for strategy in blocks.strategies]
        costs = [_share(t, s, math.prod(norms[i] for i in row)) for row, t, s in measured_sets(blocks)]
        point += sum(costs)
        if isinstance(unit, ReplaceOne):
            replaced += _replacement(blocks, [row for row, _, _ in measured_sets(blocks)], costs, norms)
    pcost = Fraction(point, POINT)
    if not isinstance(unit, ReplaceOne):
        return unit.scaled(pcost)
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


def _check_form(blocks: ProductBlocks) -> None:
    count = len(blocks.measured)
    if not count or blocks.grids.shape != (count,) or blocks.scales.shape != (count,):
        raise VerificationError("the blocks are incomplete; each needs a set, a grid factor and a noise scale.")
    if not np.issubdtype(blocks.grids.dtype, np.integer) or (blocks.grids < 1).any():
        raise VerificationError("a grid factor is not a positive whole number; only integers are measured.")
    if [strategy.size for strategy in blocks.strategies] != blocks.sizes.tolist():
        raise VerificationError("the strategies do not fit the attributes; plan again.")
    if not all(np.issubdtype(strategy.matrix.dtype, np.integer) for strategy in blocks.strategies):
        raise VerificationError("a strategy is not made of whole numbers; only integers are measured.")
    if (np.diff(blocks.measured) <= 0).any() or not 0 <= blocks.measured[0] <= blocks.measured[-1] < len(
        blocks.lattice
    ):
        raise VerificationError("a set is measured twice or does not exist; list each once, in order.")
    if not ((blocks.scales >= SMALLEST_SCALE) & (blocks.scales <= LARGEST_SCALE)).all():  # also refuses NaN
        raise VerificationError("a noise scale is outside 1/2 to 2^40; noise cannot be sampled exactly there.")
    if most_product_records(blocks) < FEWEST_RECORDS:
        raise VerificationError("a measured table is so large that its numbers could overflow; leave it out.")


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


def _replacement(blocks: ProductBlocks, members: list[tuple[int, ...]], costs: list[int], norms: list[int]) -> Fraction:
    """`2 Σ_{S≠∅} cost_S (1 + max_{i∈S} (−least_i)₊)`, a safe bound: `‖a − b‖² ≤ 2 (norm − least inner product)`.

    An inner product of two columns of ⊗R is a product of inner products, each at most the norm in size; it is least
    when one factor is as negative as it gets and the others are norms. The total does not change.
    """
    apart = []
    for strategy, norm in zip(blocks.strategies, norms, strict=True):
        apart.append(Fraction(max(-_least_inner(strategy), 0), norm) if norm else Fraction(0))
    shares = [2 * cost * (1 + max(apart[i] for i in row)) for cost, row in zip(costs, members, strict=True) if row]
    total = sum(shares, Fraction(0))
    return Fraction(math.ceil(total), POINT)
