"""Quasi-Newton descent of a loss that is smooth but for the sizes of its variables.

A loss `F(x, |x|)` that grows with `|x|` has a kink where a variable is 0, and many of its minima lie there. Within one
orthant it is smooth, so a step of limited-memory BFGS is made there: variables that would change sign stop at 0, and
those at 0 leave it only on the side where the loss falls.

Reference: Andrew and Gao (2007), "Scalable training of L1-regularized log-linear models" (OWL-QN); the price of a
variable's size is a function here, where theirs is a constant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from residua.linalg.arrays import Floats

Loss = Callable[[Floats], tuple[float, Floats, Floats]]
_MEMORY = 10
_SHRINK = 0.4
_TRIES = 20
_PATIENCE = 10  # rounds over which too small a gain ends the descent


def descended(loss: Loss, start: Floats, accuracy: float, rounds: int, largest: float) -> tuple[float, Floats]:
    """The loss after a descent, and where: never above where it started.

    Args:
        loss: x ↦ (value, ∂F/∂x, ∂F/∂|x| ≥ 0); a value that is not positive and finite is refused.
        start: x, (k,).
        accuracy: relative gain a round below which to stop.
        rounds: most rounds.
        largest: no variable may be larger than this.
    """
    x = np.clip(start, -largest, largest)
    value, slope, toll = loss(x)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    past: deque[float] = deque([value], maxlen=_PATIENCE + 1)
    for _ in range(rounds):
        g = _steepest(x, slope, toll)
        side = np.where(x != 0, np.sign(x), -np.sign(g))
        d = _direction(g, pairs)
        step = 1.0 if pairs else 0.1 / max(float(np.abs(d).max()), 1e-300)
        for _ in range(_TRIES):
            there = np.clip(x + step * d, -largest, largest)
            there[there * side < 0] = 0.0
            found, *slopes = loss(there)
            if 0 < found <= value + 1e-4 * float(g @ (there - x)):
                break
            step *= _SHRINK
        else:
            if not pairs:
                break
            pairs.clear()
            continue
        moved, bent = there - x, (slopes[0] + side * slopes[1]) - (slope + side * toll)
        curvature = float(moved @ bent)
        if curvature > 1e-10 * float(np.linalg.norm(moved) * np.linalg.norm(bent)):
            pairs.append((moved, bent, curvature))
        x, value, (slope, toll) = there, found, slopes
        past.append(value)
        if len(past) > _PATIENCE and past[0] - value <= _PATIENCE * accuracy * value:
            break
    return value, x


def _steepest(x: Floats, slope: Floats, toll: Floats) -> Floats:
    """The slope of least size among those at a kink: 0 where neither side goes down."""
    at_kink = np.sign(slope) * np.maximum(np.abs(slope) - toll, 0.0)
    return np.where(x != 0, slope + np.sign(x) * toll, at_kink)


def _direction(g: Floats, pairs: deque[tuple[Floats, Floats, float]]) -> Floats:
    """The quasi-Newton direction, without the variables that it would move uphill."""
    d = -g
    seen = []
    for moved, bent, curvature in reversed(pairs):
        share = float(moved @ d) / curvature
        seen.append(share)
        d = d - share * bent
    if pairs:
        _, bent, curvature = pairs[-1]
        d = d * (curvature / float(bent @ bent))
    for (moved, bent, curvature), share in zip(pairs, reversed(seen), strict=True):
        d = d + (share - float(bent @ d) / curvature) * moved
    return np.where(d * g < 0, d, 0.0)
