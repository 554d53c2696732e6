"""The verifier of the lattice form: what measuring blocks costs, exactly, from the blocks alone.

Small and trusted: planners may be wrong about accuracy, but nothing is measured that this file has not priced. It
uses whole numbers and fractions only, and rounds every step up.

Adding a record to a cell adds `t ⊗ R_i e_j` to block S, whose squared norm is `t² Π_i ‖R_i e_j‖²`. The cell that has
every attribute's heaviest value attains the largest norm in all blocks at once, so that
`Σ_S (t²/s²) Π_{i∈S} max_j ‖R_i e_j‖²` is the cost exactly. With plain strategies every cell costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers, Objects
from residua.linalg.lattice import SetFamily
from residua.linalg.modes import column_norms
from residua.plans.blocks import POINT, WORD, require_scales
from residua.plans.persons import Reach, by_cells, reach_of
from residua.plans.product.contribution import Share, contributed
from residua.plans.product.replacement import MOST_ENUMERATED
from residua.plans.strategy import Strategy
from residua.privacy import Unit

FEWEST_RECORDS = 2**28


class _Priced(Protocol):
    """What the verifier looks at."""

    @property
    def lattice(self) -> SetFamily: ...  # The family of sets

    @property
    def sizes(self) -> Integers: ...  # How many values each attribute has, (attributes,)

    @property
    def measured(self) -> Integers: ...  # Numbers of the sets that are measured, increasing, (blocks,)

    @property
    def grids(self) -> Integers: ...  # The integer factor t of each, (blocks,)

    @property
    def scales(self) -> Floats: ...  # The noise scale s of each, (blocks,); a float is an exact rational

    @property
    def strategies(self) -> tuple[Strategy, ...]: ...  # The integer strategy of each attribute

    @property
    def drops(self) -> bool: ...  # Whether changing a record may remove it from every table (a policy `drop`)

    @property
    def names(self) -> tuple[str, ...]: ...  # What the attributes are called


def price_together(several: Sequence[_Priced], unit: Unit) -> Fraction:
    """What measuring all these blocks of one domain costs this unit of protection, whatever was promised.

    Exact for records added or removed where all of them measure an attribute by one strategy: then one cell is the
    most expensive of every block. Otherwise a bound: each at its own most expensive cell. Replacements are exact for
    up to 16 attributes with plain strategies, and a bound otherwise, tighter where strategies agree. Persons with
    limits are priced as `product/contribution.py` proves, and never above k² times one record.

    Raises:
        VerificationError: not integer, noise outside the exact samplers' range, or numbers that could overflow.
    """
    parts = [_Checked(blocks) for blocks in several]
    pcost = Fraction(sum(sum(part.costs) for part in parts), POINT)
    if by_cells(unit):
        return unit.scaled(pcost)
    reach = reach_of(unit, several[0].names, several[0].sizes)
    if reach is not None:
        ways = [unit.scaled(pcost), _contributed(parts, reach)]
        if len(parts) > 1:  # together, roundings may add up to a little more
            ways.append(sum((price_together([blocks], unit) for blocks in several), Fraction(0)))
        return min(ways)
    together = _replaced(parts)
    apart = sum((_replaced([part]) for part in parts), Fraction(0))
    return unit.scaled(pcost, min(together, apart))  # together there may be too many attributes to try all patterns


def most_records(blocks: _Priced) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    entries = blocks.lattice.products(np.array([float(strategy.largest) for strategy in blocks.strategies]))
    largest = float((entries[blocks.measured] * blocks.grids).max())
    return int((WORD - 2**51) // math.ceil(largest * (1 + 2.0**-40)))


def cell_costs(blocks: _Priced, most_cells: int) -> tuple[tuple[int, ...], Objects] | None:
    """Which attributes matter and the cost of each of their cells in whole numbers of 2^-200, (n_i, …).

    A cell costs `Σ_S (t²/s²) Π_{i∈S} ‖R_i e_j‖²`, each block rounded up. Attributes whose values all have the same
    norm do not matter; None if those that do have more cells than given.
    """
    used = np.unique(
        np.concatenate([level[_chosen(blocks, k)].ravel() for k, level in enumerate(blocks.lattice.levels)])
    )
    norms = {int(i): blocks.strategies[i].norms for i in used}
    uneven = tuple(i for i in norms if len(set(norms[i])) > 1)
    shape = tuple(len(norms[i]) for i in uneven)
    if math.prod(shape) > most_cells:
        return None
    if not uneven:
        return (), np.zeros(0, dtype=object)
    # One more place along each axis holds the blocks without the attribute; it is added to all others at the end.
    costs: Objects = np.zeros([1, *(n + 1 for n in shape)], dtype=object)
    for row, t, s in _listed(blocks):
        numerator, denominator = s.as_integer_ratio()
        alike = math.prod(norms[i][0] for i in row if i not in uneven)
        found: Objects = np.array([(t * denominator) ** 2 * alike * POINT], dtype=object)
        for i in (i for i in uneven if i in row):
            found = np.multiply.outer(found, np.array(norms[i], dtype=object))
        places = (slice(n) if i in row else slice(n, n + 1) for i, n in zip(uneven, shape, strict=True))
        at = (slice(1), *places)
        costs[at] += (-(-found // (numerator * numerator))).reshape(costs[at].shape)
    for axis, n in enumerate(shape, start=1):
        costs = np.take(costs, range(n), axis=axis) + np.take(costs, [n], axis=axis)
    return uneven, costs[0]


class _Checked:
    """Blocks whose form was checked, with the price of each."""

    def __init__(self, blocks: _Priced) -> None:
        _check_form(blocks)
        self.blocks = blocks

    @cached_property
    def norms(self) -> list[int]:
        """`max_j ‖R_i e_j‖²` of each attribute, from the integers themselves."""
        return [_heaviest(strategy) for strategy in self.blocks.strategies]

    @cached_property
    def costs(self) -> list[int]:
        """`t² Π norms / s²` of each block in fixed point, rounded up."""
        grids, scales = self.blocks.grids.tolist(), self.blocks.scales.tolist()
        return [share(*each) for each in zip(grids, scales, _products(self.blocks, self.norms), strict=True)]

    @cached_property
    def members(self) -> list[tuple[int, ...]]:
        """The attributes of each block."""
        return [row for row, _, _ in _listed(self.blocks)]


def _check_form(blocks: _Priced) -> None:
    """Refuses blocks that are incomplete, not integer, listed twice, or whose noise cannot be sampled exactly."""
    count = len(blocks.measured)
    if not count or blocks.grids.shape != (count,) or blocks.scales.shape != (count,):
        raise VerificationError("the blocks are incomplete; each needs a set, a grid factor and a noise scale.")
    if not np.issubdtype(blocks.grids.dtype, np.integer) or (blocks.grids < 1).any():
        raise VerificationError("a grid factor is not a positive whole number; only integers are measured.")
    first, last = blocks.measured[0], blocks.measured[-1]
    if (np.diff(blocks.measured) <= 0).any() or not 0 <= first <= last < len(blocks.lattice):
        raise VerificationError("a set is measured twice or does not exist; list each once, in order.")
    require_scales(blocks.scales)
    if [strategy.size for strategy in blocks.strategies] != blocks.sizes.tolist():
        raise VerificationError("the strategies do not fit the attributes; plan again.")
    integer = (np.issubdtype(one.matrix.dtype, np.integer) for one in set(blocks.strategies) if not one.plain)
    if not all(integer):
        raise VerificationError("a strategy is not made of whole numbers; only integers are measured.")
    if most_records(blocks) < FEWEST_RECORDS:
        raise VerificationError("a measured table is so large that its numbers could overflow; leave it out.")


def _heaviest(strategy: Strategy) -> int:
    """`max_j ‖R e_j‖²` from the integers themselves, not from what a strategy keeps of itself."""
    return strategy.size * (strategy.size - 1) if strategy.plain else max(column_norms(strategy.matrix), default=0)


def share(grid: int, scale: float, norm: int) -> int:
    """`t² norm / s²` in fixed point, rounded up."""
    numerator, denominator = scale.as_integer_ratio()
    return -(-((grid * denominator) ** 2) * norm * POINT // (numerator * numerator))


def _products(blocks: _Priced, factors: Sequence[int]) -> list[int]:
    """`Π_{i∈S} factors[i]` of every measured set, exactly."""
    exact: NDArray[np.object_] = np.array(factors, dtype=object)
    found: list[int] = []
    for k, level in enumerate(blocks.lattice.levels):
        rows = level[_chosen(blocks, k)]
        found += exact[rows].prod(axis=1).tolist() if k else [1] * len(rows)
    return found


def _chosen(blocks: _Priced, k: int) -> Integers:
    """Which sets of k attributes are measured, by their place among those."""
    start, stop = blocks.lattice.offsets[k], blocks.lattice.offsets[k + 1]
    return np.asarray(blocks.measured[(blocks.measured >= start) & (blocks.measured < stop)] - start)


def _listed(blocks: _Priced) -> list[tuple[tuple[int, ...], int, float]]:
    """The attributes, the grid factor and the noise scale of every block."""
    members = [
        tuple(row) for k, level in enumerate(blocks.lattice.levels) for row in level[_chosen(blocks, k)].tolist()
    ]
    return list(zip(members, blocks.grids.tolist(), blocks.scales.tolist(), strict=True))


def _contributed(parts: Sequence[_Checked], reach: Reach) -> Fraction:
    """What a person costs all these blocks, never less."""
    units = sum((contributed(reach, *group) for group in _alike(parts)), Fraction(0))
    return Fraction(math.ceil(units), POINT)


def _replaced(parts: Sequence[_Checked]) -> Fraction:
    """What changing one record costs all these blocks, never less."""
    replaced = sum((_replacement(*group) for group in _alike(parts)), Fraction(0))
    if not any(part.blocks.drops for part in parts):
        return replaced
    # A record changed to a value that is left out is a record removed.
    return max(replaced, Fraction(sum(sum(part.costs) for part in parts), POINT))


def _alike(parts: Sequence[_Checked]) -> list[tuple[dict[int, Strategy], list[Share]]]:
    """Blocks that measure every attribute by one strategy, list by list, with what each costs."""
    alike: list[tuple[dict[int, Strategy], list[Share]]] = []
    for part in parts:
        shares = list(zip(part.members, part.costs, strict=True))
        used = {i: part.blocks.strategies[i] for row, cost in shares if cost for i in row}
        for strategies, known in alike:
            if all(strategies.get(i, strategy) == strategy for i, strategy in used.items()):
                strategies.update(used)
                known.extend(shares)
                break
        else:
            alike.append((used, shares))
    return alike


def _replacement(strategies: dict[int, Strategy], shares: list[Share]) -> Fraction:
    """`max_E 2 Σ_{S≠∅} cost_S (1 − Π_{i∈S∖E} r_i)`, with r_i the least inner product of two columns over the norm.

    A safe bound: no column is longer than the norm, and the sum is linear in each inner product, so that it is largest
    with each at its least or at the norm. With too many attributes to try all that, each block's own worst: its inner
    product is no less than its most negative factor times the norms of the others. The total does not change.
    """
    shares = [(row, cost) for row, cost in shares if row and cost]
    ratios = {i: Fraction(strategy.least_inner, _heaviest(strategy)) for i, strategy in strategies.items()}
    if len(ratios) > MOST_ENUMERATED:
        worst = [max(-min(ratios[i] for i in row), Fraction(0)) for row, _ in shares]
        total = sum((2 * cost * (1 + apart) for (_, cost), apart in zip(shares, worst, strict=True)), Fraction(0))
        return Fraction(math.ceil(total), POINT)
    places = {i: axis for axis, i in enumerate(ratios)}
    shared: Objects = np.zeros((2,) * len(places), dtype=object)
    for row, cost in shares:
        shared[tuple(int(i in row) for i in places)] += cost
    for i, axis in places.items():  # everything is multiplied by the denominator to stay whole
        least, norm = ratios[i].as_integer_ratio()
        without, with_i = np.take(shared, 0, axis=axis), np.take(shared, 1, axis=axis)
        shared = np.stack([without * norm + with_i * least, (without + with_i) * norm], axis=axis)
    largest = 2 * (shared[(1,) * len(places)] - shared.min())
    return Fraction(-(-largest // math.prod(ratio.denominator for ratio in ratios.values())), POINT)
