"""Conditions on values: a range of an attribute's values, and combinations of values that no record can have.

A rule names values of some attributes; a cell that has one of them in each is impossible (a structural zero). Rules
come from public knowledge, like the rest of the domain. They change neither plans nor what is measured (a record in an
impossible cell is counted like any other: refusing it would reveal that it is there); projection makes these cells
exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from residua.domain.attributes import Attribute, Label
from residua.errors import DomainError, kind_of, listing, named, nearest

if TYPE_CHECKING:
    from residua.domain.domain import Domain


@dataclass(frozen=True)
class Between:
    """All values from the first to the last, both included; made by `between`."""

    first: Label | date | None
    last: Label | date | None

    def codes(self, name: str, attribute: Attribute) -> slice:
        """The codes of these values of an attribute.

        Raises:
            DomainError: an end that is not a value or has no place in the order, or ends the wrong way round.
        """
        first = 0 if self.first is None else code_of(name, attribute, self.first)
        last = attribute.declared - 1 if self.last is None else code_of(name, attribute, self.last)
        if max(first, last) >= attribute.declared:
            raise DomainError(f"the other values of {name!r} have no place in its order; leave them out.")
        if first > last:
            raise DomainError(f"a range of {name!r} begins after its end; exchange them.")
        return slice(first, last + 1)


def between(first: Label | date | None, last: Label | date | None) -> Between:
    """All values from `first` to `last`, both included, in the order of the domain.

    Args:
        first: the label of the first value, or a day; None for the domain's own first.
        last: the label of the last value; None for the domain's own last (the cell of other values is never in).

    Example:
        >>> from residua.domain import Integers
        >>> between(1, 3).codes("hour", Integers(0, 4))
        slice(1, 4, None)
    """
    return Between(first, last)


def plain_label(label: Any) -> Any:
    """A label as the domain writes it: NumPy's numbers and texts as Python's, a day or its midnight as `2024-01-31`."""
    if isinstance(label, str | int):
        return str(label) if isinstance(label, str) else label
    if isinstance(label, np.datetime64):
        label = label.astype("datetime64[us]").item()
    if isinstance(label, datetime):
        return label.date().isoformat() if label == datetime.combine(label.date(), time(), label.tzinfo) else label
    if isinstance(label, date):
        return label.isoformat()
    try:
        return index(label)
    except TypeError:
        return label


def code_of(name: str, attribute: Attribute, label: Any) -> int:
    """The code of a label, which counts as it is written: neither True nor 1.0 is taken for 1.

    Raises:
        DomainError: it is none, with the nearest that is.
    """
    return _found(name, attribute, attribute.labels, label)


def codes_of(name: str, attribute: Attribute, chosen: Any) -> list[int]:
    """The codes of a label, of a list, set or `range` of labels, or of a range in the domain's order (`between`).

    Raises:
        DomainError: none, one that is no value, or a tuple, which could be a list or a range.
    """
    if attribute.summed:
        raise DomainError(f"{name!r} is an amount, of which sums are known and no values; ask for its sum or mean.")
    if isinstance(chosen, tuple | slice):
        raise DomainError(
            f"{name}={named(chosen)} could mean these values or all between them; write a list, [first, last], "
            "or rs.between(first, last)."
        )
    if isinstance(chosen, Between):
        return list(range(attribute.size)[chosen.codes(name, attribute)])
    several = isinstance(chosen, Iterable) and not isinstance(chosen, str | bytes | Mapping | np.ndarray)
    listed = list(chosen) if several else [chosen]
    labels: Any = attribute.labels
    if len(listed) > 1 and isinstance(labels, tuple):  # which would be searched from its start for every label
        labels = {label: code for code, label in enumerate(labels)}
    if not listed:
        raise DomainError(f"{name!r} names no value; list at least one, or leave the attribute out.")
    return [_found(name, attribute, labels, label) for label in listed]


def _found(name: str, attribute: Attribute, labels: Any, label: Any) -> int:
    """The code of a label, by labels in order or by a dictionary of codes."""
    wanted = plain_label(label)
    if not isinstance(wanted, str | int) or isinstance(wanted, bool) or wanted not in labels:
        shown, remedy = nearest(label, attribute.labels)
        raise DomainError(f"{shown[1:] or 'what was given'} is not a value of {name!r}; {remedy}")
    code: int = labels[wanted] if isinstance(labels, dict) else labels.index(wanted)
    return code


Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """One combination that no record can have.

    Args:
        conditions: attribute and the values that are impossible together with those of the other conditions; in the
            domain's order.
    """

    conditions: tuple[tuple[str, tuple[Label, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes the rule speaks of."""
        return tuple(name for name, _ in self.conditions)

    def settings(self) -> dict[str, list[Label]]:
        """The rule as plain values, for files."""
        return {name: list(labels) for name, labels in self.conditions}

    def __str__(self) -> str:
        return " and ".join(f"{name} = {_shown(labels)}" for name, labels in self.conditions)


