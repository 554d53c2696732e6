"""A range of an attribute's values: all from the first to the last, both included, in the order of the domain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from operator import index
from typing import Any

import numpy as np

from residua.domain.attributes import Attribute, Label
from residua.errors import DomainError


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
        first = 0 if self.first is None else _code(name, attribute, self.first)
        last = attribute.declared - 1 if self.last is None else _code(name, attribute, self.last)
        if max(first, last) >= attribute.declared:
            raise DomainError(f"the other values of {name!r} have no place in its order; leave them out.")
        if first > last:
            raise DomainError(f"{name} begins at {self.first!r}, after {self.last!r}; exchange them.")
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


def _code(name: str, attribute: Attribute, label: Any) -> int:
    wanted = plain_label(label)
    if not isinstance(wanted, str | int) or isinstance(wanted, bool) or wanted not in attribute.labels:
        raise DomainError(f"{label!r} is not a value of {name!r}; see domain[{name!r}].labels.")
    return attribute.labels.index(wanted)
