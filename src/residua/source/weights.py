"""Survey weights: clipped, on a grid, so that what one respondent can change is known before anything is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.errors import SourceError, named
from residua.linalg.arrays import Integers
from residua.machine import pyarrow as pa
from residua.privacy import AddRemove

if TYPE_CHECKING:
    from residua.source.options import Problems

_MOST_STEPS = 2**20  # of one respondent


@dataclass(frozen=True)
class Weights:
    """The column of survey weights: how many people of the population a respondent stands for.

    A weight above `most` counts as `most`, and every weight as the nearest whole number of steps. A respondent then
    changes every table by at most `steps` steps, which is what the noise must hide: `protects` is the unit to plan for.

    Args:
        column: the column of weights, numbers from 0.
        most: where weights are clipped.
        step: the grid; `most` is a whole number of steps.
        squared: whether squares of weights are counted, each up to the next of as many steps as weights have: what
            the sampling error of totals is worked out from. Fine steps cost nothing.

    Raises:
        SourceError: an argument that is not as said here.

    Example:
        >>> Weights("weight", most=50, step=0.5).protects
        AddRemove(records=100)
    """

    column: str
    most: float
    step: float = 1.0
    squared: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SourceError(f"Weights({named(self.column)}, …) names no column; name the column of survey weights.")
        for name in ("most", "step"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2.0**40:
                raise SourceError(
                    f"{name}={named(value)} is not a positive number; say most=50, step=0.1, for example."
                )
        if self._steps.denominator != 1 or not 1 <= self._steps <= _MOST_STEPS:
            raise SourceError(
                f"most={named(self.most)} is not 1 to {_MOST_STEPS:,} whole steps of {self.step}; choose another step."
            )

    @property
    def _steps(self) -> Fraction:
        return Fraction(str(self.most)) / Fraction(str(self.step))

    @property
    def steps(self) -> int:
        """By how many steps a respondent changes a table at most."""
        return int(self._steps)

    @property
    def squares(self) -> Weights:
        """The same column, read for the squares of its weights."""
        return replace(self, squared=True)

    @property
    def protects(self) -> AddRemove:
        """The unit of protection under which one respondent is protected, with any weight up to `most`."""
        return AddRemove(records=self.steps)

    def of(self, column: Any, problems: Problems) -> Integers:
        """The weights of a column in steps; what is none goes into the problems.

        Guarantee: every value is a whole number from 0 to `steps`, whatever the column holds.
        """
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        try:
            values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
        except pa.ArrowException:
            values = np.full(len(column), np.nan)
        if not (np.isfinite(values) & (values >= 0)).all():
            problems.say(
                f"column {self.column!r} holds survey weights that are no numbers ≥ 0; correct or fill them in."
            )
            return np.zeros(len(column), np.int64)
        parts = np.minimum(values, self.most) / self.most
        if self.squared:  # upwards: many small ones must not vanish
            return np.minimum(np.ceil(parts**2 * self.steps - 1e-9), self.steps).astype(np.int64)
        return np.rint(parts * self.steps).astype(np.int64)
