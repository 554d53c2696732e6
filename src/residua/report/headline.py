"""The top of a report: one number, who is protected, the most important chart, how to read an error bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.report.accuracy import Accuracy, curves
from residua.report.charts import draw_bars, draw_relative
from residua.report.odds import Protection
from residua.report.page import Section, section
from residua.report.pictures import Picture, table_series
from residua.report.series import Series
from residua.report.svg import figure

_TITLE = "At a glance"
_EXAMPLE = np.array([120.0, 45.0, 14.0])  # one bar of each kind
Fact = tuple[str, str, str]


def release_headline(
    published: Any, shield: Protection, accuracy: Accuracy | None, drawn: Sequence[Picture]
) -> Section:
    """How many records were counted, or how many numbers there are, above the most important chart."""
    counted = _total(published)
    label, number, margin = counted or ("Published numbers", f"{published.asked_cells:,.0f}", "")
    facts = [] if accuracy is None else _judged(accuracy)
    picture = drawn[0] if drawn else None
    return _headline(label, number, margin, shield, facts, picture, bars=_bars() if counted and margin else None)


def plan_headline(shield: Protection, accuracy: Accuracy | None) -> Section | None:
    """How far a typical number will lie from the count without noise, and which counts will be reliable."""
    known = [] if accuracy is None else [one for one in accuracy.listed if 0 < one.stddev < math.inf]
    if accuracy is None or not known:
        return None
    middle = sorted(known, key=lambda one: one.stddev)[len(known) // 2]
    name = "Relative standard error against the true count, one line per table"
    picture = Picture("How large must a count be to be reliable?", draw_relative(curves(accuracy), name), "")
    facts = [("published", f"{accuracy.numbers:,} numbers", f"in {accuracy.count:,} {accuracy.what}")]
    label = f"Expected error of a number in a typical table ({middle.title}), in 95 of 100 cases at most"
    return _headline(label, f"± {figure(middle.margin)}", "", shield, facts, picture)


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
    return section("headline", _TITLE, **words, facts=facts, picture=picture, bars=bars)


def in_plain_words(shield: Protection) -> str:
    """Who is protected, in one sentence."""
    if shield.guess is None:
        return "Nothing has been measured yet, so that nothing is known about anybody."
    return (
        f"These numbers hide {shield.unit}: somebody who knows everything else and has to guess it is right at most "
        f"{shield.guess} times in 100, where a tossed coin is right 50 times."
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
    margin = f"± {figure(series.every)}" if series.every else ""
    return "Records counted", series.value(), margin


def _judged(accuracy: Accuracy) -> list[Fact]:
    numbers = [("published", f"{accuracy.numbers:,} numbers", f"in {accuracy.count:,} {accuracy.what}")]
    flags = np.sum([one.flagged for one in accuracy.listed if one.flagged], axis=0)
    if not np.size(flags) or not np.sum(flags):
        return numbers
    share = math.floor(100 * flags[0] / np.sum(flags))
    which = "" if accuracy.more == 0 else f" of the first {len(accuracy.listed):,} tables"
    return [*numbers, ("reliable", f"{share} %", f"of the numbers{which}; each says how reliable it is")]


def _bars() -> Any:
    """One bar of each kind, as an example."""
    labels = ("reliable", "use with caution", "unreliable")
    series = Series(("",), (labels,), _EXAMPLE, _EXAMPLE - 13, _EXAMPLE + 13, np.arange(3), whole=True)
    return draw_bars(series, "An example: one bar of each kind")
