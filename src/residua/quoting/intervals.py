"""One linear number, or two whose ratio is quoted: estimates, covariances, and the interval that fits the noise.

Intervals for ratios are those of Fieller's theorem: all ratios that the two estimates do not contradict.

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

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from residua.language import mark, say
from residua.linalg.arrays import Booleans, Floats
from residua.quoting.terms import Answering, Groups, Term


def divided(a: Floats, b: Floats) -> Floats:
    """`a/b`, infinite or NaN where b is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.divide(a, b))


@dataclass(frozen=True)
class Confidence:
    """How sure intervals are.

    Args:
        probability: how often an interval holds the truth.
        together: how many must hold at once.
    """

    probability: float
    together: float = 1.0

    @property
    def width(self) -> float:
        """How many standard deviations normal noise strays, by Šidák's inequality."""
        return -NormalDist().inv_cdf(-math.expm1(math.log(self.probability) / self.together) / 2)

    def apart(self, numbers: int = 1) -> Confidence:
        """Of every one of so many numbers, if all miss together as seldom as is asked, however they depend."""
        return Confidence(1 - (1 - self.probability) / (self.together * numbers))


@dataclass(frozen=True, eq=False)
class Figures:
    """Numbers with their errors, arrays of one shape; errors are NaN where nothing is known of them.

    Args:
        estimate: the numbers.
        stddev: their standard errors.
        lower: lower ends of the intervals.
        upper: upper ends.
        remarks: what a reader must know, in words.
        bins: how far from the estimate the truth may lie because of where in their bins values lie; None if exact.
    """

    estimate: Floats
    stddev: Floats
    lower: Floats
    upper: Floats
    remarks: tuple[str, ...] = ()
    bins: Floats | None = None

    def arranged(self, groups: Groups, term: Term, last: int | None = None) -> Figures:
        """With the axes of the groups in the order asked; see `Groups.arranged`."""
        return self.mapped(lambda part: groups.arranged(part, term, last))

    def mapped(self, change: Callable[[Floats], Floats]) -> Figures:
        """All arrays changed in the same way."""
        four = [change(part) for part in (self.estimate, self.stddev, self.lower, self.upper)]
        bins = None if self.bins is None else change(self.bins)
        return Figures(four[0], four[1], four[2], four[3], self.remarks, bins)

    def shifted(self, by: float) -> Figures:
        """All moved by a number."""
        return replace(self, estimate=self.estimate + by, lower=self.lower + by, upper=self.upper + by)


def widened(figures: Figures, lower: Floats, upper: Floats, bins: Floats) -> Figures:
    """Numbers whose values lie anywhere in their bins: intervals that reach as far as the bins let them.

    `stddev` becomes the largest root mean square error, `√(variance + bins²)`. Where the bins have no end, nor has the
    interval, and there is no estimate.

    Args:
        figures: the numbers with each value at one place of its bin.
        lower: lower ends of intervals for the least that the numbers may be.
        upper: upper ends of intervals for the most.
        bins: how far the least and the most are from the estimate, without noise.
    """
    estimate = np.where(np.isinf(bins), np.nan, figures.estimate)
    ends = np.minimum(figures.lower, lower), np.maximum(figures.upper, upper)
    return Figures(estimate, np.hypot(figures.stddev, bins), *ends, figures.remarks, bins)


def stacked(parts: list[Figures]) -> Figures:
    """Several with one more axis, the last."""
    names = ("estimate", "stddev", "lower", "upper")
    estimate, stddev, lower, upper = (np.stack([getattr(part, name) for part in parts], axis=-1) for name in names)
    bins = [part.bins for part in parts if part.bins is not None]
    return Figures(estimate, stddev, lower, upper, bins=np.stack(bins, axis=-1) if bins else None)


def unknown(estimate: Floats, *remarks: str) -> Figures:
    """Numbers of whose errors nothing is known."""
    nothing = np.full(estimate.shape, np.nan)
    return Figures(estimate, nothing, nothing, nothing, tuple(filter(None, remarks)))


