"""Heat maps of pairs: one square per cell, darker where there are more; negative estimates in a colour of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from markupsafe import Markup

from residua.report.series import UNTOLD, Series
from residua.report.svg import drawing, element, hover, number, shortened, text, widest

CELL, STEPS = 22.0, 8
_LETTERS = 24


def draw_heat(series: Series, name: str) -> Markup:
    """Rows by columns; the shade grows with the square root of the estimate."""
    rows, columns = series.labels
    largest = max(abs(value) for value in series.span) or 1.0
    wide = max(CELL, min(44.0, 760.0 / len(columns)))
    left, top = 14 + widest(rows, _LETTERS), 14 + widest(columns, 16) * 0.72 + 10
    parts: list[Markup] = []
    for j, label in enumerate(columns):
        at = left + wide * (j + 0.5)
        turned = f"rotate(-45 {at:.1f} {top - 8:.1f})"
        words = shortened(label, 16)
        parts.append(element("text", hover(label), words, x=at, y=top - 8, transform=turned, class_="label"))
    for i, label in enumerate(rows):
        y = top + CELL * i
        parts.append(text(left - 8, y + 15, shortened(label, _LETTERS), "end", "label", label))
        parts += [_cell(series, i, j, left + wide * j, y, wide, largest) for j in range(len(columns))]
    height = top + CELL * len(rows)
    parts += _legend(left, height + 14, largest, series)
    width = max(left + wide * len(columns) + 0.7 * widest(columns[-1:], 16) + 12, left + 480)
    return drawing(width, height + 58, name, parts)


def _cell(series: Series, i: int, j: int, x: float, y: float, wide: float, largest: float) -> Markup:
    if not series.told(i, j):
        blank = element("rect", x=x + 0.5, y=y + 0.5, width=wide - 1, height=CELL - 1, class_="heat none")
        return element("g", hover(series.words(i, j)), blank)
    estimate = float(series.estimates[i, j])
    marks = [element("rect", x=x + 0.5, y=y + 0.5, width=wide - 1, height=CELL - 1, class_=_shade(estimate, largest))]
    if series.grade(i, j) == 2:
        marks.append(element("circle", cx=x + wide / 2, cy=y + CELL / 2, r=2.2, class_="doubt"))
    return element("g", hover(series.words(i, j)), *marks)


def _shade(estimate: float, largest: float) -> str:
    step = min(STEPS, math.ceil(STEPS * math.sqrt(min(abs(estimate) / largest, 1.0)))) if math.isfinite(estimate) else 0
    return f"heat {'minus' if estimate < 0 else 'plus'}{max(step, 1)}"


def _legend(x: float, y: float, largest: float, series: Series) -> Iterator[Markup]:
    """The shades, and only those marks that occur."""
    told = np.isfinite(series.estimates)
    for step in range(1, STEPS + 1):
        yield element("rect", x=x + 20 * (step - 1), y=y, width=20, height=12, class_=f"heat plus{step}")
    yield text(x, y + 28, "0", "start", "tick")
    yield text(x + 20 * STEPS, y + 28, number(largest), "end", "tick")
    at = x + 20 * STEPS + 18
    if series.grades is not None and (series.grades[told] == 2).any():
        yield element("circle", cx=at + 4, cy=y + 6, r=2.2, class_="doubt")
        yield text(at + 14, y + 10, "unreliable", "start", "tick")
        at += 92
    if (series.estimates[told] < 0).any():
        yield element("rect", x=at, y=y, width=20, height=12, class_="heat minus3")
        yield text(at + 26, y + 10, "estimate below zero", "start", "tick")
        at += 150
    if not told.all():
        yield element("rect", x=at, y=y, width=20, height=12, class_="heat none")
        yield text(at + 26, y + 10, UNTOLD, "start", "tick")
