"""AIM: adaptive selection of tables on a junction tree, for comparison alone; its noise is NumPy's, nothing is private.

Written from the paper's pseudocode. `python -m benchmarks.beside` runs it.

Reference: McKenna, Mullins, Sheldon and Miklau (2022), AIM: an adaptive and iterative mechanism for differentially
private synthetic data, algorithm 4.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.junction import Clique, Model, fitted, maximal_cliques, megabytes
from residua.privacy.guarantees import ZCDP

_SHARE = 0.9  # of the budget, on measuring; the rest on choosing
_EXPECTED = math.sqrt(2 / math.pi)  # the mean size of standard normal noise


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho whose zCDP is (epsilon, delta)-DP: the exponential mechanism has no better curve."""
    low, high = 0.0, epsilon
    for _ in range(50):
        middle = (low + high) / 2
        if ZCDP(middle).epsilon(delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


class Aim:
    """One run of AIM.

    Args:
        counts: the true table of a clique.
        sizes: of the attributes.
        ways: the workload: all tables of so many attributes.
        rho: the budget.
        most: megabytes of the junction tree.
        steps: of descent per round; four times as many at the end.
        random: where noise comes from.
    """

    def __init__(self, counts: Any, sizes: list[int], ways: int, rho: float, most: float, steps: int, random: Any):
        self.counts, self.sizes, self.rho, self.most, self.steps, self.random = counts, sizes, rho, most, steps, random
        d = len(sizes)
        self.candidates = [r for size in range(1, ways + 1) for r in combinations(range(d), size)]
        # Σ over tables s of the workload of |r ∩ s|: each attribute of r is in so many tables.
        self.weights = {r: len(r) * math.comb(d - 1, ways - 1) for r in self.candidates}
        self.measured: dict[Clique, tuple[Any, float]] = {}
        self.potentials: dict[Clique, Any] = {}
        self.rounds = 0

    def _measure(self, clique: Clique, sigma: float) -> None:
        noisy = self.counts(clique) + self.random.normal(0.0, sigma, [self.sizes[i] for i in clique])
        variance = sigma**2
        if clique in self.measured:
            before, other = self.measured[clique]
            share = other / (other + variance)
            noisy, variance = share * noisy + (1 - share) * before, variance * share
        self.measured[clique] = (noisy, variance)

    def _model(self, steps: int) -> Model:
        precisions = {r: 1 / (variance * noisy.size) for r, (noisy, variance) in self.measured.items()}
        sums = sum(precisions[r] * float(self.measured[r][0].sum()) for r in precisions)
        total = max(1.0, sums / sum(precisions.values()))
        return fitted(self.sizes, self.measured, total, self.potentials, steps=steps)

    def _allowed(self, most: float) -> list[Clique]:
        held = [set(clique) for clique in maximal_cliques(self.sizes, self.measured)]
        return [
            r
            for r in self.candidates
            if any(set(r) <= clique for clique in held) or megabytes(self.sizes, [*self.measured, r]) <= most
        ]

    def run(self) -> Model:
        """Measures single attributes, then what the model is worst at, until the budget is spent."""
        d, rho = len(self.sizes), self.rho
        rounds = 16 * d
        sigma = math.sqrt(rounds / (2 * _SHARE * rho))
        epsilon = math.sqrt(8 * (1 - _SHARE) * rho / rounds)
        for i in range(d):
            self._measure((i,), sigma)
        used = d / (2 * sigma**2)
        model = self._model(self.steps)
        while used < rho * (1 - 1e-9):
            if rho - used <= 2 * (1 / (2 * sigma**2) + epsilon**2 / 8):
                sigma = math.sqrt(1 / (2 * _SHARE * (rho - used)))
                epsilon = math.sqrt(8 * (1 - _SHARE) * (rho - used))
            used += 1 / (2 * sigma**2) + epsilon**2 / 8
            allowed = self._allowed(self.most * used / rho)
            model.prepare(allowed)
            far = {r: np.abs(self.counts(r) - model.table(r)).sum() for r in allowed}
            scores = np.array(
                [self.weights[r] * (far[r] - _EXPECTED * sigma * math.prod(self.sizes[i] for i in r)) for r in allowed]
            )
            odds = epsilon / (2 * max(self.weights.values())) * (scores - scores.max())
            chances = np.exp(odds) / np.exp(odds).sum()
            chosen = allowed[int(self.random.choice(len(allowed), p=chances))]
            before = model.table(chosen)
            self._measure(chosen, sigma)
            self.rounds += 1
            model = self._model(self.steps)
            if np.abs(model.table(chosen) - before).sum() <= _EXPECTED * sigma * before.size:
                sigma, epsilon = sigma / 2, epsilon * 2
        return self._model(4 * self.steps)
