"""How an attribute's values are spread over records: medians and other quantiles, and the Gini coefficient.

A quantile has an interval from the exact noise of the counts at or below each value. The q-quantile is the first value
v_j at which `D_j = C_j − q N ≥ 0`, with C_j the count of records at or below v_j and N of all. Every D_j is linear: its
estimate is unbiased and its noise known exactly. The value v_j is refused where D_j is surely negative (the quantile
lies above) or D_{j−1} surely not (it lies below), each at half the chance of a miss. For the true value each refusal
has at most that chance, so that the values not refused hold the quantile with at least the confidence stated, whatever
the counts, also at the ends and with few values; there is no density to estimate. What is published is the range from
the first of them to the last.

Several quantiles, or those of all groups, hold together if no D_j of any strays beyond a simultaneous band, which is
then inverted in the same way.

The Gini coefficient says how unequally the sum is shared, from 0 (equally) to 1. With counts x over values v it is
`Q/P`, `Q = xᵀ M_Q x` with `M_Q = |v_i − v_j|/2` and `P = xᵀ M_P x`, the number of records times the sum of values.
Noise makes squares too large: `E x̂ᵀ M x̂ = xᵀ M x + tr(M Σ)`; the trace is known and is taken off. Then `Q̂ − g P̂`
estimates 0 without bias exactly when g is the Gini coefficient. Its variance is `4 xᵀ M Σ M x + 2 tr(M Σ M Σ)`, `M =
M_Q − g M_P`; it is estimated by `4 x̂ᵀ M Σ M x̂`, which is larger by `2 tr(M Σ M Σ)` on average: that makes up for the
skewness of squares where counts are as small as their noise. The interval is Fieller's for `Q/P`, unbounded (hence 0 to
1) where the noise of P reaches zero.

Values in bins may lie anywhere in them. Bins do not overlap, so that `|v_i − v_j|` of two bins is a difference, and
with s_i the sum of a bin's values, C_i the count at or below it,

    Q = Σ_i s_i (C_{i−1} + C_i − N) + Σ_i (half the absolute differences within bin i),     P = N Σ_i s_i.

For a given g the bins therefore part in `Q − g P`. It is least with all values of a bin at one of its edges, and
largest with a share p of them at the upper edge and the rest at the lower: within a bin of width w nothing exceeds
`x² p (1 − p) w`, which is reached there. The best p is in closed form, and g the root (Dinkelbach's steps). For exact
counts these are the least and the largest Gini coefficient that the bins allow. With noise, the placement is that of
the estimated counts (another one is better by an amount of second order in the noise), and its interval as above.

Reference: Woodruff (1952), for inverting intervals of a distribution function; Šidák (1967), for the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from residua.domain.words import heading
from residua.errors import PlanError, named
from residua.language import mark, say
from residua.linalg.arrays import Booleans, Floats
from residua.quoting.intervals import Confidence, Figures, Moments, divided, fieller, linear, stacked, unknown, widened
from residua.quoting.question import Numbers, Question
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, Term

_MOST_VALUES = 4096
_MOST_ENTRIES = 2**27
_STEPS = 50  # each at least halves how far a share of values is from the best one


def quantile(question: Question, attribute: str, q: float | Sequence[float]) -> Quoted:
    """The value that a share q of the records does not exceed; of several shares, one row each."""
    groups, shares = question.groups, _shares(q)
    position, numbers = question.numbers(attribute, ordered=True)
    order = np.flatnonzero(numbers.counted)[np.argsort(numbers.values[numbers.counted], kind="stable")]
    level = question.level(groups.count * len(order) * len(shares))
    if len(order) > _MOST_VALUES:
        in_order = len(order) == len(numbers.values) and bool((np.diff(order) == 1).all())
        alone = not groups.rows and in_order
        sums = [_along(question, attribute, each, level, alone) for each in shares]
    else:
        terms = [groups.term({position: _rows(numbers, order, each)}) for each in shares]
        sums = [linear(question.answering, term, level).arranged(groups, term, position) for term in terms]
    parts = [_inverted(each, numbers, order, share) for each, share in zip(sums, shares, strict=True)]
    one = isinstance(q, int | float | np.number)
    axes: tuple[Axis, ...] = groups.axes if one else (*groups.axes, ("quantile", tuple(f"{each:g}" for each in shares)))
    words = mark("quantile {share:g} of {name}") if one else mark("quantiles of {name}")
    words = mark("median of {name}") if one and shares[0] == 0.5 else words
    what = say(words, share=shares[0], name=heading(question.domain, attribute))
    remark = say("between bin edges, the estimate by interpolation") if numbers.edges else ""
    figures = parts[0] if one else stacked(parts)
    return question.quoted(what, figures, numbers.basis, remark, axes=axes, dates=numbers.dates)


def _along(question: Question, attribute: str, q: float, level: Confidence, alone: bool) -> Figures:
    """`D_j = C_j − q N` of every value of a long attribute, from its running sums, (n,).

    Raises:
        PlanError: they were not measured along the attribute, or groups are asked for.
    """
    answering = question.answering
    position = answering.domain.position(attribute)
    running = answering.running(position, q) if alone else None
    if running is None:
        size = int(answering.domain.sizes[position])
        raise PlanError(
            f"{attribute!r} has {size:,} values; quantiles of groups, of plans and of tables are found among "
            f"{_MOST_VALUES:,} at most. More take a release of its prefixes or ranges alone, with normal noise (ZCDP, "
            "GDP, ApproxDP), without by, where and values; or read them off the counts of ranges, such as "
            "release.count({…: rs.between(…)})."
        )
    estimate, variance = running
    nothing = Term(answering.domain, {position: None})
    reach = answering.widths(nothing, None, np.zeros(()), level.probability, level.together) * np.sqrt(variance)
    return Figures(estimate, np.sqrt(variance), estimate - reach, estimate + reach)


def _rows(numbers: Numbers, order: Any, q: float) -> Floats:
    """`D_j = C_j − q N` of every value, smallest first, (values, n)."""
    rank = np.full(len(numbers.values), len(order))
    rank[order] = np.arange(len(order))
    return (rank[None, :] <= np.arange(len(order))[:, None]).astype(np.float64) - q * numbers.counted


def _inverted(D: Figures, numbers: Numbers, order: Any, q: float) -> Figures:
    """The q-quantile from D_1, …, D_k and their intervals, (…, k)."""
    lowest, highest, values = (part[order] for part in (numbers.lowest, numbers.highest, numbers.values))
    # Non-decreasing, between the running maximum and the running minimum from the end.
    up = np.maximum.accumulate(D.estimate, axis=-1)
    smooth = (up + np.minimum.accumulate(D.estimate[..., ::-1], axis=-1)[..., ::-1]) / 2
    at = _first(smooth >= 0)
    none = -q / (1 - q) * smooth[..., -1]  # D before the first value, −q N: the last one is (1 − q) N
    estimate = _inside(smooth, at, none, lowest, highest, values)
    if np.isnan(D.stddev).all():
        return unknown(estimate)
    above, below = D.upper < 0, D.lower > 0  # surely negative; surely positive
    above[..., -1] = False  # all records are at or below the last value
    first = _first(~above)
    before = np.concatenate([np.zeros_like(below[..., :1]), below[..., :-1]], axis=-1)
    last = below.shape[-1] - 1 - _first(~before[..., ::-1])
    lower, upper = lowest[first], highest[last]
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.fmax.reduce((D.upper - D.lower) / 2 / D.stddev, axis=-1)
    stddev = np.where(upper > lower, (upper - lower) / 2, 0.0) / np.where(np.isfinite(reach) & (reach > 0), reach, 1.0)
    bins = None if (lowest == highest).all() else (highest[at] - lowest[at]) / 2
    return Figures(estimate, stddev, lower, upper, bins=bins)


def _first(true: Booleans) -> Any:
    """The first true place along the last axis; the last one if there is none."""
    held = np.array(true)
    held[..., -1] = True
    return held.argmax(axis=-1)


def _inside(smooth: Floats, at: Any, none: Floats, lowest: Floats, highest: Floats, values: Floats) -> Floats:
    """The value at a place; in a bin, as far from its lower edge as the count is from the one before."""
    here = np.take_along_axis(smooth, at[..., None], axis=-1)[..., 0]
    before = np.take_along_axis(smooth, np.maximum(at - 1, 0)[..., None], axis=-1)[..., 0]
    before = np.where(at > 0, before, np.minimum(none, 0.0))
    low, high = lowest[at], highest[at]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(np.nan_to_num(-before / (here - before), nan=0.5, posinf=1.0, neginf=0.0), 0.0, 1.0)
        inside = np.where(high > low, low + share * (high - low), values[at])
    return np.asarray(np.where(np.isfinite(inside), inside, np.where(np.isfinite(low), low, high)))


def _shares(q: object) -> list[float]:
    listed = [q] if isinstance(q, int | float | np.number) else list(q) if isinstance(q, Sequence | np.ndarray) else []
    good = [isinstance(each, int | float | np.number) and not isinstance(each, bool) for each in listed]
    if not listed or not all(good) or not all(0 < each < 1 for each in listed) or len(set(listed)) < len(listed):
        raise PlanError(f"q={named(q)} is not a share between 0 and 1, or a list of different ones; 0.5 is the median.")
    return [float(each) for each in listed]


def gini(question: Question, attribute: str) -> Quoted:
    """The Gini coefficient of a numeric attribute whose values are not negative."""
    groups, answering = question.groups, question.answering
    position, numbers = question.numbers(attribute)
    v = numbers.values[numbers.counted]
    if numbers.dates or numbers.bounds[0] < 0 or not v.max() > 0:
        raise PlanError(
            f"the values of {attribute!r} are not all positive or 0, so that no sum is shared; give values."
        )
    if groups.count * len(v) ** 2 > _MOST_ENTRIES:
        raise PlanError(f"{groups.count:,} groups of {len(v):,} values are too many; ask for fewer groups.")
    term = groups.term({position: np.eye(len(numbers.values))[numbers.counted]})
    x = groups.arranged(answering.estimates(term), term, position)
    pairs = answering.covariances(term, term, (position,))
    if pairs is None:
        figures = _points(x, v)
    else:
        covariance = groups.arranged(pairs, term, position, pairs=True)
        figures = _with_errors(x, covariance, _forms(v), question.level())
        if numbers.edges:
            edges = numbers.lowest[numbers.counted], numbers.highest[numbers.counted]
            figures = _over_bins(figures, x, covariance, edges, question.level().apart())
    return question.quoted(
        say("Gini coefficient of {name}", name=heading(question.domain, attribute)), figures, numbers.remark
    )


def _forms(v: Floats) -> tuple[Floats, Floats]:
    """M_Q and M_P of values, (…, n, n) each."""
    return np.abs(v[..., :, None] - v[..., None, :]) / 2, (v[..., :, None] + v[..., None, :]) / 2


def _over_bins(
    figures: Figures, x: Floats, covariance: Floats, edges: tuple[Floats, Floats], level: Confidence
) -> Figures:
    """From the least coefficient that bins allow to the largest, with the noise of both.

    Raises:
        PlanError: given values lie in other bins.
    """
    order = np.lexsort(edges[::-1])
    x, covariance = x[..., order], covariance[..., order, :][..., order]
    low, high = edges[0][order], edges[1][order]
    if (high[:-1] > low[1:]).any():
        raise PlanError("values: a given value lies in the bin of others; give values of all bins, or each in its own.")
    nothing = np.zeros(figures.estimate.shape)
    if not np.isfinite(high).all():
        return widened(figures, nothing, nothing + 1, nothing + np.inf)
    least, most = (
        _with_errors(x, covariance, _placed(low, high, extreme_placement(x, low, high, largest=largest)), level)
        for largest in (False, True)
    )
    bins = np.maximum(np.abs(figures.estimate - least.estimate), np.abs(most.estimate - figures.estimate))
    return widened(figures, least.lower, most.upper, bins)


def _placed(low: Floats, high: Floats, share: Floats) -> tuple[Floats, Floats]:
    """M_Q and M_P with a share of each bin's values at its upper edge and the rest at its lower one."""
    above, below = _forms(low + share * (high - low))
    within = np.arange(len(low))
    above[..., within, within] = share * (1 - share) * (high - low)
    return above, below


