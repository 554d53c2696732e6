"""What is asked, as products of rows: groups of records, and linear combinations of their counts.

A term has a matrix of rows for each of its attributes and asks all products of those rows: for `by=["sex"]` and the row
of ages, the sum of the ages of women and that of men. All that is quoted is made of such sums, so that estimates and
covariances are found attribute by attribute, whatever the number of cells.

`Answering` is the seam to what answers. Releases, pooled releases and sessions answer with exact covariances;
projections and estimates that borrow strength answer with numbers alone (`Points`), and what is quoted from them has no
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from residua.domain import Attribute, Domain, Label
from residua.domain.conditions import code_of
from residua.domain.words import heading
from residua.errors import DomainError, PlanError, kind_of, listing, named
from residua.language import say
from residua.linalg.arrays import Floats, along
from residua.workload import AttributeQueries, Identity, MatrixRows, Where, Workload, product, selected

By = Sequence[str] | Mapping[str, str]  # attributes, or attribute → one of its levels
Axis = tuple[str, tuple[Label, ...]]  # a column and its labels
_MOST_GROUPS = 4096


@dataclass(frozen=True, eq=False)
class Term:
    """Products of rows.

    Args:
        domain: what the table may hold.
        rows: position of an attribute, increasing → its rows, (rows, n); None for the one row of ones, "all values".
    """

    domain: Domain
    rows: Mapping[int, Floats | None]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows there are of each attribute."""
        return tuple(1 if rows is None else len(rows) for rows in self.rows.values())

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of which not all values are taken together."""
        return tuple(self.domain.names[i] for i, rows in self.rows.items() if rows is not None)

    @cached_property
    def workload(self) -> Workload:
        """The same as a workload; its queries run row by row in the order of the attributes."""
        asked = {self.domain.names[i]: queries_of(rows) for i, rows in self.rows.items() if rows is not None}
        return product(self.domain, asked, sets=[tuple(asked)])


def queries_of(rows: Floats) -> AttributeQueries:
    """Rows as what may be asked of an attribute; values by themselves where they are."""
    size = rows.shape[1]
    if len(rows) == size and np.array_equal(rows, np.eye(size)):
        return Identity(size)
    return MatrixRows(size, np.array(rows, dtype=np.float64))


class Answering(Protocol):
    """Estimates of products of rows, and how they err.

    A leading axis in front of those of the term is allowed everywhere: many estimates with one error structure, as of
    many simulated releases.
    """

    @property
    def domain(self) -> Domain:
        """What the table may hold."""

    @property
    def note(self) -> str:
        """Why nothing is known of errors, in words; nothing where the numbers are unbiased and their noise is known."""

    @property
    def remark(self) -> str:
        """What else readers must know, in words, such as that at most some records of each person are counted."""

    @property
    def lacks(self) -> float:
        """Which share of itself a number lacks because records were left out; infinite where that is unknown."""

    def estimates(self, term: Term) -> Floats:
        """An estimate of every product of rows, one axis per attribute of the term.

        Raises:
            PlanError: it cannot be answered; the message says what can.
        """

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> Floats | None:
        """Covariances of the numbers of two terms with the same attributes, place by place; None if nothing is known.

        Rows are matched (or one row stands for all), except of the attributes in `crossed` (positions): of these every
        row of the first is paired with every row of the second, and the pairs are the last two axes.
        """

    def widths(
        self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float
    ) -> float | Floats:
        """How many standard deviations an interval for `first − factors · second` reaches; one for all if normal."""

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Estimates and variances of `C_j − q N`, C the counts at or below each value of a long attribute, N of all,
        (n,) each; None where they are not answered all at once."""


@dataclass(frozen=True, eq=False)
class Points:
    """Numbers without errors: for whatever has tables, but no covariances.

    Args:
        domain: what the table may hold.
        table: the marginal on some attributes, an array with one axis each, in the order of the names.
        note: why there are no errors, in words.
        remark: what else readers must know, in words.
    """

    domain: Domain
    table: Callable[[Sequence[str]], Floats]
    note: str
    remark: str = ""
    lacks: ClassVar[float] = 0.0  # no interval that could be too short

    def estimates(self, term: Term) -> Floats:
        """Rows along each axis of the marginal."""
        numbers = self.table(term.attributes)
        for axis, rows in enumerate([rows for rows in term.rows.values() if rows is not None]):
            numbers = along(rows, numbers, axis)
        return np.asarray(numbers).reshape(term.shape)

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> None:
        """None: nothing is known of errors."""

    def widths(
        self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float
    ) -> float | Floats:
        """Refuses: numbers without errors have no intervals."""
        raise PlanError("these numbers have no errors, hence no intervals; quote those of the release.")

    def running(self, position: int, q: float) -> None:
        """None: they have no errors."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Which records are distinguished, and which are left out.

    Args:
        domain: what the table may hold.
        axes: the attributes distinguished with their labels, in the order asked.
        rows: position → rows, of those attributes and of the conditions.
    """

    domain: Domain
    axes: tuple[Axis, ...]
    rows: Mapping[int, Floats | None]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups there are along each axis."""
        return tuple(len(labels) for _, labels in self.axes)

    @property
    def count(self) -> int:
        """How many groups there are."""
        return math.prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes distinguished, in the order asked."""
        return tuple(name for name, _ in self.axes)

    def grouped(self, what: str) -> str:
        """What is quoted, and by which groups, in words."""
        return say("{what} by {groups}", what=what, groups=titles(self.domain, self.names)) if self.axes else what

    def term(self, along: Mapping[int, Floats | None] | None = None) -> Term:
        """The groups crossed with rows of further attributes."""
        return Term(self.domain, dict(sorted({**self.rows, **(along or {})}.items())))

    def holding(self, position: int) -> Groups:
        """The same groups, with an attribute that is spoken for, such as the one whose values are compared."""
        return Groups(self.domain, self.axes, {**self.rows, position: None})

    def require_free(self, name: str, argument: str) -> int:
        """The position of an attribute that the groups do not hold yet.

        Raises:
            PlanError: they do.
        """
        position = position_of(self.domain, name, argument)
        if position in self.rows:
            raise PlanError(
                f"{argument}: {name!r} is in by or where already, or is what is compared; name each attribute once."
            )
        return position

    def arranged(self, numbers: Floats, term: Term, last: int | None = None, *, pairs: bool = False) -> Floats:
        """Numbers of a term, (…, one axis per attribute), with the groups' axes in the order asked.

        Attributes with one row vanish; `last` (a position) becomes the last axis, or where `pairs` are told the last
        two, which it is already.
        """
        order = [i for i in term.rows if not (pairs and i == last)]
        kept = [*map(self.domain.position, self.names), *([] if last is None or pairs else [last])]
        lead = 0 if pairs else numbers.ndim - len(order)
        squeezed = np.squeeze(numbers, axis=tuple(lead + k for k, i in enumerate(order) if i not in kept))
        left = [i for i in order if i in kept]
        axes = [*range(lead), *(lead + left.index(i) for i in kept)]
        return squeezed.transpose(*axes, *range(len(axes), squeezed.ndim))


