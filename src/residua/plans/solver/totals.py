"""The best noise where blocks along an axis tell of the blocks without it.

Measured at precisions τ ≥ 0, blocks are known at `τ' = Mτ` (`lattice/totals.py`). The loss `Σ_S u_S/τ'_S` is convex in
τ, and so is its least value at a given cost `Σ_S c_S τ'_S = Σ_U (Mᵀc)_U τ_U`. Where the free optimum
`τ'_S ∝ √(u_S/c_S)` wants no less of any block than is told anyway, it is the optimum. Otherwise
`τ_U ← τ_U √(g_U / (Mᵀc)_U)` with `g = Mᵀ(u/τ'²)` leads there, and `2 φ − max_U g_U/(Mᵀc)_U` bounds the least loss φ
from below, by convexity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.lattice import Lattice
from residua.plans.solver.closed_form import ProductGame
from residua.plans.solver.maxima import QueryGame

_SETTLED = 1e-6
_ROUNDS = 3000
_TINY = 1e-9


def best_noise(lattice: Lattice, u: Floats, cost: Floats, tells: Floats) -> tuple[Floats, float]:
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


def _started(lattice: Lattice, u: Floats, cost: Floats, tells: Floats, free: Floats, whole: Floats) -> Floats:
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

    lattice: Lattice | None = None
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
