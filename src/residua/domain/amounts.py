"""Amounts: columns that are added up, such as turnover or hours, clipped to a range and counted in whole units.

A record with the amount a, clipped to [low, high] and rounded to u of R units, is u/R of a record at the high end and
the rest of one at the low end: R − u parts of R lie in the cell `low`, u in the cell `high`. An amount is so an
attribute with two values, of which sums are `low · n_low + high · n_high`, and everything that holds for attributes
holds for it: plans, prices, both noises, persons, estimates, projections. It costs what an attribute of two values
costs, exactly: what a record adds to measurements is a mean of what two records at the ends would add, and norms are
convex (docs/how-to/amounts.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from residua.domain.attributes import Attribute, Label
from residua.domain.words import plain
from residua.errors import DomainError, named
from residua.language import mark, say

MOST_STEPS = 2**20  # of one amount
_MOST_RATIO = 2**30  # of a bound to the unit: floats then tell on which side of a tie an amount is, or that it is near
_NEAR = 1e-4
_OPEN = mark(
    "amounts of {name} below {low} count as {low}, above {high} as {high}, in units of {unit}; what was cut off is in "
    "no interval"
)
_BOUNDED = mark(
    "amounts of {name} above {high} count as {high}, in units of {unit}; none is below {low} or above {largest}; what "
    "was cut off is in no interval of a table"
)
_WHOLE = mark("amounts of {name} in units of {unit}; none is below {low} or above {largest}, so that none was clipped")


@dataclass(frozen=True)
class Amount(Attribute):
    """A number that is added up, from `low` to `high`, in whole units.

    What is below `low` counts as `low`, what is above `high` as `high`, and every amount as the nearest number of units
    above `low`, a half upwards. Absent amounts, and what is no finite number, follow the policies `missing` and
    `unknown`: `"error"` or `"drop"`.

    Args:
        low: the least amount, from public knowledge, such as 0.
        high: the largest that counts in full; `rs.clips` shows what another one would do.
        unit: what amounts are rounded to. The range is a whole number of units, 1,048,576 at the most.
        clipped: the attribute, of values "false" and "true", that says which records lie outside the range; sums and
            means then tell how many these are.
        largest: the largest amount that there can be, from public knowledge. What lies above it or below `low` then
            follows the policy `unknown`, so that with `clipped` a bound is known on what clipping takes away: intervals
            of quoted sums and means hold it.
        measured_in: what amounts are measured in, for published tables: "EUR", "hours".

    Raises:
        DomainError: a bound that is no number, or a range that is not a whole number of units.

    Example:
        >>> Amount(0, 1e6, unit=100).steps
        10000
    """

    kind: ClassVar[str] = "amount"
    summed: ClassVar[bool] = True
    low: float = field(kw_only=False)
    high: float = field(kw_only=False)
    unit: float = field(kw_only=False, default=1)
    clipped: str = ""
    measured_in: str = ""
    largest: float | None = None

    def _validate(self) -> None:
        bounds = ("low", "high", "unit", *(() if self.largest is None else ("largest",)))
        for argument in bounds:
            value = plain(getattr(self, argument))
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise DomainError(f"{argument}={named(value)} is not a number; say rs.Amount(0, 1_000_000, unit=100).")
            object.__setattr__(self, argument, int(value) if value == int(value) else value)
        if not (self.low < self.high and self.unit > 0):
            raise DomainError(f"low={self.low}, high={self.high}, unit={self.unit} make no range; give low < high.")
        if self.largest is not None and self.largest < self.high:
            raise DomainError(f"largest={self.largest} is below high={self.high}; clip no higher than amounts can be.")
        steps = (_exact(self.high) - _exact(self.low)) / _exact(self.unit)
        if steps.denominator != 1 or steps > MOST_STEPS:
            raise DomainError(
                f"from low={self.low} to high={self.high} is not 1 to {MOST_STEPS:,} whole units of {self.unit}; "
                "choose another unit."
            )
        if max(abs(self.low), abs(self.high)) > _MOST_RATIO * self.unit:
            raise DomainError(f"bounds of more than {_MOST_RATIO:,} units are too large; choose a larger unit.")
        if "other" in (self.unknown, self.missing) or self.levels:
            raise DomainError("an amount has no cell of other values, and no levels; use 'error' or 'drop'.")
        if not isinstance(self.clipped, str) or not isinstance(self.measured_in, str):
            raise DomainError(
                "clipped names an attribute, measured_in what amounts are measured in; write both as text."
            )

    @property
    def declared_labels(self) -> Sequence[Label]:
        """The two ends, of which a record is a mean."""
        return ("low", "high")

    @property
    def steps(self) -> int:
        """How many units the range has."""
        return int((_exact(self.high) - _exact(self.low)) / _exact(self.unit))

    @property
    def coded(self) -> int:
        """One code per number of units."""
        return self.steps + 1

    def counts(self, name: str) -> str:
        """What sums are of, in words."""
        bounds = {"name": name, "low": self.low, "high": self.high, "unit": self.unit}
        if self.largest is None:
            return say(_OPEN, **bounds)
        return say(_BOUNDED if self.largest > self.high else _WHOLE, **bounds, largest=self.largest)

    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files."""
        more = {"clipped": self.clipped or None, "measured_in": self.measured_in or None, "largest": self.largest}
        own: dict[str, object] = {"low": self.low, "high": self.high, "unit": self.unit}
        return own | {key: value for key, value in more.items() if value is not None}

    def codes(self, numbers: NDArray[np.float64], spelled: Any) -> NDArray[np.int64]:
        """The units of finite numbers, clipped, each to the nearest and a half upwards, (rows,).

        Floats decide, unless a number lies next to the middle between two units: then its spelling does, exactly.

        Args:
            numbers: the amounts.
            spelled: called with which of them are unsure, gives their decimal spellings.
        """
        low, high, unit = float(self.low), float(self.high), float(self.unit)
        places = (np.clip(numbers, low, high) - low) / unit + 0.5
        units = np.floor(places).astype(np.int64)
        unsure = np.abs(places - np.rint(places)) < _NEAR
        if unsure.any():
            texts, inverse = np.unique(spelled(unsure), return_inverse=True)
            units[unsure] = np.array([self._of_text(str(text)) for text in texts], dtype=np.int64)[inverse]
        return np.clip(units, 0, self.steps)

    def _of_text(self, text: str) -> int:
        rough = float(text)
        try:  # of 10^-999999999 no digits are written out
            amount = Fraction(text) if rough else Fraction(0)
        except ValueError:  # more digits than Python reads
            amount = Fraction(rough)
        inside = min(max(amount, _exact(self.low)), _exact(self.high))
        return math.floor((inside - _exact(self.low)) / _exact(self.unit) + Fraction(1, 2))


def _exact(number: float) -> Fraction:
    """A number as it is written: 0.1 is a tenth."""
    return Fraction(str(number))
