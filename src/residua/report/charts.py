"""Charts: bars with error bars, lines with bands, panels of both, tables shaded like heat maps, errors against sizes.

Each is drawn once and takes the width there is. Along the width, places are shares of it, heights are pixels; texts are
never stretched. Bars stand in a table beside their labels and numbers, which no width can make overlap. Of the labels
below an axis, as many are shown as have room: each says from which width on, and the style sheet asks (`t1` to `t3`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
from markupsafe import Markup

from residua.domain.words import OTHER, in_words
from residua.language import numeral, say
from residua.published.quality import FLAGS, THRESHOLDS
from residua.report import svg
from residua.report.accuracy import ListedTable
from residua.report.series import UNTOLD, Series

_GRADES = ("sure", "unsure", "poor")  # classes of the style sheet
_ROOMS = (230.0, 400.0, 640.0, 900.0)  # widths of a chart from which on more labels are shown, as in the style sheet
_RIGHT, _GAP, _LETTERS = 24.0, 12.0, 12
_ROW, _BAR, _HEIGHT, _LOW = 22.0, 14.0, 220.0, 130.0
_SHADES, _HEADS, _MANY = 8, 22, 40
_LEAST_SHARE, _MOST_SHARE = 1e-3, 1.0
_CALENDAR = {r"\d{4}-\d\d": ("-01", (1, 3, 6, 12, 24, 60, 120)), r"\d{4}-Q\d": ("-Q1", (1, 2, 4, 8, 20, 40))}

Span = Sequence[float]


# ---- bars


def draw_bars(series: Series, name: str, span: Span | None = None) -> Markup:
    """A table with a bar and an error bar per row, its number and its interval."""
    scale = svg.scale_over(series.span if span is None else span, 0.0, 1.0)
    rows = [_bar_row(series, i, label, scale) for i, label in enumerate(series.labels[0])]
    head = svg.element("caption", name, class_="hush")
    kind = "bars short" if max(map(len, series.labels[0])) <= _HEADS else "bars"
    return svg.element("div", svg.element("table", head, svg.element("tbody", *rows), class_=kind), class_="chart")


def _bar_row(series: Series, i: int, label: str, scale: svg.Scale) -> Markup:
    head = svg.element("th", svg.shortened(label, 80), scope="row", title=label if len(label) > 80 else None)
    zero, middle, marks = scale(0.0), _ROW / 2, []
    if series.known(i):
        estimate, interval = float(series.estimates[i]), series.interval(i)
        end = scale(estimate)
        kind = _GRADES[series.grade(i)] + (" below" if estimate < 0 else "")
        length = svg.percent(max(abs(end - zero), 0.002))
        marks.append(svg.rect(svg.percent(min(zero, end)), middle - _BAR / 2, length, _BAR, f"bar {kind}"))
        if interval is not None:
            low, high = (svg.percent(scale(value)) for value in interval)
            marks += [svg.line(low, middle, high, middle, "reach")]
            marks += [svg.line(end, middle - 4, end, middle + 4, "reach") for end in (low, high)]
    if zero > 0:
        marks.append(svg.line(svg.percent(zero), 0, svg.percent(zero), "100%", "axis"))
    drawn = svg.element("td", svg.element("svg", *marks), class_="plot")
    return svg.element("tr", head, drawn, svg.element("td", *_told(series, i)))


def _told(series: Series, *cell: int) -> Iterator[Markup | str]:
    """A number as it is written: in italics to be used with caution, in brackets unreliable; then its interval."""
    if not series.known(*cell):
        yield say(UNTOLD)
        return
    value, grade = series.value(*cell), series.grade(*cell)
    yield svg.element("i", value) if grade == 1 else f"({value})" if grade == 2 else value
    margin = series.margin(*cell)
    if margin:
        yield svg.element("small", f" {margin}")


# ---- lines


def draw_lines(series: Series, name: str, span: Span | None = None, height: float = _HEIGHT) -> Markup:
    """The estimates as a line, their intervals as a band, and points that tell their numbers when pointed at."""
    labels, scale = series.labels[0], svg.scale_over(series.span if span is None else span, height, 0.0)
    apart = len(labels) > 1 and labels[-1] in (
        OTHER,
        in_words(OTHER),
    )  # the cell of other values is not next to the last value
    x = np.arange(len(labels), dtype=np.float64)
    x[-1] += 0.5 * apart
    x = x / max(x[-1], 1.0) if len(labels) > 1 else np.array([0.5])
    beside = [svg.number(value) for value in scale.ticks]
    letters = max(2, *map(len, beside))
    back = [
        part
        for value, words in zip(scale.ticks, beside, strict=True)
        for part in (
            svg.line(0, scale(value), "100%", scale(value), "axis" if value == 0 else "grid"),
            svg.text(-8, scale(value) + 4, words, "end", "tick"),
        )
    ]
    inner = svg.element(
        "svg", *_strokes(series, x, scale, apart), viewBox=f"0 0 1000 {height:.0f}", preserveAspectRatio="none",
        width="100%", height=height,
    )  # fmt: skip
    if not any(series.known(i) for i in range(len(labels))):
        back.append(svg.text("50%", height / 2, say(UNTOLD), "middle", "tick"))
    return _framed(name, letters, height, *back, inner, *_labels(labels, x, height, 8.0 * letters + _RIGHT + 12))


def _framed(name: str, letters: int, height: float, *inside: Markup) -> Markup:
    """A chart with an axis on its left, whose numbers have so many letters."""
    kind = f"lines l{min(letters, 10)}"
    return svg.element(
        "div",
        svg.element("svg", *inside, class_=kind, height=height, role="img", aria_label=name),
        class_="chart lined",
    )


def _strokes(series: Series, x: np.ndarray, scale: svg.Scale, apart: bool) -> Iterator[Markup]:
    """Band, line and points, where 1000 is the width: strokes keep their thickness however wide that is."""
    known = [i for i in range(len(x)) if series.known(i)]
    for run in _runs([i for i in known if not (apart and i == len(x) - 1)]):
        ends = [(x[i], each) for i in run if (each := series.interval(i)) is not None]
        if ends:
            band = [*((at, high) for at, (_, high) in ends), *((at, low) for at, (low, _) in reversed(ends))]
            yield svg.element("polygon", points=_points(band, scale), class_="band")
        yield svg.element("polyline", points=_points(((x[i], series.estimates[i]) for i in run), scale), class_="line")
    for i in known:
        kind = ("dot fine" if len(x) > _MANY else "dot") + (" poor" if series.grade(i) == 2 else "")
        if apart and i == len(x) - 1 and (interval := series.interval(i)) is not None:
            yield svg.element("polyline", points=_points(((x[i], end) for end in interval), scale), class_="line reach")
        place = f"M{1000 * x[i]:.1f},{scale(float(series.estimates[i])):.1f}h0"
        yield svg.element("path", svg.hover(series.words(i)), d=place, class_=kind)


def _points(places: Iterable[tuple[float, float]], scale: svg.Scale) -> str:
    return " ".join(f"{1000 * x:.1f},{scale(y):.1f}" for x, y in places)


def _runs(places: list[int]) -> list[list[int]]:
    """Places that follow each other, so that no line is drawn over what is not told."""
    runs: list[list[int]] = []
    for i in places:
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _labels(labels: Sequence[str], x: np.ndarray, height: float, margin: float) -> Iterator[Markup]:
    """Labels below an axis; each is shown from the width on at which there is room for it and its neighbours."""
    words = [svg.shortened(label, _LETTERS) for label in labels]
    for i, room in rooms(words, x, margin).items():
        at, anchor = svg.percent(float(x[i])), "end" if x[i] > 0.97 and len(words) > 1 else "middle"
        shown = f" t{room}" if room else ""
        yield svg.line(at, height, at, height + 4, f"axis{shown}")
        yield svg.text(at, height + 18, words[i], anchor, f"tick{shown}", labels[i] if words[i] != labels[i] else None)


def rooms(words: Sequence[str], x: np.ndarray, margin: float) -> dict[int, int]:
    """Place → the narrowest of the widths at which its label is shown, so that no two ever touch.

    Args:
        words: the labels.
        x: where they stand, as shares of the width without its margin.
        margin: what of the width is not the axis, in pixels.

    Example:
        >>> months = [f"2024-{month:02}" for month in range(1, 13)]
        >>> rooms(months, np.linspace(0, 1, 12), 60.0)
        {0: 0, 3: 1, 6: 0, 9: 1}
        >>> ages = rooms([str(age) for age in range(17, 33)], np.linspace(0, 1, 16), 60.0)
        >>> [17 + place for place, room in ages.items() if room == 0]
        [20, 30]
    """
    ending, steps = next(
        (each for form, each in _CALENDAR.items() if re.fullmatch(form, words[0])),
        ("", [factor * 10**power for power in range(9) for factor in (1, 2, 5)]),
    )
    first = next((i for i, label in enumerate(words) if ending and label.endswith(ending)), 0)
    whole = [int(label) for label in words[:2] if re.fullmatch(r"-?\d+", label)]
    if np.diff(whole).tolist() == [1]:
        first = -whole[0]  # 20, 30, 40 rather than 17, 27, 37
    widths = np.array([svg.wide(label) for label in words])
    reach = np.where((x > 0.97) & (len(x) > 1), widths, widths / 2)  # a label at the right end stands left of its place
    shown: dict[int, int] = {}
    last = 1
    for room in reversed(range(len(_ROOMS))):
        for step in (each for each in [*steps, len(words)] if each % last == 0 or each == len(words)):
            places = np.arange(first % step, len(words), step)
            gaps = np.diff(x[places]) * (_ROOMS[room] - margin)
            if (gaps >= widths[places][:-1] / 2 + reach[places][1:] + _GAP).all():
                last = step
                shown.update(dict.fromkeys(places.tolist(), room))
                break
    return dict(sorted(shown.items()))


# ---- panels on one scale


def draw_panels(parts: Sequence[Series], titles: Sequence[str], name: str, *, lines: bool) -> Markup:
    """Several charts on one scale, lines or bars, as many beside each other as there is room for."""
    span = [value for part in parts for value in part.span]
    draw = partial(draw_lines, height=_LOW) if lines else draw_bars
    panels = [
        svg.element(
            "div", svg.element("p", svg.shortened(title, 60), class_="panel"), draw(part, f"{name}, {title}", span)
        )
        for part, title in zip(parts, titles, strict=True)
    ]
    return svg.element("div", *panels, class_="panels", role="group", aria_label=name)


# ---- tables shaded like heat maps


def draw_heat(series: Series, name: str) -> Markup:
    """A table with one column per value of the last attribute, one row per value or combination of the others.

    The shade grows with the square root of the estimate; estimates below zero have a colour of their own.
    """
    *others, columns = series.labels
    flat = series.mapped(lambda array: array.reshape(-1, len(columns)))
    largest = max(abs(value) for value in series.span) or 1.0
    up = Markup(' class="up"') if len(columns) > 6 else ""
    parts = [Markup('<caption class="hush">{}</caption><thead><tr><th>{}').format(name, " · ".join(series.names[:-1]))]
    parts += [Markup('<th scope="col"{}><span>{}</span>').format(up, svg.shortened(each, _HEADS)) for each in columns]
    parts.append(Markup("<tbody>"))
    for i, labels in enumerate(product(*others)):
        parts.append(Markup("<tr><th scope=row>{}").format(svg.shortened(" · ".join(labels), 60)))
        parts += [_cell(flat, i, j, largest) for j in range(len(columns))]
    table = Markup('<table class="heat">{}</table>').format(Markup("").join(parts))
    return svg.element("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)


def _cell(series: Series, i: int, j: int, largest: float) -> Markup:
    """A shaded number; the tag is not closed, which HTML allows, as there are thousands."""
    if not series.known(i, j):
        return Markup("<td>–")
    shade = shade_of(float(series.estimates[i, j]), largest)
    return Markup("<td{}>{}").format(f" class={shade}" if shade else "", Markup("").join(_told(series, i, j)))


def shade_of(estimate: float, largest: float) -> str:
    """The class of a number's shade: none, `h1` to `h8`, or `m1` to `m8` below zero.

    Example:
        >>> [shade_of(x, 100.0) for x in (100.0, 25.0, 0.0, -4.0)]
        ['h8', 'h4', '', 'm2']
    """
    step = round(_SHADES * math.sqrt(min(abs(estimate) / largest, 1.0)))
    return f"{'m' if estimate < 0 else 'h'}{step}" if step else ""


# ---- the relative error of a count against its size: what is reliable at which size


def draw_relative(tables: Sequence[ListedTable], name: str) -> Markup:
    """One falling line per table, over bands of the reliability flags; both axes logarithmic; below, what each is."""
    low = 10.0 ** math.floor(math.log10(min(one.stddev for one in tables)))
    high = 10.0 ** math.ceil(math.log10(max(one.stddev for one in tables) / _LEAST_SHARE) - 1e-9)
    x = svg.Scale(low, max(high, 100 * low), 0.0, 1.0, log=True)
    y = svg.Scale(_LEAST_SHARE, _MOST_SHARE, _HEIGHT, 0.0, log=True)
    parts, keys = [*_bands(y), *_log_axes(x, y)], []
    for place, one in enumerate(tables):
        start, end = max(low, one.stddev / _MOST_SHARE), min(x.high, one.stddev / _LEAST_SHARE)
        tip = say("{table}: standard error {error}", table=one.title, error=svg.figure(one.stddev))
        stroke = f"curve stroke{place % 4 + 1}"
        ends = svg.percent(x(start)), y(one.stddev / start), svg.percent(x(end)), y(one.stddev / end)
        parts.append(svg.element("g", svg.hover(tip), svg.line(*ends, stroke)))
        swatch = svg.element("svg", svg.line(0, 6, 34, 6, stroke), width=34, height=12, aria_hidden="true")
        words = " " + say("reliable from {count}", count=svg.size_from(one.reliable))
        keys.append(svg.element("li", swatch, svg.element("b", svg.shortened(one.title, 60)), words))
    axes = svg.element(
        "p", say("From left to right: the true count. Upwards: the relative standard error."), class_="axes"
    )
    return svg.element("div", _framed(name, 6, _HEIGHT, *parts), axes, svg.element("ul", *keys, class_="keys"))


def _bands(y: svg.Scale) -> Iterator[Markup]:
    edges = (_MOST_SHARE, THRESHOLDS[1], THRESHOLDS[0], _LEAST_SHARE)
    for i, (kind, flag) in enumerate(zip(("zone3", "zone2", "zone1"), reversed(FLAGS), strict=True)):
        top, bottom = y(edges[i]), y(edges[i + 1])
        yield svg.rect(0, top, "100%", bottom - top, kind)
        # Curves fall from the upper left to the lower right: the corners between are free.
        at, anchor = ("1%", "start") if i == 2 else ("99%", "end")
        yield svg.text(at, bottom - 6, say(flag), anchor, "tick")


def _log_axes(x: svg.Scale, y: svg.Scale) -> Iterator[Markup]:
    powers = 10.0 ** np.arange(round(math.log10(x.low)), round(math.log10(x.high)) + 1)
    words = [svg.number(power) if power >= 1 else f"{power:g}" for power in powers]
    places = np.array([x(power) for power in powers])
    for at in places:
        yield svg.line(svg.percent(float(at)), 0, svg.percent(float(at)), y.start, "grid")
    for share, label in ((1.0, "100 %"), (0.1, "10 %"), (0.01, "1 %"), (0.001, "0.1 %")):
        yield svg.text(-8, y(share) + 4, numeral(label), "end", "tick")
    yield from _labels(words, places, y.start, 48.0 + _RIGHT + 12)