def groups_of(domain: Domain, by: By = (), where: Where | None = None, *, argument: str = "by") -> Groups:
    """The groups that `by` and `where` describe.

    Raises:
        PlanError: not names, an attribute named twice, an unknown level or label.
    """
    by = (by,) if isinstance(by, str) else by
    if not isinstance(by, Iterable):
        raise PlanError(f"{argument}={named(by)} is not a list of attributes; write {argument}=['sex'].")
    axes: list[Axis] = []
    rows: dict[int, Floats | None] = {}
    for name in by:
        position = position_of(domain, name, argument)
        if position in rows:
            raise PlanError(f"{argument} names {named(name)} twice; name each attribute once.")
        labels, matrix = _axis(name, domain[name], by[name] if isinstance(by, Mapping) else None, argument)
        axes.append((name, labels))
        rows[position] = matrix
    for position, row in condition(domain, where, "where").items():
        if position in rows:
            raise PlanError(f"where: {domain.names[position]!r} is in {argument} already; name each attribute once.")
        rows[position] = row
    return Groups(domain, tuple(axes), rows)


def condition(domain: Domain, where: Where | None, argument: str) -> dict[int, Floats]:
    """Position → one row of coefficients, (1, n).

    Raises:
        PlanError: not a dictionary of attributes and labels; labels that are not there, with the nearest that is.
    """
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise PlanError(
            f"{argument}={named(where)} is not a dictionary; write {{attribute: label, labels or rs.between(…)}}."
        )
    for name in where:
        position_of(domain, name, argument)
    return {domain.position(name): row[None, :] for name, row in selected(domain, where, argument=argument).items()}


def place_of(name: str, attribute: Attribute, label: Any, argument: str) -> int:
    """The code of a label.

    Raises:
        PlanError: it is none, with the nearest that is.
    """
    try:
        return code_of(name, attribute, label)
    except DomainError as problem:
        raise PlanError(f"{argument}: {problem}") from None


def by_label(domain: Domain, names: Sequence[str], given: Mapping[Any, Any], argument: str) -> Floats:
    """Numbers by label, of several attributes by a tuple of labels, as an array with an axis for each; else NaN.

    Raises:
        PlanError: a label that is none, or what is not a finite number.
    """
    array = np.full([domain[name].size for name in names], np.nan)
    for label, number in given.items():
        labels = label if len(names) > 1 and isinstance(label, tuple) else (label,)
        if len(labels) != len(names):
            raise PlanError(f"{argument}: a key is not a label for each of {listing(names)}; write ('a', 'b'): 1.")
        if isinstance(number, bool) or not isinstance(number, int | float | np.number) or not math.isfinite(number):
            raise PlanError(f"{argument}: {kind_of(number)} is not a finite number; give numbers by label.")
        pairs = zip(names, labels, strict=True)
        array[tuple(place_of(name, domain[name], each, argument) for name, each in pairs)] = float(number)
    return array


def titles(domain: Domain, names: Iterable[str], between: str = ", ") -> str:
    """Attributes by title or name."""
    return between.join(heading(domain, name) for name in names)


def position_of(domain: Domain, name: Any, argument: str) -> int:
    """Where an attribute stands; the argument is named if there is none of that name."""
    try:
        return domain.position(name)
    except DomainError as problem:
        raise PlanError(f"{argument}: {problem}") from None


def _axis(name: str, attribute: Attribute, level: Any, argument: str) -> tuple[tuple[Label, ...], Floats]:
    if attribute.summed:
        raise PlanError(f"{argument}: {name!r} is an amount, of which no values are known; ask for its sum or mean.")
    if level is None or level == "identity":
        if attribute.size > _MOST_GROUPS:
            raise PlanError(
                f"{argument}: {name!r} has {attribute.size:,} values, more than {_MOST_GROUPS:,} groups; group by a "
                f"level of it, {{{name!r}: level}}, or ask for one value with where."
            )
        return attribute.labels, np.eye(attribute.size)
    try:
        grouping = attribute.level(level)
    except DomainError as problem:
        raise PlanError(f"{argument}: {named(name)}: {problem}") from None
    return tuple(grouping.labels), grouping.matrix()
