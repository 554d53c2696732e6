"""The largest variance of single queries: which rows can be the worst, and the game over them.

A query's variance is linear in each of its rows' pair `(d, e) = (wᵀKw, (wᵀv)²)`, with coefficients that are never
negative: whatever the noise, the worst row of an attribute is a corner of the upper right hull of its pairs. So a term
with thousands of queries has a handful of candidates, and their variances are one sparse matrix times the noise.
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
from residua.plans.solver.closed_form import ProductGame, Spending
from residua.plans.solver.patterns import PatternSpending

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Pairs = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class QueryGame:
    """Our side of the planning game over candidate queries (see `saddle`).

    Args:
        matrix: variance of every candidate for unit noise on each block, dense or sparse, (candidates, sets).
        terms: the term of every candidate, (candidates,).
        spending: how to spend a budget best.
    """

    matrix: csr_array | Floats
    terms: Integers
    spending: Spending | PatternSpending

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these weights on candidates, the variances it gives, and their weighted sum."""
        u = self.matrix.T @ np.maximum(weights, weights.max() * 1e-30)
        noise, _, bound = self.spending.respond(np.where(u > u.max() * 1e-30, u, 0.0))
        return noise, self.variances(noise), bound

    def value(self, weights: Floats) -> float:
        """The least weighted sum of variances with these strategies at privacy cost 1."""
        return self.spending.value(self.matrix.T @ weights)

    def variances(self, noise: Floats) -> Floats:
        """The variance of every candidate under some noise, (candidates,)."""
        return np.asarray(self.matrix @ np.where(np.isfinite(noise), noise, 0.0))


def query_game(game: ProductGame, facts: list[list[Pairs]]) -> QueryGame:
    """The game over the candidates of every term.

    Args:
        game: that over terms, with the same strategies.
        facts: the pairs of all rows asked of each attribute, for each family.
    """
    from scipy.sparse import coo_array, csr_array

    workload, lattice = game.workload, game.workload.lattice
    entries: list[tuple[Floats, Integers, Integers]] = []
    terms: list[Integers] = []
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
            terms.append(np.repeat(term + places, each))
            start += len(members) * each
        term += len(family)
    values, at, block = (np.concatenate([entry[k] for entry in entries]) for k in range(3))
    # An empty block is known without measuring.
    matrix = csr_array(coo_array((values * (game.cost[block] > 0), (at, block)), shape=(start, len(lattice))))
    return QueryGame(matrix, np.concatenate(terms), game.spending)


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
    by_shape: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for place, number in enumerate(numbers.tolist()):
        row = lattice.members(number)
        by_shape.setdefault(tuple(int(counts[i]) for i in row), []).append((row, place))
    return [
        (
            np.array([row for row, _ in group], dtype=np.int32).reshape(len(group), len(shape)),
            np.array([place for _, place in group], dtype=np.int64),
        )
        for shape, group in by_shape.items()
    ]
