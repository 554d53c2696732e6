"""The largest variance of single queries: which rows can be the worst, and the game over them.

A query's variance is linear in each of its rows' pair `(d, e) = (wᵀKw, (wᵀv)²)`, with coefficients that are never
negative: whatever the noise, the worst row of an attribute is a corner of the upper right hull of its pairs. So a term
with thousands of queries has a handful of candidates, and their variances are one sparse matrix times the noise.

The best noise where blocks along an axis tell of the blocks without it.

Measured at precisions τ ≥ 0, blocks are known at `τ' = Mτ` (`product/totals.py`). The loss `Σ_S u_S/τ'_S` is convex in
τ, and so is its least value at a given cost `Σ_S c_S τ'_S = Σ_U (Mᵀc)_U τ_U`. Where the free optimum
`τ'_S ∝ √(u_S/c_S)` wants no less of any block than is told anyway, it is the optimum. Otherwise
`τ_U ← τ_U √(g_U / (Mᵀc)_U)` with `g = Mᵀ(u/τ'²)` leads there, and `2 φ − max_U g_U/(Mᵀc)_U` bounds the least loss φ
from below, by convexity.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.solver.spending import Spending
from residua.workload import Workload

if TYPE_CHECKING:
    from scipy.sparse import csr_array
from residua.plans.solver.closed_form import ProductGame

Pairs = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class QueryGame:
    """Our side of the planning game over candidate queries (see `saddle`).

    Args:
        matrix: variance of every candidate for unit noise on each block, (candidates, sets).
        cost: privacy cost of each block with noise of variance 1, (sets,).
        terms: the term of every candidate, (candidates,).
        rows: which row of each attribute a candidate has, −1 where it has none, (candidates, attributes).
        spending: what a person with limited records pays, in place of the cost of one record.
    """

    matrix: csr_array
    cost: Floats
    terms: Integers
    rows: NDArray[np.int32]
    spending: Spending | None = None

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these weights on candidates, the variances it gives, and their weighted sum."""
        u = self.matrix.T @ np.maximum(weights, weights.max() * 1e-30)
        needed = (u > u.max() * 1e-30) & (self.cost > 0)
        if self.spending is not None:
            noise, _, bound = self.spending.respond(np.where(needed, u, 0.0))
            return noise, self.variances(noise), bound
        T = float(np.sqrt(u * self.cost).sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(needed, T * np.sqrt(self.cost / u), np.inf)
        return noise, self.variances(noise), T * T

    def value(self, weights: Floats) -> float:
        """The least weighted sum of variances with these strategies at privacy cost 1."""
        if self.spending is not None:
            return self.spending.value(self.matrix.T @ weights)
        return float(np.sqrt((self.matrix.T @ weights) * self.cost).sum()) ** 2

    def variances(self, noise: Floats) -> Floats:
        """The variance of every candidate under some noise, (candidates,)."""
        return np.asarray(self.matrix @ np.where(np.isfinite(noise), noise, 0.0))


def query_game(
    workload: Workload, facts: list[list[Pairs]], costs: Floats, spending: Spending | None = None
) -> QueryGame:
    """The game over the candidates of every term.

    Args:
        workload: what is asked.
        facts: the pairs of all rows asked of each attribute, for each family.
        costs: privacy cost of each attribute's strategy, (attributes,).
        spending: what a person with limited records pays, in place of the cost of one record.
    """
    from scipy.sparse import coo_array, csr_array

    lattice = workload.lattice
    entries: list[tuple[Floats, Integers, Integers]] = []
    terms: list[Integers] = []
    rows: list[NDArray[np.int32]] = []
    start = term = 0
    for family, pairs in zip(workload.families, facts, strict=True):
        hulls = [_corners(d, e) for d, e in pairs]
        d = [pair[0][kept] for pair, kept in zip(pairs, hulls, strict=True)]
        e = [pair[1][kept] for pair, kept in zip(pairs, hulls, strict=True)]
        counts = np.array([len(kept) for kept in hulls])
        for members, places in _groups(lattice, family.numbers, counts):
            shape = tuple(int(counts[i]) for i in members[0])
            each = int(np.prod(shape, dtype=np.int64))
            number = start + np.arange(len(members) * each).reshape(len(members), each)
            for size in range(len(shape) + 1):
                for inside in combinations(range(len(shape)), size):
                    value = np.ones((len(members), *(1 for _ in shape)))
                    for axis in range(len(shape)):
                        chosen = d if axis in inside else e
                        part = np.stack([chosen[i] for i in members[:, axis]])
                        value = value * part.reshape(
                            len(members), *(n if k == axis else 1 for k, n in enumerate(shape))
                        )
                    blocks = lattice.find(members[:, list(inside)])
                    entries.append((value.reshape(-1), number.ravel(), np.repeat(blocks, each)))
            grid = np.full((len(members), each, len(counts)), -1, dtype=np.int32)
            places_of = np.indices(shape).reshape(len(shape), each)
            for axis in range(len(shape)):
                for t, i in enumerate(members[:, axis]):
                    grid[t, :, i] = hulls[i][places_of[axis]]
            rows.append(grid.reshape(-1, len(counts)))
            terms.append(np.repeat(term + places, each))
            start += len(members) * each
        term += len(family)
    values, at, block = (np.concatenate([entry[k] for entry in entries]) for k in range(3))
    cost = lattice.products(costs)
    # An empty block is known without measuring.
    matrix = csr_array(coo_array((values * (cost[block] > 0), (at, block)), shape=(start, len(lattice))))
    return QueryGame(matrix, cost, np.concatenate(terms), np.concatenate(rows), spending)


def _corners(d: Floats, e: Floats) -> Integers:
    """Rows whose pair is a corner of the upper right hull of all pairs."""
    order = np.lexsort((d, e))[::-1]  # by e, then d, falling
    hull: list[int] = []
    for j in order.tolist():
        if hull and d[j] <= d[hull[-1]]:
            continue
        while len(hull) > 1 and _turns(d, e, hull[-2], hull[-1], j):
            hull.pop()
        hull.append(j)
    return np.array(hull, dtype=np.int64)


def _turns(d: Floats, e: Floats, a: int, b: int, c: int) -> bool:
    return bool((d[b] - d[a]) * (e[c] - e[a]) - (e[b] - e[a]) * (d[c] - d[a]) >= 0)


def _groups(lattice: SetFamily, numbers: Integers, counts: Integers) -> list[tuple[NDArray[np.int32], Integers]]:
    """Terms whose attributes have the same numbers of candidates: their members (terms, k), and their places."""
    found: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for place, number in enumerate(numbers.tolist()):
        row = lattice.members(number)
        found.setdefault(tuple(int(counts[i]) for i in row), []).append((row, place))
    return [
        (
            np.array([row for row, _ in group], dtype=np.int32).reshape(len(group), len(shape)),
            np.array([place for _, place in group], dtype=np.int64),
        )
        for shape, group in found.items()
    ]


_SETTLED = 1e-6
_ROUNDS = 3000
_TINY = 1e-9


def best_noise(lattice: SetFamily, u: Floats, cost: Floats, tells: Floats) -> tuple[Floats, float]:
    """Noise variances of what is known of each block at privacy cost 1, (sets,), and what no plan's loss is below."""
    needed = (u > u.max() * 1e-30) & (cost > 0)
    free = np.where(needed, np.sqrt(np.where(needed, u, 0.0) / np.where(cost > 0, cost, 1.0)), 0.0)
    T = float(free @ cost)
    tau = lattice.sum_over_supersets(free, -tells)
    if (tau >= -1e-12 * free).all():
        with np.errstate(divide="ignore"):
            return np.asarray(T / free), T * T
    whole = lattice.sum_over_subsets(cost, tells)
    tau = _started(lattice, u, cost, tells, free, whole)
    open_ones = (tau > 0) & (whole > 0)
    bound = 0.0
    for _ in range(_ROUNDS):
        tau = tau / float(tau @ whole)
        known = lattice.sum_over_supersets(tau, tells)
        seen = needed & (known > 0)
        per = np.where(seen, u / np.where(seen, known, 1.0), 0.0)
        loss = float(per.sum())
        pull = lattice.sum_over_subsets(per / np.where(seen, known, 1.0), tells)
        ratios = np.where(open_ones, pull / np.where(whole > 0, whole, 1.0), 0.0)
        bound = max(bound, 2 * loss - float(ratios.max()))
        if float(ratios.max()) <= loss * (1 + _SETTLED):
            break
        tau = tau * np.sqrt(ratios / loss)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(known > 0, 1.0 / np.where(known > 0, known, 1.0), np.inf)), bound


