"""A question: what all quoted numbers are asked with, the rates that are compared, and how the answer is stated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypedDict

from residua.domain import Between, Domain, Label
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.quoting.answering import Answering
from residua.quoting.intervals import Confidence, Figures, linear
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, By, Groups, Term, condition, groups_of
from residua.quoting.values import Numbers, Values, numbers_of
from residua.workload import Where

Together = Literal["table"] | None
Rate = str | Where  # a numeric attribute, for its mean; or a condition, for the share that meets it
Total = float | Mapping[Label, float] | None  # the public number of records, of all or by label
USUAL = 0.95


class Groupwise(TypedDict, total=False):
    """What nearly every question takes; see `Question`."""

    by: By
    where: Where | None
    confidence: float | None
    simultaneous: Together


@dataclass(frozen=True, eq=False)
class Question:
    """Of whom a number is asked, for which records, and how sure its interval is to be.

    Args:
        answering: where estimates and their covariances come from.
        by: a number for each group: attributes, or attribute → one of its levels.
        where: only these records: attribute → a label, a list of labels or a range.
        confidence: how often an interval holds the truth; the usual 0.95 if None.
        simultaneous: `"table"` for intervals that all hold together.

    Raises:
        PlanError: a confidence that is none; when groups are asked for, groups that mean nothing.
    """

    answering: Answering
    by: By = ()
    where: Where | None = None
    confidence: float | None = None
    simultaneous: Together = None

    def __post_init__(self) -> None:
        given = self.confidence
        if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1):
            raise PlanError(f"confidence={given!r} is not a probability between 0 and 1, such as 0.95.")
        if self.simultaneous not in (None, "table"):
            raise PlanError(f"simultaneous={self.simultaneous!r} is not 'table' or None.")

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.answering.domain

    @cached_property
    def groups(self) -> Groups:
        """Which records are distinguished, and which are left out."""
        return groups_of(self.domain, self.by, self.where)

    def level(self, numbers: int | None = None) -> Confidence:
        """How sure the intervals of so many numbers are; of one per group if left out."""
        count = self.groups.count if numbers is None else numbers
        probability = USUAL if self.confidence is None else self.confidence
        return Confidence(probability, float(count) if self.simultaneous else 1.0)

    def linear(self, term: Term) -> Figures:
        """A linear number for each group."""
        return linear(self.answering, term, self.level()).arranged(self.groups, term)

    def quoted(
        self,
        what: str,
        figures: Figures,
        *remarks: str,
        axes: tuple[Axis, ...] | None = None,
        keys: Mapping[str, list[Any]] | None = None,
        extra: Mapping[str, list[Any]] | None = None,
        dates: bool = False,
    ) -> Quoted:
        """Numbers, one per group unless other axes are given, with what they are.

        Raises:
            PlanError: a confidence was asked of numbers without errors.
        """
        note = self.answering.note
        if note and (self.confidence is not None or self.simultaneous is not None):
            raise PlanError(f"these numbers have no intervals ({note}); leave confidence out, or ask the release.")
        said = (note, *remarks, *figures.remarks, self.answering.remark)
        whole = replace(figures, remarks=tuple(dict.fromkeys(filter(None, said))))
        confidence = None if note else self.level(1).probability
        named = self.groups.axes if axes is None else axes
        return Quoted(what, named, whole, confidence, self.simultaneous == "table", keys or {}, extra or {}, dates)


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
    words = ", ".join(f"{name}={_spelled(chosen)}" for name, chosen in of.items())
    return RateRows(rows, dict.fromkeys(rows), 0.0, 1.0, f"share with {words}")


def mean_rows(position: int, name: str, numbers: Numbers) -> RateRows:
    """The rows of a mean: values above, ones below."""
    below = None if numbers.counted.all() else numbers.counted[None, :].astype(float)
    rows = numbers.values[None, :]
    return RateRows(
        {position: rows}, {position: below}, *numbers.bounds, f"mean of {name}", numbers.remark, numbers.dates
    )


def _spelled(chosen: Any) -> str:
    if isinstance(chosen, Between):
        return f"{chosen.first}..{chosen.last}"
    if isinstance(chosen, str | int):
        return str(chosen)
    return "(several)"
