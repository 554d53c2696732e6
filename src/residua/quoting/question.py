"""A question: what all quoted numbers are asked with, rates and numbers of values, and how the answer is stated.

The numbers that an attribute's values stand for are whole numbers themselves, bins by midpoint, dates by day. A value
in a bin may lie anywhere in it: a sum or a mean is at least what it is with every value at the lower edge of its bin,
and at most with every value at the upper one. Both are linear or ratios, with intervals of their own; from the lower
end of the first to the upper end of the second is an interval for the truth, since each is missed on that side with
half the chance of a miss at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypedDict

import numpy as np

from residua.domain import Amount, Between, Bins, Categories, Dates, Domain, Integers, Label
from residua.domain.words import heading
from residua.errors import PlanError, named
from residua.language import mark, say
from residua.linalg.arrays import Booleans, Floats
from residua.quoting.intervals import Confidence, Figures, Pair, linear, widened
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Answering, Axis, By, Groups, Term, by_label, condition, groups_of
from residua.workload import Where

Values = Mapping[Label, float] | Sequence[float] | Floats
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


class Valued(Groupwise, total=False):
    """The same, and which numbers an attribute's values stand for."""

    values: Values | None


@dataclass(frozen=True, eq=False)
class Question:
    """Of whom a number is asked, for which records, and how sure its interval is to be.

    Args:
        answering: where estimates and their covariances come from.
        by: a number for each group: attributes, or attribute → one of its levels.
        where: only these records: attribute → a label, a list of labels or a range.
        confidence: how often an interval holds the truth; the usual 0.95 if None.
        simultaneous: `"table"` for intervals that all hold together.
        values: label → number, or a number per value, in place of a numeric attribute's own.

    Raises:
        PlanError: a confidence that is none; when groups are asked for, groups that mean nothing.
    """

    answering: Answering
    by: By = ()
    where: Where | None = None
    confidence: float | None = None
    simultaneous: Together = None
    values: Values | None = None

    def __post_init__(self) -> None:
        given = self.confidence
        if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1):
            raise PlanError(f"confidence={named(given)} is not a probability between 0 and 1, such as 0.95.")
        if self.simultaneous not in (None, "table"):
            raise PlanError(f"simultaneous={named(self.simultaneous)} is not 'table' or None.")

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

    def linear(self, term: Term, level: Confidence | None = None) -> Figures:
        """A linear number for each group."""
        return linear(self.answering, term, level or self.level()).arranged(self.groups, term)

    def ratio(self, first: Term, second: Term, lowest: float, highest: float) -> Figures:
        """The ratio of two linear numbers for each group."""
        return Pair(self.answering, first, second).ratio(self.level(), lowest, highest).arranged(self.groups, first)

    def numbers(self, attribute: str, *, ordered: bool = False, spread: bool = True) -> tuple[int, Numbers]:
        """The position and the numbers of an attribute that the groups do not hold; see `numbers_of`.

        Raises:
            PlanError: how numbers are spread is asked of an amount, of which sums alone are known.
        """
        position = self.groups.require_free(attribute, "attribute")
        if spread and self.domain[attribute].summed:
            raise PlanError(
                f"{attribute!r} is an amount, of which sums and means are known and no values; for quantiles declare "
                "bins of the same column as another attribute."
            )
        return position, numbers_of(self.domain, attribute, self.values, endless=ordered or not self.answering.note)

    def quoted(
        self,
        what: str,
        figures: Figures,
        *remarks: str,
        axes: tuple[Axis, ...] | None = None,
        keys: Mapping[str, list[Any]] | None = None,
        extra: Mapping[str, list[Any]] | None = None,
        dates: bool = False,
        of: object = None,
    ) -> Quoted:
        """Numbers, one per group unless other axes are given, with what they are.

        Args:
            what: the same, in words.
            figures: the numbers.
            remarks: what readers must know.
            axes: what each axis is.
            keys: further columns that say what a row is.
            extra: further columns of numbers.
            dates: whether the numbers are days.
            of: the attribute whose values were added up, if one was: what clipping hides of it makes numbers uncertain.

        Raises:
            PlanError: a confidence was asked of numbers without errors.
        """
        note = self.answering.note
        if note and (self.confidence is not None or self.simultaneous is not None):
            raise PlanError(f"these numbers have no intervals ({note}); leave confidence out, or ask the release.")
        said = (say(note) if note else "", *remarks, *figures.remarks, self.answering.remark)
        whole = replace(figures, remarks=tuple(dict.fromkeys(filter(None, said))))
        confidence = None if note else self.level(1).probability
        named = self.groups.axes if axes is None else axes
        together, keys, extra = self.simultaneous == "table", keys or {}, extra or {}
        hidden = isinstance(of, str) and self.domain.clips([of]) and figures.bins is None
        lacks = math.inf if hidden else self.answering.lacks
        return Quoted(what, named, whole, confidence, together, keys, extra, dates, self.domain, lacks)


