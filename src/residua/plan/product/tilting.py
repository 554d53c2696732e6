"""Choosing every attribute's strategy: round by round, each attribute answers what the others make it worth.

Given the noise on blocks, the loss is `Σ_k α_k a_k + β_k θ_k` in what attribute i's strategy makes of each kind k of
rows asked of it (`ProductGame.balances`); the best compromise lies on the frontier of `attribute.py`. Then the noise is
best again for the new strategies. Each half lowers the loss; a few rounds settle it. Where an attribute is asked
several kinds of rows, the frontiers of their α-weighted and of their β-weighted sum of Gram matrices are compared: with
one kind this finds the optimum, with several a good strategy.

For the largest variance nature also weighs the terms, and the rows of every attribute: both grow where the variance is
above average, and the best round is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from residua.plan.objectives import Effort, MaxVariance, Objective
from residua.plan.product.attribute import COARSE, FINE, TILTS, RealStrategy, best_strategy, indistinct
from residua.plan.product.response import ProductGame
from residua.workload import AttributeQueries, Identity, Products

Floats = NDArray[np.float64]
_ROUNDS = 8
_SETTLED = 1e-6
_GRID = 4096  # tilts compared on a frontier's spline
_MAXIMUM_ROUNDS = 25
_GROWTH = 1.0  # exponent of nature's weights on rows


@dataclass(frozen=True, eq=False)
class Solver:
    """Solves one-attribute problems, each once."""

    known: dict[tuple[bytes, float, float], RealStrategy] = field(default_factory=dict)

    def at(self, V: Floats, tilt: float, merged: NDArray[np.int64] | None, gap: float = FINE) -> RealStrategy:
        """The best strategy for a Gram matrix of trace 1 at one tilt."""
        key = (np.round(V, 14).tobytes(), round(float(np.log(tilt)), 2), gap)
        if key not in self.known:
            self.known[key] = best_strategy(V, float(np.exp(key[1])) / len(V), merged, gap)
        return self.known[key]

    def best(
        self, V: Floats, Va: Floats, Vb: Floats, merged: NDArray[np.int64] | None
    ) -> tuple[float, float, RealStrategy]:
        """The strategy on the frontier of V with the least `vᵀVa v + tr(Vb K)`: that sum, its tilt, and itself."""
        losses = [_loss(self.at(V, tilt, merged, COARSE), Va, Vb) for tilt in TILTS]
        fine = np.linspace(np.log(TILTS[0]), np.log(TILTS[-1]), _GRID)
        tilt = float(np.exp(fine[int(CubicSpline(np.log(TILTS), losses)(fine).argmin())]))
        found = self.at(V, tilt, merged)
        return _loss(found, Va, Vb), tilt, found


def _loss(strategy: RealStrategy, Va: Floats, Vb: Floats) -> float:
    return float(strategy.spread @ Va @ strategy.spread + np.einsum("ij,ij->", Vb, strategy.inverse))


@dataclass(frozen=True, eq=False)
class Design:
    """What is to be measured of each attribute, in real numbers, and nature's weights that led to it.

    Args:
        workload: what is asked.
        strategies: for each attribute; None for the plain residual.
        weights: on the terms' mean variances, (terms,).
        rows: for each family and attribute the weights of rows in those means, summing to 1; None for equal ones.
    """

    workload: Products
    strategies: list[RealStrategy | None]
    weights: Floats
    rows: list[list[Floats | None]]

    @cached_property
    def kinds(self) -> list[list[AttributeQueries]]:
        """The different rows asked of each attribute."""
        return [kinds_of(self.workload, i) for i in range(len(self.workload.domain))]

    @cached_property
    def grams(self) -> list[list[Floats]]:
        """For each family and attribute, the Gram matrix of its weighted rows; empty for plain strategies."""
        known: dict[AttributeQueries, Floats] = {}
        found = []
        for family, weights in zip(self.workload.families, self.rows, strict=True):
            row = []
            for i, (asked, p) in enumerate(zip(family.queries, weights, strict=True)):
                if self.strategies[i] is None:
                    row.append(np.empty((0, 0)))
                elif p is None:
                    row.append(known.setdefault(asked, asked.gram() / asked.rows))
                else:
                    row.append(asked.weighted_gram(p))
            found.append(row)
        return found

    def game(self) -> ProductGame:
        """The game with these strategies."""
        sizes = self.workload.domain.sizes
        costs = np.array(
            [1 - 1 / n if s is None else float(len(s.rows) > 0) for n, s in zip(sizes, self.strategies, strict=True)]
        )
        shape = (len(self.workload.families), len(self.strategies))
        shares, dilutions = np.empty(shape), np.empty(shape)
        for f, row in enumerate(self.grams):
            for i, (strategy, V) in enumerate(zip(self.strategies, row, strict=True)):
                if strategy is None:
                    shares[f, i], dilutions[f, i] = 1.0 - 1.0 / sizes[i], 1.0 / float(sizes[i]) ** 2
                else:
                    shares[f, i] = max(float(np.einsum("ij,ij->", V, strategy.inverse)), 0.0)
                    dilutions[f, i] = float(strategy.spread @ V @ strategy.spread)
        return ProductGame(self.workload, costs, shares, dilutions)


def designed(workload: Products, objective: Objective, effort: Effort) -> Design:
    """Strategies for an objective, a total or a maximum."""
    solver = Solver()
    even: list[list[Floats | None]] = [[None] * len(workload.domain) for _ in workload.families]
    start = Design(workload, _first(workload, solver), workload.weights * workload.cells, even)
    if not isinstance(objective, MaxVariance):
        return _tilted(start, solver)[0]
    # The maximum over terms: nature's weights on terms and the strategies settle in turns.
    scales = objective.scales(workload)
    design = replace(start, weights=1.0 / scales)
    tilts: list[float] = []
    for _ in range(3):
        design, tilts = _tilted(design, solver)
        loose = replace(effort, tolerance=max(effort.tolerance, 1e-3), progress=None, limit=min(effort.limit, 300))
        over = MaxVariance(objective.targets, over="terms")
        design = replace(design, weights=over.solve(workload, design.game(), loose).weights)
    if objective.over == "terms":
        return design
    return _rows_weighed(design, scales, tilts)


def _first(workload: Products, solver: Solver) -> list[RealStrategy | None]:
    """Where to begin: every kind of rows alike, at a middling tilt; None where only values are asked."""
    found: list[RealStrategy | None] = []
    for i in range(len(workload.domain)):
        kinds = kinds_of(workload, i)
        if all(isinstance(asked, Identity) for asked in kinds):
            found.append(None)
            continue
        V = sum(asked.gram() / asked.gram().trace() for asked in kinds)
        found.append(solver.at(np.asarray(V / len(kinds)), 1.0, indistinct(kinds)))
    return found


def _tilted(design: Design, solver: Solver) -> tuple[Design, list[float]]:
    """The design with strategies that are best for its weights, and their tilts."""
    before = np.inf
    tilts = [1.0] * len(design.strategies)
    best = design
    for _ in range(_ROUNDS):
        game = design.game()
        noise, _, value = game.respond(design.weights)
        if value < before:
            best = design
        if value > before * (1.0 - _SETTLED):
            break
        before = value
        alpha, beta = game.balances(design.weights, noise)
        strategies = list(design.strategies)
        for i, strategy in enumerate(strategies):
            if strategy is not None:
                tilts[i], strategies[i] = _answer(design, i, alpha[:, i], beta[:, i], solver)
        design = replace(design, strategies=strategies)
    return best, tilts


def _answer(design: Design, i: int, alpha: Floats, beta: Floats, solver: Solver) -> tuple[float, RealStrategy]:
    grams = [row[i] for row in design.grams]
    Va = np.asarray(sum(a * V for a, V in zip(alpha, grams, strict=True)))
    Vb = np.asarray(sum(b * V for b, V in zip(beta, grams, strict=True)))
    merged = indistinct(design.kinds[i])
    candidates = [V / V.trace() for V in ([Vb, Va] if len(design.kinds[i]) > 1 else [Vb]) if V.trace() > 0]
    if not candidates:  # no row of it differs from the total
        candidates = [grams[0] / grams[0].trace()]
    return min((solver.best(V, Va, Vb, merged) for V in candidates), key=lambda found: found[0])[1:]


def _rows_weighed(design: Design, scales: Floats, tilts: list[float]) -> Design:
    """Lets nature weigh the rows of every attribute as well; the round with the least maximum is kept."""
    from residua.plan.product.maxima import query_game

    workload = design.workload
    best, least = design, np.inf
    for _ in range(_MAXIMUM_ROUNDS):
        game = design.game()
        facts = [
            [_pairs(strategy, asked) for strategy, asked in zip(design.strategies, family.queries, strict=True)]
            for family in workload.families
        ]
        noise, _, _ = game.respond(design.weights)
        worst = query_game(workload, facts, game.costs)
        ratios = worst.variances(noise) / scales[worst.terms]
        largest = float(ratios.max()) / float(design.weights @ scales)
        if largest < least:
            best, least = design, largest
        alpha, beta = game.balances(design.weights, noise)
        rows = [
            [
                None if design.strategies[i] is None else _grown(p, facts[f][i], alpha[f, i], beta[f, i])
                for i, p in enumerate(row)
            ]
            for f, row in enumerate(design.rows)
        ]
        per_term = np.zeros(len(workload))
        np.maximum.at(per_term, worst.terms, ratios)
        weights = design.weights * (per_term / per_term.max())
        design = replace(design, rows=rows, weights=weights / float(weights @ scales))
        design = replace(design, strategies=_answers(design, alpha, beta, tilts))
    return best


def _grown(p: Floats | None, pair: tuple[Floats, Floats], alpha: float, beta: float) -> Floats:
    """Weights of rows, larger where their part in the loss is."""
    felt = beta * pair[0] + alpha * pair[1]
    p = np.full(len(felt), 1.0 / len(felt)) if p is None else p
    if felt.max() <= 0:
        return p
    grown = p * (felt / felt.max()) ** _GROWTH
    return np.asarray(np.maximum(grown / grown.sum(), 1e-9))


def _answers(design: Design, alpha: Floats, beta: Floats, tilts: list[float]) -> list[RealStrategy | None]:
    """Strategies for the rows' weights as they are now, at the tilts found before; each distinct one once."""
    solver, found = Solver(), list(design.strategies)
    for i, strategy in enumerate(found):
        if strategy is not None:
            Vb = np.asarray(sum(b * row[i] for b, row in zip(beta[:, i], design.grams, strict=True)))
            if Vb.trace() > 0:
                found[i] = solver.at(Vb / Vb.trace(), tilts[i], indistinct(design.kinds[i]), COARSE)
    return found


def _pairs(strategy: RealStrategy | None, asked: AttributeQueries) -> tuple[Floats, Floats]:
    if strategy is None:
        n = asked.size
        return np.full(asked.rows, 1.0 - 1.0 / n), np.full(asked.rows, 1.0 / n**2)
    return np.maximum(asked.diagonal(strategy.inverse), 0.0), asked.times(strategy.spread) ** 2


def kinds_of(workload: Products, i: int) -> list[AttributeQueries]:
    """The different rows asked of an attribute; its values if nobody asks."""
    found: dict[AttributeQueries, None] = {}
    for family in workload.families:
        if i in family.used:
            found.setdefault(family.queries[i])
    return list(found) or [Identity(int(workload.domain.sizes[i]))]
