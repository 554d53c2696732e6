"""Bars with error bars, one per value; and several such panels on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from residua.report.series import UNTOLD, Series
from residua.report.svg import Scale, drawing, element, hover, line, number, scale_over, shortened, text, widest

ROW, WIDTH, TOP, FOOT = 24.0, 640.0, 8.0, 26.0
_LETTERS = 26
GRADES = ("sure", "unsure", "poor")  # classes of the style sheet


def draw_bars(series: Series, name: str, *, width: float = WIDTH) -> Markup:
    """One panel of bars; on narrow screens with shorter labels and fewer numbers below."""
    slim = width < WIDTH
    letters = 15 if slim else _LETTERS
    left = 14 + widest(series.labels[0], letters)
    scale = scale_over(series.span, left, width - (62 if slim else 92))
    height = TOP + ROW * len(series.labels[0]) + FOOT
    rows = panel(series, scale, left, TOP, width - 4, letters)
    return drawing(width, height, name, [*axis(scale, TOP, height - FOOT, 2 if slim else 1), *rows])


def panel(
    series: Series, scale: Scale, left: float, top: float, right: float, letters: int = _LETTERS
) -> Iterator[Markup]:
    """The rows of a panel: label, bar, error bar and number."""
    zero = scale(0.0)
    for i, label in enumerate(series.labels[0]):
        y = top + ROW * i
        estimate = float(series.estimates[i])
        yield text(left - 8, y + 16, shortened(label, letters), "end", "label", label if len(label) > letters else None)
        if not series.told(i):
            yield element("g", hover(series.words(i)), text(zero + 7, y + 16, UNTOLD, "start", "tick"))
            continue
        end = scale(estimate)
        marks = [element("rect", x=left, y=y, width=right - left, height=ROW, class_="touch")]
        kind = GRADES[series.grade(i)] + (" below" if estimate < 0 else "")
        marks.append(
            element(
                "rect", x=min(zero, end), y=y + 4, width=max(abs(end - zero), 0.5), height=ROW - 8, class_=f"bar {kind}"
            )
        )
        reach = end
        if series.lower is not None and series.upper is not None and math.isfinite(series.lower[i]):
            marks += whisker(scale(float(series.lower[i])), scale(float(series.upper[i])), y + ROW / 2)
            reach = max(end, scale(float(series.upper[i])))
        yield element("g", hover(series.words(i)), *marks)
        yield text(max(reach, zero) + 7, y + 16, series.value(i), "start", "value")
    yield line(zero, top, zero, top + ROW * len(series.labels[0]), "axis")


def whisker(start: float, end: float, y: float) -> list[Markup]:
    """An interval, lying."""
    return [
        line(start, y, end, y, "reach"),
        line(start, y - 4, start, y + 4, "reach"),
        line(end, y - 4, end, y + 4, "reach"),
    ]


def axis(scale: Scale, top: float, bottom: float, step: int = 1) -> Iterator[Markup]:
    """Round numbers below, and thin lines; every so manyth of them."""
    ticks = scale.ticks
    for value in ticks[:: step if len(ticks) > 3 else 1]:
        x = scale(value)
        yield line(x, top, x, bottom, "grid")
        yield text(x, bottom + 17, number(value), "middle", "tick")


def draw_bar_panels(parts: list[Series], titles: list[str], name: str, *, across: int = 2) -> Markup:
    """Several panels of bars on one scale."""
    across = min(across, len(parts))
    wide = (2 * WIDTH - 320) / across if across > 1 else WIDTH
    labels = parts[0].labels[0]
    left = 14 + widest(labels, _LETTERS)
    span = [value for part in parts for value in part.span]
    high = 24 + ROW * len(labels) + FOOT
    drawn: list[Markup] = []
    for i, (part, title) in enumerate(zip(parts, titles, strict=True)):
        x, y = wide * (i % across), high * (i // across)
        scale = scale_over(span, left, wide - 78)
        inside = [
            text(left, 16, shortened(title, 40), "start", "panel", title),
            *axis(scale, 24, 24 + ROW * len(labels)),
            *panel(part, scale, left, 24, wide - 8),
        ]
        drawn.append(element("g", *inside, transform=f"translate({x:.0f} {y:.0f})"))
    return drawing(wide * across, high * math.ceil(len(parts) / across), name, drawn)
