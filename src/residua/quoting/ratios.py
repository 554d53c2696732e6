"""Shares, ratios, means and sums, of all records or by group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from residua.errors import PlanError
from residua.quoting.answering import Answering
from residua.quoting.asking import SURE, Sure, cells, mean_rows, quoted, rate_rows
from residua.quoting.pairs import Found, Level, Pair, known_total, linear
from residua.quoting.quoted import Quoted
from residua.quoting.terms import By, Groups, condition, groups_of
from residua.quoting.values import Values, numbers_of
from residua.workload import Where


def share(
    answering: Answering,
    of: By | Where,
    by: By = (),
    where: Where | None = None,
    total: float | Mapping[str | int, float] | None = None,
    sure: Sure = SURE,
) -> Quoted:
    """Which share of the records (within each group) has each value, or meets a condition."""
    domain = answering.domain
    groups = groups_of(domain, by, where)
    if isinstance(of, Mapping) and not all(_is_level(answering, name, asked) for name, asked in of.items()):
        rate = rate_rows(groups, of, None)
        return _rate(answering, groups, rate.above, rate.below, total, sure, rate.what, (0.0, 1.0))
    if not of:
        raise PlanError("of is empty; name the attributes whose shares are asked, or a condition {attribute: label}.")
    told = groups_of(domain, cast("By", of), argument="of")
    for name, _ in told.axes:
        groups.require_free(name, "of")
    whole = Groups(domain, (*groups.axes, *told.axes), {**groups.rows, **told.rows})
    first, second = groups.term(told.rows), groups.term(dict.fromkeys(told.rows))
    level = sure.level(cells(whole.shape))
    known = known_total(total, domain, groups.axes, first)
    pair = Pair(answering, first, second)
    found = pair.ratio(level, 0.0, 1.0) if known is None else pair.over_known(known, level, 0.0, 1.0)
    what = f"share of {' × '.join(name for name, _ in told.axes)}" + _within(groups)
    return quoted(answering, sure, what, whole.axes, found.arranged(whole, first))


def ratio(
    answering: Answering,
    numerator: Where,
    denominator: Where,
    by: By = (),
    where: Where | None = None,
    sure: Sure = SURE,
) -> Quoted:
    """How many records meet one condition for each that meets another."""
    domain = answering.domain
    groups = groups_of(domain, by, where)
    above, below = condition(domain, numerator, "numerator"), condition(domain, denominator, "denominator")
    for position in {*above, *below}:
        groups.require_free(domain.names[position], "numerator and denominator")
    rows = sorted({*above, *below})
    first, second = (groups.term({i: part.get(i) for i in rows}) for part in (above, below))
    found = Pair(answering, first, second).ratio(sure.level(cells(groups.shape)), 0.0, np.inf)
    return quoted(answering, sure, "ratio" + _by(groups), groups.axes, found.arranged(groups, first))


def mean(
    answering: Answering,
    attribute: str,
    by: By = (),
    where: Where | None = None,
    values: Values | None = None,
    total: float | Mapping[str | int, float] | None = None,
    sure: Sure = SURE,
) -> Quoted:
    """The mean of a numeric attribute."""
    groups = groups_of(answering.domain, by, where)
    position = groups.require_free(attribute, "attribute")
    rate = mean_rows(position, attribute, numbers_of(answering.domain, attribute, values))
    if rate.remark and total is not None:
        raise PlanError("total: records counted as (other) have no value, so that the number of values is not public.")
    bounds = (rate.lowest, rate.highest)
    return _rate(
        answering, groups, rate.above, rate.below, total, sure, rate.what, bounds, remark=rate.remark, dates=rate.dates
    )


def total_of(
    answering: Answering,
    attribute: str,
    by: By = (),
    where: Where | None = None,
    values: Values | None = None,
    sure: Sure = SURE,
) -> Quoted:
    """The sum of a numeric attribute: linear, with its exact interval."""
    groups = groups_of(answering.domain, by, where)
    position = groups.require_free(attribute, "attribute")
    numbers = numbers_of(answering.domain, attribute, values)
    if numbers.dates:
        raise PlanError(f"a sum of dates, {attribute!r}, means nothing; ask for the mean or a quantile.")
    term = groups.term({position: numbers.values[None, :]})
    found = linear(answering, term, sure.level(cells(groups.shape)))
    return quoted(
        answering, sure, f"sum of {attribute}" + _by(groups), groups.axes, found.arranged(groups, term), numbers.remark
    )


def _rate(
    answering: Answering,
    groups: Groups,
    above: Mapping[int, np.ndarray],
    below: Mapping[int, np.ndarray | None],
    total: float | Mapping[str | int, float] | None,
    sure: Sure,
    what: str,
    bounds: tuple[float, float],
    *,
    remark: str = "",
    dates: bool = False,
) -> Quoted:
    first, second = groups.term(above), groups.term(below)
    level = sure.level(cells(groups.shape))
    known = known_total(total, answering.domain, groups.axes, first)
    found = _found(Pair(answering, first, second), known, level, bounds).arranged(groups, first)
    return quoted(answering, sure, what + _by(groups), groups.axes, found, remark, dates=dates)


def _found(pair: Pair, known: np.ndarray | None, level: Level, bounds: tuple[float, float]) -> Found:
    return pair.ratio(level, *bounds) if known is None else pair.over_known(known, level, *bounds)


def _is_level(answering: Answering, name: str, asked: object) -> bool:
    """Whether `of` names a level of an attribute, and not one of its values."""
    if name not in answering.domain or not isinstance(asked, str):
        return False
    attribute = answering.domain[name]
    return asked not in attribute.labels and any(level.name == asked for level in attribute.hierarchy)


def _by(groups: Groups) -> str:
    return f" by {', '.join(name for name, _ in groups.axes)}" if groups.axes else ""


def _within(groups: Groups) -> str:
    return f" within {', '.join(name for name, _ in groups.axes)}" if groups.axes else ""
