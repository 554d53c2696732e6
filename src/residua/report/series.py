"""The numbers of one picture: what each is, its estimate, its interval, how reliable it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from residua.linalg.arrays import Floats
from residua.published.quality import FLAGS, grades
from residua.report.svg import number

UNTOLD = "not told"
_COARSE, _LARGE = 1.0, 100.0  # standard errors, and estimates without any, that make decimals pointless


@dataclass(frozen=True, eq=False)
class Series:
    """Estimates along one or more axes, with what belongs to them in arrays of the same shape.

    Args:
        names: what each axis is called.
        labels: the labels along each axis.
        estimates: the numbers.
        lower, upper: their intervals; None where there are none (a projection).
        grades: the place of each flag in `FLAGS`; None where there are none.
        whole: whether the numbers are written without decimals, which their errors would not justify.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    estimates: Floats
    lower: Floats | None = None
    upper: Floats | None = None
    grades: Any = None
    whole: bool = False

    def known(self, *cell: int) -> bool:
        """Whether a cell has a number at all: groups may be measured in different detail."""
        return bool(np.isfinite(self.estimates[cell]))

    def value(self, *cell: int) -> str:
        """A cell's estimate as it is written beside its mark."""
        estimate = float(self.estimates[cell])
        return number(round(estimate) if self.whole and self.known(*cell) else estimate)

    @property
    def span(self) -> list[float]:
        """The smallest and the largest number to be drawn, intervals included."""
        arrays = [array for array in (self.estimates, self.lower, self.upper) if array is not None]
        finite = np.concatenate([array.ravel() for array in arrays])
        finite = finite[np.isfinite(finite)]
        return [float(finite.min()), float(finite.max())] if len(finite) else [0.0, 1.0]

    def along(self, axis: int) -> list[Self]:
        """One series per label of an axis, that axis left out."""
        rest = [i for i in range(len(self.names)) if i != axis]

        def part(array: Any, i: int) -> Any:
            return None if array is None else np.take(array, i, axis=axis)

        return [
            replace(
                self,
                names=tuple(self.names[j] for j in rest),
                labels=tuple(self.labels[j] for j in rest),
                estimates=part(self.estimates, i),
                lower=part(self.lower, i),
                upper=part(self.upper, i),
                grades=part(self.grades, i),
            )
            for i in range(len(self.labels[axis]))
        ]

    def grade(self, *cell: int) -> int:
        """The place of a cell's flag; 0 where there is none."""
        return 0 if self.grades is None else int(self.grades[cell])

    def words(self, *cell: int) -> str:
        """A cell in words, as shown on hover: what it is, its estimate, interval and flag."""
        where = ", ".join(f"{name} {along[i]}" for name, along, i in zip(self.names, self.labels, cell, strict=True))
        if not self.known(*cell):
            return f"{where}: {UNTOLD}"
        words = f"{where}: {number(float(self.estimates[cell]))}"
        if self.lower is not None and self.upper is not None and np.isfinite(self.lower[cell]):
            words += f", {number(float(self.lower[cell]))} to {number(float(self.upper[cell]))}"
        return words if self.grades is None else f"{words} ({FLAGS[self.grade(*cell)]})"


def series_of(table: Any, names: Sequence[str], labels: Sequence[Sequence[str]]) -> Series:
    """The numbers of a published table (or a projection's), one axis per attribute."""
    shape, columns = table.estimates.shape, table.columns
    along = tuple(names), tuple(tuple(each) for each in labels)
    if "stddev" not in columns:  # a projection or estimates: their errors are not known cell by cell
        whole = bool(np.nanmax(np.abs(table.estimates), initial=0.0) >= _LARGE)
        return Series(*along, table.estimates, whole=whole)
    lower, upper = (np.reshape(columns[name], shape) for name in ("lower", "upper"))
    bare = bool(np.isnan(lower).all())
    flags = np.reshape(grades(columns["estimate"], columns["stddev"]), shape)
    whole = bool(np.min(columns["stddev"], initial=np.inf) >= _COARSE)
    return Series(*along, table.estimates, None if bare else lower, None if bare else upper, flags, whole)
