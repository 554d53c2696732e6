"""The top of a report: one number, who is protected, the most important chart, how to read an error bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.language import mark, numeral, say, say_many
from residua.report.accuracy import Accuracy, curves
from residua.report.charts import draw_bars, draw_relative
from residua.report.odds import Protection
from residua.report.page import Section, section
from residua.report.pictures import Picture, table_series
from residua.report.series import Series
from residua.report.svg import figure, size_from
from residua.report.tables import Listed

RELATIVE = mark("Relative standard error against the true count, one line per table")
_EXAMPLE = np.array([120.0, 45.0, 14.0])  # one bar of each kind
Fact = tuple[str, str, str]


def release_headline(
    published: Any, shield: Protection, errors: Accuracy | None, drawn: Sequence[Picture], listed: Sequence[Listed]
) -> Section:
    """How many records were counted, or how many numbers there are, above the most important chart."""
    counted = _total(published)
    label, number, margin = counted or (say("Published numbers"), numeral(f"{published.asked_cells:,.0f}"), "")
    facts = [] if errors is None else [*_published(errors), *_judged(listed)]
    picture = replace(drawn[0], title=say("Records by {names}", names=drawn[0].title)) if drawn else None
    return _headline(label, number, margin, shield, facts, picture, bars=_bars() if counted and margin else None)


def plan_headline(shield: Protection, accuracy: Accuracy | None) -> Section | None:
    """How far a typical number will lie from the count without noise, and which counts will be reliable."""
    known = [] if accuracy is None else [one for one in accuracy.listed if 0 < one.stddev < math.inf]
    if accuracy is None or not known:
        return None
    middle = sorted(known, key=lambda one: one.stddev)[len(known) // 2]
    picture = Picture(
        say("How large must a count be to be reliable?"), draw_relative(curves(accuracy), say(RELATIVE)), ""
    )
    label = say(
        "Expected error of a number in a typical table ({table}), at most this in 95 of 100 cases", table=middle.title
    )
    return _headline(label, f"± {figure(middle.margin)}", "", shield, _published(accuracy), picture)


def _headline(
    label: str,
    number: str,
    margin: str,
    shield: Protection,
    facts: Sequence[Fact],
    picture: Picture | None,
    bars: Any = None,
) -> Section:
    words = {"label": label, "number": number, "margin": margin, "said": in_plain_words(shield)}
    return section("headline", say("At a glance"), **words, facts=facts, picture=picture, bars=bars)


def in_plain_words(shield: Protection) -> str:
    """Who is protected, in one sentence."""
    if shield.guess is None:
        return say("Nothing has been measured yet, so that nothing is known about anybody.")
    return say(
        "These numbers hide {secret}: somebody who knows everything else and has to guess is right at most {times} "
        "times in 100, where a tossed coin is right 50 times.",
        secret=shield.unit,
        times=shield.guess,
    )


def _total(published: Any) -> tuple[str, str, str] | None:
    """The total, where it can be told."""
    try:
        table = published.table([])
    except PlanError:
        return None
    series = table_series(table)
    if not series.known():
        return None
    reach = series.every
    margin = "" if reach is None else f"± {size_from(reach) if series.whole else figure(reach)}"
    return say("Records counted"), series.value(), margin


def _judged(listed: Sequence[Listed]) -> list[Fact]:
    """Which share of the numbers is reliable, of the tables that were looked at."""
    known = [one for one in listed if one.reliable is not None]
    if not known:
        return []
    share = math.floor(100 * sum(one.reliable or 0 for one in known) / sum(one.size for one in known))
    return [(say("reliable"), f"{share} %", say("of the numbers; each is marked"))]


def _published(accuracy: Accuracy) -> list[Fact]:
    if accuracy.what == "queries":
        where = say_many("in one query", "in {n} queries", accuracy.count)
    else:
        where = say_many("in one table", "in {n} tables", accuracy.count)
    return [(say("published"), say_many("one number", "{n} numbers", int(accuracy.numbers)), where)]


def _bars() -> Any:
    """One bar of each kind, as an example."""
    labels = (say("reliable"), say("use with caution"), say("unreliable"))
    series = Series(("",), (labels,), _EXAMPLE, _EXAMPLE - 13, _EXAMPLE + 13, np.arange(3), whole=True)
    return draw_bars(series, say("An example: one bar of each kind"))
