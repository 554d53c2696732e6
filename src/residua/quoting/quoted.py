"""A quoted number, or one per group: estimate, standard error, interval, tidy like any published table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, named
from residua.language import mark, say
from residua.linalg.arrays import Booleans, Floats
from residua.published.columns import Columns
from residua.published.streaming import label_columns
from residua.quoting.intervals import Figures
from residua.quoting.terms import Axis

_NUMBERS = ("estimate", "stddev", "lower", "upper")
_DIGITS = 12  # of numbers that have no error


@dataclass(frozen=True, eq=False, repr=False)
class Quoted(Columns):
    """Numbers with standard errors and intervals, one per group.

    `estimate`, `stddev`, `lower` and `upper` are numbers, or arrays with one axis per key. `stddev` is of first order
    where the number is not linear: the interval is not made from it. Where values lie in bins it is the largest root
    mean square error, noise and bins together. Where errors are not known (a projection, a model) the three are NaN and
    are not among the columns.

    Args:
        what: what is quoted, in words.
        axes: what each axis is: a column's name and its labels.
        figures: the numbers.
        confidence: how often an interval holds the truth; None where there are no intervals.
        simultaneous: whether all intervals hold together with that confidence.
        given: further columns that say what a row is, one value per row.
        extra: further columns of numbers, one value per row.
        dates: whether the numbers are days since 1970-01-01, shown as dates.
        domain: where the labels come from, which may give them names.
        lacks: which share of itself a number lacks because records were left out; infinite where that is unknown.
    """

    what: str
    axes: tuple[Axis, ...]
    figures: Figures
    confidence: float | None
    simultaneous: bool = False
    given: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    extra: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dates: bool = False
    domain: Domain | None = None
    lacks: float = 0.0

    def __post_init__(self) -> None:
        names = [*self.keys, *self.extra, *_NUMBERS]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise PlanError(
                f"the attribute {named(twice[0])} is also a column of what is quoted; rename the attribute."
            )
        for name in _NUMBERS:
            getattr(self.figures, name).setflags(write=False)

    @property
    def estimate(self) -> Any:
        """The number, or an array with one axis per key."""
        return _plain(self.figures.estimate)

    @property
    def stddev(self) -> Any:
        """The standard error."""
        return _plain(self.figures.stddev)

    @property
    def lower(self) -> Any:
        """The lower end of the interval."""
        return _plain(self.figures.lower)

    @property
    def upper(self) -> Any:
        """The upper end of the interval."""
        return _plain(self.figures.upper)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know, sentence by sentence."""
        return self.figures.remarks

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that say what a row is."""
        return (*(name for name, _ in self.axes), *self.given)

    def __len__(self) -> int:
        return self.figures.estimate.size

    @property
    def note(self) -> str:
        """What is quoted, what the intervals mean, and what else a reader must know."""
        held = mark("{confidence:.10g} % intervals, each by itself")
        held = mark("{confidence:.10g} % intervals, all together") if self.simultaneous else held
        intervals = "" if self.confidence is None else say(held, confidence=100 * self.confidence)
        return "; ".join(filter(None, (self.what, intervals, *self.remarks)))

    @property
    def doubtful(self) -> Booleans | None:
        """Numbers that bins leave open at least as much as noise does, or that lack more than intervals reach."""
        figures, width = self.figures, self.figures.upper - self.figures.lower
        if figures.bins is None and not self.lacks:
            return None
        vague = np.zeros(width.shape, bool) if figures.bins is None else ~(width > 4 * figures.bins)
        lacking = np.abs(figures.estimate) * self.lacks if math.isfinite(self.lacks) else self.lacks
        return np.asarray(vague | (2 * lacking > width)).ravel()

    @property
    def decimals(self) -> int:
        """As many as two digits of the smallest error take, of other columns too; one where all are values."""
        known = self.figures.stddev[np.isfinite(self.figures.stddev) & (self.figures.stddev > 0)]
        shown = np.concatenate([getattr(self.figures, name).ravel() for name in ("estimate", "lower", "upper")])
        shown = shown[np.isfinite(shown)]
        if not shown.size or (shown == np.rint(shown)).all():
            return 1
        smallest = float(known.min()) if known.size else float(np.abs(shown).max()) / 1000
        places = min(max(1 - math.floor(math.log10(smallest)), 0), _DIGITS)
        beside = [np.subtract(self.extra[end.replace("lower", "upper")], self.extra[end]) for end in self.extra
                  if end.endswith("_lower")]  # fmt: skip
        finest = min((float(each[each > 0].min(initial=1.0)) for each in beside), default=math.inf)
        return min(max(places, 2, 1 - math.floor(math.log10(finest))), _DIGITS) if beside else places

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: keys as lists, numbers as arrays."""
        columns: dict[str, Any] = label_columns([name for name, _ in self.axes], [labels for _, labels in self.axes])
        columns |= {name: list(values) for name, values in self.given.items()}
        numbers = _NUMBERS if self.confidence is not None else _NUMBERS[:1]
        columns |= {name: np.array(getattr(self.figures, name)).ravel() for name in numbers}
        if self.dates:
            columns |= {name: _days(columns[name]) for name in ("estimate", "lower", "upper") if name in columns}
        return {**columns, **{name: list(values) for name, values in self.extra.items()}}

    def at(self, **labels: Any) -> Quoted:
        """The rows with these labels, without those keys: `quoted.at(sex="Female")`.

        Raises:
            PlanError: not a key, or not one of its labels.
        """
        at: list[Any] = [slice(None)] * len(self.axes)
        for name, label in labels.items():
            if name not in self.keys:
                raise PlanError(
                    f"{named(name)} is not a key of these numbers; there are {', '.join(self.keys) or 'none'}."
                )
            axis = self.keys.index(name)
            if label not in self.axes[axis][1]:
                raise PlanError(
                    f"{named(label)} is not a label of {named(name)}; there are {named(self.axes[axis][1][:8])}."
                )
            at[axis] = self.axes[axis][1].index(label)
        if self.given:
            raise PlanError("a list in an order has no rows to pick by label; read its columns.")
        kept = tuple(axis for axis in self.axes if axis[0] not in labels)
        shape = [len(each) for _, each in self.axes]
        extra = {name: np.reshape(each, shape)[tuple(at)].ravel().tolist() for name, each in self.extra.items()}
        return replace(
            self, axes=kept, figures=self.figures.mapped(lambda part: np.array(part[tuple(at)])), extra=extra
        )


def _plain(numbers: Floats) -> Any:
    return float(numbers) if numbers.ndim == 0 else numbers


def _days(numbers: Floats) -> list[str | None]:
    return [str(np.datetime64(math.floor(each), "D")) if math.isfinite(each) else None for each in numbers.tolist()]
