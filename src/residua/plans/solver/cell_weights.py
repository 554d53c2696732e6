"""Nature's weights on cells in the search for blockwise strategies: on all cells together, or block by block.

Where the cells of all attributes together are few, the cost of a plan is that of its most expensive cell, summed over
blocks, and one set of weights is shared by all: each block sees its margin. Where they are many, every block is priced
at its own most expensive cell, and has its own weights. Both are what the verifier does (`blockwise/price.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.levels import LevelTable
from residua.plans.solver.orbits import Orbits

_NOTHING = 1e-10  # of the largest eigenvalue of a block's Gram matrix: such directions are not asked for
_LEAST_WEIGHT = 1e-6  # of a cell, relative to the mean


class State:
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

    def kept(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Where it is, to come back to."""
        return self.tilt, self.covariance, self.weights, self.costs

    def restore(self, held: tuple[Floats, Floats, Floats, Floats]) -> None:
        """Back to where it was."""
        self.tilt, self.covariance, self.weights, self.costs = held

    def see(self, gram: Floats) -> None:
        """Takes a Gram matrix into account."""
        if not np.array_equal(gram, self.gram):
            g, V = np.linalg.eigh((gram + gram.T) / 2)
            kept = g > max(float(g[-1]) * _NOTHING, 0.0)
            self.gram, self.range, self.rest = gram, (g[kept], V[:, kept]), V[:, ~kept]


class Cells(Protocol):
    """How cells are weighed."""

    patience: int  # rounds before the split moves
    every: int  # how many rounds the split is held for weights to follow
    settling: int  # rounds in which the loss may rise
    turns: int  # of strategy and tilt of one block in a round

    def begin(self, states: Sequence[State]) -> None:
        """Hands out the weights as they are now."""
        ...

    def kept(self) -> tuple[Floats, Floats]:
        """The weights and costs of cells, to come back to."""
        ...

    def restore(self, held: tuple[Floats, Floats]) -> None:
        """Back to these."""
        ...

    def shared_out(self, states: Sequence[State]) -> list[float]:
        """What each kind's noise is to be multiplied by, for a cost of 1 in all."""
        ...

    def followed(self, q: Floats, costs: Floats, growth: float) -> Floats:
        """A block's weights after a turn in which its cells cost so much."""
        ...

    def reweigh(self, states: Sequence[State], growth: float) -> None:
        """Gives more weight to cells that cost more than others, after a round."""
        ...


class Apart:
    """Every block with its own weights: budget goes by the root."""

    patience, every, settling, turns = 1, 1, 2, 3

    def __init__(self, found: Orbits) -> None:
        self.counts = np.array(found.counts)

    def begin(self, states: Sequence[State]) -> None:
        """Even weights."""
        for state in states:
            state.weights = np.full(len(state.weights), 1.0 / len(state.weights))

    def kept(self) -> tuple[Floats, Floats]:
        """To come back to."""
        return np.zeros(0), np.zeros(0)  # blocks have their own

    def restore(self, held: tuple[Floats, Floats]) -> None:
        """Nothing."""

    def shared_out(self, states: Sequence[State]) -> list[float]:
        """By the root."""
        largest = [float(state.costs.max(initial=0.0)) for state in states]
        pairs = list(zip(states, largest, strict=True))
        total = float(self.counts @ np.sqrt([state.loss * cost for state, cost in pairs]))
        return [total * math.sqrt(cost / state.loss) if state.loss else 1.0 for state, cost in pairs]

    def followed(self, q: Floats, costs: Floats, growth: float) -> Floats:
        """Larger where its cells cost more."""
        return _grown(q, costs, growth)

    def reweigh(self, states: Sequence[State], growth: float) -> None:
        """Nothing: each block's weights have followed it."""


class Together:
    """One set of weights on all cells; each block has its margin."""

    turns = 2

    def __init__(self, table: LevelTable, found: Orbits, *, slowly: bool = False) -> None:
        self.patience, self.every, self.settling = (8, 3, 6) if slowly else (1, 1, 7)
        self.table, self.kinds = table, found.kinds
        self.examples = found.examples
        self.weights = np.full(table.shape, 1.0 / math.prod(table.shape))
        self.costs = np.zeros(table.shape)

    def begin(self, states: Sequence[State]) -> None:
        """Hands out the weights as they are now."""
        for block, state in zip(self.examples, states, strict=True):
            state.weights = self.table.margin(block, self.weights)

    def kept(self) -> tuple[Floats, Floats]:
        """To come back to."""
        return self.weights, self.costs

    def restore(self, held: tuple[Floats, Floats]) -> None:
        """Back to these."""
        self.weights, self.costs = held

    def shared_out(self, states: Sequence[State]) -> list[float]:
        """All by one factor: what each block gets beside the others is decided by the price at its weights."""
        self.costs = np.zeros(self.table.shape)
        for block, kind in self.kinds.items():
            self.costs = self.costs + self.table.spread(block, states[kind].costs)
        return [float(self.costs.max())] * len(states)

    def followed(self, q: Floats, costs: Floats, growth: float) -> Floats:
        """As they are: one block does not tell what a cell costs."""
        return q  # one block does not tell what a cell costs

    def reweigh(self, states: Sequence[State], growth: float) -> None:
        """Larger where cells cost more, all blocks together."""
        self.weights = _grown(self.weights, self.costs, growth)
        self.begin(states)


def _grown(q: Floats, costs: Floats, growth: float) -> Floats:
    grown = np.maximum(q * (costs / costs.max()) ** growth, _LEAST_WEIGHT / q.size)
    return np.asarray(grown / grown.sum())
