"""Planning as a game: nature weighs the queries, we answer with the best noise; the play yields its own proof.

Whatever weights nature has played, the value of our best response to them is a lower bound on what anybody can
reach; our own worst case is an upper bound. All loops work at privacy cost 1 and return the best noise found with
both bounds, so that `achieved / bound − 1` is a certificate.

There is one loop, `ascend`: weights grow where what they weigh is above average, `w ← w · ratio^power`. At a solution
every weight has the ratio 1, so solutions are fixed points. In log-weights the Hessian of the value has its spectrum in
[0, 1] where queries and cells are weighed, in [0, ½] where cells alone are: the step is stable for a power below 2, or
below 4. Where the bound falls back, or the gap stalls, the power comes down; where steps are accelerated, the memory is
cleared.

Reference: the plain step (a power of 1) for the total is Denisov et al. 2022.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from residua.linalg.arrays import Floats

Progress = Callable[[int, float], None]
POWER = 1.9  # of a step in which nature weighs both queries and cells: the spectrum allows less than 2
_PATIENCE = 10  # rounds in which the gap must fall a little, or steps become smaller
_LITTLE = 0.97
_FELL = 1e-12  # relative: a bound that is lower by less has not fallen


@dataclass(frozen=True)
class Effort:
    """How long a planner may try: stop at this gap, after so many rounds, or once a loss is reached or ruled out."""

    tolerance: float = 1e-4
    limit: int = 10_000
    wanted: float | None = None
    progress: Progress | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """Our answer to nature's weights.

    Args:
        bound: what no plan can go below.
        loss: what our answer achieves.
        ratios: what each weight weighs beside the average, (weights,).
        plan: the answer itself.
        proof: what proves the bound; None for the weights themselves.
    """

    bound: float
    loss: float
    ratios: Floats
    plan: Any = None
    proof: Any = None


@dataclass(eq=False)
class Solution:
    """The best answer and the best bound so far; they need not come from the same round.

    Args:
        plan: the best answer.
        loss: what it achieves.
        bound: what no plan can go below.
        proof: what proves the bound.
        rounds: how many there were.
        method: what found it.
    """

    plan: Any = None
    loss: float = math.inf
    bound: float = 0.0
    proof: Any = None
    rounds: int = 0
    method: str = ""

    @property
    def gap(self) -> float:
        """How far from optimal the plan can at most be, relative to the optimum."""
        return max(self.loss / self.bound - 1.0, 0.0) if self.bound > 0 else math.inf

    def offer(self, loss: float, plan: Any) -> bool:
        """Takes a plan in if it is the best."""
        better = loss < self.loss
        if better:
            self.loss, self.plan = loss, plan
        return better

    def prove(self, bound: float, proof: Any) -> None:
        """Takes a bound in if it is the best."""
        if bound > self.bound:
            self.bound, self.proof = bound, proof


def ascend(
    respond: Callable[[Floats], Answer],
    weights: Floats,
    normalised: Callable[[Floats], Floats],
    tolerance: float,
    limit: int,
    *,
    power: float = POWER,
    calm: float = 1.0,
    patience: int | None = None,
    memory: Acceleration | None = None,
    progress: Progress | None = None,
    best: Solution | None = None,
) -> Solution:
    """Rounds of nature's weights and our answers, until the gap is proven.

    Args:
        respond: our answer.
        weights: where nature begins, (weights,).
        normalised: brings weights back to the set from which nature chooses.
        tolerance: the gap at which to stop.
        limit: most rounds.
        power: of the ratios, at first.
        calm: what the power falls towards.
        patience: give up when the gap does not halve in so many rounds.
        memory: accelerates steps.
        progress: called after each round with its number and the gap.
        best: rounds before these, to go on from.
    """
    best = best or Solution()
    gaps: list[float] = []
    last, mark, waited = 0.0, math.inf, 0
    for _ in range(limit):
        answer = respond(weights)
        best.rounds += 1
        best.offer(answer.loss, answer.plan)
        best.prove(answer.bound, weights if answer.proof is None else answer.proof)
        gap = best.gap
        gaps.append(gap)
        if progress:
            progress(best.rounds, gap)
        if gap <= tolerance or (patience and len(gaps) > patience and gap > 0.5 * gaps[-1 - patience]):
            break
        fell, last = answer.bound < last * (1.0 - _FELL), answer.bound
        mark, waited = (gap, 0) if gap < _LITTLE * mark else (mark, waited + 1)
        if waited >= _PATIENCE or (fell and not (memory and memory.used)):
            power, waited = calm + (power - calm) / 2.0, 0
        if memory:
            if fell:
                memory.forget()
            step = memory.step(np.log(weights), np.log(np.maximum(answer.ratios, 1e-100)), weights, power)
            weights = normalised(weights * np.exp(step - step.max()))
        else:
            weights = normalised(weights * answer.ratios**power)
    return best


def simplices(sizes: Sequence[int], least: float = 0.0) -> Callable[[Floats], Floats]:
    """What makes each part of weights, of these lengths, add up to 1, none of them below the least."""
    cuts = np.cumsum([0, *sizes]).tolist()

    def normalised(weights: Floats) -> Floats:
        shares = np.empty_like(weights)
        for start, stop in pairwise(cuts):
            part = weights[start:stop] / weights[start:stop].sum()
            if least:
                part = np.maximum(part, least)
                part /= part.sum()
            shares[start:stop] = part
        return shares

    return normalised


_MEMORY = 5
_DEPENDENT = 1e-12  # ridge on the cosines between differences: those that agree so far add rounding error only
_NO_CHANGE = 1e-200  # square of a difference that counts as none
_UP, _DOWN = 1.0, -4.0  # farthest an accelerated step may move a log-weight


class Acceleration:
    """Anderson acceleration of a fixed point in log-weights: the step that would have cancelled the last residuals.

    From the last few points and residuals it finds the combination whose residual is smallest, and steps from there.
    "Smallest" is measured in the metric diag(weights), in which the Hessian of the dual has its spectrum in [0, 1]: a
    weight on its way to zero has a residual that never vanishes, and in the plain metric it drowns all others (that is
    what made the unweighted form erratic: 150 rounds without an answer on random ranges, 20 with it).

    Reference: Walker and Ni 2011, "Anderson acceleration for fixed-point iterations", in its difference form.
    """

    def __init__(self) -> None:
        self.last: tuple[Floats, Floats] | None = None
        self.points: deque[Floats] = deque(maxlen=_MEMORY)
        self.residuals: deque[Floats] = deque(maxlen=_MEMORY)

    @property
    def used(self) -> bool:
        """Whether the last step was more than the plain one."""
        return bool(self.points)

    def forget(self) -> None:
        """Starts afresh; the next step is the plain one."""
        self.__init__()  # type: ignore[misc]

    def step(
        self, point: Floats, residual: Floats, weights: Floats, exponent: float, logs: int | None = None
    ) -> Floats:
        """The step from `point`, (n,): `exponent · residual` when nothing is remembered.

        Args:
            point: logarithms of the weights, (n,).
            residual: what a plain step with exponent 1 would add to them, (n,).
            weights: the metric, (n,).
            exponent: over-relaxation of the plain step.
            logs: how many entries are logarithms, if others follow; those others keep their sums, however far they go.
        """
        if self.last is not None:
            self.points.append(point - self.last[0])
            self.residuals.append(residual - self.last[1])
        self.last = point, residual
        plain = exponent * residual
        if not self.points:
            return plain
        moved, changed = np.array(self.points), np.array(self.residuals)
        seen = changed * weights
        gram = seen @ changed.T
        scale = 1.0 / np.sqrt(np.maximum(np.diagonal(gram), _NO_CHANGE))
        gram = gram * scale * scale[:, None]
        gram[np.diag_indices(len(gram))] += _DEPENDENT
        share = scale * np.linalg.solve(gram, scale * (seen @ residual))
        step = np.asarray(plain - share @ (moved + exponent * changed))
        step[:logs].clip(_DOWN, _UP, out=step[:logs])
        return step


class Game(Protocol):
    """Our side of the game, over some fixed list of queries."""

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best noise for these query weights, the query variances it gives, and the weighted sum of those."""

    def value(self, weights: Floats) -> float:
        """The least weighted sum of query variances anybody reaches."""

    def variances(self, noise: Floats) -> Floats:
        """The query variances that some noise gives."""


