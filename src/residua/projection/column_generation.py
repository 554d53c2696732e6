"""The dataset whose tables are nearest to given ones, over more cells than can be listed: cells are found as needed.

Minimise `‖A h − t‖²` over histograms h ≥ 0 with the total n, of which only cells that help are held. With `y = A h − t`
every dataset has `yᵀA h' ≥ n min_c (Aᵀy)_c`, and that minimum over all cells is found exactly: it is a sum of small
tables, whose attributes are eliminated one by one. So `yᵀA h − n min` bounds how far `‖A h − t‖²/2` is above the least,
and where `n min − yᵀt` is positive, y is an inequality that the tables violate and no dataset does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Set
from residua.projection.simplex import nearest_histogram

MOST_JOINT = 2**20  # cells of the largest table that eliminating an attribute makes
_MOST_CELLS, _ROUNDS, _AT_ONCE = 1_500, 60, 24
_SETTLED = 1e-9  # of the squared total: a bound that is as good as 0


@dataclass(frozen=True, eq=False)
class NearestDataset:
    """A dataset of few cells.

    Args:
        cells: the values of every attribute, (cells, attributes).
        counts: how many records each holds, (cells,).
        tables: its tables less the given ones, cell by cell, for every set.
        gap: `‖A h − t‖²/2` is at most this above the least of all datasets.
        missed: by how much `yᵀt` is below that of every dataset, y the differences; not positive if nothing is proven.
    """

    cells: Integers
    counts: Floats
    tables: Mapping[Set, Floats]
    gap: float
    missed: float


def elimination(sets: Sequence[Set], sizes: Sequence[int]) -> list[int] | None:
    """An order in which attributes are eliminated, smallest tables first; None where a table would be too large."""
    left, order = [frozenset(each) for each in sets], list[int]()
    while remaining := set().union(*left):
        joint = {i: frozenset().union(*(each for each in left if i in each)) for i in sorted(remaining)}
        best = min(joint, key=lambda i: math.prod(sizes[j] for j in joint[i]))
        if math.prod(sizes[j] for j in joint[best]) > MOST_JOINT:
            return None
        order.append(best)
        left = [each for each in left if best not in each] + [joint[best] - {best}]
    return order


def least_cell(weights: Mapping[Set, Floats], sizes: Sequence[int], order: Sequence[int]) -> tuple[float, Integers]:
    """The least `Σ_T y_T[c_T]` over all cells c, and a cell that has it, (attributes,)."""
    factors = [(members, table) for members, table in weights.items()]
    taken: list[tuple[int, tuple[int, ...], Integers]] = []
    for i in order:
        own = [each for each in factors if i in each[0]]
        members = tuple(sorted({j for each, _ in own for j in each} - {i}))
        axes = (i, *members)
        joint = np.zeros([sizes[j] for j in axes])
        for each, table in own:
            places = [axes.index(j) for j in each]
            wide = [n if k in places else 1 for k, n in enumerate(joint.shape)]
            joint = joint + np.transpose(table, np.argsort(places)).reshape(wide)
        taken.append((i, members, np.asarray(joint.argmin(axis=0))))
        factors = [each for each in factors if i not in each[0]] + [(members, joint.min(axis=0))]
    cell = np.zeros(len(sizes), dtype=np.int64)
    for i, members, best in reversed(taken):
        cell[i] = best[tuple(cell[list(members)])]
    return float(sum(float(table) for _, table in factors)), cell


def nearest_dataset(tables: Mapping[Set, Floats], sizes: Sequence[int], near: float) -> NearestDataset | None:
    """The nearest dataset, or one far enough from the tables to prove that none has them; None: too many attributes.

    Args:
        tables: positions of attributes (increasing) → the table; all of one total.
        sizes: how many values each attribute has.
        near: how close in any cell is good enough.
    """
    order = elimination(list(tables), sizes)
    if order is None:
        return None
    total = float(next(iter(tables.values())).sum())
    target = np.concatenate([table.ravel() for table in tables.values()])
    ends = np.cumsum([table.size for table in tables.values()])[:-1]
    random = np.random.default_rng(0)  # which cells are tried first; what is proven does not depend on it
    cells = np.zeros((0, len(sizes)), dtype=np.int64)
    y, counts, best = -target, np.zeros(0), None
    for _ in range(_ROUNDS):
        looks = [y] + [y + random.normal(0.0, 1.0, y.shape) * np.abs(y).mean() for _ in range(_AT_ONCE)]
        added = [least_cell(_parts(tables, look, ends), sizes, order) for look in looks]
        least = added[0][0]
        if len(cells):
            gap = float(y @ (y + target)) - total * least
            best = NearestDataset(cells, counts, _parts(tables, y, ends), gap, total * least - float(y @ target))
            if float(np.abs(y).max()) <= near or best.missed > 0.5 * float(y @ y) or gap <= _SETTLED * total**2:
                return best
        cells = np.unique(np.vstack([cells, *(cell[None] for _, cell in added)]), axis=0)
        F = _columns(tables, cells)
        counts = nearest_histogram(F, target, total=total, tolerance=1e-7).coordinates
        y = F @ counts - target
        if len(cells) > _MOST_CELLS:
            cells, counts = cells[counts > 0], counts[counts > 0]
    return best


def _parts(tables: Mapping[Set, Floats], y: Floats, ends: Integers) -> dict[Set, Floats]:
    parts = zip(tables.items(), np.split(y, ends), strict=True)
    return {members: part.reshape(table.shape) for (members, table), part in parts}


def _columns(tables: Mapping[Set, Floats], cells: Integers) -> Floats:
    """The tables of one record in each of some cells, (cells of tables, cells)."""
    blocks = []
    for members, table in tables.items():
        block = np.zeros((table.size, len(cells)))
        places = np.ravel_multi_index(tuple(cells[:, i] for i in members), table.shape) if members else 0
        block[places, np.arange(len(cells))] = 1.0
        blocks.append(block)
    return np.vstack(blocks)
