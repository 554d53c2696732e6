"""Drawing: SVG elements with every text escaped, axes with round ticks, numbers as people write them.

Colours are classes of the page's style sheet, so that pictures follow light and dark; there are no inline styles, which
the page's policy would refuse. A mark carries its text as an SVG title, which browsers show on hover without scripts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import east_asian_width

from markupsafe import Markup, escape

from residua.language import numeral
from residua.showing import printable

_LETTER = 7.4  # a letter at the size of labels, in pixels, in a font whose letters are broad

_SHAPES = ("rect", "line", "polygon", "polyline", "path")


def element(_name: str, *inside: Markup | str, **attributes: object) -> Markup:
    """An SVG element; attributes and texts are escaped. `class_` is the class, `_` in names becomes `-`."""
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _short(value))
        for name, value in attributes.items()
        if value is not None
    )
    if not inside and _name in _SHAPES:
        return Markup("<{0}{1}/>").format(Markup(_name), written)
    content = Markup("").join(escape(part) for part in inside)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(_name), written, content)


def text(
    x: float | str, y: float, words: str, anchor: str = "start", class_: str = "label", full: str | None = None
) -> Markup:
    """One line of text; `full` is shown on hover."""
    inside: list[Markup | str] = [printable(words)]
    if full is not None:
        inside.insert(0, element("title", printable(full)))
    return element("text", *inside, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float | str, y1: float, x2: float | str, y2: float | str, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(x: float | str, y: float, width: float | str, height: float, class_: str) -> Markup:
    """A rectangle."""
    return element("rect", x=x, y=y, width=width, height=height, class_=class_)


def hover(words: str) -> Markup:
    """What is shown when the mark is pointed at."""
    return element("title", printable(words))


def shortened(words: str, most: int) -> str:
    """A label that fits, with an ellipsis where it was cut."""
    return words if len(words) <= most else words[: max(most - 1, 1)].rstrip() + "…"


def number(value: float) -> str:
    """A count as people write it, three digits at least where it is small.

    Example:
        >>> number(12345.6), number(-3.14159), number(0.0)
        ('12,346', '−3.14', '0')
    """
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2
    digits = f"{size:,.{places}f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return numeral(f"−{digits}" if value < 0 and digits != "0" else digits)


def figure(value: float) -> str:
    """A standard error in three digits, so that figures of a column stand below each other.

    Example:
        >>> figure(5.4), figure(20.0), figure(123.4), figure(math.inf)
        ('5.40', '20.0', '123', '–')
    """
    if not math.isfinite(value):
        return "–"
    places = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return numeral(f"{value:,.{places}f}")


def size_from(value: float) -> str:
    """From which count on something holds: a whole number, rounded up.

    Example:
        >>> size_from(20.6), size_from(30.0), size_from(math.inf)
        ('21', '30', '–')
    """
    return numeral(f"{math.ceil(value - 1e-9):,}") if math.isfinite(value) else "–"


@dataclass(frozen=True)
class Scale:
    """Where numbers lie along an axis of some pixels, which may be logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a number lies; beyond the ends, at the end."""
        low, at, high = (math.log10(x) if self.log else x for x in (self.low, value, self.high))
        share = (min(max(at, low), high) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        return ticks(self.low, self.high)


def scale_over(values: Iterable[float], start: float, end: float) -> Scale:
    """A scale that holds zero and all finite values, with round ends."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    if low == high:
        high = 1.0
    step = _step(low, high)
    room = 0.02 * (high - low)
    return Scale(low - room if low < 0 else 0.0, max(math.ceil(high / step - 0.5) * step, high + room), start, end)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two, about five.

    Example:
        >>> ticks(-20, 103)
        [0.0, 50.0, 100.0]
    """
    step = _step(low, high)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _step(low: float, high: float) -> float:
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))


def wide(words: str) -> float:
    """How many pixels a label takes, at most; letters of the east are twice as wide."""
    return _LETTER * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in words)


def percent(share: float) -> str:
    """A share of the width."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _short(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
