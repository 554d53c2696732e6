"""Least value of any convex loss of the variances, by cutting planes whose master problem is our best response.

Each point v_k gives a cut `L(v) ≥ L(v_k) + ⟨g_k, v − v_k⟩`. Any convex combination α of cuts, minimised over all
mechanisms, is a lower bound: `D(α) = Σ α_k (L(v_k) − ⟨g_k, v_k⟩) + value(Σ α_k g_k)`, concave in α. Each round
maximises D, answers with the best response there, and adds its cut. Where that makes little headway, because the loss
has more kinks than there can be cuts, cuts are merged as they come for a while (`play`), and the mean is one cut.

Many cuts merged as they come: Frank–Wolfe on the lower bound that cuts give, for losses with many kinks.

Cuts are `L(v) ≥ c + ⟨g, v⟩`, and a mean (c, g) of cuts proves `D(c, g) = c + value(g)`, concave. Its gradient at g is
the variances v of the best response to g, and the cut that is steepest there is the loss's own at v: each round moves
the mean towards that cut, as far as the bound grows, and `L(v) − D(c, g)` is what is left. A round takes a few best
responses, however many kinks there are; cutting planes, which keep cuts apart, need about as many cuts as kinks.

A loss need not grow with every variance, as long as it does not fall when all grow alike (it is least where all are 0:
residual-planner, Definition 4.1). Where variances are linear in what is chosen, as those of marginals are in the noise
on residuals and others in the covariances of the answers, it is convex in that; slopes are then of either sign, and a
mean of cuts proves something as soon as noise is wanted nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.saddle import Effort, Game, MixingGame, Solution

_ROUNDS = 100  # between looks at whether it goes on well
_WELL = 0.9  # of the gap is left after so many
# A marginal without weight would get unbounded variance, and a cut there would be all rounding error.
LEAST_SHARE = 1e-12
_SHORTEST = 2.0**-30

Cut = Callable[[Floats], tuple[float, float, Floats]]  # variances → the loss, and the cut's c and g


@dataclass(eq=False)
class Mean:
    """A mean of cuts.

    Args:
        constant, slope: c and g.
        bound: what the mean proves.
        step: how far the last round went.
    """

    constant: float
    slope: Floats
    bound: float
    step: float

    def gap(self, loss: float) -> float:
        """How far a loss is from what the mean proves."""
        return loss / self.bound - 1.0 if self.bound > 0 else np.inf


def play(response: Game, cut: Cut, mean: Mean, best: Solution, effort: Effort) -> None:
    """Improves a mean of cuts, and what was best so far, for as long as it goes well."""
    before, first = mean.gap(best.loss), best.rounds
    while best.rounds < effort.limit and not _close(best.loss, mean.bound, effort):
        if best.rounds > first and (best.rounds - first) % _ROUNDS == 0:
            if not mean.gap(best.loss) < _WELL * before:
                break
            before = mean.gap(best.loss)
        noise, variances, _ = response.respond(lifted(mean.slope))
        try:
            loss, constant, slope = cut(variances)
        except PlanError:  # far from where it matters, a steep loss may be infinite
            break
        best.rounds += 1
        best.offer(loss, (noise, variances))
        _move(response, mean, constant, slope)
        best.prove(mean.constant + response.value(mean.slope), mean.slope)
        if effort.progress:
            effort.progress(best.rounds, mean.gap(best.loss))
        if mean.step < _SHORTEST:
            break


def _close(loss: float, bound: float, effort: Effort) -> bool:
    if effort.wanted is not None and not bound <= effort.wanted < loss:  # reached, or ruled out
        return True
    return math.isfinite(bound) and bool(loss - bound <= effort.tolerance * abs(bound))


def _move(response: Game, mean: Mean, constant: float, slope: Floats) -> None:
    """Moves a mean towards a cut, half as far, as far or twice as far as the round before: whatever proves most."""
    best: tuple[float, float, Floats] | None = None
    for step in (mean.step, mean.step / 2, min(2 * mean.step, 1.0)):
        mixed = (1 - step) * mean.slope + step * slope
        bound = (1 - step) * mean.constant + step * constant + response.respond(mixed)[2]
        if best is None or bound > best[0]:
            best = bound, step, mixed
    assert best is not None
    bound, mean.step, mixed = best
    if bound > mean.bound:
        mean.bound, mean.slope = bound, mixed
        mean.constant = (1 - mean.step) * mean.constant + mean.step * constant
    else:
        mean.step /= 4  # all three went too far


def lifted(weights: Floats) -> Floats:
    """Weights of which none is nearly nothing, the largest 1; as they are where some are negative."""
    scaled = weights / np.abs(weights).max()
    return np.asarray(scaled if scaled.min() < 0 else np.maximum(scaled, LEAST_SHARE))


Loss = Callable[[Floats], float]
Gradient = Callable[[Floats], Floats]
_MOST_CUTS = 60
_FEW = 10  # rounds after which the gap should be a quarter of what it was
_ROUNDING = 2.0**-48


def least_loss(response: MixingGame, loss: Loss, gradient: Gradient, start: Floats, effort: Effort) -> Solution:
    """Least `loss(variances)`; `start` holds the query weights whose best response is the first point."""
    noise, variances, _ = response.respond(lifted(start))
    best = Solution(bound=-np.inf, proof=start)  # its plans are noise with the variances that it gives
    constants, slopes, alpha = np.empty(0), np.empty((0, len(start))), np.empty(0)
    hurdle, since, step = np.inf, 0, 0.5

    def cut(point: Floats) -> tuple[float, float, Floats]:
        value, slope = checked(loss, gradient, point, falling=response.signed)
        tangent, size = float(slope @ point), float(np.abs(slope) @ point)
        if tangent < -_ROUNDING * size:
            raise PlanError("the gradient says that the loss falls when all variances grow alike; it must not.")
        # Rounded down, so that no rounding error can lift the bound above the truth.
        return value, value - tangent - _ROUNDING * (abs(value) + size), slope

    while best.rounds < effort.limit:
        best.rounds, since = best.rounds + 1, since + 1
        value, constant, slope = cut(variances)
        best.offer(value, (noise, variances))
        constants, slopes = np.append(constants, constant), np.vstack([slopes, slope])
        alpha = _maximise(response, constants, slopes, np.append(0.5 * alpha, 1.0 - 0.5 * alpha.sum()))
        held, candidate = float(alpha @ constants), alpha @ slopes
        mean = Mean(held, candidate, held + response.respond(candidate)[2], step)
        best.prove(held + response.value(candidate), candidate)
        if effort.progress:
            effort.progress(best.rounds, best.gap)
        if _close(best.loss, best.bound, effort):
            break
        if since >= _FEW:
            if not best.gap < hurdle / 4:
                play(response, cut, mean, best, effort)
                step, candidate = mean.step, mean.slope
                constants, slopes = np.append(constants, mean.constant), np.vstack([slopes, candidate])
                alpha = np.append(np.zeros(len(alpha)), 1.0)
                if _close(best.loss, best.bound, effort):
                    break
            hurdle, since = best.gap, 0
        if len(constants) >= _MOST_CUTS:
            constants, slopes, alpha = _fewer(constants, slopes, alpha)
        noise, variances = _next_point(response, loss, candidate, *best.plan)
    best.plan = best.plan[0]
    return best


def _fewer(constants: Floats, slopes: Floats, alpha: Floats) -> tuple[Floats, Floats, Floats]:
    """The cuts that carry most weight, and one that is the mean of all others: what is proven stays proven."""
    order = np.argsort(alpha)
    rest, keep = order[: -_MOST_CUTS // 2], np.sort(order[-_MOST_CUTS // 2 :])
    weight = float(alpha[rest].sum())
    if not weight > 0.0:
        return constants[keep], slopes[keep], alpha[keep]
    means = alpha[rest] / weight
    return (
        np.append(constants[keep], means @ constants[rest]),
        np.vstack([slopes[keep], means @ slopes[rest]]),
        np.append(alpha[keep], weight),
    )


def _next_point(
    response: MixingGame, loss: Loss, candidate: Floats, noise: Floats, variances: Floats
) -> tuple[Floats, Floats]:
    """The noise with the least loss between the best so far and the response to the bound's weights.

    Precisions of equal cost may be mixed, and the loss is convex along the mixture: a few halvings of the step find
    where it is about least. A steep loss is thus never judged far from where it matters.
    """
    answer, theirs, _ = response.respond(lifted(candidate))
    steps = [1.0, *(0.5**k for k in range(1, 12))]
    best, chosen = np.inf, (noise, variances)
    with np.errstate(over="ignore"):
        for step in steps:
            mixed = response.mixed(answer, noise, step)
            spread = theirs if step == 1.0 else response.variances(mixed)
            value = float(loss(spread.copy()))
            if value < best:
                best, chosen = value, (mixed, spread)
            elif np.isfinite(best):
                break
    return chosen


def checked(loss: Loss, gradient: Gradient, variances: Floats, *, falling: bool) -> tuple[float, Floats]:
    """The user's loss and its slopes.

    Raises:
        PlanError: they are no loss and no slopes, or fall with a variance where they must not.
    """
    shown = variances.copy()
    value, slope = float(loss(shown)), np.asarray(gradient(shown), dtype=np.float64)
    if not np.isfinite(value):
        raise PlanError(f"the loss is {value} at finite variances; give a finite convex loss.")
    if slope.shape != variances.shape:
        raise PlanError(
            f"the gradient has shape {slope.shape}, not {variances.shape}; return one slope for each marginal."
        )
    if not (np.isfinite(slope).all() and slope.any()):
        raise PlanError("the gradient is zero everywhere or not finite; a loss must grow with the variances.")
    if not falling and (slope < 0).any():
        raise PlanError(
            "the gradient is negative; a loss that falls where a variance grows is for records added or removed "
            "without limits; give one that grows with every variance."
        )
    return value, slope


def _maximise(response: Game, constants: Floats, slopes: Floats, start: Floats) -> Floats:
    """Weights on the cuts, on the simplex, that (nearly) maximise the lower bound."""
    if len(constants) == 1:
        return np.ones(1)
    from scipy.optimize import minimize

    unit = abs(float(start @ constants) + response.respond(start @ slopes)[2]) or 1.0

    def negative(alpha: Floats) -> tuple[float, Floats]:
        alpha = np.maximum(alpha, 0.0)
        weights = alpha @ slopes
        scale = float(np.abs(weights).max())
        _, variances, least = response.respond(lifted(weights))
        least *= scale
        return -(float(alpha @ constants) + least) / unit, -(constants + slopes @ variances) / unit

    optimum: Any = minimize(  # type: ignore[call-overload]  # the stubs lack (value, gradient) with constraints
        negative,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1.0, "jac": lambda a: np.ones_like(a)},
        options={"maxiter": 50, "ftol": 1e-12},
    )
    alpha = np.maximum(optimum.x, 0.0)
    return np.asarray(alpha / alpha.sum(), dtype=np.float64)
