"""The numbers of one picture: what each is, its estimate, its interval, how reliable it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from residua.language import mark, say
from residua.linalg.arrays import Floats
from residua.published.quality import FLAGS, grades
from residua.report.svg import number
from residua.showing import printable

UNTOLD = mark("not measured")
_COARSE, _LARGE = 1.0, 100.0  # standard errors, and estimates without any, that make decimals pointless


@dataclass(frozen=True, eq=False)
class Series:
    """Estimates along one or more axes, with what belongs to them in arrays of the same shape.

    Args:
        names: what each axis is called.
        labels: the labels along each axis.
        estimates: the numbers.
        lower, upper: their intervals; None where there are none (a projection).
        grades: the place of each flag in `FLAGS`; None where there are none.
        whole: whether the numbers are written without decimals, which their errors would not justify.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    estimates: Floats
    lower: Floats | None = None
    upper: Floats | None = None
    grades: Any = None
    whole: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(printable, self.names)))
        object.__setattr__(self, "labels", tuple(tuple(map(printable, along)) for along in self.labels))

    def known(self, *cell: int) -> bool:
        """Whether a cell has a number at all: groups may be measured in different detail."""
        return bool(np.isfinite(self.estimates[cell]))

    def value(self, *cell: int) -> str:
        """A cell's estimate as it is written beside its mark."""
        estimate = float(self.estimates[cell])
        return number(round(estimate) if self.whole and self.known(*cell) else estimate)

    def interval(self, *cell: int) -> tuple[float, float] | None:
        """A cell's interval, where it has one."""
        if self.lower is None or self.upper is None or not np.isfinite(self.lower[cell]):
            return None
        return float(self.lower[cell]), float(self.upper[cell])

    def margin(self, *cell: int) -> str:
        """A cell's interval as it is written beside its estimate; nothing where it has none, or all of them one."""
        interval = self.interval(*cell)
        if interval is None or self.every is not None:
            return ""
        low, high = (round(end) if self.whole else end for end in interval)
        return _between(low, high)

    @cached_property
    def every(self) -> float | None:
        """What lies between each estimate and either end of its interval, where that is the same for all."""
        if self.lower is None or self.upper is None:
            return None
        reach = np.concatenate([(self.upper - self.estimates).ravel(), (self.estimates - self.lower).ravel()])
        known = reach[np.isfinite(reach)]
        same = len(known) > 0 and float(np.ptp(known)) <= 1e-6 * float(np.max(known))
        return float(known[0]) if same else None

    @property
    def span(self) -> list[float]:
        """The smallest and the largest number to be drawn, intervals included."""
        arrays = [array for array in (self.estimates, self.lower, self.upper) if array is not None]
        finite = np.concatenate([array.ravel() for array in arrays])
        finite = finite[np.isfinite(finite)]
        return [float(finite.min()), float(finite.max())] if len(finite) else [0.0, 1.0]

    def along(self, axis: int) -> list[Self]:
        """One series per label of an axis, that axis left out."""
        names, labels = self.names[:axis] + self.names[axis + 1 :], self.labels[:axis] + self.labels[axis + 1 :]
        cut = replace(self, names=names, labels=labels)
        return [cut.mapped(partial(np.take, indices=i, axis=axis)) for i in range(len(self.labels[axis]))]

    def mapped(self, change: Callable[[Any], Any]) -> Self:
        """All arrays changed in the same way."""
        names = [name for name in ("estimates", "lower", "upper", "grades") if getattr(self, name) is not None]
        return replace(self, **{name: change(getattr(self, name)) for name in names})

    def turned(self, order: Sequence[int]) -> Self:
        """The same with its axes in another order."""
        names, labels = tuple(self.names[i] for i in order), tuple(self.labels[i] for i in order)
        return replace(self, names=names, labels=labels).mapped(lambda array: np.transpose(array, order))

    def grade(self, *cell: int) -> int:
        """The place of a cell's flag; 0 where there is none."""
        return 0 if self.grades is None else int(self.grades[cell])

    def words(self, *cell: int) -> str:
        """A cell in words, as shown on hover: what it is, its estimate, interval and flag."""
        where = ", ".join(along[i] for along, i in zip(self.labels, cell, strict=True))
        if not self.known(*cell):
            return f"{where}: {say(UNTOLD)}"
        words = f"{where}: {number(float(self.estimates[cell]))}"
        interval = self.interval(*cell)
        if interval is not None:
            words += f", {_between(*interval)}"
        return words if self.grades is None else f"{words} ({say(FLAGS[self.grade(*cell)])})"


def _between(low: float, high: float) -> str:
    return say("{low} to {high}", low=number(low), high=number(high))


def series_of(table: Any, names: Sequence[str], labels: Sequence[Sequence[str]]) -> Series:
    """The numbers of a published table (or a projection's), one axis per attribute."""
    columns = table.columns
    along = tuple(names), tuple(tuple(each) for each in labels)
    shape = tuple(map(len, along[1]))
    estimates = np.reshape(columns["estimate"], shape)
    if "stddev" not in columns:  # a projection or estimates: there are no flags
        whole = bool(np.nanmax(np.abs(estimates), initial=0.0) >= _LARGE)
        return Series(*along, estimates, table.lower, table.upper, whole=whole)
    lower, upper = (np.reshape(columns[name], shape) for name in ("lower", "upper"))
    bare = bool(np.isnan(lower).all())
    flags = np.reshape(grades(columns["estimate"], columns["stddev"], doubtful=table.doubtful), shape)
    whole = bool(np.min(columns["stddev"], initial=np.inf) >= _COARSE)
    return Series(*along, estimates, None if bare else lower, None if bare else upper, flags, whole)
