"""A published table: one row per cell, with its estimate, its standard deviation and an interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Anonymous, Domain, Label
from residua.linalg.arrays import Floats
from residua.privacy import Person, Unit
from residua.published.columns import Columns
from residua.published.streaming import axis_labels, batches, label_columns

if TYPE_CHECKING:
    import pyarrow


def what_is_counted(unit: Unit) -> str:
    """What a table counts, in words, where the unit of protection bounds it; nothing where every record is counted."""
    if not isinstance(unit, Person):
        return ""
    records = "1 record" if unit.records == 1 else f"{unit.records:,} records"
    limits = "".join(f", {most:,} in each value of {name!r}" for name, most in unit.limits.items())
    return f"counts at most {records} of each person{limits}"


def protects(unit: Unit, receipt: Mapping[str, Any]) -> str:
    """Whom a release protects; where rows came with counts, it is one of the records so counted, not a row."""
    return f"{unit}" + (f" (records as counted in column {receipt['counts']!r})" if "counts" in receipt else "")


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
            return self.counts
        held = {None: "each by itself", "table": "all of this table together", "release": "all of the release together"}
        means = f"lower to upper: {100 * self.confidence:.10g} % intervals, {held[self.simultaneous]}"
        return f"{means}; {self.counts}" if self.counts else means

    def batches(self, rows: int = 2**19, *, compact: bool = False) -> Iterator[pyarrow.RecordBatch]:
        """The table as Arrow record batches: of a large one, no more than its estimates and a batch are in memory."""
        import pyarrow as pa

        first = 0
        for keys, numbers in batches(self, rows=rows, compact=compact):
            own = slice(first, first + len(numbers["estimate"]))
            numbers |= {name: values[own] for name, values in self.beside.items()}
            yield pa.RecordBatch.from_arrays([*keys, *map(pa.array, numbers.values())], [*self.keys, *numbers])
            first = own.stop

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
        reach = self.width * stddevs
        bars = {"estimate": estimates, "stddev": stddevs, "lower": estimates - reach, "upper": estimates + reach}
        return keys | bars | dict(self.beside)

    @property
    def doubtful(self) -> NDArray[np.bool_] | None:
        """Which numbers lack more records than their interval reaches; None where none is known to lack any."""
        if not np.any(self.missing):
            return None
        stddevs = np.broadcast_to(self.stddev, self.estimates.shape).ravel()
        return np.asarray(np.broadcast_to(self.missing, self.estimates.shape).ravel() > self.width * stddevs)


def domain_of_queries(count: int) -> Domain:
    """The domain of a table of answers: one attribute, whose values are the queries."""
    return Domain({"query": Anonymous(count)})
