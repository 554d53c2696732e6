"""Intervals for ratios by Fieller's theorem: all ratios that the two estimates do not contradict.

If a and b estimate α and β without bias, with known covariances, then `a − r b` estimates 0 exactly when `r = α/β`, and
its noise is known, whatever α and β are. The set of all r with

    (a − r b)²  ≤  w² (v_aa − 2 r v_ab + r² v_bb)

holds the true ratio with exactly the confidence of w, however small β is: there is no expansion that could fail. It is
an interval where b is further from 0 than its own noise reaches, `b² > w² v_bb`. Elsewhere it is unbounded: everything
outside an interval, or all numbers. That is the truth about such a ratio: any bounded interval would be wrong at times
(Gleser and Hwang, 1987). Known bounds of the ratio (a share is between 0 and 1) cut the set without touching the
confidence; what is published is the smallest interval that holds what is left.

Reference: Fieller (1954); Gleser and Hwang (1987), Theorem 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Booleans, Floats


@dataclass(frozen=True, eq=False)
class Moments:
    """Two estimates and their covariances, arrays that broadcast together."""

    a: Floats
    b: Floats
    v_aa: Floats
    v_ab: Floats
    v_bb: Floats

    @property
    def ratio(self) -> Floats:
        """`a/b`; NaN where both are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.a / self.b)

    def spread(self, ratio: Floats) -> Floats:
        """The variance of `a − r b`."""
        return np.maximum(self.v_aa - 2 * ratio * self.v_ab + ratio**2 * self.v_bb, 0.0)

    @property
    def stddev(self) -> Floats:
        """The first-order standard error of `a/b`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(self.spread(self.ratio)) / np.abs(self.b))


def fieller(
    moments: Moments, low_width: float | Floats, high_width: float | Floats, lowest: float, highest: float
) -> tuple[Floats, Floats, Booleans]:
    """Lower and upper ends, and where the set is unbounded before known bounds cut it.

    Args:
        moments: the estimates.
        low_width: w at the lower end.
        high_width: w at the upper end.
        lowest: no ratio is below this.
        highest: no ratio is above this.

    Example:
        >>> ends = fieller(Moments(*map(np.array, (50.0, 100.0, 25.0, 0.0, 25.0))), 1.96, 1.96, -np.inf, np.inf)
        >>> [round(float(end), 3) for end in ends[:2]]
        [0.395, 0.615]
    """
    left, right, sure = _roots(moments, np.maximum(low_width, high_width))
    below, above = (left, right) if high_width is low_width else _ends(moments, low_width, high_width)
    # Unbounded: what lies outside (left, right), or all numbers; of that, what the known bounds leave.
    with np.errstate(invalid="ignore"):
        some = np.isfinite(left) & np.isfinite(right)
        first, second = some & (left >= lowest), some & (right <= highest)
    lower = np.where(sure, below, np.where(second & ~first, right, -np.inf))
    upper = np.where(sure, above, np.where(first & ~second, left, np.inf))
    return np.clip(lower, lowest, highest), np.clip(upper, lowest, highest), ~sure


def _ends(moments: Moments, low_width: float | Floats, high_width: float | Floats) -> tuple[Floats, Floats]:
    return _roots(moments, low_width)[0], _roots(moments, high_width)[1]


def _roots(moments: Moments, width: float | Floats) -> tuple[Floats, Floats, Booleans]:
    """Where the two sides are equal, smaller root first; NaN where nowhere; and where the set between them is meant."""
    squared = np.square(width)
    A = moments.b**2 - squared * moments.v_bb
    B = moments.a * moments.b - squared * moments.v_ab
    C = moments.a**2 - squared * moments.v_aa
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = B**2 - A * C
        root = np.sqrt(np.where(inside >= 0, inside, np.where(A > 0, 0.0, np.nan)))
        # B ± root without cancellation: the larger one, and C over it.
        large = B + np.where(B >= 0, root, -root)
        first, second = large / A, np.where(large == 0, 0.0, C / large)
    return np.fmin(first, second), np.fmax(first, second), np.asarray(A > 0)
