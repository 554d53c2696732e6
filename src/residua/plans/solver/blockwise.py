"""The best strategy for every block, each in its own split: what a block measures is tilted by what lies below it.

In coordinates r (`plans/levels.py`) block b measures `Y_b^-½ (r_b − T_b r_below)` with noise of variance 1. So
`r_b = T_b r_below + noise of covariance Y_b`, and `Γ = (I − T)ᵀ Y⁻¹ (I − T)`, triangular over the lattice of blocks: a
query's part in block b is what it asks of b and what the blocks above hand down, `c = (I − T)⁻ᵀ q`, and its variance
is `Σ_b c_bᵀ Y_b c_b`. Without tilt (T = 0) these are the residual spaces of marginals. With cell weights q_b and the
price λ of privacy, a block's part of the loss is

    tr G_bb Y + tr [T; I]ᵀ G [T; I] Σ_below + λ Σ_j q_j ‖Y^-½ (N − T L) e_j‖²,

jointly convex in Y and T: Y in closed form (the dense response), T by a Sylvester equation, in turns, block by block.
Budget goes by the root. With the split held, `(Σ_b tr (M_b^½ G_bb M_b^½)^½)²`, `M_b = (N − TL) diag(q) (N − TL)ᵀ`,
bounds every plan that measures these blocks one by one.

For one attribute T is the tilted split of `attribute.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans import levels
from residua.plans.saddle import Progress
from residua.plans.solver.orbits import GramTerm, Orbits

_MOST_LOWER = 300  # coordinates below a block by which it is tilted
_TURNS = 2, 3  # of strategy and tilt of one block in a round; of its own weights on cells too
_NOTHING = 1e-10  # of the largest eigenvalue of a block's Gram matrix: such directions are not asked for
_LEAST_WEIGHT = 1e-6  # of a cell, relative to the mean
_MOST_WORK, _FEWEST = 6e10, 16  # operations of all rounds, about; rounds beyond them where the gap is still large
_LONGER = 5  # times the rounds of one search, for the better one of two
_ENOUGH, _SMALL_GAP = 10, 0.019  # rounds after which work beyond that ends, where no more than this can be won
_LEAST = 1e-14


class BlockState:
    """Where the search for one kind of block is.

    Args:
        own: N, the block's functions on its cells, (d, cells).
        lower: L, the functions of the blocks that it is tilted by, (k, cells).
    """

    def __init__(self, own: Floats, lower: Floats) -> None:
        d, cells = own.shape
        self.own, self.lower = own, lower
        self.tilt = np.zeros((d, len(lower)))  # T
        self.covariance = np.eye(d)  # Y
        self.weights = np.full(cells, 1.0 / cells)  # q
        self.rows = np.zeros((0, cells))  # Y^-½ (N − T L), in the directions that are asked for
        self.costs = np.zeros(cells)  # ‖rows e_j‖²
        self.loss = self.bound = 0.0  # tr G Y, tr (M^½ G M^½)^½
        self.gram = np.zeros((d, d))  # G_bb, as last seen
        self.range = np.zeros(0), np.zeros((d, 0))  # its eigenvalues and vectors that count
        self.rest = np.eye(d)  # the other vectors, as columns

    def see(self, gram: Floats) -> None:
        """Takes a Gram matrix into account."""
        if not np.array_equal(gram, self.gram):
            g, V = np.linalg.eigh((gram + gram.T) / 2)
            kept = g > max(float(g[-1]) * _NOTHING, 0.0)
            self.gram, self.range, self.rest = gram, (g[kept], V[:, kept]), V[:, ~kept]


class CellWeights:
    """Nature's weights on cells: on all of them together where a table of them is small, else block by block.

    Together, the cost of a plan is that of its most expensive cell, summed over blocks, and each block sees its margin
    of the weights. Apart, every block is priced at its own most expensive cell, and has its own weights. Both are what
    the verifier does (`blockwise/measurements.py`).

    Args:
        found: the kinds of blocks.
        table: all cells; None where they are too many.
        slowly: whether the split is held while weights follow.
    """

    def __init__(self, found: Orbits, table: levels.LevelTable | None, *, slowly: bool = False) -> None:
        self.orbits, self.table = found, table
        # Rounds before the split moves, for which it is then held, and in which the loss may rise.
        self.patience, self.every, self.settling = (8, 3, 6) if slowly else (1, 1, 2 if table is None else 7)
        shape = () if table is None else table.shape
        self.weights, self.costs = np.full(shape, 1.0 / math.prod(shape)), np.zeros(shape)

    def hand_out(self, states: Sequence[BlockState]) -> None:
        """Gives each block its margin of the weights as they are now; even ones where blocks are weighed apart."""
        for block, state in zip(self.orbits.examples, states, strict=True):
            even = np.full(len(state.weights), 1.0 / len(state.weights))
            state.weights = even if self.table is None else self.table.margin(block, self.weights)

    def share_out(self, states: Sequence[BlockState]) -> list[float]:
        """What each kind's noise is to be multiplied by, for a cost of 1 in all: apart, budget goes by the root."""
        if self.table is None:
            pairs = [(state, float(state.costs.max(initial=0.0))) for state in states]
            total = float(np.array(self.orbits.counts) @ np.sqrt([state.loss * cost for state, cost in pairs]))
            return [total * math.sqrt(cost / state.loss) if state.loss else 1.0 for state, cost in pairs]
        self.costs = np.zeros(self.table.shape)
        for block, kind in self.orbits.kinds.items():
            self.costs = self.costs + self.table.spread(block, states[kind].costs)
        return [float(self.costs.max())] * len(states)

    def follow(self, states: Sequence[BlockState], growth: float) -> None:
        """Gives more weight to cells that cost more than others, after a round."""
        if self.table is None:
            return  # each block's weights have followed it
        self.weights = grown(self.weights, self.costs, growth)
        self.hand_out(states)


