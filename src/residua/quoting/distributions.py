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

Values within a bin are taken for its midpoint, so that inequality within bins is left out.

Reference: Woodruff (1952), for inverting intervals of a distribution function; Šidák (1967), for the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats
from residua.quoting.intervals import Confidence, Figures, Moments, divided, fieller, linear, stacked, unknown
from residua.quoting.question import Numbers, Question, Values
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, Running, Term

_MOST_VALUES = 4096
_MOST_ENTRIES = 2**27


def quantile(question: Question, attribute: str, q: float | Sequence[float], values: Values | None) -> Quoted:
    """The value that a share q of the records does not exceed; of several shares, one row each."""
    groups, shares = question.groups, _shares(q)
    position, numbers = question.numbers(attribute, values, ordered=True)
    order = np.flatnonzero(numbers.counted)[np.argsort(numbers.values[numbers.counted], kind="stable")]
    level = question.level(groups.count * len(order) * len(shares))
    if len(order) > _MOST_VALUES:
        in_order = len(order) == len(numbers.values) and bool((np.diff(order) == 1).all())
        alone = not groups.rows and in_order
        sums = [_along(question, attribute, each, level, alone) for each in shares]
    else:
        terms = [groups.term({position: _rows(numbers, order, each)}) for each in shares]
        sums = [linear(question.answering, term, level).arranged(groups, term, position) for term in terms]
    parts = [_inverted(each, numbers, order) for each in sums]
    one = isinstance(q, int | float | np.number)
    axes: tuple[Axis, ...] = groups.axes if one else (*groups.axes, ("quantile", tuple(f"{each:g}" for each in shares)))
    what = f"quantile {shares[0]:g}" if one else "quantiles"
    what = f"{'median' if one and shares[0] == 0.5 else what} of {attribute}"
    remark = "between bin edges, the estimate by interpolation" if (numbers.lowest < numbers.highest).any() else ""
    figures = parts[0] if one else stacked(parts)
    return question.quoted(what, figures, numbers.remark, remark, axes=axes, dates=numbers.dates)


def _along(question: Question, attribute: str, q: float, level: Confidence, alone: bool) -> Figures:
    """`D_j = C_j − q N` of every value of a long attribute, from its running sums, (n,).

    Raises:
        PlanError: they were not measured along the attribute, or groups are asked for.
    """
    answering = question.answering
    position = answering.domain.position(attribute)
    running = answering.running(position, q) if alone and isinstance(answering, Running) else None
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
    width = answering.widths(nothing, None, np.zeros(()), level.probability, level.together)
    reach = width * np.sqrt(variance)
    return Figures(estimate, np.sqrt(variance), estimate - reach, estimate + reach)


def _rows(numbers: Numbers, order: Any, q: float) -> Floats:
    """`D_j = C_j − q N` of every value, smallest first, (values, n)."""
    rank = np.full(len(numbers.values), len(order))
    rank[order] = np.arange(len(order))
    below = (rank[None, :] <= np.arange(len(order))[:, None]).astype(np.float64)
    return below - q * numbers.counted


def _inverted(D: Figures, numbers: Numbers, order: Any) -> Figures:
    """The quantile from D_1, …, D_k and their intervals, (…, k)."""
    lowest, highest, values = (part[order] for part in (numbers.lowest, numbers.highest, numbers.values))
    # Non-decreasing, between the running maximum and the running minimum from the end.
    up = np.maximum.accumulate(D.estimate, axis=-1)
    down = np.minimum.accumulate(D.estimate[..., ::-1], axis=-1)[..., ::-1]
    smooth = (up + down) / 2
    at = _first(smooth >= 0)
    estimate = _inside(smooth, at, lowest, highest, values)
    if np.isnan(D.stddev).all():
        return unknown(estimate)
    above, below = D.upper < 0, D.lower > 0  # surely negative; surely positive
    above[..., -1] = False  # all records are at or below the last value
    first = _first(~above)
    before = np.concatenate([np.zeros_like(below[..., :1]), below[..., :-1]], axis=-1)
    last = below.shape[-1] - 1 - _first(~before[..., ::-1])
    lower, upper = lowest[first], highest[last]
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.nanmax((D.upper - D.lower) / 2 / D.stddev, axis=-1)
    stddev = np.where(upper > lower, (upper - lower) / 2, 0.0) / np.where(np.isfinite(reach) & (reach > 0), reach, 1.0)
    return Figures(estimate, stddev, lower, upper)


