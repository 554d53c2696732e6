"""What all quoted numbers are asked with: confidence, whether intervals hold together, and of what a rate is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.quoting.answering import Answering
from residua.quoting.pairs import Found, Level
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, Groups, condition
from residua.quoting.values import Numbers, Values, numbers_of
from residua.workload import Where

Together = Literal["table"] | None
Rate = str | Where  # a numeric attribute, for its mean; or a condition, for the share that meets it
USUAL = 0.95


@dataclass(frozen=True)
class Sure:
    """How sure the intervals are to be.

    Args:
        confidence: how often an interval holds the truth; the usual 0.95 if None.
        simultaneous: `"table"` for intervals that all hold together.
    """

    confidence: float | None = None
    simultaneous: Together = None

    def __post_init__(self) -> None:
        given = self.confidence
        if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1):
            raise PlanError(f"confidence={given!r} is not a probability between 0 and 1, such as 0.95.")
        if self.simultaneous not in (None, "table"):
            raise PlanError(f"simultaneous={self.simultaneous!r} is not 'table' or None.")

    def level(self, numbers: int) -> Level:
        """For so many numbers."""
        return Level(
            USUAL if self.confidence is None else self.confidence, float(numbers) if self.simultaneous else 1.0
        )


SURE = Sure()


def quoted(
    answering: Answering,
    sure: Sure,
    what: str,
    axes: tuple[Axis, ...],
    found: Found,
    *remarks: str,
    told: Mapping[str, list[Any]] | None = None,
    extra: Mapping[str, list[Any]] | None = None,
    dates: bool = False,
) -> Quoted:
    """What was found, with what it is.

    Raises:
        PlanError: a confidence was asked of numbers without errors.
    """
    known = not answering.note
    if not known and (sure.confidence is not None or sure.simultaneous is not None):
        raise PlanError(
            f"these numbers have no intervals ({answering.note}); leave confidence out, or ask the release."
        )
    said = (answering.note, *remarks, *found.remarks, answering.remark)
    whole = replace(found, remarks=tuple(dict.fromkeys(filter(None, said))))
    confidence = sure.level(1).confidence if known else None
    return Quoted(what, axes, whole, confidence, sure.simultaneous == "table", told or {}, extra or {}, dates)


@dataclass(frozen=True, eq=False)
class RateRows:
    """A rate as rows: what is added up above, and below.

    Args:
        above: position → row, of the numerator.
        below: position → row (None for all values), of the denominator.
        lowest: no rate is below this.
        highest: no rate is above this.
        what: the rate in words.
        remark: what is left out.
        dates: whether it is a mean of dates.
    """

    above: Mapping[int, Floats]
    below: Mapping[int, Floats | None]
    lowest: float
    highest: float
    what: str
    remark: str = ""
    dates: bool = False


def rate_rows(groups: Groups, of: Rate, values: Values | None) -> RateRows:
    """The rows of a mean (an attribute's name) or of a share (a condition).

    Raises:
        PlanError: an attribute that the groups hold already, one that is not numeric, or no condition.
    """
    domain = groups.domain
    if isinstance(of, str):
        position = groups.require_free(of, "of")
        return mean_rows(position, of, numbers_of(domain, of, values))
    if values is not None:
        raise PlanError("values are numbers of an attribute whose mean is asked; a share has none, leave them out.")
    rows = condition(domain, of, "of")
    if not rows:
        raise PlanError("of is empty; name a numeric attribute, or a condition {attribute: label}.")
    for position in rows:
        groups.require_free(domain.names[position], "of")
    told = ", ".join(f"{name}={_spelled(chosen)}" for name, chosen in of.items())
    return RateRows(rows, dict.fromkeys(rows), 0.0, 1.0, f"share with {told}")


def mean_rows(position: int, name: str, numbers: Numbers) -> RateRows:
    """The rows of a mean: values above, ones below."""
    below = None if numbers.counted.all() else numbers.counted[None, :].astype(float)
    rows = numbers.values[None, :]
    return RateRows(
        {position: rows}, {position: below}, *numbers.bounds, f"mean of {name}", numbers.remark, numbers.dates
    )


def cells(shape: tuple[int, ...]) -> int:
    """How many numbers an array of this shape holds."""
    return math.prod(shape)


def _spelled(chosen: Any) -> str:
    from residua.domain import Between

    if isinstance(chosen, Between):
        return f"{chosen.first}..{chosen.last}"
    if isinstance(chosen, str | int):
        return str(chosen)
    return "(several)"