def grown(q: Floats, costs: Floats, growth: float) -> Floats:
    """Weights on cells, larger where these cost more than others."""
    grown = np.maximum(q * (costs / costs.max()) ** growth, _LEAST_WEIGHT / q.size)
    return np.asarray(grown / grown.sum())


@dataclass(frozen=True, eq=False)
class Solved:
    """What to measure of each kind of block.

    Args:
        rows: the strategy of each kind at privacy cost 1 in all, (rank, cells of the block).
        missing: orthonormal rows in the directions of each kind that nobody asks for, (d − rank, cells of the block).
        loss: the weighted sum of variances.
        bound: what no plan that measures these blocks one by one can go below.
    """

    rows: tuple[Floats, ...]
    missing: tuple[Floats, ...]
    loss: float
    bound: float


class BlockwiseTotal:
    """The search.

    Args:
        axes: the levels of each attribute.
        found: the kinds of terms and of blocks.
    """

    most_growth, least_growth = 1.8, 0.2  # exponent of nature's weights
    caution, courage = 0.7, 1.0  # what it is multiplied by where the loss rises, and where it falls
    far = 1.003  # times the best loss: too far

    def __init__(self, axes: Sequence[levels.AttributeLevels], found: Orbits) -> None:
        self.axes, self.orbits, self.price, self.growth = axes, found, 1.0, self.most_growth
        self.enough = 2**31  # rounds after which a small gap will do
        self.below = {block: self._tilting(block) for block in found.kinds}
        self.states = [self._start(block) for block in found.examples]
        self.terms = [(self._ordered(term), count) for term, count in found.terms]

    def _tilting(self, block: levels.Block) -> list[levels.Block]:
        """The blocks below one that it is tilted by: all; none where they have too many coordinates together."""
        lower = levels.below(block)[:-1]
        return lower if sum(levels.dimensions(self.axes, each) for each in lower) <= _MOST_LOWER else []

    def _start(self, block: levels.Block) -> BlockState:
        own = levels.functions(self.axes, block, block)
        lower = np.vstack(
            [np.zeros((0, own.shape[1])), *(levels.functions(self.axes, block, each) for each in self.below[block])]
        )
        return BlockState(own, lower)

    def _ordered(self, term: GramTerm) -> tuple[list[levels.Block], dict[levels.Block, Integers], Floats]:
        """A term's blocks, where each stands, and its Gram matrix in that order, those with tilts before others."""
        listed, at, V = levels.below(term.table), self._order(term), term.matrix()
        return listed, self._spans(listed), term.weight * V[np.ix_(at, at)]

    def _order(self, term: GramTerm) -> Integers:
        """Where the coordinates of a term's blocks, one after the other, stand in its table."""
        return np.concatenate([levels.places(self.axes, term.table, block) for block in levels.below(term.table)])

    def _spans(self, blocks: Sequence[levels.Block]) -> dict[levels.Block, Integers]:
        """Where each block's coordinates stand, one block after the other."""
        ends = np.cumsum([0, *(levels.dimensions(self.axes, block) for block in blocks)])
        return {block: np.arange(ends[k], ends[k + 1]) for k, block in enumerate(blocks)}

    def _state(self, block: levels.Block) -> BlockState:
        return self.states[self.orbits.kinds[block]]

    # ---- rounds

    def solve(self, tolerance: float, limit: int, progress: Progress | None = None) -> Solved:
        """Rounds until the strategies are proven best for their split and the split settles.

        Where all cells can be weighed together, that is done from the start, and once more from the split that blocks
        weighed apart settle on: the split is not a convex problem, and either may be the better one.
        """
        affordable = int(_MOST_WORK / sum(work_of(state) for state in self.states))
        few = min(limit, max(affordable // 4, _FEWEST // 2))
        table = levels.table_for(self.axes, list(self.orbits.kinds))
        apart = CellWeights(self.orbits, None)
        if table is None:
            return self._play(apart, tolerance, max(few, min(limit, affordable)), progress)
        many = min(2 * limit, max(affordable, _FEWEST))
        self.enough = max(affordable, _ENOUGH)
        best = self._play(CellWeights(self.orbits, table), tolerance, many, progress)
        if affordable < 2 * many:
            return best
        kept = self.states, self.cells
        self.states = [self._start(block) for block in self.orbits.examples]
        self._play(apart, tolerance, few, progress)
        other = self._play(CellWeights(self.orbits, table, slowly=True), tolerance, many, progress)
        if other.loss < best.loss:
            best, kept = other, (self.states, self.cells)
        more = min(_LONGER * limit, affordable - 2 * many)
        if more <= 0 or best.loss <= best.bound * (1.0 + tolerance):
            return best
        self.states, cells = kept  # the better one goes on while rounds are cheap
        return min(best, self._play(cells, tolerance, more, progress, best.loss), key=lambda each: each.loss)

    def _play(
        self, cells: CellWeights, tolerance: float, limit: int, progress: Progress | None, price: float = 1.0
    ) -> Solved:
        """Rounds in which cells are weighed in one way; the price of privacy is the loss where one is known."""
        self.cells, self.growth, self.step = cells, self.most_growth, 1.0
        cells.hand_out(self.states)
        before, best = np.inf, None
        for number in range(limit):
            since = number - cells.patience
            now = self._round(price, tilt=since >= 0 and since % cells.every == 0)
            price, gap = self.price, now.loss / now.bound - 1.0
            if best is None or now.loss < best.loss:
                best, self.kept = now, (copy(cells), [copy(state) for state in self.states])
            factor = self.caution if now.loss > before else self.courage
            self.growth = min(max(self.growth * factor, self.least_growth), self.most_growth)
            if progress:
                progress(number + 1, gap)
            if since > 2 and gap < tolerance and abs(before / now.loss - 1.0) < tolerance / 5:
                break
            if number + 1 >= self.enough and best.loss / best.bound - 1.0 < _SMALL_GAP:
                break
            before = now.loss
            if now.loss > best.loss * self.far and since > cells.settling:  # back to the best, with smaller steps
                self.growth, self.step = max(self.growth / 2, self.least_growth), max(self.step * self.caution, 0.1)
                self._back_to_best()
                cells, price, before = self.cells, best.loss, best.loss
            self._follow()
        assert best is not None
        return best

    def _back_to_best(self) -> None:
        """Where the loss was least."""
        self.cells, self.states = copy(self.kept[0]), [copy(state) for state in self.kept[1]]

    def _round(self, price: float, *, tilt: bool) -> Solved:
        """One round: every block, and the budget shared out."""
        self._sweep(price, tilt=tilt)
        now = self._shared_out()
        self.price = now.loss
        return now

    def _follow(self) -> None:
        """Nature's weights after a round."""
        self.cells.follow(self.states, self.growth)

    def _sweep(self, price: float, *, tilt: bool) -> None:
        """Every block once, the finest first; each hands down what it leaves of queries before those below it look."""
        grams = [V.copy() for (_, _, V), _ in self.terms]
        for height in sorted({levels.rank(block)[0] for block in self.orbits.examples}, reverse=True):
            level = [kind for kind, block in enumerate(self.orbits.examples) if levels.rank(block)[0] == height]
            sums: dict[int, list[Any]] = {kind: [0.0, 0.0] for kind in level}
            for ((listed, spans, _), count), Z in zip(self.terms, grams, strict=True):
                for block in listed:
                    both = sums.get(self.orbits.kinds[block])
                    if both is not None:
                        own = spans[block]
                        both[0] = both[0] + count * Z[np.ix_(own, own)]
                        both[1] = both[1] + count * Z[np.ix_(own, self._lower(block, spans))]
            for kind in level:
                number = self.orbits.counts[kind]
                self._improve(kind, sums[kind][0] / number, sums[kind][1] / number, price, tilt=tilt)
            for number, ((listed, spans, _), _) in enumerate(self.terms):
                # Smallest first: what finer blocks left behind stands last, and nobody looks at it again.
                still = sum(len(spans[block]) for block in listed if levels.rank(block)[0] <= height)
                Z = grams[number] = grams[number][:still, :still]
                for block in listed:
                    if levels.rank(block)[0] == height and self.below[block] and self._state(block).tilt.any():
                        own, lower, T = spans[block], self._lower(block, spans), self._state(block).tilt
                        Z[:, lower] += Z[:, own] @ T
                        Z[lower, :] += T.T @ Z[own, :]

    def _lower(self, block: levels.Block, spans: dict[levels.Block, Integers]) -> Integers:
        """Where the coordinates stand that a block is tilted by."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(spans[each] for each in self.below[block])])

    def _covariance(self, blocks: Sequence[levels.Block]) -> Floats:
        """Σ: the covariance of the coordinates of blocks, smallest first, with all below each."""
        spans = self._spans(blocks)
        size = sum(len(own) for own in spans.values())
        covariance = np.zeros((size, size))
        for each, own in spans.items():  # smallest first: r = T r_below + noise
            state = self._state(each)
            lower = self._lower(each, spans)
            covariance[np.ix_(own, own)] = state.covariance
            if len(lower) and state.tilt.any():
                across = state.tilt @ covariance[lower]
                covariance[own] += across
                covariance[:, own] = covariance[own].T
                covariance[np.ix_(own, own)] = state.covariance + across[:, lower] @ state.tilt.T
        return covariance

    def _improve(self, kind: int, gram: Floats, handed: Floats, price: float, *, tilt: bool) -> None:
        """The best strategy and tilt of one kind of block for its cell weights, in turns."""
        state = self.states[kind]
        state.see(gram)
        g, V = state.range
        if not len(g):
            state.loss = state.bound = 0.0
            state.covariance, state.tilt = np.zeros(gram.shape), np.zeros(state.tilt.shape)
            return
        N, T, q = V.T @ state.own, V.T @ state.tilt, state.weights
        answer = _Answer(g, N - T @ state.lower, q, price)
        tilting = tilt and len(state.lower) > 0
        known = self._covariance(self.below[self.orbits.examples[kind]]) if tilting else np.zeros((0, 0))
        follows = self.cells.table is None and self.growth > 0
        for _ in range(_TURNS[follows] if tilting or follows else 0):
            if follows:
                q = grown(q, answer.costs, self.growth)
            if tilting:
                T = T + self.step * (_tilted(answer, N, state.lower, q, known, V.T @ handed, price) - T)
            answer = _Answer(g, N - T @ state.lower, q, price)
        state.weights = q
        state.tilt, state.covariance = V @ T, V @ (answer.half @ answer.half.T) @ V.T
        state.rows, state.loss, state.bound, state.costs = answer.rows, answer.loss, answer.bound, answer.costs

    def _shared_out(self) -> Solved:
        """The budget shared out, and what that proves."""
        counts = np.array(self.orbits.counts)
        for state, factor in zip(self.states, self.cells.share_out(self.states), strict=True):
            state.covariance, state.loss = state.covariance * factor, state.loss * factor
            state.rows, state.costs = state.rows / math.sqrt(factor), state.costs / factor
        loss = float(counts @ np.array([state.loss for state in self.states]))
        bound = float(counts @ np.array([state.bound for state in self.states])) ** 2
        missing = tuple(state.rest.T @ state.own for state in self.states)
        return Solved(tuple(state.rows for state in self.states), missing, loss, bound)


def work_of(state: BlockState) -> float:
    """About how many operations one round takes for a kind of block."""
    d, cells, k = float(state.own.shape[0]), float(state.own.shape[1]), float(len(state.lower))
    return 2e7 + 20.0 * d**3 + 8.0 * d**2 * cells + 30.0 * k**3 + 4.0 * d * k * cells


class _Answer:
    """The dense response of one block: `Y = √λ G^-½ (G^½ M G^½)^½ G^-½` with `G = diag(g)`, `M = B diag(q) Bᵀ`.

    Args:
        g: the eigenvalues of the Gram matrix, (r,).
        B: N − T L in their directions, (r, cells).
        q: weights on cells, summing to 1, (cells,).
        price: λ.
    """

    def __init__(self, g: Floats, B: Floats, q: Floats, price: float) -> None:
        root = np.sqrt(g)
        w, E = np.linalg.eigh(root[:, None] * ((B * q) @ B.T) * root)
        w = np.maximum(w, w[-1] * _LEAST)
        fourth = (w * price) ** 0.25
        self.half = (E * fourth) / root[:, None]  # Y = h hᵀ
        self.inverse = (E / fourth).T * root  # of h
        self.seen = fourth**2  # hᵀ G h, which is diagonal
        self.rows = self.inverse @ B
        self.costs = (self.rows**2).sum(axis=0)
        self.loss = float(self.seen.sum())  # tr G Y
        self.bound = float(np.sqrt(w).sum())  # tr (M^½ G M^½)^½


def _tilted(answer: _Answer, N: Floats, L: Floats, q: Floats, known: Floats, handed: Floats, price: float) -> Floats:
    """The best T for a given Y: `G T Σ + λ Y⁻¹ T P = λ Y⁻¹ N Q Lᵀ − H Σ`, `P = L Q Lᵀ`, both sides made diagonal."""
    right = (N * q) @ L.T - answer.half @ (answer.half.T @ handed) @ known / price
    p, F = np.linalg.eigh((L * q) @ L.T)
    inverse = (F / np.sqrt(np.maximum(p, p[-1] * _LEAST))) @ F.T
    s, J = np.linalg.eigh(inverse @ known @ inverse)
    A = answer.inverse @ right @ inverse @ J
    return np.asarray(answer.half @ (A / (1.0 + np.outer(answer.seen / price, s))) @ J.T @ inverse)