def rules_of(domain: Domain, declared: Any) -> tuple[Rule, ...]:
    """The rules that plain values declare, each attribute → a value, a list of values, a range
    (`rs.between`), or {low, high}.

    Raises:
        DomainError: not a list of rules, an unknown attribute or value, or a rule that makes everything impossible.
    """
    if isinstance(declared, Mapping | str) or not isinstance(declared, Iterable):
        raise DomainError(f"impossible={named(declared)} is not a list of rules; write [{{attribute: values, …}}, …].")

    def place(rule: Rule) -> list[tuple[int, list[int]]]:
        return [(domain.position(name), codes_of(name, domain[name], [*labels])) for name, labels in rule.conditions]

    return tuple(sorted({_rule(domain, one) for one in declared}, key=place))


def impossible_cells(domain: Domain, names: Sequence[str]) -> Mask | None:
    """Which cells of the marginal on these attributes a rule makes impossible; None if no rule is about them alone.

    A rule is about every marginal that holds all its attributes, one axis per attribute in the order given.
    """
    mask: Mask | None = None
    shape = [domain[name].size for name in names]
    for rule in domain.impossible:
        if not set(rule.names) <= set(names):
            continue
        cells = np.ones((), dtype=bool)
        values = dict(rule.conditions)
        for axis, name in enumerate(names):
            along = np.ones(shape[axis], dtype=bool)
            if name in values:
                along[:] = False
                along[codes_of(name, domain[name], [*values[name]])] = True
            cells = np.logical_and.outer(cells, along)
        mask = cells if mask is None else mask | cells
    return mask


def _rule(domain: Domain, declared: Any) -> Rule:
    if isinstance(declared, Rule):
        declared = declared.settings()
    if not isinstance(declared, Mapping):
        raise DomainError(f"impossible holds {kind_of(declared)}, which is not a rule; write {{attribute: values, …}}.")
    conditions: dict[str, tuple[Label, ...]] = {}
    for name, values in declared.items():
        labels = _labels(domain, name, values)
        if len(labels) < domain[name].size:  # all values of an attribute are no condition
            conditions[name] = labels
    if not conditions:
        raise DomainError(
            f"impossible: a rule about {listing(declared)} makes every record impossible; name fewer values."
        )
    return Rule(tuple((name, conditions[name]) for name in domain.names if name in conditions))


def _labels(domain: Domain, name: str, values: Any) -> tuple[Label, ...]:
    """The labels a condition means, in the order of their codes."""
    if isinstance(values, Mapping):
        if set(values) != {"low", "high"} or not all(type(value) is int for value in values.values()):
            raise DomainError(f"impossible: {name!r} has a mapping; write {{low = 0, high = 14}}, or list values.")
        values = range(values["low"], values["high"] + 1)
    try:
        attribute = domain[name]
        return tuple(attribute.labels[code] for code in sorted({*codes_of(name, attribute, values)}))
    except DomainError as problem:
        raise DomainError(f"impossible: {problem}") from None


def _shown(labels: Sequence[Label]) -> str:
    listed = ", ".join(repr(label) for label in labels[:4])
    return listed if len(labels) == 1 else f"({listed}{', …' if len(labels) > 4 else ''})"
