"""Choosing every attribute's strategy: round by round, each attribute answers given what the others make it worth.

Given the noise on blocks, the loss is `Σ_k α_k a_k + β_k θ_k` in what attribute i's strategy makes of each kind k of
rows asked of it (`ProductGame.balances`): the problem of `attribute.py` for the α-weighted and the β-weighted sum of
their Gram matrices. Then the noise is best again for the new strategies. Each half lowers the loss; a few rounds settle
it. Strategies may also be given, to be kept as they are.

For the largest variance nature also weighs the terms, and the rows of every attribute: both grow where the variance is
above average, and the best round is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.objectives import MaxVariance, Objective
from residua.plans.saddle import Effort, Progress
from residua.plans.solver.attribute import SETTLED, RealStrategy, Search, best_cells
from residua.plans.solver.closed_form import ProductGame, felt
from residua.plans.solver.ordered import ordered_start
from residua.plans.solver.patterns import PatternSpending, replacing
from residua.plans.strategy import Strategy
from residua.workload import AttributeQueries, Identity, Workload

_ROUNDS = 200
_MAXIMUM_ROUNDS = 60
_PATIENCE, _PROGRESS = 20, 1e-4  # rounds without progress after which nature's weights on rows are left as they are
_MOST_PATTERNS = 10  # the logarithm of the number of ways in which two records differ that are all weighed
_GROWTH = 1.0  # exponent of nature's weights on rows


@dataclass(frozen=True, eq=False)
class Design:
    """What is to be measured of each attribute, in real numbers, and nature's weights that led to it.

    Args:
        workload: what is asked.
        strategies: for each attribute; None for the plain residual.
        weights: on the terms' mean variances, (terms,).
        rows: for each family and attribute the weights of rows in those means, summing to 1; None for equal ones.
        replacing: whether records are replaced, so that the total is free.
    """

    workload: Workload
    strategies: list[RealStrategy | None]
    weights: Floats
    rows: list[list[Floats | None]]
    replacing: bool = False

    @cached_property
    def kinds(self) -> list[list[AttributeQueries]]:
        """The different rows asked of each attribute."""
        return [kinds_of(self.workload, i) for i in range(len(self.workload.domain))]

    @cached_property
    def grams(self) -> list[list[Floats]]:
        """For each family and attribute, the Gram matrix of its weighted rows; empty for plain strategies."""
        known: dict[AttributeQueries, Floats] = {}
        grams = []
        for family, weights in zip(self.workload.families, self.rows, strict=True):
            row = []
            for i, (asked, p) in enumerate(zip(family.queries, weights, strict=True)):
                if self.strategies[i] is None:
                    row.append(np.empty((0, 0)))
                elif p is None:
                    row.append(known.setdefault(asked, asked.gram() / asked.rows))
                else:
                    row.append(asked.gram(p))
            grams.append(row)
        return grams

    def weighted(self, attribute: int, weights: Floats) -> Floats:
        """The sum of an attribute's Gram matrices, each family's times its weight, (n, n)."""
        grams = (row[attribute] for row in self.grams)
        return np.asarray(sum(weight * V for weight, V in zip(weights, grams, strict=True)))

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
        limits = self._replaced(costs) if self.replacing else None
        return ProductGame(self.workload, costs, shares, felt(dilutions, shares), limits)

    def _replaced(self, costs: Floats) -> PatternSpending:
        """How to spend best where records are replaced."""
        least = [-1.0 / max(int(n) - 1, 1) for n in self.workload.domain.sizes]
        for i, strategy in enumerate(self.strategies):
            if strategy is not None and len(strategy.rows):
                least[i] = float((strategy.rows.T @ strategy.rows).min())
        lattice = self.workload.lattice
        return replacing(lattice, lattice.products(costs), np.array(least), most=_MOST_PATTERNS, removable=False)


def designed(
    workload: Workload,
    objective: Objective,
    effort: Effort,
    given: Sequence[Strategy | None],
    *,
    replaced: bool = False,
) -> Design:
    """Strategies for an objective, a total or a maximum.

    Args:
        workload: what is asked.
        objective: what they are to be good for.
        effort: how long to try.
        given: for each attribute a strategy to keep, or None to choose one.
        replaced: whether records are replaced.
    """
    searches = _Searches(workload, given, effort.progress)
    even: list[list[Floats | None]] = [[None] * len(workload.domain) for _ in workload.families]
    start = Design(workload, searches.strategies(), workload.weights * workload.cells, even, replaced)
    if not isinstance(objective, MaxVariance):
        return _certified(_settled(start, searches), searches)
    # The maximum over terms: nature's weights on terms and the strategies settle in turns.
    scales = objective.scales(workload)
    design = replace(start, weights=1.0 / scales)
    for _ in range(3):
        design = _settled(design, searches)
        loose = replace(effort, tolerance=max(effort.tolerance, 1e-3), progress=None, limit=min(effort.limit, 300))
        over = MaxVariance(objective.targets, over="terms")
        design = replace(design, weights=over.solve(workload, design.game(), loose).proof)
    if objective.over == "queries":
        design = _rows_weighed(design, scales, searches)
    return _certified(design, searches)


class _Searches:
    """The attributes' searches for strategies. Attributes that are asked the same and worth the same share one.

    Args:
        workload: what is asked.
        given: for each attribute a strategy to keep, or None to choose one.
        progress: called with the round; nothing is proven yet.
    """

    def __init__(self, workload: Workload, given: Sequence[Strategy | None], progress: Progress | None = None) -> None:
        count = len(workload.domain)
        self.progress, self.rounds = progress, 0
        self.given: list[RealStrategy | None] = [None] * count
        self.searches: list[Search | None] = [None] * count
        known: dict[tuple[AttributeQueries, ...], Search] = {}
        for i in range(count):
            kinds = tuple(kinds_of(workload, i))
            kept = given[i]
            plain = all(asked.plain for asked in kinds)
            if kept is not None and not (plain and kept.plain):
                self.given[i] = _real(kept)
            elif not plain:
                asked = tuple(family.queries[i] for family in workload.families)
                if asked not in known:
                    gram = np.asarray(sum(each.gram() / each.gram().trace() for each in kinds))
                    known[asked] = Search(gram, start=ordered_start(kinds))
                self.searches[i] = known[asked]

    @property
    def free(self) -> bool:
        """Whether any strategy is to be chosen."""
        return any(search is not None for search in self.searches)

    def strategies(self) -> list[RealStrategy | None]:
        """Where the searches are now; given strategies as they are, None where only values are asked."""
        current = {search: search.strategy() for search in self.searches if search is not None}
        return [
            given if search is None else current[search]
            for given, search in zip(self.given, self.searches, strict=True)
        ]

    def advance(self, design: Design, alpha: Floats, beta: Floats) -> float:
        """One round of every search; how far from settled the one before was."""
        self.rounds += 1
        if self.progress:
            self.progress(self.rounds, np.inf)
        self._separate(np.concatenate([alpha, beta]))
        first = {search: i for i, search in reversed(list(enumerate(self.searches))) if search is not None}
        return max(
            search.advance(design.weighted(i, alpha[:, i]), design.weighted(i, beta[:, i]))
            for search, i in first.items()
        )

    def _separate(self, worth: Floats) -> None:
        """Gives attributes that share a search, but are worth something else by now, each its own."""
        seen: list[tuple[Search, Floats, Search]] = []
        for i, search in enumerate(self.searches):
            if search is None:
                continue
            alike = (own for other, column, own in seen if other is search and np.allclose(worth[:, i], column, 1e-9))
            own = next(alike, None)
            if own is None:
                own = deepcopy(search) if any(other is search for other, _, _ in seen) else search
                seen.append((search, worth[:, i], own))
            self.searches[i] = own


def _real(strategy: Strategy) -> RealStrategy:
    """An integer strategy in real numbers, with columns of norm 1 at most; nothing is proven of it yet."""
    cost, n = strategy.cost or 1.0, strategy.size
    rows = strategy.matrix / (strategy.unit * math.sqrt(cost))
    return RealStrategy(rows, np.full(n, 1.0 / n), strategy.spread, strategy.inverse * cost)


def _settled(design: Design, searches: _Searches) -> Design:
    """The design with strategies that are best for its weights."""
    best, least = design, np.inf
    for _ in range(_ROUNDS):
        design = replace(design, strategies=searches.strategies())
        game = design.game()
        noise, _, value = game.respond(design.weights)
        if value < least:
            best, least = design, value
        if not searches.free or searches.advance(design, *game.balances(design.weights, noise)) <= SETTLED:
            break
    # Where many are equally good, the last one has the weights that prove it.
    return design if value <= least * (1.0 + SETTLED**2) else best


def _certified(design: Design, searches: _Searches) -> Design:
    """The design with the weights on values that prove the most, where the search for strategies did not find them.

    They are not searched for where strategies are given, nor settled to first order where rows merge values.
    """
    game = design.game()
    noise, _, _ = game.respond(design.weights)
    _, beta = game.balances(design.weights, noise)
    strategies = list(design.strategies)
    for i, strategy in enumerate(strategies):
        if strategy is not None and (searches.given[i] is not None or len(strategy.rows) < len(strategy.cells) - 1):
            cells = best_cells(design.weighted(i, beta[:, i]), strategy.spread, strategy.cells)
            strategies[i] = replace(strategy, cells=cells)
    return replace(design, strategies=strategies)


def _rows_weighed(design: Design, scales: Floats, searches: _Searches) -> Design:
    """Lets nature weigh the rows of every attribute as well; the round with the least maximum is kept."""
    from residua.plans.solver.maxima import query_game

    workload = design.workload
    best, least, waited = design, np.inf, 0
    for _ in range(_MAXIMUM_ROUNDS):
        game = design.game()
        facts = [
            [_pairs(strategy, asked) for strategy, asked in zip(design.strategies, family.queries, strict=True)]
            for family in workload.families
        ]
        noise, _, _ = game.respond(design.weights)
        worst = query_game(game, facts)
        ratios = worst.variances(noise) / scales[worst.terms]
        largest = float(ratios.max()) / float(design.weights @ scales)
        waited = 0 if largest < least * (1.0 - _PROGRESS) else waited + 1
        if largest < least:
            best, least = design, largest
        if waited >= _PATIENCE:
            break
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
        if searches.free:
            searches.advance(design, alpha, beta)
            design = replace(design, strategies=searches.strategies())
    return best


def _grown(p: Floats | None, pair: tuple[Floats, Floats], alpha: float, beta: float) -> Floats:
    """Weights of rows, larger where their part in the loss is."""
    felt = beta * pair[0] + alpha * pair[1]
    p = np.full(len(felt), 1.0 / len(felt)) if p is None else p
    if felt.max() <= 0:
        return p
    grown = p * (felt / felt.max()) ** _GROWTH
    return np.asarray(np.maximum(grown / grown.sum(), 1e-9))


def _pairs(strategy: RealStrategy | None, asked: AttributeQueries) -> tuple[Floats, Floats]:
    if strategy is None:
        n = asked.size
        return np.full(asked.rows, 1.0 - 1.0 / n), np.full(asked.rows, 1.0 / n**2)
    d = np.maximum(asked.diagonal(strategy.inverse), 0.0)
    return d, felt(asked.times(strategy.spread) ** 2, d)


def kinds_of(workload: Workload, i: int) -> list[AttributeQueries]:
    """The different rows asked of an attribute; its values if nobody asks."""
    kinds: dict[AttributeQueries, None] = {}
    for family in workload.families:
        if i in family.used:
            kinds.setdefault(family.queries[i])
    return list(kinds) or [Identity(int(workload.domain.sizes[i]))]
