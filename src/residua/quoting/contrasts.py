"""Differences between groups, of counts, shares or means, and rates standardised by public weights.

A combination of counts is linear, and its interval exact. A combination of rates `Σ c_k r_k` is not, and no theorem
like Fieller's gives its exact interval. It is put together from the Fieller intervals of the single rates (the method
of variance estimates recovery): with `d_k` the distance from a rate to the end of its interval on the side that
matters,

    lower = Σ c_k r_k − √(Σ_kl c_k c_l ρ_kl d_k d_l),      upper likewise with the other ends,

ρ the correlations of the rates' noise. Each rate brings the skewness of its own interval; one whose interval is
unbounded brings its whole range. For a ratio of two rates the same distances stand in Fieller's inequality in place of
standard errors.

Means of values in bins have intervals that hold wherever in their bins values lie (`question.py`). Of K such means all
hold together if each is missed with a K-th of the chance, and then any combination lies between what the ends of their
intervals make of it.

Reference: Zou and Donner (2008); Donner and Zou (2012), for ratios.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from residua.domain import Domain, Label
from residua.domain.words import heading
from residua.errors import PlanError, named
from residua.language import say
from residua.linalg.arrays import Booleans, Floats
from residua.quoting.intervals import Figures, Moments, Pair, divided, fieller, unknown, widened
from residua.quoting.question import Question, Rate, RateRows, rate_rows
from residua.quoting.quoted import Quoted
from residua.quoting.terms import by_label, place_of


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of several labels of one attribute, for each group.

    Args:
        each: the rates with their own unbounded Fieller intervals, (…, groups, labels).
        correlations: of their noise, (…, groups, labels, labels); None where errors are not known.
    """

    each: Figures
    correlations: Floats | None


def difference(question: Question, between: str, labels: Mapping[Label, float] | None, of: Rate | None) -> Quoted:
    """A combination of counts, shares or means of labels: `{"Female": 1, "Male": -1}`."""
    groups = question.groups
    position = groups.require_free(between, "between")
    weights = _coefficients(question.domain, between, labels, "labels")
    if of is None:
        if question.values is not None:
            raise PlanError("values are for means; name the attribute with of=.")
        row = np.zeros((1, question.domain[between].size))
        row[0, list(weights)] = list(weights.values())
        what = say("difference of counts by {name}", name=heading(question.domain, between))
        return question.quoted(what, question.linear(groups.term({position: row})))
    rate = rate_rows(question, groups.holding(position), of)
    figures = _combination(question, position, weights, rate)
    what = say("difference of {rate} by {name}", rate=rate.what, name=heading(question.domain, between))
    return question.quoted(what, figures, rate.remark, of=of)


def relative_difference(question: Question, between: str, first: Label, second: Label, of: Rate | None) -> Quoted:
    """How much larger the count, share or mean of one label is than that of another, relative to the other."""
    groups = question.groups
    position = groups.require_free(between, "between")
    attribute = question.domain[between]
    codes = [place_of(between, attribute, label, "first and second") for label in (first, second)]
    if codes[0] == codes[1]:
        raise PlanError(f"first and second are both {named(first)}; name two labels of {between!r}.")
    both = {"first": str(first), "second": str(second)}
    if of is None:
        one, other = (groups.term({position: row[None, :]}) for row in np.eye(attribute.size)[codes])
        what = say("relative difference of {first} from {second}, counts", **both)
        return question.quoted(what, question.ratio(one, other, 0.0, np.inf).shifted(-1.0))
    rate = rate_rows(question, groups.holding(position), of)
    figures = compared(rates_of(question, position, codes, rate), rate)
    if rate.edges:
        figures = _quotient_over_bins(figures, enclosed(question, position, codes, rate), rate)
    what = say("relative difference of {first} from {second}, {rate}", rate=rate.what, **both)
    return question.quoted(what, figures.shifted(-1.0), rate.remark, of=of)


def standardised(question: Question, of: Rate, over: str, weights: Mapping[Label, float]) -> Quoted:
    """The share or mean that groups would have if all had the same, public, distribution over an attribute."""
    position = question.groups.require_free(over, "over")
    given = _coefficients(question.domain, over, weights, "weights")
    sizes = np.array(list(given.values()))
    if (sizes < 0).any() or not sizes.sum() > 0:
        raise PlanError("weights must not be negative, and not all 0; give the standard population's counts or shares.")
    rate = rate_rows(question, question.groups.holding(position), of)
    figures = _combination(question, position, dict(zip(given, (sizes / sizes.sum()).tolist(), strict=True)), rate)
    name, without = heading(question.domain, over), question.domain[over].declared - len(given)
    left = say("{n} values of {name} have no weight", n=without, name=name) if without > 0 else ""
    what = say("{rate}, standardised by {name}", rate=rate.what, name=name)
    return question.quoted(what, figures, rate.remark, left, of=of)