@dataclass(frozen=True, eq=False)
class RateRows:
    """A rate as rows: what is added up above, and below.

    Args:
        above: position → row, of the numerator.
        below: position → row (None for all values), of the denominator.
        lowest: no rate is below this.
        highest: no rate is above this.
        what: the rate in words.
        remark: what is left out, and what is assumed.
        dates: whether it is a mean of dates.
        edges: the numerator with every value at the lower edge of its bin, and at the upper one; none if exact.
    """

    above: Mapping[int, Floats]
    below: Mapping[int, Floats | None]
    lowest: float
    highest: float
    what: str
    remark: str = ""
    dates: bool = False
    edges: tuple[Mapping[int, Floats], ...] = ()

    def over_bins(self, at: Callable[[Mapping[int, Floats]], Figures]) -> Figures:
        """A rate, asked for with some numerator, wherever in their bins the values lie."""
        return over_bins(at, self.above, self.edges, self.lowest, self.highest)


def over_bins(
    at: Callable[[Mapping[int, Floats]], Figures],
    above: Mapping[int, Floats],
    edges: tuple[Mapping[int, Floats], ...],
    lowest: float = -np.inf,
    highest: float = np.inf,
) -> Figures:
    """A number that is asked with some values, wherever in their bins they lie.

    Args:
        at: asks it.
        above: position → values.
        edges: the same with lower edges, and with upper ones; none if values are exact.
        lowest: it is never below this.
        highest: it is never above this.
    """
    middle = at(above)
    if not edges:
        return middle
    finite = [{i: np.where(np.isfinite(row), row, 0.0) for i, row in rows.items()} for rows in edges]
    low_end, high_end = (all(np.isfinite(row).all() for row in rows.values()) for rows in edges)
    low, high = map(at, finite)
    # Where the noise of a denominator reaches zero nothing is known but the bounds.
    lower = np.where(np.isfinite(low.stddev) & low_end, low.lower, lowest)
    upper = np.where(np.isfinite(high.stddev) & high_end, high.upper, highest)
    bins = np.maximum(np.abs(middle.estimate - low.estimate), np.abs(high.estimate - middle.estimate))
    return widened(middle, lower, upper, bins if low_end and high_end else np.full_like(bins, np.inf))


def rate_rows(question: Question, groups: Groups, of: Rate) -> RateRows:
    """The rows of a mean (an attribute's name) or of a share (a condition).

    Raises:
        PlanError: an attribute that the groups hold already, one that is not numeric, or no condition.
    """
    domain = groups.domain
    if isinstance(of, str):
        position = groups.require_free(of, "of")
        numbers = numbers_of(domain, of, question.values, endless=not question.answering.note)
        return mean_rows(position, heading(domain, of), numbers)
    if question.values is not None:
        raise PlanError("values are numbers of an attribute whose mean is asked; a share has none, leave them out.")
    rows = condition(domain, of, "of")
    if not rows:
        raise PlanError("of is empty; name a numeric attribute, or a condition {attribute: label}.")
    for position in rows:
        groups.require_free(domain.names[position], "of")
    words = ", ".join(f"{heading(domain, name)}={_spelled(chosen)}" for name, chosen in of.items())
    return RateRows(rows, dict.fromkeys(rows), 0.0, 1.0, say("share with {condition}", condition=words))


def mean_rows(position: int, name: str, numbers: Numbers) -> RateRows:
    """The rows of a mean: values above, ones below."""
    below = None if numbers.counted.all() else numbers.counted[None, :].astype(float)
    above, *edges = ({position: row[None, :]} for row in (numbers.values, *numbers.edges))
    what = say("mean of {name}", name=name)
    return RateRows(above, {position: below}, *numbers.bounds, what, numbers.remark, numbers.dates, tuple(edges))


def _spelled(chosen: Any) -> str:
    if isinstance(chosen, Between):
        return f"{chosen.first}..{chosen.last}"
    return str(chosen) if isinstance(chosen, str | int) else say("(several)")


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of an attribute's cells.

    Args:
        values: one per cell, (n,); 0 for the cell of other values.
        counted: which cells have one, (n,): not that of other values.
        lowest: the least number that a record of each cell may have, (n,); of bins their lower edges.
        highest: the largest, (n,).
        dates: whether they are days since 1970-01-01.
        assumed: what was said of where values lie, in words.
    """

    values: Floats
    counted: Booleans
    lowest: Floats
    highest: Floats
    dates: bool = False
    assumed: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which every mean of the values lies."""
        return float(self.lowest[self.counted].min()), float(self.highest[self.counted].max())

    @property
    def edges(self) -> tuple[Floats, ...]:
        """The least and the largest numbers of all cells; nothing if each cell has one number."""
        return (self.lowest, self.highest) if (self.lowest < self.highest).any() else ()

    @property
    def endless(self) -> bool:
        """Whether a bin has no end."""
        return not all(map(math.isfinite, self.bounds))

    @property
    def basis(self) -> str:
        """What is left out and what is assumed, in words."""
        left_out = "" if self.counted.all() else say("records counted as (other) are left out")
        return "; ".join(filter(None, (left_out, self.assumed)))

    @property
    def remark(self) -> str:
        """The same, and what bins leave open."""
        spread = ""
        if self.endless:
            words = mark(
                "a bin has no end, and so the interval has none (unless it is said where values lie in each bin)"
            )
            spread = say(words)
        elif self.edges:
            days = mark("the estimate takes values at the first day of their bins; {intervals}")
            middle = mark("the estimate takes values at the middle of their bins; {intervals}")
            hold = say("intervals hold wherever in them values lie")
            spread = say(days if self.dates else middle, intervals=hold)
        return "; ".join(filter(None, (self.basis, spread)))


