"""Conditions that no engine must read: comparisons of attributes with values, joined by AND.

Loading DuckDB takes longer than counting. Only what means the same in SQL beyond doubt is read here, and only where it
is met by some cell; everything else, and every mistake, is left to DuckDB (`single.py`).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from residua.domain import Attribute, Bins, Dates, Domain
from residua.linalg.arrays import Booleans, Floats
from residua.workload.comparing import cells_of_bins
from residua.workload.pieces import MOST_CELLS

_NAME = r'(?P<name>[A-Za-z_]\w*|"(?:[^"]|"")+")'
_VALUE = r"(?:-?\d{1,15}(?![\w.])|'(?:[^']|'')*')"
_ONE = re.compile(
    rf"\s*{_NAME}\s*(?:(?P<operator><=|>=|<>|!=|<|>|=)\s*(?P<value>{_VALUE})"
    rf"|\bbetween\s*(?P<first>{_VALUE})\s*and\b\s*(?P<last>{_VALUE})"
    rf"|\bin\s*\(\s*(?P<listed>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\))\s*(?P<more>\band\b|$)",
    re.IGNORECASE | re.ASCII,
)
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


def plain_condition(domain: Domain, text: str) -> dict[str, Floats] | None:
    """Attribute → 1 for each of its values that meets a condition and 0 for others, (n,); None: ask DuckDB."""
    chosen: dict[str, Booleans] = {}
    for name, parts in _comparisons(text):
        met = [_met(domain[name], *part) for part in parts] if name in domain else [None]
        if any(each is None for each in met):
            return None
        together = np.logical_or if parts[0][0] == "in" else np.logical_and
        chosen[name] = together.reduce([each for each in met if each is not None]) & chosen.get(name, True)
    possible = all(mask.any() for mask in chosen.values()) and math.prod(map(len, chosen.values())) <= MOST_CELLS
    return {name: mask.astype(np.float64) for name, mask in chosen.items()} if possible and chosen else None


def _comparisons(text: str) -> Iterator[tuple[str, list[tuple[str, str | int]]]]:
    """Each attribute that is compared, and with what; an attribute without a name for what cannot be read."""
    at, more = 0, True
    while more:
        match = _ONE.match(text, at)
        if match is None:
            yield "", [("=", "")]
            return
        name = match["name"]
        listed = [("in", _value(each)) for each in re.findall(_VALUE, match["listed"] or "")]
        pair = [(">=", _value(match["first"])), ("<=", _value(match["last"]))] if match["first"] else []
        one = [] if match["value"] is None else [(match["operator"].replace("<>", "!="), _value(match["value"]))]
        yield name[1:-1].replace('""', '"') if name.startswith('"') else name, listed + pair + one
        at, more = match.end(), bool(match["more"])


def _value(written: str) -> str | int:
    return written[1:-1].replace("''", "'") if written.startswith("'") else int(written)


def _met(attribute: Attribute, compared: str, value: str | int) -> Booleans | None:
    """Which cells meet a comparison, (n,); None where it takes an engine to say."""
    compared = "=" if compared == "in" else compared
    met = np.zeros(attribute.size, dtype=bool)
    if isinstance(value, int):
        if isinstance(attribute, Bins):
            inside = cells_of_bins(attribute, compared, value)
        elif not isinstance(attribute, Dates) and all(isinstance(label, int) for label in attribute.declared_labels):
            inside = _COMPARED[compared](np.array(attribute.declared_labels), value)
        else:
            return None
        if inside is not None:
            met[: attribute.declared] = inside  # the cell of other values is NULL, and meets nothing
        return None if inside is None else met
    labels = attribute.labels
    texts = not isinstance(attribute, Dates) and all(isinstance(label, str) for label in labels)
    if not texts or compared not in ("=", "!=") or value not in labels:
        return None
    met[labels.index(value)] = True
    return met if compared == "=" else ~met
