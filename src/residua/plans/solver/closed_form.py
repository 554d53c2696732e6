"""The best noise on the blocks of a lattice plan for a weighted sum of variances, in closed form.

With `θ_i` the mean of `wᵀKw` and `a_i` that of `(wᵀv)²` over the rows w asked of attribute i, the queries of a term A
have the mean variance `Σ_{S⊆A} σ²_S Π_{i∈S} θ_i Π_{i∈A∖S} a_i`. Weights λ on the terms give
`u_S = Π_{i∈S} θ_i Σ_{A⊇S} λ_A Π_{i∈A∖S} a_i`, summed over families that ask different rows. At privacy cost
`Σ_S cost_S / σ²_S = 1` the least weighted sum is `T²` with `T = Σ_S √(cost_S u_S)`, attained by
`σ²_S = T √(cost_S / u_S)`. Marginals are the case `θ_i = cost_i = 1 − 1/n_i`, `a_i = 1/n_i²`.

Where a measurement also tells of others (`Spending`), the loss is `Σ_S u_S/τ_S` with `τ_S = Σ_{S'⊇S} s_{S'} Π d_i`, the
product over `i ∈ S'∖S`, and the cost is `Σ_S c_S s_S`, s ≥ 0. So it is for persons whose records are limited in some
attributes and who pay for *tables* (`d_i = 1/n_i`, `product/residual_costs.py`), and where blocks along an axis tell of
the blocks without it (`product/crossed_measurements.py`).

*Bound.* Prices π ≥ 0 on sets with `Σ_{S⊆S'} π_S Π d_i ≤ c_{S'}` for every S' give `Σ_S π_S τ_S ≤ Σ c_S s_S ≤ 1`, hence
`Σ u_S/τ_S ≥ (Σ √(π_S u_S))²`, for every choice of s.

*One such attribute m.* Sets come in pairs T, T ∪ m: the best prices maximise `√(π_T u_T) + √(π_m u_m)` with
`π_T ≤ c_T` and `π_m + d π_T ≤ c_m`. Either the second holds alone, `d π_T : π_m = u_T/d : u_m`, and only the larger set
is measured (s_T = 0), or both hold; then `τ_S = √(u_S/π_S) / Σ √(π u)` attains the bound.

*Several.* Where all constraints can hold at once, the same. Otherwise multiplicative steps on s, by the root of
`gradient/c` where s is to grow and by the ratio itself where it is to shrink; the gradient over its largest ratio to c
is a feasible π, and proves how far is left to go.

Reference: residual-planner, Theorems 4.5 and 4.7 and Lemma H.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily, closure
from residua.plans.saddle import Answer, ascend
from residua.plans.solver.patterns import PatternSpending
from residua.workload import Workload

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

    @classmethod
    def apart(cls, prices: Floats) -> Spending:
        """Blocks that tell nothing of each other, each at its price: the best precisions go by the root."""
        return cls(closure([], 0), np.zeros(0), prices)

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
        T = float(np.sqrt(price * worth).sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(worth > 0, T * np.sqrt(price / worth), np.inf)
        for m in limited:
            noise[under] = noise[at] / self.dilution[m]
        return noise, T * T, T * T

    @cached_property
    def _last(self) -> list[Floats]:
        """Where the last response ended: nature's weights move little from one to the next."""
        return []

    @cached_property
    def _alone(self) -> Floats:
        """π where every constraint is met exactly: what each set costs by itself, (sets,)."""
        return self.lattice.sum_over_subsets(self.prices, -self.dilution)

    def _iterated(self, u: Floats) -> tuple[Floats, float, float]:
        if (self._alone[u > 0] > 0).all():
            tau = np.where(u > 0, np.sqrt(u / np.where(u > 0, self._alone, 1.0)), 0.0)
            if (self.lattice.sum_over_supersets(tau, -self.dilution) >= -_ROUNDING * tau).all():
                T = float(tau @ self._alone)
                with np.errstate(divide="ignore"):
                    return T / tau, T * T, T * T
        asked = self.prices > 0
        c = np.where(asked, self.prices, 1.0)
        even = np.where(asked, 1.0 / c, 0.0) / asked.sum()
        start = np.maximum(self._last[-1], _LEAST_SHARE * even) if self._last else even

        def normalised(s: Floats) -> Floats:
            return np.asarray(s / float(self.prices @ s))

        def answer(s: Floats) -> Answer:
            tau = self.lattice.sum_over_supersets(s, self.dilution)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                parts = np.where(u > 0, u / tau, 0.0)
                ratio = self.lattice.sum_over_subsets(np.where(u > 0, parts / tau, 0.0), self.dilution) / c
                noise = np.where(u > 0, 1.0 / tau, np.inf)
            loss = float(parts.sum())
            ratio = ratio / loss
            steps = np.where(ratio < 1.0, ratio, np.sqrt(ratio))
            return Answer(loss / float(ratio[asked].max()), loss, steps, (noise, s))

        best = ascend(answer, normalised(start), normalised, _SETTLED, _ROUNDS, power=1.0)
        noise, s = best.plan
        self._last[:] = [s]
        return noise, best.loss, best.bound


