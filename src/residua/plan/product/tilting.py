"""Choosing every attribute's strategy: round by round, each attribute answers what the others make it worth.

Given the noise on blocks, the loss is `Σ_k α_k a_k + β_k θ_k` in what attribute i's strategy makes of each kind of rows k
asked of it (`ProductGame.balances`); the best compromise lies on the frontier of `attribute.py`. Then the noise is best
again for the new strategies. Each half lowers the loss; a few rounds settle it. Where an attribute is asked several
kinds of rows, the frontiers of their α-weighted and of their β-weighted sum of Gram matrices are compared: with one kind
this finds the optimum, with several a good strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from residua.plan.product.attribute import TILTS, RealStrategy, best_strategy, indistinct
from residua.plan.product.response import ProductGame
from residua.workload import AttributeQueries, Identity, Products

Floats = NDArray[np.float64]
Facts = Callable[[int, AttributeQueries], tuple[Floats, Floats]]
_ROUNDS = 8
_SETTLED = 1e-7
_GRID = 4096  # tilts compared on a frontier's spline


@dataclass(frozen=True, eq=False)
class Solver:
    """Solves one-attribute problems, each once."""

    known: dict[tuple[bytes, float], RealStrategy] = field(default_factory=dict)

    def at(self, V: Floats, tilt: float, merged: NDArray[np.int64] | None) -> RealStrategy:
        """The best strategy for a Gram matrix of trace 1 at one tilt."""
        key = (np.round(V, 14).tobytes(), round(float(np.log(tilt)), 2))
        if key not in self.known:
            scale = float(V.sum()) / len(V) ** 2
            self.known[key] = best_strategy(V, float(np.exp(key[1])) * scale, merged)
        return self.known[key]

    def best(self, V: Floats, Va: Floats, Vb: Floats, merged: NDArray[np.int64] | None) -> tuple[float, RealStrategy]:
        """The strategy on the frontier of V with the least `vᵀVa v + tr(Vb K)`, and that sum."""
        losses = [_loss(self.at(V, tilt, merged), Va, Vb) for tilt in TILTS]
        fine = np.linspace(np.log(TILTS[0]), np.log(TILTS[-1]), _GRID)
        at = float(fine[int(CubicSpline(np.log(TILTS), losses)(fine).argmin())])
        found = self.at(V, float(np.exp(at)), merged)
        return _loss(found, Va, Vb), found


def _loss(strategy: RealStrategy, Va: Floats, Vb: Floats) -> float:
    return float(strategy.spread @ Va @ strategy.spread + np.einsum("ij,ij->", Vb, strategy.inverse))


def tilted(
    workload: Products, weights: Floats, solver: Solver, start: list[RealStrategy | None]
) -> list[RealStrategy | None]:
    """A real strategy for each attribute (None: the plain residual), for these weights on terms.

    Args:
        workload: what is asked.
        weights: on the terms' mean variances.
        solver: remembers what it has solved.
        start: strategies to begin with.
    """
    strategies = list(start)
    before = np.inf
    for _ in range(_ROUNDS):
        game = game_of(workload, strategies)
        noise, _, value = game.respond(weights)
        if value > before * (1.0 - _SETTLED):
            break
        before = value
        alpha, beta = game.balances(weights, noise)
        for i in range(len(strategies)):
            if strategies[i] is not None:
                strategies[i] = _answer(workload, i, alpha[:, i], beta[:, i], solver)
    return strategies


def first_strategies(workload: Products, solver: Solver) -> list[RealStrategy | None]:
    """Where to begin: every attribute's rows alike, at a middling tilt; None where only values are asked."""
    found: list[RealStrategy | None] = []
    for i in range(len(workload.domain)):
        kinds = _kinds(workload, i)
        if all(isinstance(asked, Identity) for asked in kinds):
            found.append(None)
            continue
        V = sum(asked.gram() / asked.gram().trace() for asked in kinds)
        found.append(solver.at(np.asarray(V / len(kinds)), 1.0, indistinct(kinds)))
    return found


def _answer(workload: Products, i: int, alpha: Floats, beta: Floats, solver: Solver) -> RealStrategy:
    grams = [family.queries[i].gram() / family.queries[i].rows for family in workload.families]
    Va = np.asarray(sum(a * V for a, V in zip(alpha, grams, strict=True)))
    Vb = np.asarray(sum(b * V for b, V in zip(beta, grams, strict=True)))
    kinds = _kinds(workload, i)
    merged = indistinct(kinds)
    candidates = [Vb / Vb.trace()] if Vb.trace() > 0 else []
    if len(kinds) > 1 and Va.trace() > 0:
        candidates.append(Va / Va.trace())
    return min((solver.best(V, Va, Vb, merged) for V in candidates), key=lambda pair: pair[0])[1]


def _kinds(workload: Products, i: int) -> list[AttributeQueries]:
    """The different rows asked of an attribute."""
    found: dict[AttributeQueries, None] = {}
    for family in workload.families:
        if i in family.used:
            found.setdefault(family.queries[i])
    return list(found) or [Identity(int(workload.domain.sizes[i]))]


def game_of(workload: Products, strategies: list[RealStrategy | None]) -> ProductGame:
    """The game with these real strategies."""
    sizes = workload.domain.sizes
    costs = np.array(
        [1.0 - 1.0 / n if s is None else float(len(s.rows) > 0) for n, s in zip(sizes, strategies, strict=True)]
    )
    shape = (len(workload.families), len(strategies))
    shares, dilutions = np.empty(shape), np.empty(shape)
    for f, family in enumerate(workload.families):
        for i, strategy in enumerate(strategies):
            if strategy is None:
                shares[f, i], dilutions[f, i] = 1.0 - 1.0 / sizes[i], 1.0 / float(sizes[i]) ** 2
            else:
                asked = family.queries[i]
                V = asked.gram() / asked.rows
                shares[f, i] = max(float(np.einsum("ij,ij->", V, strategy.inverse)), 0.0)
                dilutions[f, i] = float(strategy.spread @ V @ strategy.spread)
    return ProductGame(workload, costs, shares, dilutions)
