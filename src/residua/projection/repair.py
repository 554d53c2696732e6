"""Feasibility repair: each cell that is still negative gets mass of its own, the same share of everything is taken.

Let D_A be what the cells of the maximal table A lack. The histogram `h = Σ_A D_A ⊗ Π_{i∉A} p_i` over the whole domain
is not negative, and neither is any of its tables; that on A has at least D_A. So `(1 − s) y + s t h/D`, with t the
total of the tables y, D that of h and `s = D/(D + t)`, has no negative cell and the total t. Nothing over the whole
domain is formed: h's table on S is the sum of what all A ⊇ S lack, made to have the margins of h, along each axis in
turn, by adding p_i times what they differ by.

p is the tables' own margin of each attribute, so that h changes single attributes little and puts most of its mass
where there are records. Where margins of single attributes are public, a product of margins is mixed in that makes up
for what h has too much of, so that they stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.projection import table_kernels
from residua.projection.alternating import Interior
from residua.projection.arrangement import Arrangement, TableBatch


@dataclass(frozen=True, eq=False)
class Repair:
    """What is to be mixed in, for tables of total 1, in residuals of the maximal tables and of those below.

    Args:
        share: s, how much of it.
        top: its residuals of the maximal tables, (cells,).
        low: its residuals of those below, (cells,).
    """

    share: float
    top: Floats
    low: Floats


def repair_of(
    arrangement: Arrangement,
    top: Floats,
    low: Floats,
    least: Floats,
    fixed: Mapping[int, Floats],
    pool: ThreadPoolExecutor,
) -> Repair | None:
    """What to mix into residuals so that no cell is below zero; None if nothing has to be, or nothing helps.

    Args:
        arrangement: where tables lie.
        top: residuals of the maximal tables, (cells,).
        low: of the tables below them, (cells,), of a positive total.
        least: what the cells of each set should have at least before anything is taken from them, (sets,).
        fixed: attributes (as renumbered) whose margin must stay, and that margin's shares, all positive.
        pool: for working on tables side by side.
    """
    total = float(low[arrangement.low.starts[0]])
    lower = arrangement.rebuild(low)
    tables = top.copy()
    even = _MarginShares.of(arrangement, [np.full(int(n), 1.0 / n) for n in arrangement.sizes])
    _on_parts(pool, arrangement, lambda part: even.spread(tables, part, lower))
    margins = [_margin(arrangement, tables, lower, i) for i in range(len(arrangement.sizes))]
    own = np.empty(arrangement.owned_cells)

    def work(part: TableBatch) -> None:
        table_kernels.lacking(tables, part.starts, int(part.shape.prod()), least[part.numbers])
        table_kernels.means_of(tables, part.starts, part.shape, own, part.owned)

    _on_parts(pool, arrangement, work)
    cells = arrangement.lattice.products(arrangement.sizes.astype(np.float64))
    h = arrangement.summed_down(own, cells) / cells[arrangement.low_sets]
    mass = float(h[arrangement.low.starts[0]])
    if not mass > 0.0:
        return None
    shares = _MarginShares.of(arrangement, [margin / margin.sum() for margin in margins])
    shares.spread_low(h)
    _on_parts(pool, arrangement, lambda part: shares.spread(tables, part, h))
    parts = {i: _margin(arrangement, tables, h, i) / mass for i in fixed}
    theta = min([1.0, *(float((share / np.maximum(parts[i], 1e-300)).min()) for i, share in fixed.items())])
    if not theta > 1e-9:
        return None
    arrangement.centre(h)
    _on_parts(pool, arrangement, lambda part: arrangement.centre_part(tables, part))
    tables *= theta / mass
    h *= theta / mass
    if theta < 1.0:
        rests = [shares.of_attribute(i) for i in range(len(arrangement.sizes))]
        for i, share in fixed.items():
            rests[i] = (share - theta * parts[i]) / (1.0 - theta)
        _add_product(arrangement, theta, rests, tables, h)
    h[arrangement.low.starts[0]] = 1.0
    return Repair(mass / (mass + total * theta) * (1.0 + 1e-9), tables, h)


def _add_product(arrangement: Arrangement, theta: float, rests: list[Floats], top: Floats, low: Floats) -> None:
    """Adds `1 − θ` of the product of these margins."""
    centred = [rest - 1.0 / len(rest) for rest in rests]
    zero = [np.zeros(len(rest)) for rest in rests]
    for layout, out in ((arrangement.top, top), (arrangement.low, low)):
        out += Interior(theta, centred).coordinates(layout, zero, centred)


def _margin(arrangement: Arrangement, top: Floats, low: Floats, attribute: int) -> Floats:
    """One attribute's margin, from tables; an even one if no set has the attribute."""
    number = int(arrangement.lattice.find(np.array([[attribute]], dtype=np.int32))[0])
    n = int(arrangement.sizes[attribute])
    if number < 0:
        return np.full(n, 1.0)
    where, tables = (arrangement.low, low) if arrangement.low.starts[number] >= 0 else (arrangement.top, top)
    start = int(where.starts[number])
    return np.maximum(tables[start : start + n], 0.0)


def _on_parts(pool: ThreadPoolExecutor, arrangement: Arrangement, work: Callable[[TableBatch], None]) -> None:
    list(pool.map(work, arrangement.parts))


@dataclass(frozen=True, eq=False)
class _MarginShares:
    """One vector per attribute that adds up to 1."""

    arrangement: Arrangement
    values: Floats
    begins: Integers

    @staticmethod
    def of(arrangement: Arrangement, shares: list[Floats]) -> _MarginShares:
        begins = np.concatenate([[0], np.cumsum([len(share) for share in shares])]).astype(np.int64)
        return _MarginShares(arrangement, np.concatenate(shares), begins)

    def of_attribute(self, attribute: int) -> Floats:
        return self.values[self.begins[attribute] : self.begins[attribute + 1]]

    def spread(self, tables: Floats, part: TableBatch, lower: Floats) -> None:
        """Gives maximal tables the margins in `lower`."""
        lattice, k = self.arrangement.lattice, part.shape.size
        members = lattice.levels[k][part.numbers - lattice.offsets[k]]
        shapes = np.broadcast_to(part.shape, members.shape)
        ways = np.full(len(members), k)
        table_kernels.spread_each(
            tables, part.starts, shapes, ways, lower, part.facets, self.values, self.begins[members]
        )

    def spread_low(self, tables: Floats) -> None:
        """Gives the tables below each other's margins, small sets first."""
        starts, shapes, ways, facets = self.arrangement.low_tables
        members = np.zeros_like(shapes)
        lattice = self.arrangement.lattice
        numbers = np.flatnonzero(~lattice.is_maximal)
        for k, level in enumerate(lattice.levels):
            here = ways == k
            members[here, :k] = level[numbers[here] - lattice.offsets[k]]
        table_kernels.spread_each(tables, starts, shapes, ways, tables, facets, self.values, self.begins[members])