def _combination(question: Question, position: int, weights: Mapping[int, float], rate: RateRows) -> Figures:
    """`Σ c_k r_k`, code → c_k, with its interval; of values in bins between what the ends of their intervals make."""
    codes, c = list(weights), np.array(list(weights.values()))
    rates = rates_of(question, position, codes, rate)
    if not rate.edges:
        return combined(rates, c, rate)
    [row] = rate.above.values()
    figures = combined(rates, c, replace(rate, lowest=float(row.min()), highest=float(row.max())))
    each = enclosed(question, position, codes, rate)
    lower, upper = (
        np.where(c == 0, 0.0, c * np.where(c > 0, *ends)).sum(axis=-1)
        for ends in ((each.lower, each.upper), (each.upper, each.lower))
    )
    assert each.bins is not None
    return widened(figures, lower, upper, np.where(c == 0, 0.0, np.abs(c) * each.bins).sum(axis=-1))


def _quotient_over_bins(figures: Figures, each: Figures, rate: RateRows) -> Figures:
    """The quotient of two means of values in bins, between the quotients of the ends of their intervals."""
    assert each.bins is not None
    lower, upper = _quotients(each.lower, each.upper, rate)
    least, most = _quotients(each.estimate - each.bins, each.estimate + each.bins, rate)
    bins = np.nan_to_num(np.maximum(figures.estimate - least, most - figures.estimate), nan=np.inf, posinf=np.inf)
    return widened(figures, lower, upper, bins)


def _quotients(lower: Floats, upper: Floats, rate: RateRows) -> tuple[Floats, Floats]:
    """The least and the largest quotient of two numbers between given ends, (…, 2); unbounded where 0 divides."""
    with np.errstate(divide="ignore", invalid="ignore"):
        corners = np.stack([one[..., 0] / two[..., 1] for one in (lower, upper) for two in (lower, upper)])
        divides = ~((lower[..., 1] > 0) | (upper[..., 1] < 0)) | np.isnan(corners).any(axis=0)
    lowest = 0.0 if rate.lowest >= 0 else -np.inf
    return np.where(divides, lowest, corners.min(axis=0)), np.where(divides, np.inf, corners.max(axis=0))


def enclosed(question: Question, position: int, codes: list[int], rate: RateRows) -> Figures:
    """The rates of some labels with intervals that all hold together, wherever in their bins values lie."""
    groups, rows = question.groups, np.eye(int(question.domain.sizes[position]))[codes]
    level = question.level().apart(len(codes))

    def at(above: Mapping[int, Floats]) -> Figures:
        first, second = groups.term({**above, position: rows}), groups.term({**rate.below, position: rows})
        pair = Pair(question.answering, first, second)
        return pair.ratio(level, rate.lowest, rate.highest).arranged(groups, first, position)

    return rate.over_bins(at)


def rates_of(question: Question, position: int, codes: list[int], rate: RateRows) -> Rates:
    """The rates of some labels, each with its own interval, and how their noise goes together."""
    answering, groups = question.answering, question.groups
    rows = np.eye(int(question.domain.sizes[position]))[codes]
    first, second = groups.term({**rate.above, position: rows}), groups.term({**rate.below, position: rows})
    pair = Pair(answering, first, second)
    each = pair.ratio(question.level(), -np.inf, np.inf).arranged(groups, first, position)
    if pair.moments is None:
        return Rates(each, None)
    terms = ((first, first), (first, second), (second, second))
    pairs = (answering.covariances(*both, (position,)) for both in terms)
    aa, ab, bb = (groups.arranged(part, first, position, pairs=True) for part in pairs if part is not None)
    r = np.nan_to_num(each.estimate, posinf=0.0, neginf=0.0)
    b = groups.arranged(pair.moments.b, first, position)
    ba = np.swapaxes(ab, -1, -2)
    covariance = aa - r[..., None, :] * ab - r[..., :, None] * ba + r[..., :, None] * r[..., None, :] * bb
    covariance = covariance * np.sign(b)[..., :, None] * np.sign(b)[..., None, :]
    root = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
    correlations = divided(covariance, root[..., :, None] * root[..., None, :])
    return Rates(each, np.clip(np.where(np.isfinite(correlations), correlations, 0.0), -1.0, 1.0))