def linear(answering: Answering, term: Term, level: Confidence) -> Figures:
    """A linear number for each product of rows: exact for its noise, normal or Laplace."""
    estimate = answering.estimates(term)
    variance = answering.covariances(term, term)
    if variance is None:
        return unknown(estimate)
    width = answering.widths(term, None, np.zeros(()), level.probability, level.together)
    stddev = np.broadcast_to(np.sqrt(np.maximum(variance, 0.0)), estimate.shape)
    return Figures(estimate, stddev, estimate - width * stddev, estimate + width * stddev)


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
        return divided(self.a, self.b)

    def spread(self, ratio: Floats) -> Floats:
        """The variance of `a − r b`."""
        return np.maximum(self.v_aa - 2 * ratio * self.v_ab + ratio**2 * self.v_bb, 0.0)

    @property
    def stddev(self) -> Floats:
        """The first-order standard error of `a/b`."""
        with np.errstate(invalid="ignore"):
            return divided(np.sqrt(self.spread(self.ratio)), np.abs(self.b))


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
    below, above = left, right
    if high_width is not low_width:
        below, above = _roots(moments, low_width)[0], _roots(moments, high_width)[1]
    # Unbounded: what lies outside (left, right), or all numbers; of that, what the known bounds leave.
    with np.errstate(invalid="ignore"):
        some = np.isfinite(left) & np.isfinite(right)
        first, second = some & (left >= lowest), some & (right <= highest)
    lower = np.where(sure, below, np.where(second & ~first, right, -np.inf))
    upper = np.where(sure, above, np.where(first & ~second, left, np.inf))
    return np.clip(lower, lowest, highest), np.clip(upper, lowest, highest), ~sure


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


@dataclass(frozen=True, eq=False)
class Pair:
    """Two numbers for each place, of terms with the same attributes (one row may stand for all).

    Args:
        answering: where the numbers come from.
        first: the numerators.
        second: the denominators.
    """

    answering: Answering
    first: Term
    second: Term

    @cached_property
    def moments(self) -> Moments | None:
        """Estimates and covariances; None where errors are not known."""
        terms = ((self.first, self.first), (self.first, self.second), (self.second, self.second))
        covariances = [self.answering.covariances(*both) for both in terms]
        if any(part is None for part in covariances):
            return None
        v_aa, v_ab, v_bb = (part for part in covariances if part is not None)
        return Moments(*self.estimates, v_aa, v_ab, v_bb)

    @cached_property
    def estimates(self) -> tuple[Floats, Floats]:
        """Of the numerators and the denominators, of one shape."""
        a, b = np.broadcast_arrays(self.answering.estimates(self.first), self.answering.estimates(self.second))
        return a, b

    def ratio(self, level: Confidence, lowest: float, highest: float, total: Floats | None = None) -> Figures:
        """The ratios, with Fieller's intervals; or those to public totals."""
        if total is not None:
            return self._over_known(total, level, lowest, highest)
        moments = self.moments
        if moments is None:
            ratio, none = divided(*self.estimates), int((self.estimates[1] == 0).sum())
            empty = say("{n} groups are empty, and have no ratio", n=none) if none else ""
            return unknown(np.where(np.isfinite(ratio), ratio, np.nan), empty)
        centre = np.nan_to_num(moments.ratio, nan=0.0, posinf=0.0, neginf=0.0)
        widths = self._widths(centre, level)
        lower, upper, open_ended = fieller(moments, widths, widths, lowest, highest)
        if np.ndim(widths):  # noise that is not normal: the reach of `a − r b` depends on r
            # Ends found with the reach at the estimate have it right to a percent; theirs, then, to a part in 10^4.
            low, high = (self._widths(np.where(np.isfinite(end), end, centre), level) for end in (lower, upper))
            lower, upper, open_ended = fieller(moments, low, high, lowest, highest)
        stddev = np.where(open_ended, np.inf, moments.stddev)
        count = int(open_ended.sum())
        words = mark("the noise of {n} of {all} denominators reaches zero: no bounded interval would hold")
        said = say(words, n=count, all=open_ended.size)
        return Figures(moments.ratio, stddev, lower, upper, (said,) if count else ())

    def _over_known(self, total: Floats, level: Confidence, lowest: float, highest: float) -> Figures:
        """The ratios to public totals: what the release says of the total improves the numerator, and no noise is left
        below. `a − (v_ab/v_bb) (b − total)` is the best unbiased estimate of α, linear, with variance
        `v_aa − v_ab²/v_bb`."""
        a, b = self.estimates
        moments = self.moments
        if moments is None:
            return unknown(a / total)
        slope = np.where(moments.v_bb > 0, divided(moments.v_ab, moments.v_bb), 0.0)
        estimate = (a - slope * (b - total)) / total
        stddev = np.sqrt(np.maximum(moments.v_aa - slope * moments.v_ab, 0.0)) / total
        width = self._widths(slope, level)
        lower, upper = (np.clip(estimate + sign * width * stddev, lowest, highest) for sign in (-1, 1))
        return Figures(estimate, np.broadcast_to(stddev, estimate.shape), lower, upper, (say("with a public total"),))

    def _widths(self, factors: Floats, level: Confidence) -> float | Floats:
        return self.answering.widths(self.first, self.second, factors, level.probability, level.together)
