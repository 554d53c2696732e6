"""Tables of biased numbers, which have intervals and no standard deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, Label
from residua.linalg.arrays import Floats
from residua.published.columns import Columns
from residua.published.quality import Flag
from residua.published.streaming import axis_labels, ends_of, label_columns
from residua.published.table import how_far


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedTable(Columns):
    """A table of a projection, tidy: attributes, estimate, lower, upper. No standard deviation: estimates are biased.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        estimates: not negative, consistent with every other table of the projection, (n_1, …, n_k).
        labels: what each row of each axis is, where that is not the attributes' values (prefixes, ranges, levels).
        title: which table this is, in words.
        counted: what is counted, in words, where that is not every record.
        ends: of the intervals, the lower and the upper, each like the estimates; None where none was asked for.
        confidence: how often an interval holds the truth, at least.
        beside: further columns of numbers, flat: how many records were left out of each cell.
        missing: about how many records each number lacks; infinite where that is unknown.
        moved: how far each number is from the estimate that it was rounded from, if it was.
    """

    domain: Domain
    attributes: tuple[str, ...]
    estimates: Floats
    labels: tuple[Sequence[Label], ...] | None = None
    title: str = ""
    counted: str = ""
    ends: tuple[Floats, Floats] | None = None
    confidence: float | None = None
    beside: Mapping[str, Floats] = field(default_factory=dict)
    missing: Floats | float = 0.0
    moved: Floats | None = None

    def __post_init__(self) -> None:
        for each in (self.estimates, *(self.ends or ())):
            each.setflags(write=False)

    def __len__(self) -> int:
        return self.estimates.size

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    @property
    def note(self) -> str:
        """What the intervals mean, and what is counted if that is not every record."""
        if self.ends is None or self.confidence is None or np.isnan(self.ends[0]).all():
            return "; ".join(filter(None, (how_far(self), self.counted)))
        means = f"lower to upper: {100 * self.confidence:.10g} % intervals, each by itself"
        return "; ".join(filter(None, (means, how_far(self), self.counted)))

    def rounded_to(self, counts: Floats) -> ProjectedTable:
        """The same in whole numbers near the estimates; intervals hold these as well."""
        ends = self.ends
        if ends is not None:
            ends = (np.minimum(ends[0], counts), np.maximum(ends[1], counts))
        return replace(self, estimates=counts, ends=ends, moved=np.abs(counts - self.estimates))

    @property
    def standard_errors(self) -> Floats | None:
        """As wide as normal noise would have them whose intervals are these; None without intervals."""
        if self.ends is None or self.confidence is None or np.isnan(self.ends[0]).all():
            return None
        lower, upper = (each.ravel() for each in self.ends)
        return (upper - lower) / (2 * NormalDist().inv_cdf(0.5 + self.confidence / 2))

    @property
    def doubtful(self) -> NDArray[np.bool_] | None:
        """Which numbers lack more records than their interval reaches; None where none is known to lack any."""
        if not np.any(self.missing) or self.ends is None:
            return None
        return np.asarray(
            np.broadcast_to(self.missing, self.estimates.shape) > (self.ends[1] - self.ends[0]) / 2
        ).ravel()

    def suppressed(self, flag: Flag) -> ProjectedTable:
        """Without the numbers that have this flag or a worse one, by the width of their intervals.

        Raises:
            PlanError: there are no intervals.
        """
        hidden = self.poor(flag).reshape(self.estimates.shape)
        kept = [np.where(hidden, np.nan, each) for each in (self.estimates, *(self.ends or ()))]
        return replace(self, estimates=kept[0], ends=(kept[1], kept[2]))

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as lists, numbers as arrays."""
        labels, numbers = label_columns(self.attributes, axis_labels(self)), {"estimate": self.estimates}
        numbers |= ends_of(self) | dict(self.beside)
        return labels | {name: column.ravel() for name, column in numbers.items()}
