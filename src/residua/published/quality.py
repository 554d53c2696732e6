"""Quality flags by coefficient of variation, as statistical offices publish them, and suppression by flag.

The coefficient of variation is `stddev / |estimate|`. At most 16.5 % is `reliable`, at most 33.3 % `use with caution`,
more is `unreliable` (the bands of Statistics Canada; others use 12 and 40, or 15 and 30: the thresholds are settable).
Flags are made from published numbers alone, so that flagging and suppressing cost no privacy and leak nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.published.table import Columns

FLAGS = ("reliable", "use with caution", "unreliable")
THRESHOLDS = (0.165, 0.333)
COLUMN = "quality"
Flag = Literal["reliable", "use with caution", "unreliable"]


def variation(estimates: ArrayLike, stddevs: ArrayLike) -> Floats:
    """The coefficient of variation, `stddev / |estimate|`; infinite where the estimate is 0 or nothing is known.

    Example:
        >>> variation([100.0, -10.0, 0.0], [5.0, 5.0, 5.0]).tolist()
        [0.05, 0.5, inf]
    """
    sizes, deviations = np.abs(np.asarray(estimates, dtype=np.float64)), np.asarray(stddevs, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = deviations / sizes
    return np.where(np.isnan(found), np.inf, found)


def qualities(estimates: ArrayLike, stddevs: ArrayLike, thresholds: Sequence[float] = THRESHOLDS) -> NDArray[Any]:
    """A flag for every number.

    Raises:
        PlanError: thresholds that are not two increasing positive numbers.

    Example:
        >>> qualities([100.0, 20.0, 3.0], [5.0, 5.0, 5.0]).tolist()
        ['reliable', 'use with caution', 'unreliable']
    """
    first, second = checked(thresholds)
    found = variation(estimates, stddevs)
    return np.asarray(np.array(FLAGS, dtype=object)[(found > first).astype(int) + (found > second)])


def checked(thresholds: Sequence[float]) -> tuple[float, float]:
    """The two thresholds, once they are known to be two."""
    try:
        first, second = (float(each) for each in thresholds)
    except (TypeError, ValueError):
        first, second = np.nan, np.nan
    if not 0 < first < second < np.inf:
        raise PlanError(
            f"thresholds={thresholds!r} are not two increasing positive numbers; give them as shares, such as "
            f"{THRESHOLDS}."
        )
    return first, second


@dataclass(frozen=True, eq=False, repr=False)
class Flagged(Columns):
    """A table with a column `quality`, and with the numbers of suppressed rows blank, or those rows left out.

    Args:
        table: the published numbers.
        thresholds: the coefficients of variation above which a number is to be used with caution, and is unreliable.
        suppress: the flag from which on numbers are suppressed; None to show all.
        omit: leave suppressed rows out, instead of leaving their numbers blank.
    """

    table: Columns
    thresholds: tuple[float, float] = THRESHOLDS
    suppress: Flag | None = None
    omit: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", checked(self.thresholds))
        if self.suppress is not None and self.suppress not in FLAGS[1:]:
            raise PlanError(f"suppress={self.suppress!r} is not {FLAGS[1]!r} or {FLAGS[2]!r}; use one of them.")
        if "stddev" not in self.table.columns:
            raise PlanError("these numbers have no standard deviation to judge them by; flag those of the release.")
        if not isinstance(self.table.columns["estimate"], np.ndarray):
            raise PlanError(
                "dates have no coefficient of variation, so that they cannot be flagged; read their intervals."
            )
        if COLUMN in self.table.columns:
            raise PlanError(f"the table has a column {COLUMN!r} already; rename that attribute to have flags.")

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that say what a row is."""
        return self.table.keys

    @property
    def note(self) -> str:
        """What the flags mean, after what the numbers do."""
        first, second = (f"{100 * each:g} %" for each in self.thresholds)
        flags = f"{COLUMN}: by coefficient of variation, caution above {first}, unreliable above {second}"
        hidden = f"; {self._hidden.sum()} of {len(self._hidden)} rows suppressed" if self.suppress else ""
        return "; ".join(filter(None, (self.table.note, flags))) + hidden

    @property
    def decimals(self) -> int:
        """As in the table itself."""
        return self.table.decimals

    @cached_property
    def _quality(self) -> NDArray[Any]:
        return qualities(self.table.columns["estimate"], self.table.columns["stddev"], self.thresholds)

    @cached_property
    def _hidden(self) -> NDArray[np.bool_]:
        worst = FLAGS[FLAGS.index(self.suppress) :] if self.suppress else ()
        return np.isin(self._quality.astype(str), worst)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The table's own columns, and `quality`."""
        columns = {**self.table.columns, COLUMN: self._quality.tolist()}
        if self.suppress is None:
            return columns
        if self.omit:
            kept = np.flatnonzero(~self._hidden)
            return {
                name: values[kept] if isinstance(values, np.ndarray) else [values[i] for i in kept]
                for name, values in columns.items()
            }
        return {
            name: values if name in self.keys or name == COLUMN else _blank(values, self._hidden)
            for name, values in columns.items()
        }

    def __len__(self) -> int:
        return int((~self._hidden).sum()) if self.omit else len(self._quality)


def _blank(values: Any, hidden: NDArray[np.bool_]) -> Any:
    if isinstance(values, np.ndarray):
        return np.where(hidden, np.nan, values)
    return [None if gone else value for value, gone in zip(values, hidden.tolist(), strict=True)]
