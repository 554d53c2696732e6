"""The numbers that an attribute's values stand for: whole numbers themselves, bins by midpoint, dates by day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from residua.domain import Bins, Categories, Dates, Domain, Integers, Label
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats
from residua.quoting.terms import place_of

Values = Mapping[Label, float] | Sequence[float] | Floats


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of an attribute's cells.

    Args:
        values: one per cell, (n,); 0 for the cell of other values.
        counted: which cells have one, (n,): not that of other values.
        lowest: the least number that a record of each cell may have, (n,); of bins their lower edges.
        highest: the largest, (n,).
        dates: whether they are days since 1970-01-01.
    """

    values: Floats
    counted: Booleans
    lowest: Floats
    highest: Floats
    dates: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which every mean of the values lies."""
        return float(self.values[self.counted].min()), float(self.values[self.counted].max())

    @property
    def remark(self) -> str:
        """What is left out, in words."""
        return "" if self.counted.all() else "records counted as (other) are left out"


def numbers_of(domain: Domain, name: str, values: Values | None = None, *, ordered: bool = False) -> Numbers:
    """The numbers of an attribute's cells.

    Args:
        domain: what the table may hold.
        name: the attribute.
        values: label → number, for some or all values; or a number for each declared value.
        ordered: whether their order alone matters, so that an endless bin may stand at its one edge.

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
        if not ordered or values is not None:  # an endless bin has no midpoint
            middle[:declared][~finite.all(axis=1)] = np.nan
    elif isinstance(attribute, Dates):
        dates = True
        middle[:declared] = [(start - _EPOCH).days for start in attribute.starts]
        lowest[:] = highest[:] = middle
    elif isinstance(attribute, Integers) or _is_whole(attribute):
        middle[:declared] = [float(label) for label in attribute.declared_labels]
        lowest[:] = highest[:] = middle
    if values is not None:
        given = _given(domain, name, values)
        known = np.isfinite(given)
        whole = known[:declared].all() or not isinstance(attribute, Bins)
        middle = np.where(known, given, middle)
        if whole:
            lowest, highest, dates = np.where(known, given, lowest), np.where(known, given, highest), False
    lost = np.flatnonzero(np.isnan(middle[:declared]))
    if len(lost) == declared:
        raise PlanError(
            f"the values of {name!r} are not numbers; give values={{{attribute.labels[0]!r}: 0.0, …}}, a number per "
            "label, or name an attribute of whole numbers or bins."
        )
    if len(lost):
        label = attribute.labels[int(lost[0])]
        raise PlanError(
            f"the value {label!r} of {name!r} has no number (an endless bin has no midpoint); give one, such as "
            f"values={{{label!r}: …}} (of the command: --values '{label}=…')."
        )
    counted = np.arange(n) < declared
    middle, lowest, highest = (np.where(counted, part, 0.0) for part in (middle, lowest, highest))
    return Numbers(middle, counted, lowest, highest, dates)


_EPOCH = np.datetime64("1970-01-01").astype(object)


def _is_whole(attribute: object) -> bool:
    return isinstance(attribute, Categories) and all(isinstance(label, int) for label in attribute.values)


def _given(domain: Domain, name: str, values: Any) -> Floats:
    attribute = domain[name]
    numbers = np.full(attribute.size, np.nan)
    if isinstance(values, Mapping):
        pairs = [(place_of(name, attribute, label, "values"), value) for label, value in values.items()]
    else:
        listed = list(values) if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else []
        if len(listed) != attribute.declared:
            raise PlanError(
                f"values={values!r} is not a number per value of {name!r}; give {attribute.declared}, or a dictionary "
                "{label: number}."
            )
        pairs = list(enumerate(listed))
    for place, value in pairs:
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise PlanError(f"values: {value!r} is not a finite number; give numbers.")
        if place >= attribute.declared:
            raise PlanError(f"values: the other values of {name!r} are no single value; leave them out.")
        numbers[place] = float(value)
    return numbers