class MixingGame(Game, Protocol):
    """A game whose noises can be mixed at no more than their cost, variances being convex on the way."""

    @property
    def signed(self) -> bool:
        """Whether weights may be negative: responses then leave no noise unbounded, and values may be −∞."""

    def mixed(self, one: Floats, other: Floats, share: float) -> Floats:
        """So much of one and the rest of another."""


def least_maximum(game: Game, functionals: Floats, effort: Effort, *, largest: int = 1) -> Solution:
    """Least sum of the `largest` largest of some linear functionals of the variances, by multiplicative weights.

    That sum is the maximum of `⟨p, values⟩` over weights 0 ≤ p ≤ 1 that add up to `largest`: nature's set, to which
    weights are brought back by the nearest ones in relative entropy. The response's spectrum allows a power below 4.

    Args:
        game: our side.
        functionals: not negative, (functionals, queries); or a factor of each query's own variance, (queries,).
        effort: how long to try.
        largest: how many count.
    """
    count, each = len(functionals), functionals.ndim == 1

    def respond(p: Floats) -> Answer:
        weights = p * functionals if each else p @ functionals
        noise, variances, value = game.respond(weights)
        values = functionals * variances if each else functionals @ variances
        loss = float(values.max() if largest == 1 else np.partition(values, count - largest)[count - largest :].sum())
        return Answer(value, loss, values / values.max(), noise, weights)

    def normalised(p: Floats) -> Floats:
        return np.maximum(capped(p, largest), 1e-100)

    start, most = np.full(count, largest / count), effort.limit
    return ascend(respond, start, normalised, effort.tolerance, most, power=3.0, progress=effort.progress)


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


