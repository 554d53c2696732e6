"""Charts: bars with error bars, lines with bands, panels of both, heat maps of pairs, and errors against sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from markupsafe import Markup

from residua.domain.levels import OTHER
from residua.published.quality import FLAGS, THRESHOLDS
from residua.report.accuracy import ListedTable
from residua.report.series import UNTOLD, Series
from residua.report.svg import (
    Scale,
    drawing,
    element,
    figure,
    hover,
    line,
    number,
    rect,
    scale_over,
    shortened,
    size_from,
    text,
    widest,
)

BAR_WIDTH, _ROW, _BAR_TOP, _BAR_FOOT, _BAR_LETTERS = 640.0, 24.0, 8.0, 26.0, 26
_GRADES = ("sure", "unsure", "poor")  # classes of the style sheet
LINE_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _FOOT = 640.0, 240.0, 62.0, 14.0, 10.0, 42.0
_STEPS = [factor * 10**power for power in range(9) for factor in (1, 2, 5)]  # between labels
_CELL, _SHADES, _HEAT_LETTERS = 22.0, 8, 24
CURVE_WIDTH, _CURVE_HEIGHT, _CURVE_LEFT, _CURVE_RIGHT, _CURVE_TOP, _CURVE_FOOT = 720.0, 280.0, 66.0, 240.0, 26.0, 46.0
_LEAST_SHARE, _MOST_SHARE = 1e-3, 1.0
_DASHES = ("stroke1", "stroke2", "stroke3", "stroke4")


# ---- bars


def draw_bars(series: Series, name: str, *, width: float = BAR_WIDTH) -> Markup:
    """One panel of bars; on narrow screens with shorter labels and fewer numbers below."""
    slim = width < BAR_WIDTH
    letters = 15 if slim else _BAR_LETTERS
    left = 14 + widest(series.labels[0], letters)
    scale = scale_over(series.span, left, width - (62 if slim else 92))
    height = _BAR_TOP + _ROW * len(series.labels[0]) + _BAR_FOOT
    rows = _bar_panel(series, scale, left, _BAR_TOP, width - 4, letters)
    return drawing(width, height, name, [*_axis(scale, _BAR_TOP, height - _BAR_FOOT, 2 if slim else 1), *rows])


def _bar_panel(
    series: Series, scale: Scale, left: float, top: float, right: float, letters: int = _BAR_LETTERS
) -> Iterator[Markup]:
    """The rows of a panel: label, bar, error bar and number."""
    zero = scale(0.0)
    for i, label in enumerate(series.labels[0]):
        y = top + _ROW * i
        estimate = float(series.estimates[i])
        yield text(left - 8, y + 16, shortened(label, letters), "end", "label", label if len(label) > letters else None)
        if not series.known(i):
            yield element("g", hover(series.words(i)), text(zero + 7, y + 16, UNTOLD, "start", "tick"))
            continue
        end = reach = scale(estimate)
        kind = _GRADES[series.grade(i)] + (" below" if estimate < 0 else "")
        bar = rect(min(zero, end), y + 4, max(abs(end - zero), 0.5), _ROW - 8, f"bar {kind}")
        marks = [rect(left, y, right - left, _ROW, "touch"), bar]
        interval = series.interval(i)
        if interval is not None:
            low, high = map(scale, interval)
            marks += _whisker(low, high, y + _ROW / 2)
            reach = max(end, high)
        yield element("g", hover(series.words(i)), *marks)
        yield text(max(reach, zero) + 7, y + 16, series.value(i), "start", "value")
    yield line(zero, top, zero, top + _ROW * len(series.labels[0]), "axis")


def _whisker(start: float, end: float, y: float) -> list[Markup]:
    """An interval, lying."""
    return [
        line(start, y, end, y, "reach"),
        line(start, y - 4, start, y + 4, "reach"),
        line(end, y - 4, end, y + 4, "reach"),
    ]


def _axis(scale: Scale, top: float, bottom: float, step: int = 1) -> Iterator[Markup]:
    """Round numbers below, and thin lines; every so manyth of them."""
    ticks = scale.ticks
    for value in ticks[:: step if len(ticks) > 3 else 1]:
        x = scale(value)
        yield line(x, top, x, bottom, "grid")
        yield text(x, bottom + 17, number(value), "middle", "tick")


# ---- lines


def draw_lines(series: Series, name: str, *, width: float = LINE_WIDTH) -> Markup:
    """One panel: the estimates as a line, their intervals as a band."""
    scale = scale_over(series.span, _HEIGHT - _FOOT, _TOP)
    return drawing(width, _HEIGHT, name, _line_panel(series, scale, width, _HEIGHT, ticks=8))


def _line_panel(series: Series, scale: Scale, width: float, height: float, *, ticks: int) -> Iterator[Markup]:
    """A line, its band, and points that tell their numbers on hover."""
    labels = series.labels[0]
    apart = len(labels) > 1 and labels[-1] == OTHER  # the cell of other values is not next to the last value
    count = len(labels)
    step = (width - _LEFT - _RIGHT) / max(count - 1 + 0.5 * apart, 1)
    x = np.array([_LEFT + step * (i + (0.5 if apart and i == count - 1 else 0)) for i in range(count)])
    inner = count - 1 if apart else count
    for value in scale.ticks:
        yield line(_LEFT, scale(value), width - _RIGHT, scale(value), "axis" if value == 0 else "grid")
        yield text(_LEFT - 7, scale(value) + 4, number(value), "end", "tick")
    known = [i for i in range(count) if series.known(i)]
    if not known:
        yield text((_LEFT + width - _RIGHT) / 2, (_TOP + height - _FOOT) / 2 + 4, UNTOLD, "middle", "tick")
    for run in _runs([i for i in known if i < inner]):
        intervals = [series.interval(i) for i in run]
        ends = [(x[i], each) for i, each in zip(run, intervals, strict=True) if each is not None]
        if ends:
            band = [*((at, high) for at, (_, high) in ends), *((at, low) for at, (low, _) in reversed(ends))]
            yield element("polygon", points=_points(band, scale), class_="band")
        path = [(x[i], float(series.estimates[i])) for i in run]
        yield element("polyline", points=_points(path, scale), class_="line")
    for i in known:
        at, interval = float(x[i]), series.interval(i)
        if apart and i == count - 1 and interval is not None:
            yield line(at, scale(interval[0]), at, scale(interval[1]), "reach")
        kind, size = "point poor" if series.grade(i) == 2 else "point", 2.4 if count > 40 else 3.0
        y = scale(float(series.estimates[i]))
        yield element("circle", hover(series.words(i)), cx=at, cy=y, r=size, class_=kind)
    yield from _labels(labels, x, width, height, ticks)


def _points(places: Iterable[tuple[float, float]], scale: Scale) -> str:
    return " ".join(f"{x:.1f},{scale(y):.1f}" for x, y in places)


def _runs(places: list[int]) -> list[list[int]]:
    """Places that follow each other, so that no line is drawn over what is not told."""
    runs: list[list[int]] = []
    for i in places:
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _labels(labels: tuple[str, ...], x: np.ndarray, width: float, height: float, ticks: int) -> Iterator[Markup]:
    """As many labels as fit below, evenly spaced from the first on; the last too, where there is room for it."""
    letters = max(min(max(map(len, labels)), 12), 2)
    room = int((width - _LEFT) / 7 / letters)
    most = max(min(ticks, room, len(labels)), 1)
    step = next(step for step in _STEPS if (len(labels) - 1) // step <= most)
    shown = list(range(0, len(labels), step))
    if shown[-1] != len(labels) - 1:
        if float(x[-1] - x[shown[-1]]) < 8.0 * letters and len(shown) > 1:
            shown.pop()
        shown.append(len(labels) - 1)
    for i in shown:
        anchor = "end" if i == len(labels) - 1 and len(labels) > 1 else "middle"
        yield line(float(x[i]), height - _FOOT, float(x[i]), height - _FOOT + 4, "axis")
        yield text(
            float(x[i]) + (6 if anchor == "end" else 0), height - _FOOT + 18, shortened(labels[i], 12), anchor, "tick"
        )


# ---- panels on one scale


def draw_bar_panels(parts: list[Series], titles: list[str], name: str) -> Markup:
    """Several panels of bars on one scale, two beside each other."""
    across = min(2, len(parts))
    wide = (2 * BAR_WIDTH - 320) / across if across > 1 else BAR_WIDTH
    labels = parts[0].labels[0]
    left, bottom = 14 + widest(labels, _BAR_LETTERS), 24 + _ROW * len(labels)
    scale = scale_over(_span(parts), left, wide - 78)
    inside = (
        [
            text(left, 16, shortened(title, 40), "start", "panel", title),
            *_axis(scale, 24, bottom),
            *_bar_panel(part, scale, left, 24, wide - 8),
        ]
        for part, title in zip(parts, titles, strict=True)
    )
    return _grid(inside, len(parts), across, wide, bottom + _BAR_FOOT, name)


def draw_line_panels(parts: list[Series], titles: list[str], name: str) -> Markup:
    """Several panels of lines on one scale, three beside each other."""
    across = min(3, len(parts))
    wide, high = (960.0 / across, 170.0 + 20) if across > 1 else (LINE_WIDTH, _HEIGHT + 20)
    scale = scale_over(_span(parts), high - 20 - _FOOT, _TOP)
    inside = (
        [
            text(_LEFT, 15, shortened(title, 30), "start", "panel", title),
            element("g", *_line_panel(part, scale, wide, high - 20, ticks=5), transform="translate(0 20)"),
        ]
        for part, title in zip(parts, titles, strict=True)
    )
    return _grid(inside, len(parts), across, wide, high, name)


def _span(parts: list[Series]) -> list[float]:
    return [value for part in parts for value in part.span]


def _grid(panels: Iterable[list[Markup]], count: int, across: int, wide: float, high: float, name: str) -> Markup:
    """Panels side by side, row by row."""
    drawn = [
        element("g", *inside, transform=f"translate({wide * (i % across):.0f} {high * (i // across):.0f})")
        for i, inside in enumerate(panels)
    ]
    return drawing(wide * across, high * math.ceil(count / across), name, drawn)


# ---- heat maps


def draw_heat(series: Series, name: str) -> Markup:
    """One square per cell: the shade grows with the square root of the estimate; negative ones in another colour."""
    rows, columns = series.labels
    largest = max(abs(value) for value in series.span) or 1.0
    wide = max(_CELL, min(44.0, 760.0 / len(columns)))
    left, top = 14 + widest(rows, _HEAT_LETTERS), 14 + widest(columns, 16) * 0.72 + 10
    parts: list[Markup] = []
    for j, label in enumerate(columns):
        at = left + wide * (j + 0.5)
        turned = f"rotate(-45 {at:.1f} {top - 8:.1f})"
        words = shortened(label, 16)
        parts.append(element("text", hover(label), words, x=at, y=top - 8, transform=turned, class_="label"))
    for i, label in enumerate(rows):
        y = top + _CELL * i
        parts.append(text(left - 8, y + 15, shortened(label, _HEAT_LETTERS), "end", "label", label))
        parts += [_square(series, i, j, left + wide * j, y, wide, largest) for j in range(len(columns))]
    height = top + _CELL * len(rows)
    parts += _legend(left, height + 14, largest, series)
    width = max(left + wide * len(columns) + 0.7 * widest(columns[-1:], 16) + 12, left + 480)
    return drawing(width, height + 58, name, parts)


def _square(series: Series, i: int, j: int, x: float, y: float, wide: float, largest: float) -> Markup:
    shade, known = "heat none", series.known(i, j)
    if known:
        estimate = float(series.estimates[i, j])
        step = math.ceil(_SHADES * math.sqrt(min(abs(estimate) / largest, 1.0)))
        shade = f"heat {'minus' if estimate < 0 else 'plus'}{max(step, 1)}"
    marks = [rect(x + 0.5, y + 0.5, wide - 1, _CELL - 1, shade)]
    if known and series.grade(i, j) == 2:
        marks.append(element("circle", cx=x + wide / 2, cy=y + _CELL / 2, r=2.2, class_="doubt"))
    return element("g", hover(series.words(i, j)), *marks)


def _legend(x: float, y: float, largest: float, series: Series) -> Iterator[Markup]:
    """The shades, and only those marks that occur."""
    known = np.isfinite(series.estimates)
    for step in range(1, _SHADES + 1):
        yield rect(x + 20 * (step - 1), y, 20, 12, f"heat plus{step}")
    yield text(x, y + 28, "0", "start", "tick")
    yield text(x + 20 * _SHADES, y + 28, number(largest), "end", "tick")
    at = x + 20 * _SHADES + 18
    if series.grades is not None and (series.grades[known] == 2).any():
        yield element("circle", cx=at + 4, cy=y + 6, r=2.2, class_="doubt")
        yield text(at + 14, y + 10, "unreliable", "start", "tick")
        at += 92
    if (series.estimates[known] < 0).any():
        yield rect(at, y, 20, 12, "heat minus3")
        yield text(at + 26, y + 10, "estimate below zero", "start", "tick")
        at += 150
    if not known.all():
        yield rect(at, y, 20, 12, "heat none")
        yield text(at + 26, y + 10, UNTOLD, "start", "tick")


# ---- the relative error of a count against its size: what is reliable at which size


def draw_relative(tables: Sequence[ListedTable], name: str, *, width: float = CURVE_WIDTH) -> Markup:
    """One falling line per table, over bands of the reliability flags; both axes logarithmic.

    What each line is stands on its right, on narrow screens below.
    """
    low = 10.0 ** math.floor(math.log10(min(one.stddev for one in tables)))
    high = 10.0 ** math.ceil(math.log10(max(one.stddev for one in tables) / _LEAST_SHARE) - 1e-9)
    high = max(high, 100 * low)
    slim = width < CURVE_WIDTH
    right, bottom = width - (24.0 if slim else _CURVE_RIGHT), _CURVE_HEIGHT - _CURVE_FOOT
    aside = _CURVE_LEFT if slim else right + 12

    x = Scale(low, high, _CURVE_LEFT, right, log=True)
    y = Scale(_LEAST_SHARE, _MOST_SHARE, bottom, _CURVE_TOP, log=True)
    parts = [*_bands(right, y), *_log_axes(x, y)]
    for number_, one in enumerate(tables):
        start, end = max(low, one.stddev / _MOST_SHARE), min(high, one.stddev / _LEAST_SHARE)
        tip = f"{one.title}: standard error {figure(one.stddev)}; reliable from a count of {size_from(one.reliable)}"
        stroke = f"curve {_DASHES[number_ % len(_DASHES)]}"
        marks = [line(x(start), y(one.stddev / start), x(end), y(one.stddev / end), stroke)]
        parts.append(element("g", hover(tip), *marks))
        level = (_CURVE_HEIGHT if slim else _CURVE_TOP) + 12 + 34 * number_
        parts.append(line(aside, level - 4, aside + 28, level - 4, stroke))
        parts.append(text(aside + 34, level, shortened(one.title, 27), "start", "label", one.title))
        parts.append(text(aside + 34, level + 14, f"reliable from {size_from(one.reliable)}", "start", "tick"))
    return drawing(width, _CURVE_HEIGHT + (34.0 * len(tables) if slim else 0.0), name, parts)


def _bands(right: float, y: Scale) -> Iterator[Markup]:
    edges = (_MOST_SHARE, THRESHOLDS[1], THRESHOLDS[0], _LEAST_SHARE)
    for i, (kind, flag) in enumerate(zip(("zone3", "zone2", "zone1"), reversed(FLAGS), strict=True)):
        top, bottom = y(edges[i]), y(edges[i + 1])
        yield rect(_CURVE_LEFT, top, right - _CURVE_LEFT, bottom - top, kind)
        # Curves fall from the upper left to the lower right: the corners between are free.
        yield text(
            *((_CURVE_LEFT + 6, bottom - 6, flag, "start") if i == 2 else (right - 6, bottom - 6, flag, "end")), "tick"
        )


def _log_axes(x: Scale, y: Scale) -> Iterator[Markup]:
    power, each = x.low, 2 if x.end < 400 and x.high / x.low > 1e4 else 1
    while power <= x.high * 1.001:
        yield line(x(power), _CURVE_TOP, x(power), y.start, "grid")
        yield text(x(power), y.start + 17, number(power) if power >= 1 else f"{power:g}", "middle", "tick")
        power *= 10**each
    for share, words in ((1.0, "100 %"), (0.1, "10 %"), (0.01, "1 %"), (0.001, "0.1 %")):
        yield text(_CURVE_LEFT - 7, y(share) + 4, words, "end", "tick")
    yield text((_CURVE_LEFT + x.end) / 2, y.start + 36, "true count", "middle", "label")
    yield text(8, 14, "relative standard error", "start", "label")
