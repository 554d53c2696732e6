"""Which pictures a report shows, and how each table is best drawn.

One attribute: a line with a band if its values are ordered and many, else bars with error bars. Two: panels of lines
where one is ordered and the other has few values, panels of bars where both are small, else a heat map. Three: panels.
What would be too large to read is not drawn, and the page says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
from markupsafe import Markup

from residua.domain import Attribute, Bins, Dates, Domain, Integers
from residua.domain.words import said, title_of
from residua.linalg.arrays import Integers as Places
from residua.published.streaming import axis_labels
from residua.report.charts import draw_bar_panels, draw_bars, draw_heat, draw_line_panels, draw_lines
from residua.report.series import Series, series_of
from residua.report.svg import NARROW, number, shortened

PICTURES, PANELS, BARS, SIDE, POINTS, ROWS = 10, 9, 40, 30, 400, 60
Drawn = tuple[Markup, Markup | None] | None
_READABLE = 700  # numbers of a table of several attributes
_LISTED = 2**20  # rows of a term whose tables are made, to see whether they can be drawn
_LARGEST = 2**16  # cells of a table that is looked at for a picture


@dataclass(frozen=True)
class Picture:
    """A table as a picture, and its first rows as a table for those who do not see it.

    Args:
        title: what it shows.
        drawn: the drawing, and the same for narrow screens where there is one.
        caption: what a reader should know of it.
        head, rows: the same numbers as text.
        more: how many rows are left out.
        numbers: how many columns are numbers.
    """

    title: str
    drawn: tuple[Markup, Markup | None]
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int
    numbers: int = 1

    @property
    def svg(self) -> Markup:
        """The drawing for wide screens."""
        return self.drawn[0]


def pictures(published: Any) -> list[Picture]:
    """The main tables of a release or a projection as pictures, smaller tables first."""
    drawings = (picture(table) for table in _main_tables(published))
    return list(islice((each for each in drawings if each is not None), PICTURES))


def picture(table: Any) -> Picture | None:
    """A table as a picture; None if it is too large to be read as one, or one number."""
    domain, attributes = table.domain, table.attributes
    if not 1 <= len(attributes) <= 3 or table.estimates.size > _LARGEST or table.estimates.size < 2:
        return None
    names = [title(domain, name) for name in attributes]
    labels = [
        tuple(title_of(domain[name], x) for x in along)
        for name, along in zip(attributes, axis_labels(table), strict=True)
    ]
    series = series_of(table, names, labels)
    plain = table.labels is None or [len(x) for x in labels] == [domain[name].size for name in attributes]
    ordered = [
        is_ordered(domain[name]) and (plain or len(along) > 7) for name, along in zip(attributes, labels, strict=True)
    ]
    heading = _heading(table, names)
    if ordered == [True] and plain and table.labels is not None and len(labels[0]) > POINTS:
        few, caption = _spaced(series)  # running sums: between two of them nothing can jump out
        drawn: Drawn = both_widths(draw_lines, few, heading)
    else:
        drawn, caption = _drawn(series, ordered, heading)
    if drawn is None:
        return None
    head, rows, more = _listed(table, names, labels)
    return Picture(heading, drawn, caption, head, rows, more, len(head) - len(names))


def title(domain: Domain, name: str, language: str | None = None) -> str:
    """What an attribute is called: its declared title, else its name."""
    return said(domain[name].words.title, language) or name


def is_ordered(attribute: Attribute) -> bool:
    """Whether the values lie along a line."""
    return isinstance(attribute, Integers | Bins | Dates)


def both_widths(draw: Callable[..., Markup], *what: Any) -> tuple[Markup, Markup]:
    """A drawing, and the same for narrow screens."""
    return draw(*what), draw(*what, width=NARROW)


def _drawn(series: Series, ordered: Sequence[bool], name: str) -> tuple[Drawn, str]:
    """The drawing, the same for narrow screens where it has one attribute, and a caption."""
    sizes = [len(along) for along in series.labels]
    if len(sizes) == 1:
        if ordered[0] and 7 < sizes[0] <= POINTS:
            return both_widths(draw_lines, series, name), ""
        few, caption = _largest(series)
        return both_widths(draw_bars, few, name), caption
    best = max(range(len(sizes)), key=lambda i: (ordered[i] and sizes[i] > 7, sizes[i]))
    others = [i for i in range(len(sizes)) if i != best]
    panels = math.prod(sizes[i] for i in others)
    lines = ordered[best] and 7 < sizes[best] <= POINTS
    if panels <= PANELS and (lines or sizes[best] <= (12 if panels <= 6 else 8)):
        parts, titles = _panels(series, others)
        drawn = draw_line_panels(parts, titles, name) if lines else draw_bar_panels(parts, titles, name)
        return (drawn, None), "All panels have the same scale."
    if len(sizes) == 2 and max(sizes) <= SIDE:
        return (draw_heat(series, name), None), "The shade grows with the square root of the estimate."
    return None, ""


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
    return _kept(series, kept), f"The {BARS} largest estimates of {count:,}."


def _spaced(series: Series) -> tuple[Series, str]:
    """At most as many points as can be drawn, evenly spaced, the first and the last among them."""
    count = len(series.labels[0])
    return _kept(series, np.linspace(0, count - 1, POINTS).round().astype(int)), f"{POINTS} of {count:,} values."


def _kept(series: Series, kept: Places) -> Series:
    """Some values of a series along one attribute."""
    few = series.mapped(lambda array: array[kept])
    return replace(few, labels=(tuple(series.labels[0][i] for i in kept),))


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
    one = [names for names in ordered if len(names) == 1][: PICTURES // 2]
    for names in [*one, *_varied([names for names in ordered if len(names) > 1], sizes)]:
        yield published.table(names)


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


def _heading(table: Any, names: Sequence[str]) -> str:
    """Words of the attributes, unless they do not say all: a level, prefixes, queries."""
    return table.title if ":" in table.title or table.title == "queries" else " × ".join(names)


def _listed(table: Any, names: Sequence[str], labels: Sequence[Sequence[str]]) -> Any:
    """The heads, the first rows, and how many more there are."""
    heads = {"estimate": "estimate", "stddev": "standard error", "lower": "from", "upper": "to"}
    numbers = [name for name in heads if name in table.columns]
    rows = tuple(
        (*key, *(number(float(table.columns[name][i])) for name in numbers))
        for i, key in enumerate(islice(product(*labels), ROWS))
    )
    return (*names, *(heads[name] for name in numbers)), rows, len(table) - len(rows)
