"""Which pictures a report shows, and how each table is best drawn.

One attribute: a line with a band if its values are ordered and many, else bars with error bars. Two: panels of lines
where one is ordered and the other has few values, panels of bars where both are small, else a heat map. Three: panels.
What would be too large to read is not drawn, and the page says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from markupsafe import Markup

from residua.domain import Attribute, Bins, Dates, Domain, Integers
from residua.domain.words import said, title_in_words, title_of
from residua.errors import PlanError
from residua.language import say
from residua.linalg.arrays import Integers as Places
from residua.published.quality import grades
from residua.published.streaming import axis_labels
from residua.report.charts import draw_bars, draw_heat, draw_lines, draw_panels
from residua.report.maps import Geography, draw_map, map_caption
from residua.report.series import Series, series_of
from residua.report.svg import figure, shortened

PICTURES, PANELS, BARS, SIDE, POINTS, _FEW = 8, 12, 40, 30, 400, 7
_MOSTLY = 0.5
_READABLE = 700  # numbers of a table of several attributes
_LISTED = 2**20  # rows of a term whose tables are made, to see whether they can be drawn
_LARGEST = 2**16  # cells of a table that is looked at for a picture


@dataclass(frozen=True)
class Picture:
    """A table as a chart.

    Args:
        title: what it shows.
        drawn: the chart.
        caption: what a reader should know of it.
    """

    title: str
    drawn: Markup
    caption: str


def pictures(published: Any, geography: Geography | None = None) -> list[Picture]:
    """The main tables of a release or a projection as charts, the most important first; a map before all."""
    drawings = (picture(table) for table in _main_tables(published))
    first = [] if geography is None else _mapped(published, geography)
    return [*first, *islice((each for each in drawings if each is not None), PICTURES - len(first))]


def _mapped(published: Any, geography: Geography) -> list[Picture]:
    """The map of an attribute, where its table is told."""
    try:
        table = published.table([geography.attribute])
    except PlanError:
        return []
    series, heading = table_series(table), heading_of(table)
    return [Picture(heading, draw_map(series, heading, geography), _told(map_caption(series, geography), series))]


def picture(table: Any) -> Picture | None:
    """A table as a chart; None if it is too large to be read as one, or one number."""
    if not 1 <= len(table.attributes) <= 3 or not 2 <= table.estimates.size <= _LARGEST:
        return None
    series, ordered = table_series(table), _orders(table)
    heading = heading_of(table)
    if ordered == [True] and table.labels is not None and len(series.labels[0]) > POINTS:
        few, caption = _spaced(series)  # running sums: between two of them nothing can jump out
        return Picture(heading, draw_lines(few, heading), caption)
    drawn, caption = draw(series, ordered, heading)
    return None if drawn is None else Picture(heading, drawn, caption)


def table_series(table: Any) -> Series:
    """The numbers of a table under the words of its attributes and values."""
    domain = table.domain
    labels = [
        tuple(title_of(domain[name], x) for x in along) if name in domain.names else tuple(map(str, along))
        for name, along in zip(table.attributes, axis_labels(table), strict=True)
    ]
    return series_of(
        table, [title(domain, name) if name in domain.names else name for name in table.attributes], labels
    )


def _orders(table: Any) -> list[bool]:
    """For each axis, whether its values lie along a line."""
    domain, along = table.domain, [len(x) for x in axis_labels(table)]
    plain = table.labels is None or along == [domain[name].size for name in table.attributes]
    return [
        is_ordered(domain[name]) and (plain or size > _FEW or isinstance(domain[name], Dates))
        for name, size in zip(table.attributes, along, strict=True)
    ]


def title(domain: Domain, name: str, language: str | None = None) -> str:
    """What an attribute is called: its declared title, else its name."""
    return said(domain[name].words.title, language) or name


def is_ordered(attribute: Attribute) -> bool:
    """Whether the values lie along a line."""
    return isinstance(attribute, Integers | Bins | Dates)


def draw(series: Series, ordered: Sequence[bool], name: str) -> tuple[Markup | None, str]:
    """The chart that suits some numbers, and a caption; None where there is none that can be read."""
    sizes = [len(along) for along in series.labels]
    many = [
        _FEW if not line else 3 if _dated(along) else _FEW for line, along in zip(ordered, series.labels, strict=True)
    ]
    lines = [line and least < size <= POINTS for line, least, size in zip(ordered, many, sizes, strict=True)]
    if len(sizes) == 1:
        if lines[0]:
            return draw_lines(series, name), _told("", series)
        few, caption = _largest(series)
        return draw_bars(few, name), _told(caption, series)
    best = max(range(len(sizes)), key=lambda i: (lines[i], sizes[i]))
    others = [i for i in range(len(sizes)) if i != best]
    panels = math.prod(sizes[i] for i in others)
    if panels <= PANELS and (lines[best] or sizes[best] <= (12 if panels <= 6 else 8)):
        parts, titles = _panels(series, others)
        return draw_panels(parts, titles, name, lines=lines[best]), _told(
            say("All panels have the same scale."), series
        )
    if len(sizes) == 2 and max(sizes) <= SIDE:
        return draw_heat(series, name), _told(say("The stronger the colour of a cell, the larger its number."), series)
    return None, ""


def _dated(labels: Sequence[str]) -> bool:
    return bool(labels) and labels[0][:4].isdigit() and labels[0][4:5] == "-"


def _told(caption: str, series: Series) -> str:
    """A caption, and what the error bars are where all have one length."""
    return " ".join(filter(None, (caption, "" if series.every is None else every_interval(series.every))))


def every_interval(reach: float) -> str:
    """How far the intervals of a chart reach where all reach as far."""
    return say("95 % interval: each number ± {reach}.", reach=figure(reach))


def _panels(series: Series, others: list[int]) -> tuple[list[Series], list[str]]:
    parts, titles = [series], [""]
    for axis in sorted(others, reverse=True):
        name, labels = shortened(series.names[axis], 14), series.labels[axis]  # the heading has all of it
        parts = [piece for part in parts for piece in part.along(axis)]
        titles = [f"{name}: {label}" + (f", {rest}" if rest else "") for rest in titles for label in labels]
    return parts, titles


def _largest(series: Series) -> tuple[Series, str]:
    """At most as many bars as can be read, the largest ones."""
    count = len(series.labels[0])
    if count <= BARS:
        return series, ""
    kept = np.sort(np.argsort(-series.estimates, kind="stable")[:BARS])
    return _kept(series, kept), say("The {few} largest estimates of {all}.", few=BARS, all=count)


def _spaced(series: Series) -> tuple[Series, str]:
    """At most as many points as can be drawn, evenly spaced, the first and the last among them."""
    count = len(series.labels[0])
    return _kept(series, np.linspace(0, count - 1, POINTS).round().astype(int)), say(
        "{few} of {all} values.", few=POINTS, all=count
    )


def _kept(series: Series, kept: Places) -> Series:
    """Some values of a series along one attribute."""
    return replace(series.mapped(lambda array: array[kept]), labels=(tuple(series.labels[0][i] for i in kept),))


def _main_tables(published: Any) -> Iterator[Any]:
    """Tables in the order in which people look: few attributes first, all that fit a page."""
    asked = published.plan.workload
    workload = None if asked is None else asked.tables
    if workload is None:
        if asked is not None and asked.queries <= _LARGEST:
            yield published.answers(asked)
        return
    if not workload.plain:
        yield from within(published.tables(most=_LISTED), 8 * PICTURES)
        return
    sizes = {names: published.domain.cells(names) for names in islice(workload.sets, 2**16)}
    ordered = sorted((names for names in sizes if 2 <= sizes[names] <= _LARGEST), key=len)
    dated = [names for names in ordered if any(isinstance(published.domain[name], Dates) for name in names)]
    one = [names for names in (*dated[:1], *ordered) if len(names) == 1 or names in dated[:1]][: PICTURES // 2]
    one = list(dict.fromkeys(one))
    yield from map(published.table, one)
    several = map(published.table, _varied([names for names in ordered if len(names) > 1], sizes))
    yield from sorted(several, key=_says_little)


def _says_little(table: Any) -> bool:
    """Whether most numbers of a table are unreliable: those that say more are drawn before it."""
    columns = table.columns
    return "stddev" in columns and bool(np.mean(grades(columns["estimate"], columns["stddev"]) == 2) > _MOSTLY)


def within(tables: Iterator[Any], most: int, cells: int = 2**22) -> Iterator[Any]:
    """The first tables, as many as there is time to look at."""
    for table in islice(tables, most):
        yield table
        cells -= len(table)
        if cells < 0:
            return


def _varied(sets: list[tuple[str, ...]], sizes: Mapping[tuple[str, ...], int]) -> Iterator[tuple[str, ...]]:
    """Sets so that each attribute comes into a picture before one comes into many; only what can be read."""
    used: Counter[str] = Counter()
    left = [names for names in sets if sizes[names] <= _READABLE][:2048]
    for _ in range(min(4 * PICTURES, len(left))):
        best = min(left, key=lambda names: (sum(used[name] for name in names), len(names)))
        left.remove(best)
        used.update(best)
        yield best


def heading_of(table: Any) -> str:
    """What a table is called, in words."""
    return title_in_words(table.domain, table.title or " × ".join(table.attributes) or "(total)")
