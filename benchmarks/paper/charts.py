"""Charts as SVG text: lines over linear or logarithmic axes, and matrices with their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

COLOURS = ("#0b6e99", "#c0504d", "#6a9a3b", "#7d5fa6", "#d08a2e", "#4d4d4d", "#2aa198", "#b5406f")
LEFT, TOP, WIDTH, HEIGHT, LEGEND = 84, 34, 430, 270, 230
Points = Sequence[tuple[float, float]]


def lines(
    title: str,
    series: Mapping[str, Points],
    x: str,
    y: str,
    *,
    log: str = "",
    dashed: Sequence[str] = (),
    marks: bool = True,
    square: bool = False,
) -> str:
    """A chart of lines.

    Args:
        title: above the chart.
        series: the points of each line, by its name.
        x: the label of the axis across.
        y: the label of the axis up.
        log: which axes are logarithmic: "", "x", "y" or "xy".
        dashed: the names of lines that are dashed, beside those that end in ", printed".
        marks: whether points are marked.
        square: whether both axes have one scale.
    """
    drawn = {name: [(a, b) for a, b in points if _fits(a, "x" in log) and _fits(b, "y" in log)]
             for name, points in series.items()}  # fmt: skip
    every = np.array([point for points in drawn.values() for point in points], dtype=float)
    width = HEIGHT if square else WIDTH
    across = _Axis(every[:, 0], LEFT, LEFT + width, "x" in log)
    up = _Axis(every[:, 1], TOP + HEIGHT, TOP, "y" in log)
    legend = max(LEGEND, 44 + 7 * max(map(len, drawn)))
    parts = [_frame(title, x, y, width, legend)]
    for place, text in across.ticks():
        parts.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{TOP + HEIGHT}" class="g"/>')
        parts.append(f'<text x="{place:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{text}</text>')
    for place, text in up.ticks():
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{place:.1f}" y2="{place:.1f}" class="g"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{text}</text>')
    for k, (name, points) in enumerate(drawn.items()):
        colour, at = COLOURS[k % len(COLOURS)], TOP + 10 + 18 * k
        dash = ' stroke-dasharray="5 4"' if name in dashed or name.endswith(", printed") else ""
        path = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        if marks:
            parts += [f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="2.6" fill="{colour}"/>' for a, b in points]
        start = LEFT + width + 14
        parts.append(f'<line x1="{start}" x2="{start + 18}" y1="{at}" y2="{at}" stroke="{colour}" stroke-width="2"'
                     f'{dash}/><text x="{start + 24}" y="{at + 4}">{escape(name)}</text>')  # fmt: skip
    return "\n".join([*parts, "</svg>"])


def matrices(title: str, shown: Mapping[str, np.ndarray], digits: int = 2) -> str:
    """Matrices beside each other, each entry coloured by its size and sign."""
    cell, gap, x = 44, 36, 20
    tall = max(len(matrix) for matrix in shown.values())
    wide = sum(matrix.shape[1] * cell + gap for matrix in shown.values())
    parts = [_open(wide + 20, 60 + 26 * tall + 20), f'<text x="20" y="20" class="t">{escape(title)}</text>']
    for name, matrix in shown.items():
        parts.append(f'<text x="{x}" y="44">{escape(name)}</text>')
        largest = float(np.abs(matrix).max()) or 1.0
        for (i, j), value in np.ndenumerate(matrix):
            share = abs(value) / largest
            colour = f"rgba({'11,110,153' if value >= 0 else '192,80,77'},{0.75 * share:.2f})"
            left, top = x + j * cell, 52 + i * 26
            text = f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
            text = "0" if text in ("", "-", "-0") else text
            parts.append(f'<rect x="{left}" y="{top}" width="{cell}" height="26" fill="{colour}" class="c"/>'
                         f'<text x="{left + cell / 2}" y="{top + 17}" text-anchor="middle">{text}</text>')  # fmt: skip
        x += matrix.shape[1] * cell + gap
    return "\n".join([*parts, "</svg>"])


class _Axis:
    """From values to places on the page."""

    def __init__(self, values: np.ndarray, start: float, end: float, log: bool) -> None:
        self.log, self.start, self.end = log, start, end
        low, high = float(values.min()), float(values.max())
        if log:
            low, high = math.log10(low), math.log10(high)
        room = 0.04 * ((high - low) or abs(high) or 1.0)
        self.low, self.high = low - room, high + room

    def __call__(self, value: float) -> float:
        scaled = math.log10(value) if self.log else value
        return self.start + (scaled - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        if self.log:
            powers = range(math.ceil(self.low), math.floor(self.high) + 1)
            factors = (1,) if len(powers) > 2 else (1, 2, 5)
            first = range(math.floor(self.low), math.floor(self.high) + 1)
            values = [f * 10.0**p for p in first for f in factors]
            values = [value for value in values if self.low <= math.log10(value) <= self.high]
        else:
            step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
            step *= next(f for f in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * f) <= 6)
            first_tick = math.ceil(self.low / step)
            values = [step * k for k in range(first_tick, math.floor(self.high / step) + 1)]
        return [(self(value), f"{0.0 if abs(value) < 1e-12 else value:,.6g}") for value in values]


def _fits(value: float | None, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def _frame(title: str, x: str, y: str, width: int, legend: int) -> str:
    middle = TOP + HEIGHT / 2
    return (
        _open(LEFT + width + legend, TOP + HEIGHT + 50)
        + f'<text x="{LEFT}" y="20" class="t">{escape(title)}</text>'
        + f'<text x="{LEFT + width / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">{escape(x)}</text>'
        + f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(y)}</text>'
        + f'<rect x="{LEFT}" y="{TOP}" width="{width}" height="{HEIGHT}" class="f"/>'
    )


def _open(width: float, height: float) -> str:
    style = (
        "text{font:12px sans-serif;fill:#222}.t{font-weight:bold;font-size:13px}.g{stroke:#e2e2e2}"
        ".f{fill:none;stroke:#888}.c{stroke:#bbb}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}"><style>{style}</style>'
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    )