def extreme_placement(x: Floats, low: Floats, high: Floats, *, largest: bool) -> Floats:
    """Which share of each bin's values is at its upper edge where the coefficient is least, or largest, (…, n)."""
    x, width = np.maximum(x, 0.0), high - low
    up_to, all_records = np.cumsum(x, axis=-1), x.sum(axis=-1, keepdims=True)
    lean = 2 * up_to - x - all_records  # C_{i−1} + C_i − N
    share = np.full(x.shape, 0.5)
    for _ in range(_STEPS):
        sums = x * (low + share * width)
        within = x**2 * share * (1 - share) * width if largest else 0.0
        above, below = sums * lean + within, all_records * sums
        g = np.nan_to_num(divided(above.sum(axis=-1, keepdims=True), below.sum(axis=-1, keepdims=True)), nan=0.5)
        slope = lean - g * all_records
        steep = (slope > 0) == largest
        share = np.where(x > 0, np.clip((divided(slope, x) + 1) / 2, 0, 1), steep) if largest else steep * 1.0
    return np.asarray(share)


def _points(x: Floats, v: Floats) -> Figures:
    above, below = (np.einsum("...i,ij,...j->...", x, M, x) for M in _forms(v))
    return unknown(divided(above, below))


def unbiased(M: Floats, x: Floats, covariance: Floats) -> Floats:
    """`x̂ᵀ M x̂ − tr(M Σ)`, which estimates `xᵀ M x` without bias, (…)."""
    return np.asarray(np.einsum("...i,...i->...", _pushed(M, x), x) - np.einsum("...ij,...ji->...", M, covariance))


def _pushed(M: Floats, x: Floats) -> Floats:
    """`M x`, M symmetric, (…, n)."""
    return np.asarray((x[..., None, :] @ M)[..., 0, :])


def _with_errors(x: Floats, covariance: Floats, forms: tuple[Floats, Floats], level: Confidence) -> Figures:
    centred = [unbiased(M, x, covariance) for M in forms]
    pushed = [_pushed(M, x) for M in forms]
    whole = np.empty((*x.shape[:-1], 2, 2))
    for i in range(2):
        half = np.einsum("...i,...ij->...j", pushed[i], covariance)
        for j in range(2):
            whole[..., i, j] = 4 * np.einsum("...j,...j->...", half, pushed[j])
    moments = Moments(centred[0], centred[1], whole[..., 0, 0], whole[..., 0, 1], whole[..., 1, 1])
    lower, upper, open_ended = fieller(moments, level.width, level.width, 0.0, 1.0)
    count = int(open_ended.sum())
    words = mark("{n} of {all} intervals are from 0 to 1: the noise is too large")
    said = (say(words, n=count, all=open_ended.size),) if count else ()
    return Figures(moments.ratio, np.where(open_ended, np.inf, moments.stddev), lower, upper, said)
