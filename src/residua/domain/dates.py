"""Dates as ordered values: every day, week, month, quarter or year of a period, with calendar levels above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from residua.domain.attributes import Attribute, Label
from residua.domain.conditions import plain_label
from residua.errors import DomainError, kind_of, named

Unit = Literal["day", "week", "month", "quarter", "year"]
_UNITS = get_args(Unit)
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Dates(Attribute):
    """Every day from `first` to `last`, both included, or the weeks, months, quarters or years they lie in.

    A timestamp counts by its date, as its column or text writes it. Weeks are those of ISO 8601 and begin on Monday.

    Args:
        first: the first day, a date or "2024-01-31".
        last: the last day.
        unit: what one value is: "day", "week", "month", "quarter" or "year".
        levels: coarser units to group by, finest first, such as ["month", "quarter", "year"]; or groups of labels, as
            for `Categories`. Weeks do not nest in months, quarters or years.

    Raises:
        DomainError: something that is no date, `first` after `last`, an unknown unit, or levels that do not nest.

    Example:
        >>> day = Dates("2023-12-30", "2024-01-02", levels=["month", "year"])
        >>> day.labels, day.level("month").labels, day.level("year").codes.tolist()
        (('2023-12-30', '2023-12-31', '2024-01-01', '2024-01-02'), ('2023-12', '2024-01'), [0, 0, 1, 1])
        >>> Dates("2024-01-01", "2024-12-31", "quarter").labels
        ('2024-Q1', '2024-Q2', '2024-Q3', '2024-Q4')
    """

    kind: ClassVar[str] = "dates"
    first: date = field(kw_only=False)
    last: date = field(kw_only=False)
    unit: Unit = field(kw_only=False, default="day")

    def _validate(self) -> None:
        for argument, value in (("first", self.first), ("last", self.last)):
            object.__setattr__(self, argument, _date(argument, value))
        if self.unit not in _UNITS:
            raise DomainError(f"unit={named(self.unit)} is no unit of the calendar; use one of {', '.join(_UNITS)}.")
        if self.first > self.last:
            raise DomainError(f"first={self.first} is after last={self.last}; exchange them.")
        if isinstance(self.levels, Sequence) and any(isinstance(level, str) for level in self.levels):
            object.__setattr__(self, "levels", self._calendar(cast("Sequence[str]", self.levels)))

    def _calendar(self, names: Sequence[str]) -> Mapping[str, Any]:
        """Levels by the names of units, as groups of labels."""
        if isinstance(names, str):
            raise DomainError(f"levels={names!r} is not a list; write levels=[{names!r}].")
        levels: dict[str, dict[str, list[Label]]] = {}
        for name in names:
            if name not in _UNITS or _UNITS.index(name) <= _UNITS.index(self.unit):
                coarser = ", ".join(_UNITS[_UNITS.index(self.unit) + 1 :]) or "none"
                raise DomainError(
                    f"levels hold {kind_of(name)}, no unit coarser than {self.unit!r}; name units: there are {coarser}."
                )
            groups = levels.setdefault(name, {})
            for label, start in zip(self.declared_labels, self.starts, strict=True):
                groups.setdefault(_label(start, cast(Unit, name)), []).append(label)
        if len(levels) < len(names):
            raise DomainError(f"levels={list(names)!r} names a unit twice; name each once.")
        if self.unit == "week" or ("week" in names and len(names) > 1):
            raise DomainError("weeks do not nest in months, quarters or years; declare other levels, or another unit.")
        return levels

    @cached_property
    def starts(self) -> tuple[date, ...]:
        """The first day of every value, not before `first`."""
        days = np.arange(self.first_number, _number(self.last) + 1)
        _, places = np.unique(self._units(days), return_index=True)
        return tuple(self.first + timedelta(days=int(place)) for place in places)

    @property
    def first_number(self) -> int:
        """The first day as days since 1970-01-01."""
        return _number(self.first)

    def codes(self, days: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each day, given in days since 1970-01-01; −1 outside the period."""
        inside = (days >= self.first_number) & (days <= _number(self.last))
        held = np.where(inside, days, self.first_number)
        origin = int(self._units(np.array([self.first_number]))[0])
        return np.where(inside, self._units(held) - origin, -1)

    def _units(self, days: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers that grow by one from each unit to the next."""
        if self.unit == "day":
            return days
        if self.unit == "week":
            return (days + 3) // 7  # 1970-01-01 was a Thursday
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        return np.asarray(months // {"month": 1, "quarter": 3, "year": 12}[self.unit])

    @property
    def declared(self) -> int:
        """How many days (weeks, months, …) there are."""
        ends = self._units(np.array([self.first_number, _number(self.last)]))
        return int(ends[1] - ends[0]) + 1

    @cached_property
    def declared_labels(self) -> Sequence[Label]:
        """2024-01-31, 2024-W05, 2024-01, 2024-Q1 or 2024."""
        return tuple(_label(start, self.unit) for start in self.starts)

    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files."""
        return {"first": self.first.isoformat(), "last": self.last.isoformat(), "unit": self.unit}

    def level_settings(self) -> Any:
        """The names of the units where levels are units, else groups of labels."""
        names = [level.name for level in self.hierarchy]
        try:
            of_units = replace(self, levels=tuple(names)) == self
        except DomainError:  # groups of their own
            of_units = False
        return names if of_units else super().level_settings()


def _date(argument: str, value: object) -> date:
    try:
        return date.fromisoformat(cast(str, plain_label(value)))
    except (TypeError, ValueError):
        raise DomainError(f'{argument}={named(value)} is not a date; write it as "2024-01-31".') from None


def _number(day: date) -> int:
    return (day - _EPOCH).days


def _label(start: date, unit: Unit) -> str:
    if unit == "day":
        return start.isoformat()
    if unit == "week":
        year, week, _ = start.isocalendar()
        return f"{year:04d}-W{week:02d}"
    if unit == "quarter":
        return f"{start.year:04d}-Q{(start.month + 2) // 3}"
    return start.isoformat()[: 7 if unit == "month" else 4]
