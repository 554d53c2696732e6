"""The dataset whose tables are nearest to given ones, over more cells than are written out: cells are found as needed.

Minimise `‖F h − t‖²` over histograms h ≥ 0 with the total n, of which only cells that help are held (an active set). A
row of F is a cell of a table, or of the residual of one. With `q = F h − t`, every dataset has
`qᵀF h' ≥ n min_c (Fᵀq)_c`, and that minimum over all cells is found exactly: it is a sum of small tables, which is
written out, or else whose attributes are eliminated one by one. So `2 (qᵀF h − n min)` bounds how far `‖F h − t‖²` is
above the least, and where `n min − qᵀt` is positive, q is an inequality that the tables violate and no dataset does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.lattice import Set
from residua.machine import linalg

MOST_JOINT = 2**20  # cells of the largest table that eliminating an attribute makes
MOST_LISTED = 2**23  # cells that are written out
_ROUNDS, _AT_ONCE = 2_000, 24
_LOOKS, _FEWEST_SETS = 2**24, 6  # cells looked at in a round; sets whose every cell's least is
_RIDGE = 1e-13  # of the mean square of a column: cells whose tables are combinations of others' leave in time


@dataclass(frozen=True, eq=False)
class NearestDataset:
    """A dataset of few cells.

    Args:
        cells: the values of every attribute, (cells, attributes).
        counts: how many records each holds, (cells,).
        tables: q, its tables less the given ones, for every set.
        gap: `‖F h − t‖²` is at most this above the least of all datasets.
        missed: by how much `qᵀt` is below that of every dataset; not positive if nothing is proven.
    """

    cells: Integers
    counts: Floats
    tables: Mapping[Set, Floats]
    gap: float
    missed: float


@dataclass(frozen=True, eq=False)
class Cells:
    """All cells of a few attributes, as far as tables of sets of them tell.

    Args:
        sets: of which attributes tables are (positions, increasing).
        sizes: how many values each attribute has.
        forbidden: cells that must stay empty, one axis per attribute; None for none.
        factors: what each set's table is multiplied by.
        central: whether tables are less their means along every axis.
        unsearchable: whether some cells must stay empty that cannot be listed.
    """

    sets: Sequence[Set]
    sizes: Sequence[int]
    forbidden: Booleans | None = None
    factors: Sequence[float] | None = None
    central: bool = False
    unsearchable: bool = False
    _order: list[list[int]] = field(default_factory=list, init=False)

    @property
    def listed(self) -> bool:
        """Whether they are written out."""
        return math.prod(self.sizes) <= MOST_LISTED

    @property
    def searchable(self) -> bool:
        """Whether the least of all can be found."""
        if not self.listed and not self._order:
            order = elimination(self.sets, self.sizes)
            self._order.extend([] if order is None else [order])
        return not self.unsearchable and (self.listed or bool(self._order))

    @property
    def rows(self) -> int:
        """Of all tables together."""
        return sum(math.prod(self.sizes[i] for i in each) for each in self.sets)

    def parts(self, q: Floats) -> dict[Set, Floats]:
        """Numbers for all rows as tables."""
        shapes = [tuple(self.sizes[i] for i in each) for each in self.sets]
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return {
            each: part.reshape(shape) for each, part, shape in zip(self.sets, np.split(q, ends), shapes, strict=True)
        }

    def columns(self, cells: Integers) -> Floats:
        """The tables of one record in each of some cells, (rows, cells)."""
        units = [np.eye(n) - (1.0 / n if self.central else 0.0) for n in self.sizes]
        return np.vstack(
            [
                factor
                * reduce(
                    lambda left, i: (left[:, None, :] * units[i][:, cells[:, i]][None]).reshape(-1, len(cells)),
                    each,
                    np.ones((1, len(cells))),
                )
                for each, factor in zip(self.sets, self._factors, strict=True)
            ]
        )

    @property
    def _factors(self) -> Sequence[float]:
        return [1.0] * len(self.sets) if self.factors is None else self.factors

    def least(self, q: Floats, random: np.random.Generator) -> tuple[float, Integers]:
        """The least of Fᵀq, q being orthogonal to what the rows of F have not, and cells at which it is small."""
        tables = {
            each: factor * table for (each, table), factor in zip(self.parts(q).items(), self._factors, strict=True)
        }
        if not self.listed:
            spread = float(np.abs(q).mean())
            looks = [
                tables,
                *({s: t + random.normal(0.0, spread, t.shape) for s, t in tables.items()} for _ in range(_AT_ONCE)),
            ]
            found = [least_cell(look, self.sizes, self._order[0]) for look in looks]
            return found[0][0], np.unique([cell for _, cell in found], axis=0)
        prices = np.zeros(self.sizes)
        for each, table in tables.items():
            prices += table.reshape([n if i in each else 1 for i, n in enumerate(self.sizes)])
        if self.forbidden is not None:
            prices[self.forbidden] = np.inf
        # The least of all, and that of every value or pair of values of some sets: they are unlike each other.
        sets = [each for each in self.sets if 0 < len(each) <= 2]
        some = random.permutation(len(sets))[: max(_FEWEST_SETS, _LOOKS // prices.size)].tolist()
        places = np.unique(np.concatenate([[prices.argmin()], *(self._least_of(prices, sets[k]) for k in some)]))
        flat = prices.ravel()
        places = places[np.isfinite(flat[places])]
        places = places[np.argsort(flat[places])]
        return float(flat[places[0]]), np.array(np.unravel_index(places, self.sizes)).T

    def _least_of(self, prices: Floats, members: Set) -> Integers:
        """Where the least is of all cells with the same values of some attributes, flat."""
        order = [*members, *(i for i in range(len(self.sizes)) if i not in members)]
        front = prices.transpose(order)
        among = math.prod(front.shape[: len(members)])
        at = np.arange(among) * (prices.size // among) + front.reshape(among, -1).argmin(axis=1)
        codes = np.unravel_index(at, front.shape)
        return np.asarray(np.ravel_multi_index([codes[order.index(i)] for i in range(len(order))], prices.shape))


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


def nearest_dataset(
    of: Cells,
    target: Floats,
    total: float,
    enough: Callable[[Floats, float, float], bool],
    progress: Callable[[int, float], object] | None = None,
) -> NearestDataset:
    """The nearest dataset, or one near enough.

    Args:
        of: which cells there are.
        target: t, (rows,).
        total: n, positive.
        enough: q, the gap, and by how much q proves that every dataset misses t ↦ whether to stop.
        progress: called with the round and the gap relative to the squared distance.
    """
    random = np.random.default_rng(0)  # which cells are tried first; what is proven does not depend on it
    _, cells = of.least(-target, random)
    cells, proven = cells[:1], 0.0
    held = _Held(of.columns(cells), target, total)
    for number in range(1, _ROUNDS + 1):
        cells = cells[held.solve()]
        q = held.F @ held.h - target
        least, found = of.least(q, random)
        distance = float(q @ q)
        proven = max(proven, distance - 2.0 * (float(q @ (q + target)) - total * least))
        gap, missed = max(distance - proven, 0.0), total * least - float(q @ target)
        if progress:
            progress(number, gap / max(distance, 1e-300))
        if enough(q, gap, missed):
            break
        known = set(map(tuple, cells.tolist()))
        new = np.array([cell for cell in found.tolist() if tuple(cell) not in known], dtype=np.int64)
        F = of.columns(new.reshape(-1, len(of.sizes)))
        cheaper = (q @ F) < float(q @ (q + target)) / total  # than those that are held
        if not cheaper.any():
            break
        cells = np.vstack([cells, new[cheaper]])
        held.add(F[:, cheaper])
    return NearestDataset(cells[: len(held.h)], held.h, of.parts(q), gap, missed)


class _Held:
    """Cells that are held: least squares over counts h ≥ 0 with a total, by an active set."""

    def __init__(self, F: Floats, t: Floats, total: float) -> None:
        self.F, self.t, self.total = F, t, total
        self.h = np.full(F.shape[1], total / F.shape[1])
        self._gram, self._pull = F.T @ F, F.T @ t

    def add(self, F: Floats) -> None:
        """Holds further cells, empty so far."""
        between = self.F.T @ F
        self._gram = np.block([[self._gram, between], [between.T, F.T @ F]])
        self._pull = np.append(self._pull, F.T @ self.t)
        self.F, self.h = np.hstack([self.F, F]), np.append(self.h, np.zeros(F.shape[1]))

    def solve(self) -> Booleans:
        """The best counts; which of the cells are still held, those with records."""
        kept = np.ones(len(self.h), dtype=bool)
        while True:
            G = self._gram[np.ix_(kept, kept)]
            np.einsum("ii->i", G)[:] += _RIDGE * max(float(np.diagonal(G).mean()), 1e-300)
            factor = linalg.cho_factor(G, lower=True, check_finite=False, overwrite_a=True)
            both = linalg.cho_solve(factor, np.stack([self._pull[kept], np.ones(len(G))], axis=1), check_finite=False)
            wanted = both[:, 0] + both[:, 1] * ((self.total - both[:, 0].sum()) / both[:, 1].sum())
            h = self.h[kept]
            if wanted.min() >= 0:
                self.h[kept] = wanted
                break
            falling = wanted < 0
            steps = h[falling] / (h[falling] - wanted[falling])
            h = h + steps.min() * (wanted - h)
            h[np.flatnonzero(falling)[steps <= steps.min()]] = 0.0
            self.h[kept] = np.maximum(h, 0.0)
            kept[np.flatnonzero(kept)[(h <= 0) & falling]] = False
        self.h = self.h[kept] * (self.total / self.h[kept].sum())
        self.F, self._gram, self._pull = self.F[:, kept], self._gram[np.ix_(kept, kept)], self._pull[kept]
        return kept