def _first(true: Booleans) -> Any:
    """The first true place along the last axis; the last one if there is none."""
    held = np.array(true)
    held[..., -1] = True
    return held.argmax(axis=-1)


def _inside(smooth: Floats, at: Any, lowest: Floats, highest: Floats, values: Floats) -> Floats:
    """The value at a place; in a bin, as far from its lower edge as the count is from the one before."""
    here = np.take_along_axis(smooth, at[..., None], axis=-1)[..., 0]
    before = np.take_along_axis(smooth, np.maximum(at - 1, 0)[..., None], axis=-1)[..., 0]
    before = np.where(at > 0, before, np.minimum(here, 0.0))
    low, high = lowest[at], highest[at]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(np.nan_to_num(-before / (here - before), nan=0.5, posinf=1.0, neginf=0.0), 0.0, 1.0)
        inside = np.where(high > low, low + share * (high - low), values[at])
    return np.asarray(np.where(np.isfinite(inside), inside, np.where(np.isfinite(low), low, high)))


def _shares(q: object) -> list[float]:
    listed = [q] if isinstance(q, int | float | np.number) else list(q) if isinstance(q, Sequence | np.ndarray) else []
    good = [isinstance(each, int | float | np.number) and not isinstance(each, bool) for each in listed]
    if not listed or not all(good) or not all(0 < each < 1 for each in listed) or len(set(listed)) < len(listed):
        raise PlanError(f"q={q!r} is not a share between 0 and 1, or a list of different ones; 0.5 is the median.")
    return [float(each) for each in listed]


def gini(question: Question, attribute: str, values: Values | None) -> Quoted:
    """The Gini coefficient of a numeric attribute whose values are not negative."""
    groups, answering = question.groups, question.answering
    position, numbers = question.numbers(attribute, values)
    v = numbers.values[numbers.counted]
    if numbers.dates or v.min() < 0 or not v.max() > 0:
        raise PlanError(
            f"the values of {attribute!r} are not all positive or 0, so that no sum is shared; give values."
        )
    if groups.count * len(v) ** 2 > _MOST_ENTRIES:
        raise PlanError(f"{groups.count:,} groups of {len(v):,} values are too many; ask for fewer groups.")
    term = groups.term({position: np.eye(len(numbers.values))[numbers.counted]})
    x = groups.arranged(answering.estimates(term), term, position)
    covariance = answering.covariances(term, term, (position,))
    figures = (
        _points(x, v)
        if covariance is None
        else _with_errors(x, groups.arranged(covariance, term, position, pairs=True), v, question.level())
    )
    return question.quoted(f"Gini coefficient of {attribute}", figures, numbers.remark)


def _forms(v: Floats) -> tuple[Floats, Floats]:
    return np.abs(v[:, None] - v[None, :]) / 2, (v[:, None] + v[None, :]) / 2


def _points(x: Floats, v: Floats) -> Figures:
    above, below = (np.einsum("...i,ij,...j->...", x, M, x) for M in _forms(v))
    return unknown(divided(above, below))


def unbiased(M: Floats, x: Floats, covariance: Floats) -> Floats:
    """`x̂ᵀ M x̂ − tr(M Σ)`, which estimates `xᵀ M x` without bias, (…)."""
    return np.asarray(np.einsum("...i,...i->...", x @ M, x) - np.einsum("ij,...ji->...", M, covariance))


def _with_errors(x: Floats, covariance: Floats, v: Floats, level: Confidence) -> Figures:
    forms = _forms(v)
    centred = [unbiased(M, x, covariance) for M in forms]
    pushed = [x @ M for M in forms]  # M x
    whole = np.empty((*x.shape[:-1], 2, 2))
    for i in range(2):
        half = np.einsum("...i,...ij->...j", pushed[i], covariance)
        for j in range(2):
            whole[..., i, j] = 4 * np.einsum("...j,...j->...", half, pushed[j])
    moments = Moments(centred[0], centred[1], whole[..., 0, 0], whole[..., 0, 1], whole[..., 1, 1])
    width = NormalDist().inv_cdf(0.5 + level.probability ** (1 / level.together) / 2)
    lower, upper, open_ended = fieller(moments, width, width, 0.0, 1.0)
    count = int(open_ended.sum())
    said = (f"{count:,} of {open_ended.size:,} intervals are from 0 to 1: the noise is too large",) if count else ()
    return Figures(moments.ratio, np.where(open_ended, np.inf, moments.stddev), lower, upper, said)
