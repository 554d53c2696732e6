"""Planning as a game: nature weighs the queries, we answer with the best noise; the play yields its own proof.

Whatever weights nature has played, the value of our best response to them is a lower bound on what anybody can
reach; our own worst case is an upper bound. All loops work at privacy cost 1 and return the best noise found with
both bounds, so that `achieved / bound − 1` is a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from residua.linalg.arrays import Floats

Progress = Callable[[int, float], None]
_PATIENCE = 10  # rounds without a tenth off the gap before a step is made smaller


class Response(Protocol):
    """Our side of the game, over some fixed list of queries."""

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these query weights, the query variances it gives, and the weighted sum of those."""
        ...

    def value(self, weights: Floats) -> float:
        """The least weighted sum of query variances anybody reaches."""
        ...

    def variances(self, noise: Floats) -> Floats:
        """The query variances that some noise gives."""
        ...


@dataclass(frozen=True, eq=False)
class Solution:
    """Noise at privacy cost 1, the loss it achieves, and a proven lower bound on any loss."""

    noise: Floats
    achieved: float
    bound: float
    iterations: int
    weights: Floats  # nature's weights on the queries that prove the bound

    @property
    def gap(self) -> float:
        """How far from optimal the noise can at most be, relative to the optimum."""
        return max(self.achieved / self.bound - 1.0, 0.0) if self.bound > 0 else np.inf


class _Best:
    """The best noise and the best bound seen so far; they need not come from the same round."""

    def __init__(self) -> None:
        self.noise = self.weights = np.empty(0)
        self.achieved, self.bound = np.inf, 0.0

    def update(self, noise: Floats, loss: float, weights: Floats, bound: float) -> float:
        """Takes in one round and returns the gap now proven."""
        if loss < self.achieved:
            self.noise, self.achieved = noise, loss
        if bound > self.bound:
            self.weights, self.bound = weights, bound
        return self.achieved / self.bound - 1.0

    def solution(self, iterations: int) -> Solution:
        """What was found, as a value."""
        return Solution(self.noise, self.achieved, self.bound, iterations, self.weights)


class LinearMap(Protocol):
    """Non-negative linear functionals of the query variances."""

    def forward(self, variances: Floats) -> Floats:
        """Value of every functional."""
        ...

    def adjoint(self, weights: Floats) -> Floats:
        """The weights on queries that a weighted sum of functionals amounts to."""
        ...


def least_sum(response: Response, weights: Floats) -> Solution:
    """Least weighted sum of variances: one best response."""
    noise, variances, value = response.respond(weights)
    # A response in closed form is best but for rounding; one that was searched for is as far off as it says.
    return Solution(noise, max(value, float(weights @ variances) * (1.0 - 2.0**-40)), value, 1, weights)


def least_maximum(
    response: Response,
    functionals: LinearMap,
    count: int,
    tolerance: float,
    limit: int,
    progress: Progress | None = None,
) -> Solution:
    """Least maximum over `count` linear functionals of the variances: the largest alone, see `least_largest`."""
    return least_largest(response, functionals, count, 1, tolerance, limit, progress)


def least_largest(
    response: Response,
    functionals: LinearMap,
    count: int,
    largest: int,
    tolerance: float,
    limit: int,
    progress: Progress | None = None,
) -> Solution:
    """Least sum of the `largest` largest of `count` linear functionals of the variances, by multiplicative weights.

    That sum is the maximum of `⟨p, values⟩` over weights 0 ≤ p ≤ 1 that add up to `largest`. Nature's weights p are
    updated by `p ← p · value^a` and brought back to that set, nearest in relative entropy. The plain fixed point is
    a = 1; the response's spectrum allows a < 4, and 3 is fast. It falls towards 1 when the gap has not shrunk for a
    while.
    """
    p = np.full(count, largest / count)
    best = _Best()
    exponent, mark, marked = 3.0, np.inf, 0
    for iteration in range(1, limit + 1):
        weights = functionals.adjoint(p)
        noise, variances, value = response.respond(weights)
        values = functionals.forward(variances)
        worst = float(values.max())
        loss = worst if largest == 1 else float(np.partition(values, count - largest)[count - largest :].sum())
        gap = best.update(noise, loss, weights, value)
        if progress:
            progress(iteration, gap)
        if gap <= tolerance:
            break
        if gap < 0.9 * mark:
            mark, marked = gap, iteration
        elif iteration - marked >= _PATIENCE:
            exponent, mark, marked = 1.0 + (exponent - 1.0) / 2.0, gap, iteration
        p = np.maximum(capped(p * (values / worst) ** exponent, largest), 1e-100)
    return best.solution(iteration)


