"""The best noise on the blocks of a lattice, for importances, when some of the budget is spent on tables.

With importances u the loss is `Σ_S u_S/τ_S`. Where every person pays `Σ_S cost_S τ_S` the least loss at cost 1 is
`(Σ √(cost_S u_S))²` (`closed_form.py`). Persons whose records are limited in attributes A pay for *tables*
(`product/contribution.py`): `Σ_S c_S s_S` with `τ_S = Σ_{S'⊇S, S'∖S⊆A} s_{S'} Π_{i∈S'∖S} 1/n_i` and s ≥ 0.

*Bound.* Prices π ≥ 0 on residuals with `Σ_{S⊆S', S'∖S⊆A} π_S Π_{i∈S'∖S} 1/n_i ≤ c_{S'}` for every S' give
`Σ_S π_S τ_S ≤ Σ c_S s_S ≤ 1`, hence `Σ u_S/τ_S ≥ (Σ √(π_S u_S))²`, for every choice of s.

*One limited attribute m.* Sets come in pairs T, T ∪ m: the best prices maximise `√(π_T u_T) + √(π_m u_m)` with
`π_T ≤ c_T` and `π_m + π_T/n ≤ c_m`. Either the second holds alone, `π_T/n : π_m = n u_T : u_m`, and only the table is
measured (s_T = 0), or both hold; then `τ_S = √(u_S/π_S) / Σ √(π u)` attains the bound.

*Several.* Multiplicative steps on s, by the root of `gradient/c` where s is to grow and by the ratio itself where it
is to shrink; the gradient over its largest ratio to c is a feasible π, and proves how far is left to go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.lattice import SetFamily

_SETTLED = 1e-5  # the loss of a response to several limits is within this of the best
_ROUNDS = 5_000
_ROUNDING = 1e-12
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Spending:
    """What tables cost, and the best way to spend a budget of 1 on them.

    A table tells its margins: `c_S ≥ c_{S∖i}/n_i` for every limited i ∈ S.

    Args:
        lattice: the sets.
        dilution: 1/n_i of limited attributes, 0 of others, (attributes,).
        prices: c, what a person pays for each table at precision 1, (sets,); 0 for sets that need no measurement.
    """

    lattice: SetFamily
    dilution: Floats
    prices: Floats

    def respond(self, u: Floats) -> tuple[Floats, float, float]:
        """The noise variances of least loss at cost 1, (sets,), that loss, and what no other can beat.

        Args:
            u: how much noise on each set matters, (sets,); infinite noise where it does not at all.
        """
        u = np.where(self.prices > 0, u, 0.0)
        limited = np.flatnonzero(self.dilution)
        return self._iterated(u) if len(limited) > 1 else self._in_closed_form(u, limited.tolist())

    def value(self, u: Floats) -> float:
        """What no choice can beat."""
        return self.respond(u)[2]

    def _in_closed_form(self, u: Floats, limited: list[int]) -> tuple[Floats, float, float]:
        # What is measured together has one price and one importance: a table and its margin where s_T = 0.
        price, worth = self.prices.copy(), u.copy()
        at = under = np.zeros(0, dtype=np.int64)
        for m in limited:
            above, below = self.lattice.covers[m]
            n, c = 1.0 / self.dilution[m], self.prices[above]
            both = n * u[below] + u[above]
            joined = (n * c * n * u[below] <= self.prices[below] * both * (1.0 + _ROUNDING)) & (c > 0)
            price[above] = np.where(joined, c, np.maximum(c - self.prices[below] / n, 0.0))
            worth[above] = np.where(joined, both, u[above])
            at, under = above[joined], below[joined]
            price[under], worth[under] = 0.0, 0.0
        root = np.sqrt(price * worth)
        T = float(root.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(worth > 0, T * np.sqrt(price / worth), np.inf)
        for m in limited:
            noise[under] = noise[at] / self.dilution[m]
        return noise, T * T, T * T

    @cached_property
    def _last(self) -> list[Floats]:
        """Where the last response ended: nature's weights move little from one to the next."""
        return []

    def _iterated(self, u: Floats) -> tuple[Floats, float, float]:
        asked = self.prices > 0
        c = np.where(asked, self.prices, 1.0)
        even = np.where(asked, 1.0 / c, 0.0) / asked.sum()
        s = np.maximum(self._last[-1], _LEAST_SHARE * even) if self._last else even
        s = s / float(self.prices @ s)
        best = (np.full(len(u), np.inf), np.inf, 0.0)
        for _ in range(_ROUNDS):
            tau = self.lattice.sum_over_supersets(s, self.dilution)
            with np.errstate(divide="ignore", invalid="ignore"):
                parts = np.where(u > 0, u / tau, 0.0)
                ratio = self.lattice.sum_over_subsets(np.where(u > 0, parts / tau, 0.0), self.dilution) / c
                noise = np.where(u > 0, 1.0 / tau, np.inf)
            loss, largest = float(parts.sum()), float(ratio[asked].max())
            bound = max(best[2], loss * loss / largest)
            best = (noise, loss, bound) if loss < best[1] else (*best[:2], bound)
            if loss <= bound * (1.0 + _SETTLED):
                break
            ratio = ratio / loss
            s = np.where(asked, s * np.where(ratio < 1.0, ratio, np.sqrt(ratio)), 0.0)
            s /= float(self.prices @ s)
        self._last[:] = [s]
        return best
