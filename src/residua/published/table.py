"""A published table: one row per cell, with its estimate, its standard deviation and an interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Anonymous, Domain, Label
from residua.language import mark, say, say_many
from residua.linalg.arrays import Floats
from residua.privacy import Person, Unit
from residua.published.columns import Columns
from residua.published.quality import THRESHOLDS, Flag
from residua.published.streaming import axis_labels, batches, label_columns

if TYPE_CHECKING:
    import pyarrow


QUERY = ("query",)  # the attribute of a table of answers
LEFT_OUT = ("left_out", "left_out_lower", "left_out_upper")  # columns beside the numbers


def what_is_counted(unit: Unit) -> str:
    """What a table counts, in words, where the unit of protection bounds it; nothing where every record is counted."""
    if not isinstance(unit, Person):
        return ""
    limits = "".join(
        say(", {most} in each value of {name}", most=n, name=repr(name)) for name, n in unit.limits.items()
    )
    counted = say_many(
        "counts at most 1 record of each person", "counts at most {n} records of each person", unit.records
    )
    return counted + limits


def protects(unit: Unit, receipt: Mapping[str, Any]) -> str:
    """Whom a release protects; where rows came with counts, it is one of the records so counted, not a row."""
    if "counts" in receipt:
        return say("{unit} (records as counted in column {column})", unit=str(unit), column=repr(receipt["counts"]))
    return str(unit)


def how_far(table: Any) -> str:
    """How far rounding moved the numbers of a table, in words, beside their noise; nothing where it did not."""
    if table.moved is None or not table.moved.size:
        return ""
    noise = getattr(table, "stddev", None)
    far = {"most": float(table.moved.max()), "mean": float(table.moved.mean())}
    words = say("rounded by at most {most:.3g}, on average {mean:.2g}, which is in the intervals", **far)
    if noise is None:
        return words
    return f"{words}; {say('the noise has a standard deviation of {stddev:,.3g}', stddev=float(np.nanmean(noise)))}"


@dataclass(frozen=True, eq=False, repr=False)
class Table(Columns):
    """Estimates with error bars, tidy: attributes, estimate, stddev, lower, upper.

    Answers to queries are a table of one attribute, `query`.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        estimates: unbiased estimates, (n_1, …, n_k).
        stddev: the standard deviation of each cell: one for all, or an array like the estimates.
        width: how many standard deviations the intervals reach either side: one figure, or one for each cell, flat.
        labels: what each row of each axis is, where that is not the attributes' values (prefixes, ranges, levels).
        title: which table this is, in words.
        confidence: how often an interval holds the truth; None where it was not stated.
        simultaneous: `"table"` or `"release"` where all intervals hold together with that confidence.
        counts: what is counted, in words, where that is not every record.
        beside: further columns of numbers, flat, such as how many records were left out of each cell.
        missing: about how many records each number lacks; infinite where that is unknown.
        moved: how far each number is from the estimate that it was rounded from; intervals reach further by so much.
    """

    domain: Domain
    attributes: tuple[str, ...]
    estimates: Floats
    stddev: float | Floats
    width: float | Floats
    labels: tuple[Sequence[Label], ...] | None = None
    title: str = ""
    confidence: float | None = None
    simultaneous: str | None = None
    counts: str = ""
    beside: Mapping[str, Floats] = field(default_factory=dict)
    missing: Floats | float = 0.0
    moved: Floats | None = None

    def __post_init__(self) -> None:
        self.estimates.setflags(write=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    @property
    def note(self) -> str:
        """What the intervals mean, and what is counted if that is not every record."""
        if self.confidence is None or np.isnan(self.width).any():
            return "; ".join(filter(None, (how_far(self), self.counts)))
        held = {
            None: mark("lower to upper: {confidence:.10g} % intervals, each by itself"),
            "table": mark("lower to upper: {confidence:.10g} % intervals, all of this table together"),
            "release": mark("lower to upper: {confidence:.10g} % intervals, all of the release together"),
        }
        means = say(held[self.simultaneous], confidence=100 * self.confidence)
        return "; ".join(filter(None, (means, how_far(self), self.counts)))

    def rounded_to(self, counts: Floats) -> Table:
        """The same in whole numbers near the estimates."""
        return replace(self, estimates=counts, moved=np.abs(counts - self.estimates))

    def poor(self, flag: Flag, thresholds: tuple[float, float] = THRESHOLDS) -> NDArray[np.bool_]:
        """Which numbers have this flag or a worse one, or are counts below zero, flat."""
        below = self.estimates.ravel() < 0 if self.attributes != QUERY else False  # queries may be differences
        return super().poor(flag, thresholds) | below

    def suppressed(self, flag: Flag) -> Table:
        """Without the numbers that have this flag or a worse one, and without counts below zero."""
        stddevs = np.broadcast_to(self.stddev, self.estimates.shape)
        hidden = self.poor(flag).reshape(stddevs.shape)
        return replace(
            self, estimates=np.where(hidden, np.nan, self.estimates), stddev=np.where(hidden, np.nan, stddevs)
        )

    def batches(self, rows: int = 2**19, *, compact: bool = False) -> Iterator[pyarrow.RecordBatch]:
        """The table as Arrow record batches: of a large one, no more than its estimates and a batch are in memory."""
        import pyarrow as pa

        for keys, numbers in batches(self, rows=rows, compact=compact):
            yield pa.RecordBatch.from_arrays([*keys, *map(pa.array, numbers.values())], [*self.keys, *numbers])

    def to_arrow(self, *, compact: bool = False) -> pyarrow.Table:
        """The table as a pyarrow Table; compact, with labels as dictionaries."""
        import pyarrow

        table = pyarrow.Table.from_batches(self.batches(compact=compact))
        return table.replace_schema_metadata({"note": self.note}) if self.note else table

    def __len__(self) -> int:
        return int(self.estimates.size)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: keys as lists, numbers as arrays."""
        keys = label_columns(self.attributes, axis_labels(self))
        estimates, stddevs = self.estimates.ravel(), np.broadcast_to(self.stddev, self.estimates.shape).ravel()
        reach = self._reach(stddevs)
        bars = {"estimate": estimates, "stddev": stddevs, "lower": estimates - reach, "upper": estimates + reach}
        return keys | bars | dict(self.beside)

    @property
    def doubtful(self) -> NDArray[np.bool_] | None:
        """Which numbers lack more records than their interval reaches; None where none is known to lack any."""
        if not np.any(self.missing):
            return None
        stddevs = np.broadcast_to(self.stddev, self.estimates.shape).ravel()
        return np.asarray(np.broadcast_to(self.missing, self.estimates.shape).ravel() > self._reach(stddevs))

    def _reach(self, stddevs: Floats) -> Floats:
        """How far intervals reach either side, flat."""
        return np.asarray(self.width * stddevs + (0.0 if self.moved is None else self.moved.ravel()))


def domain_of_queries(count: int) -> Domain:
    """The domain of a table of answers: one attribute, whose values are the queries."""
    return Domain({"query": Anonymous(count)})
