"""Medians and other quantiles, with intervals from the exact noise of the counts at or below each value.

The q-quantile is the first value v_j at which `D_j = C_j − q N ≥ 0`, with C_j the count of records at or below v_j and
N of all. Every D_j is linear: its estimate is unbiased and its noise known exactly. The value v_j is refused where D_j
is surely negative (the quantile lies above) or D_{j−1} surely not (it lies below), each at half the chance of a miss.
For the true value each refusal has at most that chance, so that the values not refused hold the quantile with at least
the confidence stated, whatever the counts, also at the ends and with few values; there is no density to estimate. What
is published is the range from the first of them to the last.

Several quantiles, or those of all groups, hold together if no D_j of any strays beyond a simultaneous band, which is
then inverted in the same way.

Reference: Woodruff (1952), for inverting intervals of a distribution function; Šidák (1967), for the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats
from residua.quoting.answering import Answering, Running
from residua.quoting.asking import SURE, Sure, cells, quoted
from residua.quoting.pairs import Found, Level, linear
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, By, Term, groups_of
from residua.quoting.values import Numbers, Values, ordered_numbers
from residua.workload import Where

_MOST_VALUES = 4096


def quantile(
    answering: Answering,
    attribute: str,
    q: float | Sequence[float],
    by: By = (),
    where: Where | None = None,
    values: Values | None = None,
    sure: Sure = SURE,
) -> Quoted:
    """The value that a share q of the records does not exceed; of several shares, one row each."""
    groups = groups_of(answering.domain, by, where)
    position = groups.require_free(attribute, "attribute")
    shares = _shares(q)
    numbers = ordered_numbers(answering.domain, attribute, values)
    order = np.flatnonzero(numbers.counted)[np.argsort(numbers.values[numbers.counted], kind="stable")]
    level = sure.level(cells(groups.shape) * len(order) * len(shares))
    if len(order) > _MOST_VALUES:
        in_order = len(order) == len(numbers.values) and bool((np.diff(order) == 1).all())
        alone = not groups.rows and in_order
        parts = [_inverted(_along(answering, attribute, each, level, alone), numbers, order) for each in shares]
    else:
        terms = [groups.term({position: _rows(numbers, order, each)}) for each in shares]
        found_at = [linear(answering, term, level).arranged(groups, term, position) for term in terms]
        parts = [_inverted(each, numbers, order) for each in found_at]
    one = isinstance(q, int | float | np.number)
    found = parts[0] if one else _stacked(parts)
    axes: tuple[Axis, ...] = groups.axes if one else (*groups.axes, ("quantile", tuple(f"{each:g}" for each in shares)))
    what = f"quantile {shares[0]:g}" if one else "quantiles"
    remark = "between bin edges, the estimate by interpolation" if (numbers.lowest < numbers.highest).any() else ""
    what = f"{'median' if one and shares[0] == 0.5 else what} of {attribute}"
    return quoted(answering, sure, what, axes, found, numbers.remark, remark, dates=numbers.dates)


def _along(answering: Answering, attribute: str, q: float, level: Level, alone: bool) -> Found:
    """`D_j = C_j − q N` of every value of a long attribute, from its running sums, (n,).

    Raises:
        PlanError: they were not measured along the attribute, or groups are asked for.
    """
    position = answering.domain.position(attribute)
    found = answering.running(position, q) if alone and isinstance(answering, Running) else None
    if found is None:
        size = int(answering.domain.sizes[position])
        raise PlanError(
            f"{attribute!r} has {size:,} values; quantiles of groups, of plans and of tables are found among "
            f"{_MOST_VALUES:,} at most. More take a release of its prefixes or ranges alone, with normal noise (ZCDP, "
            "GDP, ApproxDP), without by, where and values; or read them off the counts of ranges, such as "
            "release.count({…: rs.between(…)})."
        )
    estimate, variance = found
    nothing = Term(answering.domain, {position: None})
    width = answering.widths(nothing, None, np.zeros(()), level.confidence, level.together)
    reach = width * np.sqrt(variance)
    return Found(estimate, np.sqrt(variance), estimate - reach, estimate + reach)


def _rows(numbers: Numbers, order: Any, q: float) -> Floats:
    """`D_j = C_j − q N` of every value, smallest first, (values, n)."""
    rank = np.full(len(numbers.values), len(order))
    rank[order] = np.arange(len(order))
    below = (rank[None, :] <= np.arange(len(order))[:, None]).astype(np.float64)
    return below - q * numbers.counted


def _inverted(D: Found, numbers: Numbers, order: Any) -> Found:
    """The quantile from D_1, …, D_k and their intervals, (…, k)."""
    lowest, highest, values = (part[order] for part in (numbers.lowest, numbers.highest, numbers.values))
    # Non-decreasing, between the running maximum and the running minimum from the end.
    up = np.maximum.accumulate(D.estimate, axis=-1)
    down = np.minimum.accumulate(D.estimate[..., ::-1], axis=-1)[..., ::-1]
    smooth = (up + down) / 2
    at = _first(smooth >= 0)
    estimate = _inside(smooth, at, lowest, highest, values)
    if np.isnan(D.stddev).all():
        nothing = np.full(estimate.shape, np.nan)
        return Found(estimate, nothing, nothing, nothing)
    above, below = D.upper < 0, D.lower > 0  # surely negative; surely positive
    above[..., -1] = False  # all records are at or below the last value
    first = _first(~above)
    before = np.concatenate([np.zeros_like(below[..., :1]), below[..., :-1]], axis=-1)
    last = below.shape[-1] - 1 - _first(~before[..., ::-1])
    lower, upper = lowest[first], highest[last]
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.nanmax((D.upper - D.lower) / 2 / D.stddev, axis=-1)
    stddev = np.where(upper > lower, (upper - lower) / 2, 0.0) / np.where(np.isfinite(reach) & (reach > 0), reach, 1.0)
    return Found(estimate, stddev, lower, upper)


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


def _stacked(parts: list[Found]) -> Found:
    """One more axis, behind those of the groups."""
    four = (
        np.stack([getattr(part, name) for part in parts], axis=-1) for name in ("estimate", "stddev", "lower", "upper")
    )
    estimate, stddev, lower, upper = four
    return Found(estimate, stddev, lower, upper)


def _shares(q: object) -> list[float]:
    listed = [q] if isinstance(q, int | float | np.number) else list(q) if isinstance(q, Sequence | np.ndarray) else []
    good = [isinstance(each, int | float | np.number) and not isinstance(each, bool) for each in listed]
    if not listed or not all(good) or not all(0 < each < 1 for each in listed) or len(set(listed)) < len(listed):
        raise PlanError(f"q={q!r} is not a share between 0 and 1, or a list of different ones; 0.5 is the median.")
    return [float(each) for each in listed]
