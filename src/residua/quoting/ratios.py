"""Shares, ratios, means and sums, of all records or by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import cast

import numpy as np

from residua.domain import Amount, Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.published.streaming import of_one_type
from residua.quoting.intervals import Confidence, Figures, Pair, linear
from residua.quoting.question import Question, RateRows, Total, mean_rows, over_bins, rate_rows
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, By, Groups, Term, condition, groups_of
from residua.workload import Where


def share(question: Question, of: By | Where, total: Total) -> Quoted:
    """Which share of the records (within each group) has each value, or meets a condition."""
    domain, groups = question.domain, question.groups
    if isinstance(of, Mapping) and not all(_is_level(domain, name, asked) for name, asked in of.items()):
        return _rate(question, rate_rows(question, groups, of), total)
    if not of:
        raise PlanError("of is empty; name the attributes whose shares are asked, or a condition {attribute: label}.")
    values = groups_of(domain, cast("By", of), argument="of")
    for name, _ in values.axes:
        groups.require_free(name, "of")
    whole = Groups(domain, (*groups.axes, *values.axes), {**groups.rows, **values.rows})
    first, second = groups.term(values.rows), groups.term(dict.fromkeys(values.rows))
    public = known_total(total, domain, groups.axes, first)
    figures = Pair(question.answering, first, second).ratio(question.level(whole.count), 0.0, 1.0, public)
    what = f"share of {' × '.join(values.names)}" + (f" within {', '.join(groups.names)}" if groups.axes else "")
    return question.quoted(what, figures.arranged(whole, first), axes=whole.axes)


def ratio(question: Question, numerator: Where, denominator: Where) -> Quoted:
    """How many records meet one condition for each that meets another."""
    domain, groups = question.domain, question.groups
    above, below = condition(domain, numerator, "numerator"), condition(domain, denominator, "denominator")
    for position in {*above, *below}:
        groups.require_free(domain.names[position], "numerator and denominator")
    rows = sorted({*above, *below})
    first, second = (groups.term({i: part.get(i) for i in rows}) for part in (above, below))
    return question.quoted("ratio" + _by(groups), question.ratio(first, second, 0.0, np.inf))


def mean(question: Question, attribute: str, total: Total) -> Quoted:
    """The mean of a numeric attribute."""
    position, numbers = question.numbers(attribute, spread=False)
    rate = mean_rows(position, attribute, numbers)
    if total is not None and not numbers.counted.all():
        raise PlanError("total: records counted as (other) have no value, so that the number of values is not public.")
    return _rate(question, rate, total, _clipped(question, attribute))


def _clipped(question: Question, attribute: str) -> str:
    """Which share of the records lies beyond the bounds of an amount, where that was measured; no interval holds it."""
    asked = question.domain[attribute]
    if not isinstance(asked, Amount) or question.answering.note:
        return ""
    if not asked.clipped:
        return "what lies beyond is in no interval, and was not measured"
    try:
        part = share(
            Question(question.answering, (), question.where, question.confidence), {asked.clipped: "true"}, None
        )
    except PlanError:
        return "what lies beyond is in no interval, and how many records do was not measured here"
    of = ("estimate", "lower", "upper")
    here, lower, upper = (f"{100 * max(float(part.columns[name][0]), 0.0):.3g}" for name in of)
    return f"{here} % of the records ({lower} to {upper} %) lie beyond, by amounts that are in no interval"


def total_of(question: Question, attribute: str) -> Quoted:
    """The sum of a numeric attribute: linear, with its exact interval; of bins between the sums of their edges."""
    groups = question.groups
    position, numbers = question.numbers(attribute, spread=False)
    if numbers.dates:
        raise PlanError(f"a sum of dates, {attribute!r}, means nothing; ask for the mean or a quantile.")
    above, *edges = ({position: row[None, :]} for row in (numbers.values, *numbers.edges))
    level = question.level().apart() if edges else question.level()
    figures = over_bins(lambda rows: question.linear(groups.term(rows), level), above, tuple(edges))
    said = numbers.remark, _clipped(question, attribute)
    return question.quoted(f"sum of {attribute}" + _by(groups), figures, *said)


def _rate(question: Question, rate: RateRows, total: Total, *remarks: str) -> Quoted:
    groups = question.groups
    below = groups.term(rate.below)
    public = known_total(total, question.domain, groups.axes, below)
    level = question.level().apart() if rate.edges else question.level()

    def at(rows: Mapping[int, Floats]) -> Figures:
        above = groups.term(rows)
        pair = Pair(question.answering, above, below)
        return pair.ratio(level, rate.lowest, rate.highest, public).arranged(groups, above)

    figures = rate.over_bins(at)
    return question.quoted(rate.what + _by(groups), figures, rate.remark, *remarks, dates=rate.dates)


def _is_level(domain: Domain, name: str, asked: object) -> bool:
    """Whether `of` names a level of an attribute, and not one of its values."""
    if name not in domain or not isinstance(asked, str):
        return False
    attribute = domain[name]
    return asked not in attribute.labels and any(level.name == asked for level in attribute.hierarchy)


def _by(groups: Groups) -> str:
    return f" by {', '.join(groups.names)}" if groups.axes else ""


def known_total(total: object, domain: Domain, axes: Sequence[Axis], term: Term) -> Floats | None:
    """A public total, or one for each label of the one attribute that the totals are distinguished by, over a term.

    Raises:
        PlanError: not positive, or not one for each label.
    """
    if total is None:
        return None
    if not isinstance(total, Mapping):
        if axes:
            raise PlanError("total: one total is for all records; for groups give {label: total}, or leave it out.")
        return np.full([1] * len(term.rows), _positive(total))
    if len(axes) != 1:
        raise PlanError("total: a total for each label needs groups of exactly one attribute; give one number.")
    [(name, labels)] = axes
    given = {label: _positive(each) for label, each in total.items()}
    if set(given) != set(labels):
        raise PlanError(f"total: give a number for each value of {name!r}, {{{labels[0]!r}: …}}.")
    shape = [len(labels) if i == domain.position(name) else 1 for i in term.rows]
    return np.array([given[label] for label in labels]).reshape(shape)


def _positive(total: object) -> float:
    if isinstance(total, bool) or not isinstance(total, int | float | np.number) or not 0 < float(total) < np.inf:
        raise PlanError(f"total={total!r} is not a positive number; give the public number of records.")
    return float(total)


_MOST_CELLS = 4096  # of which the joint distribution is computed
_MOST_LISTED = 4_000_000
_DRAWS, _NUMBERS = (1_000, 10_000), 4_000_000  # a probability is right to 0.005, of thousands of counts to 0.016


def top(question: Question, attributes: By, k: int) -> Quoted:
    """The k largest counts, largest first, with rank intervals and the probability of the order."""
    answering = question.answering
    groups = groups_of(answering.domain, attributes, question.where, argument="attributes")
    count = groups.count
    if isinstance(k, bool) or not isinstance(k, int) or not k >= 1:
        raise PlanError(f"k={k!r} is not a positive whole number; say how many places the list has.")
    if not groups.axes or count > _MOST_LISTED:
        raise PlanError(
            f"attributes: there are {count:,} counts to compare; a list is made of 2 to {_MOST_LISTED:,}, so name "
            "attributes, use where, or a coarser level."
        )
    term = groups.term()
    counts = linear(answering, term, question.level(min(k, count))).arranged(groups, term)
    flat = counts.estimate.ravel()
    chosen = np.argsort(-flat, kind="stable")[:k]
    crossing = tuple(groups.domain.position(name) for name in groups.names)
    covariance = None if count > _MOST_CELLS else answering.covariances(term, term, crossing)
    places: dict[str, list[object]] = {}
    remarks = []
    if covariance is not None:
        joint = covariance.reshape(count, count)  # pairs run in the order of `crossing`
        low, high = rank_intervals(flat, joint, question.level(1))
        in_top, order = _probabilities(flat, joint, chosen)
        places = {"rank_lower": low[chosen].tolist(), "rank_upper": high[chosen].tolist(), "in_top": in_top.tolist()}
        remarks.append(f"probability of this order: {order:.2f}")
    elif count > _MOST_CELLS:
        low, high = wide_rank_intervals(flat, counts.stddev.ravel(), chosen, question.level(1))
        places = {"rank_lower": low.tolist(), "rank_upper": high.tolist()}
        remarks.append(f"ranks among {count:,} counts, as if any two erred together as badly as they can")
    codes = np.unravel_index(chosen, groups.shape)
    keys = {name: of_one_type(labels)[at].tolist() for (name, labels), at in zip(groups.axes, codes, strict=True)}
    ranks: Axis = ("rank", tuple(range(1, len(chosen) + 1)))
    what = f"largest counts of {' × '.join(groups.names)}"
    listed = counts.mapped(lambda part: np.array(part.ravel()[chosen]))
    return question.quoted(what, listed, *remarks, axes=(ranks,), keys=keys, extra=places)


def rank_intervals(estimates: Floats, covariance: Floats, level: Confidence) -> tuple[Integers, Integers]:
    """The least and the largest rank of each count, (…, n), 1 for the largest count."""
    n = estimates.shape[-1]
    width = NormalDist().inv_cdf(0.5 + level.probability ** (1 / max(n - 1, 1)) / 2)
    variances = np.diagonal(covariance)
    spread = np.sqrt(np.maximum(variances[:, None] + variances[None, :] - 2 * covariance, 0.0))
    apart = estimates[..., None, :] - estimates[..., :, None]
    reach = np.where(np.eye(n, dtype=bool), np.inf, width * spread)
    return 1 + (apart > reach).sum(axis=-1), n - (apart < -reach).sum(axis=-1)


def wide_rank_intervals(
    estimates: Floats, stddev: Floats, chosen: Integers, level: Confidence
) -> tuple[Integers, Integers]:
    """The same of some counts among very many, (chosen,), without their covariances: `sd(a − b) ≤ sd(a) + sd(b)`."""
    n = len(estimates)
    width = NormalDist().inv_cdf(0.5 + level.probability ** (1 / max(n - 1, 1)) / 2)
    low, high = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
    for place, one in enumerate(chosen.tolist()):
        apart, reach = estimates - estimates[one], width * (stddev + stddev[one])
        low[place], high[place] = 1 + (apart > reach).sum(), n - (apart < -reach).sum()
    return low, high


def _probabilities(estimates: Floats, covariance: Floats, chosen: Integers) -> tuple[Floats, float]:
    """Of each chosen count, to be among the k largest; and of the list, to be in the true order."""
    k = len(chosen)
    far = np.sqrt(np.maximum(np.diagonal(covariance), 0.0)).max() * 8
    near = np.flatnonzero(estimates >= estimates[chosen[-1]] - 2 * far)
    rest = near[~np.isin(near, chosen)]
    listed = np.concatenate([chosen, rest])
    joint = covariance[np.ix_(listed, listed)]
    tiny = 1e-9 * max(float(np.diagonal(joint).max()), 1e-300)  # a covariance matrix need not have full rank
    root = np.linalg.cholesky(joint + tiny * np.eye(len(listed)))
    # A numerical integral, not noise: the same list is said to be as sure every time.
    count = int(np.clip(_NUMBERS // len(listed), *_DRAWS))
    normal = np.random.default_rng(0).standard_normal((count, len(listed)))
    draws = estimates[listed] + normal @ root.T
    ahead = draws[:, k:].max(axis=1, initial=-np.inf)
    least = np.partition(draws, len(listed) - k, axis=1)[:, len(listed) - k]
    ordered = (np.diff(draws[:, :k], axis=1) < 0).all(axis=1) & (draws[:, k - 1] > ahead)
    return (draws[:, :k] >= least[:, None]).mean(axis=0), float(ordered.mean())
