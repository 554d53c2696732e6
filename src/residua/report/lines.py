"""Lines with bands for ordered attributes; and several such panels on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from markupsafe import Markup

from residua.domain.levels import OTHER
from residua.report.series import UNTOLD, Series
from residua.report.svg import Scale, drawing, element, hover, line, number, scale_over, shortened, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 640.0, 240.0, 62.0, 14.0, 10.0, 42.0
_STEPS = [factor * 10**power for power in range(9) for factor in (1, 2, 5)]  # between labels


def draw_lines(series: Series, name: str, *, width: float = WIDTH) -> Markup:
    """One panel: the estimates as a line, their intervals as a band."""
    scale = scale_over(series.span, HEIGHT - FOOT, TOP)
    return drawing(width, HEIGHT, name, panel(series, scale, width, HEIGHT, ticks=8))


def panel(series: Series, scale: Scale, width: float, height: float, *, ticks: int) -> Iterator[Markup]:
    """A line, its band, and points that tell their numbers on hover."""
    labels = series.labels[0]
    apart = len(labels) > 1 and labels[-1] == OTHER  # the cell of other values is not next to the last value
    count = len(labels)
    step = (width - LEFT - RIGHT) / max(count - 1 + 0.5 * apart, 1)
    x = np.array([LEFT + step * (i + (0.5 if apart and i == count - 1 else 0)) for i in range(count)])
    inner = count - 1 if apart else count
    for value in scale.ticks:
        yield line(LEFT, scale(value), width - RIGHT, scale(value), "axis" if value == 0 else "grid")
        yield text(LEFT - 7, scale(value) + 4, number(value), "end", "tick")
    told = [i for i in range(count) if series.told(i)]
    if not told:
        yield text((LEFT + width - RIGHT) / 2, (TOP + height - FOOT) / 2 + 4, UNTOLD, "middle", "tick")
    for run in _runs([i for i in told if i < inner]):
        if series.lower is not None and series.upper is not None:
            up = [f"{x[i]:.1f},{scale(float(series.upper[i])):.1f}" for i in run]
            down = [f"{x[i]:.1f},{scale(float(series.lower[i])):.1f}" for i in reversed(run)]
            yield element("polygon", points=" ".join(up + down), class_="band")
        path = " ".join(f"{x[i]:.1f},{scale(float(series.estimates[i])):.1f}" for i in run)
        yield element("polyline", points=path, class_="line")
    for i in told:
        at, y = float(x[i]), scale(float(series.estimates[i]))
        marks = []
        if apart and i == count - 1 and series.lower is not None and series.upper is not None:
            marks.append(line(at, scale(float(series.lower[i])), at, scale(float(series.upper[i])), "reach"))
        kind = "point poor" if series.grade(i) == 2 else "point"
        tip = hover(series.words(i))
        yield from marks
        yield element("circle", tip, cx=at, cy=y, r=2.4 if count > 40 else 3.0, class_=kind)
    yield from _labels(labels, x, width, height, ticks)


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
    room = int((width - LEFT) / 7 / letters)
    most = max(min(ticks, room, len(labels)), 1)
    step = next(step for step in _STEPS if (len(labels) - 1) // step <= most)
    shown = list(range(0, len(labels), step))
    if shown[-1] != len(labels) - 1:
        if float(x[-1] - x[shown[-1]]) < 8.0 * letters and len(shown) > 1:
            shown.pop()
        shown.append(len(labels) - 1)
    for i in shown:
        anchor = "end" if i == len(labels) - 1 and len(labels) > 1 else "middle"
        yield line(float(x[i]), height - FOOT, float(x[i]), height - FOOT + 4, "axis")
        yield text(
            float(x[i]) + (6 if anchor == "end" else 0), height - FOOT + 18, shortened(labels[i], 12), anchor, "tick"
        )


def draw_line_panels(parts: list[Series], titles: list[str], name: str, *, across: int = 3) -> Markup:
    """Several panels of lines on one scale."""
    across = min(across, len(parts))
    wide, high = (960.0 / across, 170.0 + 20) if across > 1 else (WIDTH, HEIGHT + 20)
    span = [value for part in parts for value in part.span]
    scale = scale_over(span, high - 20 - FOOT, TOP)
    drawn = []
    for i, (part, title) in enumerate(zip(parts, titles, strict=True)):
        place = f"translate({wide * (i % across):.0f} {high * (i // across):.0f})"
        inside = element("g", *panel(part, scale, wide, high - 20, ticks=5), transform="translate(0 20)")
        drawn.append(
            element("g", text(LEFT, 15, shortened(title, 30), "start", "panel", title), inside, transform=place)
        )
    return drawing(wide * across, high * math.ceil(len(parts) / across), name, drawn)