def combined(rates: Rates, coefficients: Floats, rate: RateRows) -> Figures:
    """`Σ c_k r_k` with the interval recovered from those of the rates.

    Of a rate whose own interval is unbounded nothing is known but its bounds (a share is between 0 and 1): it adds its
    whole range.
    """
    if rates.correlations is None:
        return unknown(rates.each.estimate @ coefficients, *rates.each.remarks)
    each, lost = rates.each, _lost(rates.each)
    r = np.where(lost, np.clip(np.nan_to_num(each.estimate), rate.lowest, rate.highest), each.estimate)
    up, c = coefficients > 0, np.where(lost, 0.0, coefficients)
    reaches = (each.estimate - each.lower, each.upper - each.estimate)
    to_lower, to_upper = (np.where(lost, 0.0, reach) for reach in reaches)
    below = _length(np.where(up, to_lower, to_upper) * c, rates.correlations)
    above = _length(np.where(up, to_upper, to_lower) * c, rates.correlations)
    ends = (np.where(up, rate.lowest, rate.highest), np.where(up, rate.highest, rate.lowest))
    estimate, known = r @ coefficients, (c * r).sum(axis=-1)
    least, most = (known + ((coefficients - c) * end).sum(axis=-1) for end in ends)
    lower, upper = (np.clip(end, *(each @ coefficients for each in ends)) for end in (least - below, most + above))
    stddev = np.where(lost.any(axis=-1), np.inf, _length(np.where(lost, 0.0, each.stddev) * c, rates.correlations))
    return Figures(estimate, stddev, lower, upper, each.remarks)


def compared(rates: Rates, rate: RateRows) -> Figures:
    """`r_1/r_2` with the interval recovered from those of the two rates; unbounded where the second may be 0."""
    one, two = rates.each.estimate[..., 0], rates.each.estimate[..., 1]
    estimate = divided(one, two)
    if rates.correlations is None:
        return unknown(estimate, *rates.each.remarks)
    lost = np.asarray(_lost(rates.each).any(axis=-1))
    rho = np.where(lost, 0.0, rates.correlations[..., 0, 1])
    to_lower = np.where(lost[..., None], 1.0, rates.each.estimate - rates.each.lower)
    to_upper = np.where(lost[..., None], 1.0, rates.each.upper - rates.each.estimate)

    def moments(d: Floats, e: Floats) -> Moments:
        return Moments(np.where(lost, 0.0, one), np.where(lost, 0.0, two), d**2, rho * d * e, e**2)

    # At the lower end the first rate is at its least and the second at its largest.
    lowest = 0.0 if rate.lowest >= 0 else -np.inf
    low, _, open_below = fieller(moments(to_lower[..., 0], to_upper[..., 1]), 1.0, 1.0, lowest, np.inf)
    _, high, open_above = fieller(moments(to_upper[..., 0], to_lower[..., 1]), 1.0, 1.0, lowest, np.inf)
    s, t = rates.each.stddev[..., 0], rates.each.stddev[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        stddev = np.sqrt(np.maximum(s**2 + (estimate * t) ** 2 - 2 * rho * s * t * estimate, 0.0)) / np.abs(two)
    return Figures(estimate, np.where(open_below | open_above, np.inf, stddev), low, high, rates.each.remarks)


def _lost(each: Figures) -> Booleans:
    """Of which rates nothing is known: their own intervals are unbounded."""
    return ~(np.isfinite(each.estimate) & np.isfinite(each.lower) & np.isfinite(each.upper))


def _length(parts: Floats, correlations: Floats) -> Floats:
    """`√(xᵀ ρ x)`."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("...k,...kl,...l->...", parts, correlations, parts), 0.0)))


def _coefficients(domain: Domain, name: str, given: Any, argument: str) -> dict[int, float]:
    """Code → coefficient, by label."""
    attribute = domain[name]
    if given is None and attribute.size == 2:
        return {0: 1.0, 1: -1.0}
    if not isinstance(given, Mapping) or not given:
        example = f"{{{attribute.labels[0]!r}: 1, {attribute.labels[-1]!r}: -1}}"
        raise PlanError(f"{argument}={named(given)} is not a number per label of {named(name)}; write {example}.")
    numbers = by_label(domain, [name], given, argument)
    if not np.nan_to_num(numbers).any():
        raise PlanError(f"{argument}: all coefficients are 0; give at least one that is not.")
    return {code: float(numbers[code]) for code in np.flatnonzero(~np.isnan(numbers)).tolist()}
