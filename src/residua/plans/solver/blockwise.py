"""The best strategy for every block, each in its own split: what a block measures is tilted by what lies below it.

In coordinates r (`joint/axes.py`) block b measures `Y_b^-½ (r_b − T_b r_below)` with noise of variance 1. So
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from residua.linalg.arrays import Floats, Integers
from residua.plans.joint.axes import Axis
from residua.plans.joint.family import Block, below, dimensions, functions, places, rank
from residua.plans.solver.orbits import Orbits, Term

_NOTHING = 1e-10  # of the largest eigenvalue of a block's Gram matrix: such directions are not asked for
_TURNS = 4
_MOST_LOWER = 600  # coordinates below a block by which it is tilted
_GROWTH = 1.8  # exponent of the weights on cells
_LEAST = 1e-14

Progress = Callable[[int, float], None]


@dataclass(eq=False)
class State:
    """Where the search for one kind of block is.

    Args:
        own: N, the block's functions on its cells, (d, cells).
        lower: L, the functions of the blocks below, (k, cells).
        tilt: T, (d, k).
        covariance: Y, (d, d).
        weights: q on cells, (cells,).
        gram: G_bb, (d, d), as last seen.
        handed: `G_b,below` before this block hands anything down, (d, k).
    """

    own: Floats
    lower: Floats
    tilt: Floats
    covariance: Floats
    weights: Floats
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    handed: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def measured(self) -> Floats:
        """N − T L, (d, cells)."""
        return np.asarray(self.own - self.tilt @ self.lower)


@dataclass(frozen=True, eq=False)
class Solved:
    """What to measure of each kind of block.

    Args:
        rows: the strategy of each kind at privacy cost 1 in all, (rank, cells of the block).
        loss: the weighted sum of variances.
        bound: what no plan that measures these blocks one by one can go below.
    """

    rows: tuple[Floats, ...]
    loss: float
    bound: float


class Blockwise:
    """The search.

    Args:
        axes: the levels of each attribute.
        found: the kinds of terms and of blocks.
    """

    def __init__(self, axes: Sequence[Axis], found: Orbits) -> None:
        self.axes, self.orbits = axes, found
        self.below = {block: self._tilting(block) for block in found.kinds}
        self.states = [self._start(block) for block in found.examples]
        self.terms = [(self._ordered(term), count) for term, count in found.terms]

    def _tilting(self, block: Block) -> list[Block]:
        """The blocks below one that it is tilted by: all; none where they have too many coordinates together."""
        lower = below(block)[:-1]
        return lower if sum(dimensions(self.axes, each) for each in lower) <= _MOST_LOWER else []

    def _start(self, block: Block) -> State:
        own = functions(self.axes, block, block)
        cells = own.shape[1]
        lower = np.vstack([np.zeros((0, cells)), *(functions(self.axes, block, each) for each in self.below[block])])
        return State(own, lower, np.zeros((len(own), len(lower))), np.eye(len(own)), np.full(cells, 1.0 / cells))

    def _ordered(self, term: Term) -> tuple[list[Block], dict[Block, Integers], Floats]:
        """A term's blocks, where each stands, and its Gram matrix in that order, those with tilts before others."""
        listed = below(term.table)
        order = [places(self.axes, term.table, block) for block in listed]
        V = term.matrix()
        at = np.concatenate(order)
        ends = np.cumsum([0, *(len(one) for one in order)])
        spans = {block: np.arange(ends[k], ends[k + 1]) for k, block in enumerate(listed)}
        return listed, spans, term.weight * V[np.ix_(at, at)]

    def _state(self, block: Block) -> State:
        return self.states[self.orbits.kinds[block]]

    def _triangle(self, listed: Sequence[Block], spans: dict[Block, Integers]) -> Floats:
        """T over the coordinates of some blocks, (coordinates, coordinates)."""
        size = sum(len(span) for span in spans.values())
        T = np.zeros((size, size))
        for block in listed:
            lower = [spans[each] for each in self.below[block]]
            if lower:
                T[np.ix_(spans[block], np.concatenate(lower))] = self._state(block).tilt
        return T

    # ---- rounds

    def solve(self, tolerance: float, limit: int, progress: Progress | None = None) -> Solved:
        """Rounds until the strategies are proven best for their split and the split settles."""
        price, best, before = 1.0, None, np.inf
        heights = sorted({rank(block)[0] for block in self.orbits.examples}, reverse=True)
        self._collect()
        for number in range(limit):
            for height in heights:
                for kind, block in enumerate(self.orbits.examples):
                    if rank(block)[0] == height:
                        self._improve(kind, price, tilt=number > 0)
                if number:
                    self._collect()
            made = self._shared_out()
            price = made.loss
            if best is None or made.loss < best.loss:
                best = made
            if progress:
                progress(number + 1, made.loss / made.bound - 1.0)
            settled = abs(before / made.loss - 1.0) < tolerance / 10
            if number > 2 and settled and made.loss / made.bound - 1.0 < tolerance:
                break
            before = made.loss
        assert best is not None
        return best

    def _collect(self) -> None:
        """The Gram matrices that blocks see: what terms ask of them, and what the blocks above hand down."""
        sums: list[list[Floats | float]] = [[0.0, 0.0] for _ in self.states]
        for (listed, spans, V), count in self.terms:
            Z = self._handed_down(listed, spans, V)
            for block in listed:
                kind, own = self.orbits.kinds[block], spans[block]
                lower = np.concatenate([np.zeros(0, dtype=np.int64), *(spans[each] for each in self.below[block])])
                sums[kind][0] = sums[kind][0] + count * Z[np.ix_(own, own)]
                sums[kind][1] = sums[kind][1] + count * Z[np.ix_(own, lower)]
        for state, (gram, across), count in zip(self.states, sums, self.orbits.counts, strict=True):
            state.gram, state.handed = np.asarray(gram) / count, np.asarray(across) / count
        for kind, state in enumerate(self.states):
            if len(state.lower):
                T = self._lower_triangle(self.orbits.examples[kind])
                state.handed = state.handed @ (np.eye(len(T)) - T) - state.gram @ state.tilt

    def _handed_down(self, listed: Sequence[Block], spans: dict[Block, Integers], V: Floats) -> Floats:
        """`(I − T)⁻ᵀ V (I − T)⁻¹`, of a term; only what blocks with a tilt and those below them are concerned with."""
        if not any(self.below[block] for block in listed):
            return V
        moved = {block for block in listed if self.below[block]}
        moved.update(each for block in tuple(moved) for each in self.below[block])
        some = [block for block in listed if block in moved]
        at = np.concatenate([spans[block] for block in some])
        ends = np.cumsum([0, *(len(spans[block]) for block in some)])
        T = self._triangle(some, {block: np.arange(ends[k], ends[k + 1]) for k, block in enumerate(some)})
        Z = V if len(at) == len(V) else V.copy()
        inside = _eliminated(T, _eliminated(T, V[np.ix_(at, at)]).T)
        if len(at) == len(V):
            return inside  # blocks stand in the order of `some`
        Z[np.ix_(at, at)] = inside
        return Z

    def _lower_triangle(self, block: Block) -> Floats:
        """T among the coordinates below a block."""
        return self._triangle(self.below[block], self._spans(block))

    def _spans(self, block: Block) -> dict[Block, Integers]:
        sizes = [len(self._state(each).own) for each in self.below[block]]
        ends = np.cumsum([0, *sizes])
        return {each: np.arange(ends[k], ends[k + 1]) for k, each in enumerate(self.below[block])}

    def _known(self, block: Block) -> Floats:
        """Σ: the covariance of the coordinates below a block."""
        T = self._lower_triangle(block)
        Y = np.zeros(T.shape)
        for each, span in self._spans(block).items():
            Y[np.ix_(span, span)] = self._state(each).covariance
        K = linalg.solve_triangular(np.eye(len(T)) - T, np.eye(len(T)), lower=True, unit_diagonal=True)
        return np.asarray(K @ Y @ K.T)

    def _improve(self, kind: int, price: float, *, tilt: bool) -> None:
        """Strategy, tilt and cell weights of one kind of block, in turns."""
        state = self.states[kind]
        g, V = _range(state.gram)
        if not len(g):
            state.covariance, state.tilt = np.zeros(state.gram.shape), np.zeros(state.tilt.shape)
            return
        N, T, q = V.T @ state.own, V.T @ state.tilt, state.weights
        tilting = tilt and len(state.lower) > 0
        if tilting:
            known, handed = self._known(self.orbits.examples[kind]), V.T @ state.handed
        for turn in range(_TURNS):
            B = N - T @ state.lower
            half, root, w, _ = _response(g, B, q, price)
            if turn == _TURNS - 1:
                break
            costs = ((root @ B) ** 2).sum(axis=0)
            q = np.maximum(q * (costs / costs.max()) ** _GROWTH, 1e-12 * q.max())
            q = q / q.sum()
            if tilting:
                T = _tilted(w, half, root, N, state.lower, q, known, handed, price)
        state.weights, state.tilt = q, V @ T
        state.covariance = V @ (half @ half.T) @ V.T

    def _shared_out(self) -> Solved:
        """The budget shared out by the root, and what that proves."""
        roots, losses, costs, bounds, rows = [], [], [], [], []
        for state in self.states:
            g, V = _range(state.gram)
            if not len(g):
                rows.append(np.zeros((0, state.own.shape[1])))
                losses.append(0.0), costs.append(0.0), bounds.append(0.0)
                continue
            B = V.T @ state.measured
            Y = V.T @ state.covariance @ V
            C = np.linalg.cholesky(Y)
            rows.append(np.linalg.solve(C, B))
            losses.append(float(g @ np.diag(Y)))
            costs.append(float((rows[-1] ** 2).sum(axis=0).max()))
            bounds.append(_response(g, B, state.weights / state.weights.sum(), 1.0)[3])
        roots = np.sqrt(np.array(losses) * np.array(costs))
        total = float(np.array(self.orbits.counts) @ roots)
        made = []
        for state, own, loss, cost in zip(self.states, rows, losses, costs, strict=True):
            scale = total * np.sqrt(cost / loss) if loss else 1.0
            state.covariance = state.covariance * scale
            made.append(own / np.sqrt(scale))
        return Solved(tuple(made), total**2, float(np.array(self.orbits.counts) @ np.array(bounds)) ** 2)


