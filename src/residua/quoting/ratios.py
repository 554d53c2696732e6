"""Shares, ratios, means and sums, of all records or by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from residua.domain import Amount, Domain
from residua.domain.words import heading
from residua.errors import PlanError, named
from residua.language import mark, say
from residua.linalg.arrays import Floats, Integers
from residua.published.streaming import of_one_type
from residua.quoting.intervals import Confidence, Figures, Pair, linear, widened
from residua.quoting.question import Question, Rate, RateRows, Total, mean_rows, over_bins, rate_rows
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, By, Groups, Term, condition, groups_of, titles
from residua.workload import Where


def share(question: Question, of: By | Where, total: Total) -> Quoted:
    """Which share of the records (within each group) has each value, or meets a condition."""
    domain, groups = question.domain, question.groups
    if isinstance(of, Mapping) and not all(_is_level(domain, name, asked) for name, asked in of.items()):
        rate = rate_rows(question, groups, of)
        return question.quoted(groups.grouped(rate.what), _rates(question, rate, total), rate.remark, dates=rate.dates)
    if not of:
        raise PlanError("of is empty; name the attributes whose shares are asked, or a condition {attribute: label}.")
    values = groups_of(domain, cast("By", of), argument="of")
    for name, _ in values.axes:
        groups.require_free(name, "of")
    whole = Groups(domain, (*groups.axes, *values.axes), {**groups.rows, **values.rows})
    first, second = groups.term(values.rows), groups.term(dict.fromkeys(values.rows))
    public = known_total(total, domain, groups.axes, first)
    figures = Pair(question.answering, first, second).ratio(question.level(whole.count), 0.0, 1.0, public)
    words = mark("share of {names} within {groups}") if groups.axes else mark("share of {names}")
    what = say(words, names=titles(domain, values.names, " × "), groups=titles(domain, groups.names))
    return question.quoted(what, figures.arranged(whole, first), axes=whole.axes)


def ratio(question: Question, numerator: Rate, denominator: Rate) -> Quoted:
    """How many records meet one condition for each that meets another; or the sum of one attribute per unit of another.

    An amount counts as clipped, above and below: what clipping hides may move a ratio either way, and is not bounded.
    """
    domain, groups, parts, sums, remarks = question.domain, question.groups, [], [], []
    for argument, of in (("numerator", numerator), ("denominator", denominator)):
        if not isinstance(of, str):
            parts.append(condition(domain, of, argument))
            for position in parts[-1]:
                groups.require_free(domain.names[position], "numerator and denominator")
            continue
        position, numbers = question.numbers(of, spread=False)
        if numbers.dates or numbers.edges:
            raise PlanError(
                f"{argument}: no sum of {named(of)} is exact; name an amount, whole numbers or a condition."
            )
        parts.append({position: numbers.values[None, :]})
        sums.append(heading(domain, of))
        remarks.append(numbers.remark)
        if isinstance(asked := domain[of], Amount) and asked.largest != asked.high:
            remarks.append(say("the ratio and its interval are of amounts as clipped: clipping may move it either way"))
    rows = sorted({*parts[0], *parts[1]})
    first, second = (groups.term({i: part.get(i) for i in rows}) for part in parts)
    lowest = 0.0 if all(row.min() >= 0 for part in parts for row in part.values()) else -np.inf
    what = say("ratio of {above} to {below}", above=sums[0], below=sums[1]) if len(sums) == 2 else say("ratio")
    clipped = next((of for of in (numerator, denominator) if isinstance(of, str) and domain.clips([of])), None)
    return question.quoted(groups.grouped(what), question.ratio(first, second, lowest, np.inf), *remarks, of=clipped)


def mean(question: Question, attribute: str, total: Total) -> Quoted:
    """The mean of a numeric attribute."""
    position, numbers = question.numbers(attribute, spread=False)
    rate = mean_rows(position, heading(question.domain, attribute), numbers)
    if total is not None and not numbers.counted.all():
        raise PlanError("total: records counted as (other) have no value, so that the number of values is not public.")
    figures, said = _with_clipped(question, attribute, lambda level: _rates(question, rate, total, level), mean=True)
    return question.quoted(
        question.groups.grouped(rate.what), figures, rate.remark, *said, dates=rate.dates, of=attribute
    )


def _with_clipped(
    question: Question, attribute: str, figures_at: Callable[[Confidence | None], Figures], *, mean: bool = False
) -> tuple[Figures, tuple[str, ...]]:
    """Sums or means, of amounts with intervals that hold what clipping takes away where that is bounded; and remarks.

    Of an amount that is nowhere above `largest`, each clipped record hides no more than `largest − high`. The upper end
    is that of the clipped sum plus so much for each record of the upper end of how many were clipped; each of the two
    is missed with half the chance.
    """
    figures, asked = figures_at(None), question.domain[attribute]
    if not isinstance(asked, Amount) or question.answering.note or asked.largest == asked.high:
        return figures, ()
    if not asked.clipped:
        return figures, (say("how many records were clipped was not measured"),)
    half, position = question.level().apart(2), question.domain.position(asked.clipped)
    row, every = np.array([[0.0, 1.0]]), Question(question.answering, (), question.where, question.confidence)
    try:
        part = share(every, {asked.clipped: "true"}, None)
        of = ("estimate", "lower", "upper")
        share_beyond = {name: 100 * max(float(part.columns[name][0]), 0.0) for name in of}
        how_many = say("{estimate:.3g} % of the records ({lower:.3g} to {upper:.3g} %) lie beyond", **share_beyond)
        if asked.largest is None:
            return figures, (say("{beyond}, by amounts that are in no interval", beyond=how_many),)
        question.groups.require_free(asked.clipped, "by")
    except PlanError:
        return figures, (say("how many records were clipped was not measured here"),)
    try:
        if mean:
            first, second = (question.groups.term({position: rows}) for rows in (row, None))
            beyond = Pair(question.answering, first, second).ratio(half, 0.0, 1.0).arranged(question.groups, first)
        else:
            beyond = question.linear(question.groups.term({position: row}), half)
    except PlanError:  # not by group: then no group hides more than all together
        if mean:
            words = mark("{beyond}, by amounts that are in no interval, for how many by group was not measured")
            return figures, (say(words, beyond=how_many),)
        beyond = every.linear(every.groups.term({position: row}), half)
    hidden = float(asked.largest - asked.high)
    reach = figures_at(half).upper + hidden * np.maximum(beyond.upper, 0.0)
    upper_end = np.minimum(reach, asked.largest) if mean else reach
    bins = np.broadcast_to(hidden * np.maximum(beyond.estimate, 0.0), figures.estimate.shape)
    lower_end = figures_at(question.level().apart()).lower
    said = say("intervals hold amounts that are not clipped, of which none is above {most:,}", most=asked.largest)
    return widened(figures, lower_end, upper_end, bins), (said, how_many)


def total_of(question: Question, attribute: str) -> Quoted:
    """The sum of a numeric attribute: linear, with its exact interval; of bins between the sums of their edges."""
    groups = question.groups
    position, numbers = question.numbers(attribute, spread=False)
    if numbers.dates:
        raise PlanError(f"a sum of dates, {attribute!r}, means nothing; ask for the mean or a quantile.")
    above, *edges = ({position: row[None, :]} for row in (numbers.values, *numbers.edges))

    def figures_at(level: Confidence | None) -> Figures:
        level = level or (question.level().apart() if edges else question.level())
        return over_bins(lambda rows: question.linear(groups.term(rows), level), above, tuple(edges))

    figures, said = _with_clipped(question, attribute, figures_at)
    return question.quoted(
        groups.grouped(say("sum of {name}", name=heading(groups.domain, attribute))), figures, numbers.remark, *said,
        of=attribute,
    )  # fmt: skip


def _rates(question: Question, rate: RateRows, total: Total, level: Confidence | None = None) -> Figures:
    groups = question.groups
    below = groups.term(rate.below)
    public = known_total(total, question.domain, groups.axes, below)
    sure = level or (question.level().apart() if rate.edges else question.level())

    def at(rows: Mapping[int, Floats]) -> Figures:
        above = groups.term(rows)
        pair = Pair(question.answering, above, below)
        return pair.ratio(sure, rate.lowest, rate.highest, public).arranged(groups, above)

    return rate.over_bins(at)


def _is_level(domain: Domain, name: str, asked: object) -> bool:
    """Whether `of` names a level of an attribute, and not one of its values."""
    if name not in domain or not isinstance(asked, str):
        return False
    attribute = domain[name]
    return asked not in attribute.labels and any(level.name == asked for level in attribute.hierarchy)


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
        raise PlanError(f"total: give a number for each value of {named(name)}, {{{named(labels[0])}: …}}.")
    shape = [len(labels) if i == domain.position(name) else 1 for i in term.rows]
    return np.array([given[label] for label in labels]).reshape(shape)


def _positive(total: object) -> float:
    if isinstance(total, bool) or not isinstance(total, int | float | np.number) or not 0 < float(total) < np.inf:
        raise PlanError(f"total={named(total)} is not a positive number; give the public number of records.")
    return float(total)


_MOST_CELLS = 4096  # of which the joint distribution is computed
_MOST_LISTED = 4_000_000
_DRAWS, _NUMBERS = (1_000, 10_000), 4_000_000  # a probability is right to 0.005, of thousands of counts to 0.016


def top(question: Question, attributes: By, k: int) -> Quoted:
    """The k largest counts, largest first, with rank intervals and the probability of the order.

    Noise helps to choose them, upwards: intervals of numbers that were not chosen would hold too rarely. Those given
    hold all together for every count that might be listed, and so at each place of the list, whatever is chosen.
    """
    answering = question.answering
    question = question if answering.note else replace(question, simultaneous="table")
    groups = groups_of(answering.domain, attributes, question.where, argument="attributes")
    count = groups.count
    if isinstance(k, bool) or not isinstance(k, int) or not k >= 1:
        raise PlanError(f"k={named(k)} is not a positive whole number; say how many places the list has.")
    if not groups.axes or count > _MOST_LISTED:
        raise PlanError(
            f"attributes: there are {count:,} counts to compare; a list is made of 2 to {_MOST_LISTED:,}, so name "
            "attributes, use where, or a coarser level."
        )
    term, level = groups.term(), question.level(count)
    counts = linear(answering, term, level).arranged(groups, term)
    flat = counts.estimate.ravel()
    chosen = np.argsort(-flat, kind="stable")[:k]
    crossing = tuple(groups.domain.position(name) for name in groups.names)
    covariance = None if count > _MOST_CELLS else answering.covariances(term, term, crossing)
    places: dict[str, list[object]] = {}
    remarks = []
    if not answering.note:  # which says that there are no errors
        apart = half_widths_apart((counts.upper - counts.estimate).ravel())
        words = mark("ranks among {n} counts, as if any two erred together as badly as they can")
        if covariance is not None:
            joint = covariance.reshape(count, count)  # pairs run in the order of `crossing`
            in_top, order = _probabilities(flat, joint, chosen)
            places = {"in_top": in_top.tolist()}
            remarks.append(say("probability of this order: {order:.2f}", order=order))
            width = answering.widths(term, None, np.zeros(()), level.probability, max(count * (count - 1) / 2, 1.0))
            if not np.ndim(width):
                apart, words = covariances_apart(joint, float(width)), ""
        low, high = rank_intervals(flat, chosen, apart)
        places = {"rank_lower": low.tolist(), "rank_upper": high.tolist(), **places}
        remarks.append(say(words, n=count) if words else "")
    codes = np.unravel_index(chosen, groups.shape)
    keys = {name: of_one_type(labels)[at].tolist() for (name, labels), at in zip(groups.axes, codes, strict=True)}
    ranks: Axis = ("rank", tuple(range(1, len(chosen) + 1)))
    what = say("largest counts of {names}", names=titles(groups.domain, groups.names, " × "))
    listed = counts.mapped(lambda part: np.array(part.ravel()[chosen]))
    return question.quoted(what, listed, *remarks, axes=(ranks,), keys=keys, extra=places)


Apart = Callable[[int], Floats]  # a count → how far each count must be from it to be surely larger or smaller, (n,)


def rank_intervals(estimates: Floats, chosen: Integers, apart: Apart) -> tuple[Integers, Integers]:
    """The least and the largest rank of some counts among all, (…, chosen), 1 for the largest count."""
    low, high = [], []
    for one in chosen.tolist():
        ahead, reach = estimates - estimates[..., one, None], apart(one)
        low.append(1 + (ahead > reach).sum(axis=-1))
        high.append(estimates.shape[-1] - (ahead < -reach).sum(axis=-1))
    return np.stack(low, axis=-1), np.stack(high, axis=-1)


def covariances_apart(covariance: Floats, width: float) -> Apart:
    """Under normal noise of known covariances, (n, n): every difference is within so many standard deviations."""
    variances = np.diagonal(covariance)
    return lambda one: width * np.sqrt(np.maximum(variances + variances[one] - 2 * covariance[one], 0.0))


def half_widths_apart(half: Floats) -> Apart:
    """Of counts whose intervals hold together, (n,): no two err against each other by more than both reach."""
    return lambda one: half + half[one]


def _probabilities(estimates: Floats, covariance: Floats, chosen: Integers) -> tuple[Floats, float]:
    """Of each chosen count, to be among the k largest; and of the list, to be in the true order."""
    k = len(chosen)
    far = np.sqrt(np.maximum(np.diagonal(covariance), 0.0)).max() * 8
    near = np.flatnonzero(estimates >= estimates[chosen[-1]] - 2 * far)
    listed = np.concatenate([chosen, near[~np.isin(near, chosen)]])
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
