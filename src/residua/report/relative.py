"""The relative error of a count against its size: the picture of what is reliable at which size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from residua.published.quality import FLAGS, THRESHOLDS
from residua.report.accuracy import ListedTable
from residua.report.svg import drawing, element, figure, hover, line, number, shortened, size_from, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 720.0, 280.0, 66.0, 240.0, 26.0, 46.0
_LEAST, _MOST = 1e-3, 1.0
DASHES = ("stroke1", "stroke2", "stroke3", "stroke4")


def draw_relative(tables: Sequence[ListedTable], name: str, *, width: float = WIDTH) -> Markup:
    """One falling line per table, over bands of the reliability flags; both axes logarithmic.

    What each line is stands on its right, on narrow screens below.
    """
    low = 10.0 ** math.floor(math.log10(min(one.stddev for one in tables)))
    high = 10.0 ** math.ceil(math.log10(max(one.stddev for one in tables) / _LEAST) - 1e-9)
    high = max(high, 100 * low)
    slim = width < WIDTH
    right, bottom = width - (24.0 if slim else RIGHT), HEIGHT - FOOT
    aside = LEFT if slim else right + 12

    def x(size: float) -> float:
        return LEFT + (right - LEFT) * math.log10(size / low) / math.log10(high / low)

    def y(share: float) -> float:
        clipped = min(max(share, _LEAST), _MOST)
        return TOP + (bottom - TOP) * math.log10(_MOST / clipped) / math.log10(_MOST / _LEAST)

    parts = [*_bands(right, y), *_axes(low, high, x, y, right, bottom)]
    for number_, one in enumerate(tables):
        start, end = max(low, one.stddev / _MOST), min(high, one.stddev / _LEAST)
        tip = f"{one.title}: standard error {figure(one.stddev)}; reliable from a count of {size_from(one.reliable)}"
        stroke = f"curve {DASHES[number_ % len(DASHES)]}"
        marks = [line(x(start), y(one.stddev / start), x(end), y(one.stddev / end), stroke)]
        parts.append(element("g", hover(tip), *marks))
        level = (HEIGHT if slim else TOP) + 12 + 34 * number_
        parts.append(line(aside, level - 4, aside + 28, level - 4, stroke))
        parts.append(text(aside + 34, level, shortened(one.title, 27), "start", "label", one.title))
        parts.append(text(aside + 34, level + 14, f"reliable from {size_from(one.reliable)}", "start", "tick"))
    return drawing(width, HEIGHT + (34.0 * len(tables) if slim else 0.0), name, parts)


def _bands(right: float, y: object) -> Iterator[Markup]:
    assert callable(y)
    edges = (_MOST, THRESHOLDS[1], THRESHOLDS[0], _LEAST)
    for i, (kind, flag) in enumerate(zip(("zone3", "zone2", "zone1"), reversed(FLAGS), strict=True)):
        top, bottom = y(edges[i]), y(edges[i + 1])
        yield element("rect", x=LEFT, y=top, width=right - LEFT, height=bottom - top, class_=kind)
        # Curves fall from the upper left to the lower right: the corners between are free.
        yield text(*((LEFT + 6, bottom - 6, flag, "start") if i == 2 else (right - 6, bottom - 6, flag, "end")), "tick")


def _axes(low: float, high: float, x: object, y: object, right: float, bottom: float) -> Iterator[Markup]:
    assert callable(x)
    assert callable(y)
    power, each = low, 2 if right < 400 and high / low > 1e4 else 1
    while power <= high * 1.001:
        yield line(x(power), TOP, x(power), bottom, "grid")
        yield text(x(power), bottom + 17, number(power) if power >= 1 else f"{power:g}", "middle", "tick")
        power *= 10**each
    for share, words in ((1.0, "100 %"), (0.1, "10 %"), (0.01, "1 %"), (0.001, "0.1 %")):
        yield text(LEFT - 7, y(share) + 4, words, "end", "tick")
    yield text((LEFT + right) / 2, bottom + 36, "true count", "middle", "label")
    yield text(8, 14, "relative standard error", "start", "label")