def _range(gram: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues of a Gram matrix that count, and their vectors as columns."""
    g, V = np.linalg.eigh((gram + gram.T) / 2)
    kept = g > max(float(g[-1]), 0.0) * _NOTHING
    return (g[kept], V[:, kept]) if g[-1] > 0 else (g[:0], V[:, :0])


def _eliminated(T: Floats, V: Floats) -> Floats:
    """`(I − T)⁻ᵀ V`."""
    return np.asarray(linalg.solve_triangular(np.eye(len(T)) - T, V, lower=True, unit_diagonal=True, trans="T"))


def _response(g: Floats, B: Floats, q: Floats, price: float) -> tuple[Floats, Floats, Floats, float]:
    """Halves of Y and of its inverse for `G = diag(g)`, `Y = h hᵀ`, `Y⁻¹ = rᵀ r`; `hᵀ G h`, diagonal; `tr (M^½GM^½)^½`.

    `M = B diag(q) Bᵀ`, and `Y = √λ G^-½ (G^½ M G^½)^½ G^-½`.
    """
    root = np.sqrt(g)
    w, E = np.linalg.eigh(root[:, None] * ((B * q) @ B.T) * root)
    w = np.maximum(w, w[-1] * _LEAST)
    fourth = (w * price) ** 0.25
    return (E * fourth) / root[:, None], (E / fourth).T * root, fourth**2, float(np.sqrt(w).sum())


def _tilted(
    w: Floats, half: Floats, root: Floats, N: Floats, L: Floats, q: Floats, known: Floats, handed: Floats, price: float
) -> Floats:
    """The best T for a given Y: `G T Σ + λ Y⁻¹ T P = λ Y⁻¹ N Q Lᵀ − H Σ`, with `P = L Q Lᵀ`, both sides made diagonal."""
    right = (N * q) @ L.T - half @ (half.T @ handed) @ known / price
    p, F = np.linalg.eigh((L * q) @ L.T)
    inverse = (F / np.sqrt(np.maximum(p, p[-1] * _LEAST))) @ F.T
    s, J = np.linalg.eigh(inverse @ known @ inverse)
    A = root @ right @ inverse @ J
    return np.asarray(half @ (A / (1.0 + np.outer(w / price, s))) @ J.T @ inverse)