def numbers_of(domain: Domain, name: str, values: Values | None = None, *, endless: bool = False) -> Numbers:
    """The numbers of an attribute's cells.

    Args:
        domain: what the table may hold.
        name: the attribute.
        values: label → number, for some or all values; or a number for each declared value.
        endless: whether an endless bin may do without a number, and stand at its one edge.

    Raises:
        PlanError: an attribute whose values are not numbers, or that has an endless bin, and no values for them.
    """
    attribute = domain[name]
    n, declared = attribute.size, attribute.declared
    middle, lowest, highest = (np.full(n, np.nan) for _ in range(3))
    dates = False
    if isinstance(attribute, Bins):
        ends = np.array(list(pairwise(attribute.edges)))
        lowest[:declared], highest[:declared] = ends.T
        finite = np.isfinite(ends)
        middle[:declared] = np.where(finite, ends, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
        if not endless:
            middle[:declared][~finite.all(axis=1)] = np.nan
    elif isinstance(attribute, Dates):
        dates = True
        middle[:declared] = [(start - _EPOCH).days for start in attribute.starts]
        lowest[:] = middle
        highest[:declared] = [*(middle[1:declared] - 1), (attribute.last - _EPOCH).days]
    elif isinstance(attribute, Amount):
        lowest[:] = highest[:] = middle[:] = attribute.low, attribute.high
        if values is not None:
            raise PlanError(f"values: {name!r} is an amount, whose ends are declared; leave values out.")
    elif isinstance(attribute, Integers) or _is_whole(attribute):
        middle[:declared] = [float(label) for label in attribute.declared_labels]
        lowest[:] = highest[:] = middle
    assumed = attribute.counts(name) if isinstance(attribute, Amount) else ""
    if values is not None:
        given = _given(domain, name, values)
        known = np.isfinite(given)
        middle, lowest, highest = (np.where(known, given, part) for part in (middle, lowest, highest))
        dates = dates and not known.any()
        listed = [f"{attribute.labels[i]} = {given[i]:g}" for i in np.flatnonzero(known)[:_SHOWN]]
        shown = ", ".join(listed) + (", …" if known.sum() > _SHOWN else "")
        assumed = say("assumes the given values of {name}: {listed}", name=heading(domain, name), listed=shown)
    lost = np.flatnonzero(np.isnan(middle[:declared]))
    if len(lost) == declared:
        raise PlanError(
            f"the values of {name!r} are not numbers; give values={{{attribute.labels[0]!r}: 0.0, …}}, a number per "
            "label, or name an attribute of whole numbers or bins."
        )
    if len(lost):
        label = attribute.labels[int(lost[0])]
        raise PlanError(
            f"the value {named(label)} of {name!r} has no number (an endless bin has no midpoint); give one, such as "
            f"values={{{named(label)}: …}} (of the command: --values '{label}=…')."
        )
    counted = np.arange(n) < declared
    middle, lowest, highest = (np.where(counted, part, 0.0) for part in (middle, lowest, highest))
    return Numbers(middle, counted, lowest, highest, dates, assumed)


_SHOWN = 4  # of given values, in words
_EPOCH = np.datetime64("1970-01-01").astype(object)


def _is_whole(attribute: object) -> bool:
    return isinstance(attribute, Categories) and all(isinstance(label, int) for label in attribute.values)


def _given(domain: Domain, name: str, values: Any) -> Floats:
    attribute = domain[name]
    if not isinstance(values, Mapping):
        listed = list(values) if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else []
        if len(listed) != attribute.declared:
            raise PlanError(
                f"values={named(values)} is not a number per value of {name!r}; give {attribute.declared}, or "
                "{label: number}."
            )
        values = dict(zip(attribute.labels, listed, strict=False))
    numbers = by_label(domain, [name], values, "values")
    if np.isfinite(numbers[attribute.declared :]).any():
        raise PlanError(f"values: the other values of {name!r} are no single value; leave them out.")
    return numbers