def _started(lattice: SetFamily, u: Floats, cost: Floats, tells: Floats, free: Floats, whole: Floats) -> Floats:
    """Where to begin: where a block would be told more than it wants, both share; exact for one axis."""
    told = lattice.sum_over_supersets(free, tells) - free
    tied = free < told
    shared, price = u.copy(), cost.copy()
    for i in np.flatnonzero(tells).tolist():
        with_i, without_i = lattice.covers[i]
        pair = tied[without_i]
        shared[with_i[pair]] += u[without_i[pair]] / tells[i]
        price[with_i[pair]] += cost[without_i[pair]] * tells[i]
    joint = np.where(price > 0, np.sqrt(shared / np.where(price > 0, price, 1.0)), 0.0)
    tau = np.where(tied, 0.0, np.maximum(lattice.sum_over_supersets(np.where(tied, 0.0, joint), -tells), 0.0))
    least = _TINY * float(tau.max())
    return np.where((free > 0) & (whole > 0), np.maximum(tau, least), 0.0)


@dataclass(frozen=True, eq=False)
class TellingGame(ProductGame):
    """Our side of the planning game over terms, where blocks along axes tell of others.

    Args:
        tells: of each attribute, 0 where nothing is told, (attributes,).
        Others as for `ProductGame`.
    """

    tells: Floats = ()  # type: ignore[assignment]

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these weights on terms, the mean variances it gives, and a bound on their weighted sum."""
        u = self.importances(np.maximum(weights, weights.max() * 1e-30)).sum(axis=0)
        noise, bound = best_noise(self.workload.lattice, u, self.cost, self.tells)
        return noise, self.variances(noise), bound

    def value(self, weights: Floats) -> float:
        """A bound on the least weighted sum of variances with these strategies at privacy cost 1."""
        return best_noise(self.workload.lattice, self.importances(weights).sum(axis=0), self.cost, self.tells)[1]


@dataclass(frozen=True, eq=False)
class TellingQueries(QueryGame):
    """Our side of the planning game over candidate queries, where blocks along axes tell of others.

    Args:
        lattice: the sets.
        tells: of each attribute, 0 where nothing is told, (attributes,).
        Others as for `QueryGame`.
    """

    lattice: SetFamily | None = None
    tells: Floats = ()  # type: ignore[assignment]

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these weights on candidates, the variances it gives, and a bound on their weighted sum."""
        assert self.lattice is not None
        u = self.matrix.T @ np.maximum(weights, weights.max() * 1e-30)
        noise, bound = best_noise(self.lattice, u, self.cost, self.tells)
        return noise, self.variances(noise), bound

    def value(self, weights: Floats) -> float:
        """A bound on the least weighted sum of variances with these strategies at privacy cost 1."""
        assert self.lattice is not None
        return best_noise(self.lattice, self.matrix.T @ weights, self.cost, self.tells)[1]