def capped(p: Floats, total: int) -> Floats:
    """`min(c p, 1)` with the c at which these add up to a total: the nearest such weights in relative entropy.

    p must not be negative, and at least `total` long.
    """
    if total == 1:
        return np.asarray(p / p.sum())  # none exceeds 1 if all add up to it
    falling = np.sort(p)[::-1]
    rests = np.cumsum(falling[::-1])[::-1]  # of all but the first j
    j = np.arange(min(total, len(p)))
    factors = (total - j) / np.maximum(rests[: len(j)], 1e-300)  # c if the first j are cut off at 1
    fits = np.flatnonzero(falling[: len(j)] * factors <= 1.0 + 1e-12)
    return np.minimum(p * factors[fits[0]], 1.0) if len(fits) else np.ones(len(p))


def least_norm(
    response: Response,
    order: float,
    masses: Floats,
    tolerance: float,
    limit: int,
    progress: Progress | None = None,
) -> Solution:
    """Least `(Σ masses · variance^order)^(1/order)`, by a damped fixed point on nature's weights.

    At the optimum nature plays the loss's own gradient, `λ ∝ masses · variance^(order−1)`. The damping
    `4/(3 + order)` balances the two ends of the response's spectrum; it is halved whenever the loss rises.
    """
    weights = masses.copy()
    best = _Best()
    damping, last = 4.0 / (3.0 + order), np.inf
    for iteration in range(1, limit + 1):
        noise, variances, _ = response.respond(weights)
        largest = float(variances.max())
        scaled = variances / largest
        total = float(masses @ scaled**order)
        loss = largest * total ** (1.0 / order)
        gradient = masses * scaled ** (order - 1.0) / total ** (1.0 - 1.0 / order)
        # The loss is homogeneous, so its tangent passes through 0 and the bound is the response's value alone.
        gap = best.update(noise, loss, gradient, response.value(gradient))
        if progress:
            progress(iteration, gap)
        if gap <= tolerance:
            break
        if loss > last:
            damping /= 2.0
        last = loss
        weights = weights ** (1.0 - damping) * np.maximum(gradient, gradient.max() * 1e-100) ** damping
        weights = weights / weights.max()
    return best.solution(iteration)


class Steps:
    """Counts steps and turns losses into gaps, which never grow; `bound` is set once it is known."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.bound = 1.0
        self._count = -1
        self._least = math.inf

    def told(self, loss: float) -> None:
        """One more step, with the least loss it knows."""
        self._count += 1
        self._least = min(self._least, loss)
        if self.progress:
            self.progress(self._count, self._least / self.bound - 1.0)


POWER = 1.9  # of a step in which nature weighs both queries and cells: the spectrum allows less than 2


def grown(weights: Floats, ratios: Floats, power: float, least: float | Floats = 0.0) -> Floats:
    """The step of every such game, `w ← w · ratio^power`: weights that add up to 1, none below the least."""
    found = weights * ratios**power
    found = found / found.sum()
    if np.any(least):
        found = np.maximum(found, least)
        found = found / found.sum()
    return np.asarray(found)


class RootGame:
    """Our side of the game over blocks that each have one precision: the best ones go by the root, at privacy cost 1.

    A query's variance is `Σ_b S_qb / τ_b`; for weights w on queries, `τ_b ∝ √(w S)_b` and the value `(Σ_b √(w S)_b)²`.

    Args:
        squares: S, (queries, blocks), each block at what it costs.
    """

    def __init__(self, squares: Floats) -> None:
        self.squares = squares

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """The noise variance of each block, the variances it gives, and their weighted sum."""
        roots = np.sqrt(weights @ self.squares)
        noise = float(roots.sum()) / np.maximum(roots, float(roots.max()) * 1e-12)
        return noise, self.variances(noise), float(roots.sum()) ** 2

    def value(self, weights: Floats) -> float:
        """What no precisions can go below."""
        return float(np.sqrt(weights @ self.squares).sum()) ** 2

    def variances(self, noise: Floats) -> Floats:
        """The variances that some noise gives."""
        return np.asarray(self.squares @ noise)
