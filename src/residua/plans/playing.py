"""Many cuts merged as they come: Frank–Wolfe on the lower bound that cuts give, for losses with many kinks.

Cuts are `L(v) ≥ c + ⟨g, v⟩`, and a mean (c, g) of cuts proves `D(c, g) = c + value(g)`, concave. Its gradient at g is
the variances v of the best response to g, and the cut that is steepest there is the loss's own at v: each round moves
the mean towards that cut, as far as the bound grows, and `L(v) − D(c, g)` is what is left. A round takes a few best
responses, however many kinks there are; cutting planes, which keep cuts apart, need about as many cuts as kinks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.saddle import Response

_ROUNDS = 100  # between looks at whether it goes on well
_WELL = 0.9  # of the gap is left after so many
# A marginal without weight would get unbounded variance, and a cut there would be all rounding error.
LEAST_SHARE = 1e-12
_SHORTEST = 2.0**-30

Cut = Callable[[Floats], tuple[float, float, Floats]]  # variances → the loss, and the cut's c and g


@dataclass(eq=False)
class Mean:
    """A mean of cuts, and the best noise that was met on the way.

    Args:
        constant, slope: c and g.
        bound: what the mean proves.
        noise, variances, achieved: the best noise, what it gives, and its loss.
        step: how far the last round went.
    """

    constant: float
    slope: Floats
    bound: float
    noise: Floats
    variances: Floats
    achieved: float
    step: float = 0.5

    @property
    def gap(self) -> float:
        """How far the best noise is from what is proven."""
        return self.achieved / self.bound - 1.0 if self.bound > 0 else np.inf


def play(
    response: Response, cut: Cut, mean: Mean, tolerance: float, limit: int, told: Callable[[int, float], None]
) -> int:
    """Improves a mean of cuts for as long as it goes well; says how many rounds that took."""
    before, rounds = mean.gap, 0
    while rounds < limit and mean.achieved - mean.bound > tolerance * abs(mean.bound):
        if rounds and rounds % _ROUNDS == 0:
            if not mean.gap < _WELL * before:
                break
            before = mean.gap
        noise, variances, _ = response.respond(lifted(mean.slope))
        try:
            loss, constant, slope = cut(variances)
        except PlanError:  # far from where it matters, a steep loss may be infinite
            break
        rounds += 1
        if loss < mean.achieved:
            mean.noise, mean.variances, mean.achieved = noise, variances, loss
        _move(response, mean, constant, slope)
        told(rounds, mean.gap)
        if mean.step < _SHORTEST:
            break
    return rounds


def _move(response: Response, mean: Mean, constant: float, slope: Floats) -> None:
    """Moves a mean towards a cut, half as far, as far or twice as far as the round before: whatever proves most."""
    best: tuple[float, float, Floats] | None = None
    for step in (mean.step, mean.step / 2, min(2 * mean.step, 1.0)):
        mixed = (1 - step) * mean.slope + step * slope
        bound = (1 - step) * mean.constant + step * constant + response.value(mixed)
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
    """Weights of which none is nearly nothing, the largest 1."""
    return np.asarray(np.maximum(weights / weights.max(), LEAST_SHARE))