_IN_ANY_CASE = 1e-6  # of the budget, for all residuals together
_SMALLEST_WEIGHT = 1e-100  # relative to the largest; denormal numbers are slow and mean nothing here


class _OfPrecisions:
    """Games whose noise is a variance for each block."""

    signed = False

    def mixed(self, one: Floats, other: Floats, share: float) -> Floats:
        """Noise with so much of one's precisions and the rest of another's: its cost is no more."""
        return np.asarray(1.0 / (share / one + (1.0 - share) / other))


@dataclass(frozen=True, eq=False)
class MarginalGame(_OfPrecisions):
    """Our side of the planning game for marginals (see `saddle`): what residual noise costs, and what it does to cells.

    Args:
        lattice: the sets whose residuals are measured.
        sizes: how many values each attribute has, (attributes,).
        numbers: which of the sets are asked for; all, if left out.
        spending: what a person with limited records pays, in place of the cost of one record.
        budget: at what privacy cost it is played; noise is that of cost 1 all the same.
    """

    lattice: SetFamily
    sizes: Integers
    numbers: Integers | EllipsisType = ...
    spending: Spending | PatternSpending | None = None
    budget: float = 1.0

    @cached_property
    def cost(self) -> Floats:
        """`κ_S`: privacy cost of measuring residual S with noise variance 1, (sets,)."""
        return self.lattice.products(1.0 - 1.0 / self.sizes)

    @cached_property
    def dilution(self) -> Floats:
        """`1/n_i²`: what is left of a variance spread over attribute i, (attributes,)."""
        return 1.0 / self.sizes.astype(np.float64) ** 2

    def variances(self, noise: Floats) -> Floats:
        """Variance of a cell of every marginal that is asked, given the residuals' noise variances, (asked,)."""
        # A residual with κ = 0 (an attribute with one value) is identically zero and needs no measurement.
        measured = np.where(self.cost > 0, noise, 0.0)
        return self.lattice.sum_over_subsets(self.cost * measured, self.dilution)[self.numbers] / self.budget

    def importance(self, weights: Floats) -> Floats:
        """`û_S`: how much noise on residual S hurts a weighted sum of cell variances, divided by κ_S, (sets,)."""
        spread = np.zeros(len(self.lattice))
        spread[self.numbers] = weights
        return self.lattice.sum_over_supersets(spread, self.dilution)

    @property
    def signed(self) -> bool:  # type: ignore[override]
        """Where blocks are paid one by one."""
        return self.spending is None

    def value(self, weights: Floats) -> float:
        """`T²`: the least weighted sum of variances any mechanism reaches at privacy cost 1, over the budget."""
        if weights.min() < 0 and self.importance(weights).min() < 0:
            return -np.inf
        if self.spending is not None:
            return self.spending.value(self.cost * self.importance(weights)) / self.budget
        return float(self.cost @ np.sqrt(self.importance(weights))) ** 2 / self.budget

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """The noise variances of the least weighted sum at privacy cost 1, (sets,), those of cells, and that sum."""
        importance = self.importance(weights)
        if weights.min() < 0:
            return self._bounded(weights, importance)
        importance = np.maximum(importance, weights.max() * _SMALLEST_WEIGHT)
        if self.spending is not None:
            noise, _, bound = self.spending.respond(self.cost * importance)
            return noise, self.variances(noise), bound / self.budget
        root = np.sqrt(importance)
        T = float(self.cost @ root)
        return T / root, self.variances(T / root), T * T / self.budget

    def _bounded(self, weights: Floats, importance: Floats) -> tuple[Floats, Floats, float]:
        """The same where noise may be wanted: every residual gets a small share of the budget in any case."""
        root = self.cost * np.sqrt(np.maximum(importance, 0.0))
        least = np.where(self.cost > 0, _IN_ANY_CASE / len(root), 0.0)
        shares, free = least, root > 0
        while free.any():
            shares = np.where(free, root * ((1.0 - float(least[~free].sum())) / float(root[free].sum())), least)
            if (shares >= least).all():
                break
            free &= shares >= least
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(shares > 0, self.cost / shares, 1.0)
        variances = self.variances(noise)
        return noise, variances, float(weights @ variances)


_NOTHING = 1e-30  # of the largest importance: a block that matters less is not measured
_UNFELT = 1e-9