def least_norm(game: Game, order: float, masses: Floats, effort: Effort) -> Solution:
    """Least `(Σ masses · variance^order)^(1/order)`, by a damped fixed point on nature's weights.

    At the optimum nature plays the loss's own gradient, `λ ∝ masses · variance^(order−1)`. The damping
    `4/(3 + order)` balances the two ends of the response's spectrum.
    """

    def respond(weights: Floats) -> Answer:
        noise, variances, _ = game.respond(weights)
        largest = float(variances.max())
        scaled = variances / largest
        total = float(masses @ scaled**order)
        gradient = masses * scaled ** (order - 1.0) / total ** (1.0 - 1.0 / order)
        # The loss is homogeneous, so its tangent passes through 0 and the bound is the response's value alone.
        bound, loss = game.value(gradient), largest * total ** (1.0 / order)
        return Answer(bound, loss, np.maximum(gradient, gradient.max() * 1e-100) / weights, noise, gradient)

    how: Any = {"power": 4.0 / (3.0 + order), "calm": 0.0, "progress": effort.progress}
    return ascend(respond, masses, simplices([len(masses)]), effort.tolerance, effort.limit, **how)


def smooth_maximum(values: Floats, order: float, counts: Floats | float = 1.0) -> tuple[float, Floats]:
    """`(Σ counts values^order)^(1/order)`, a smooth stand-in for the largest of positive values; slopes over counts."""
    top = float(values.max())
    powers = (values / top) ** (order - 1)
    total = float((counts * powers * values / top).sum())
    return top * total ** (1 / order), powers * total ** (1 / order - 1)


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