@dataclass(frozen=True, eq=False)
class ProductGame(_OfPrecisions):
    """Our side of the planning game over the terms of a workload, with the attributes' strategies fixed (see `saddle`).

    Args:
        workload: what is asked.
        costs: privacy cost of each attribute's strategy, (attributes,).
        shares: θ_i for each family, (families, attributes).
        dilutions: a_i for each family, (families, attributes).
        limits: what a person with limited records pays, in place of the cost of one record.
        tells: what each attribute's block tells of the one without it, (attributes,); None where none does.
    """

    workload: Workload
    costs: Floats
    shares: Floats
    dilutions: Floats
    limits: Spending | PatternSpending | None = None
    tells: Floats | None = None

    @cached_property
    def cost(self) -> Floats:
        """Privacy cost of each block with noise of variance 1, (sets,)."""
        return self.workload.lattice.products(self.costs)

    @cached_property
    def spending(self) -> Spending | PatternSpending:
        """How to spend a budget best."""
        lattice, tells = self.workload.lattice, np.zeros(len(self.costs)) if self.tells is None else self.tells
        return self.limits or Spending(lattice, tells, lattice.sum_over_subsets(self.cost, tells))

    @cached_property
    def share(self) -> Floats:
        """`Π_{i∈S} θ_i` for each family, (families, sets)."""
        return np.stack([self.workload.lattice.products(row) for row in self.shares])

    def importances(self, weights: Floats) -> Floats:
        """`u_S` of each family, from weights on the terms, (families, sets)."""
        lattice = self.workload.lattice
        spread = np.zeros((len(self.workload.families), len(lattice)))
        for row, family, part in zip(spread, self.workload.families, self._split(weights), strict=True):
            row[family.numbers] = part
        sums = [lattice.sum_over_supersets(row, a) for row, a in zip(spread, self.dilutions, strict=True)]
        return self.share * np.stack(sums)

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these weights on terms, the mean variances it gives, and their weighted sum."""
        u = self.importances(np.maximum(weights, weights.max() * _SMALLEST_WEIGHT)).sum(axis=0)
        noise, _, bound = self.spending.respond(np.where(u > u.max() * _NOTHING, u, 0.0))
        return noise, self.variances(noise), bound

    def value(self, weights: Floats) -> float:
        """The least weighted sum of variances with these strategies at privacy cost 1."""
        return self.spending.value(self.importances(weights).sum(axis=0))

    def variances(self, noise: Floats) -> Floats:
        """The mean variance of each term's queries under some noise, (terms,)."""
        lattice = self.workload.lattice
        variances = []
        noise = np.where(np.isfinite(noise), noise, 0.0)  # nobody needs what is not measured
        for family, share, a in zip(self.workload.families, self.share, self.dilutions, strict=True):
            blocks = share * noise
            variances.append(lattice.sum_over_subsets(np.where(self.cost > 0, blocks, 0.0), a)[family.numbers])
        return np.concatenate(variances)

    def balances(self, weights: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Derivatives of the weighted sum by a_i and by θ_i, at this noise, (families, attributes) each.

        A block's part in the sum, `σ²_S u_S`, is proportional to every θ_i with i ∈ S; the rest of what the terms with
        i contribute is proportional to a_i, block by block.
        """
        lattice = self.workload.lattice
        u = self.importances(weights)
        parts = np.where(u > 0, u * np.where(np.isfinite(noise), noise, 0.0), 0.0)
        totals = self._split(weights * self.variances(noise))
        alpha, beta = np.zeros_like(self.shares), np.zeros_like(self.shares)
        for f, family in enumerate(self.workload.families):
            asked = np.zeros(len(lattice))
            asked[family.numbers] = totals[f]
            for i, (with_i, _) in enumerate(lattice.covers):
                if len(with_i):
                    rest = float(parts[f][with_i].sum())
                    spread = max(float(asked[with_i].sum()) - rest, 0.0)
                    beta[f, i] = rest / self.shares[f, i] if self.shares[f, i] > 0 else 0.0
                    alpha[f, i] = spread / self.dilutions[f, i] if self.dilutions[f, i] > 0 else 0.0
        return alpha, beta

    def _split(self, values: Floats) -> list[Floats]:
        return np.split(values, np.cumsum([len(family) for family in self.workload.families])[:-1])


def felt(dilutions: Floats, shares: Floats) -> Floats:
    """`a_i`, or for rows that hardly see how the total is spread (`wᵀv ≈ 0`) a little more, in proportion to `θ_i`.

    Their blocks without the attribute would get no budget at all, and rounding would make their noise felt after all.
    """
    return np.maximum(dilutions, _UNFELT * shares)
