"""A published table: one row per cell, with its estimate, its standard deviation and an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain import Anonymous, Domain, Label
from residua.errors import PlanError, named
from residua.language import mark, say, say_many
from residua.linalg.arrays import Floats
from residua.machine import pyarrow as pa
from residua.privacy import Person, Unit
from residua.published.columns import Columns
from residua.published.quality import THRESHOLDS, Flag
from residua.published.streaming import axis_labels, batches, label_columns

_OUTWARDS: dict[str, Callable[..., Any]] = {"lower": np.minimum, "upper": np.maximum}
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


@dataclass(frozen=True, eq=False, repr=False)
class Table(Columns):
    """Published numbers, tidy: attributes, estimate, and how far it may be off.

    Unbiased estimates have `stddev`, from which `lower` and `upper` follow. Biased ones (a projection's, a model's)
    have no standard deviation, and intervals of their own, if any. Answers to queries are a table of one attribute,
    `query`.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        estimates: the numbers, (n_1, …, n_k).
        stddev: the standard deviation of each cell: one for all, or an array like the estimates; None where they are
            biased.
        width: how many standard deviations the intervals reach either side: one figure, or one for each cell.
        labels: what each row of each axis is, where that is not the attributes' values (prefixes, ranges, levels).
        title: which table this is, in words.
        confidence: how often an interval holds the truth, of biased numbers at least; None where it was not stated.
        simultaneous: `"table"` or `"release"` where all intervals hold together with that confidence.
        counts: what is counted, in words, where that is not every record.
        beside: further columns of numbers, flat, such as how many records were left out of each cell.
        missing: about how many records each number lacks; infinite where that is unknown.
        moved: how far each number is from the estimate that it was rounded from; intervals allow for it.
        lower: the lower ends of the intervals of biased numbers, like the estimates; None where there are none.
        upper: the upper ends.
    """

    domain: Domain
    attributes: tuple[str, ...]
    estimates: Floats
    stddev: float | Floats | None = None
    width: float | Floats = np.nan
    labels: tuple[Sequence[Label], ...] | None = None
    title: str = ""
    confidence: float | None = None
    simultaneous: str | None = None
    counts: str = ""
    beside: Mapping[str, Floats] = field(default_factory=dict)
    missing: Floats | float = 0.0
    moved: Floats | None = None
    lower: Floats | None = None
    upper: Floats | None = None

    def __post_init__(self) -> None:
        for each in (self.estimates, *self.ends.values()):
            each.setflags(write=False)
        if taken := [name for name in self.attributes if name in self.beside]:
            raise PlanError(f"the attribute {named(taken[0])} is also a column of this table; rename the attribute.")

    def __len__(self) -> int:
        return int(self.estimates.size)

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    @property
    def ends(self) -> dict[str, Floats]:
        """The ends of intervals that do not follow from standard deviations, by column."""
        return {} if self.lower is None or self.upper is None else {"lower": self.lower, "upper": self.upper}

    @property
    def stddevs(self) -> Floats | None:
        """The standard deviations, flat, or one of all where they are alike; None where numbers are biased."""
        if self.stddev is None:
            return None
        one = np.asarray(self.stddev, dtype=np.float64)
        return np.broadcast_to(one, self.estimates.shape).reshape(-1) if any(one.strides) else one.reshape(-1)[:1]

    @property
    def note(self) -> str:
        """What the intervals mean, and what is counted if that is not every record."""
        held = {
            None: mark("lower to upper: {confidence:.10g} % intervals, each by itself"),
            "table": mark("lower to upper: {confidence:.10g} % intervals, all of this table together"),
            "release": mark("lower to upper: {confidence:.10g} % intervals, all of the release together"),
        }
        means = ""
        if self.confidence is not None and not np.isnan(self.width if self.lower is None else self.lower).all():
            means = say(held[self.simultaneous], confidence=100 * self.confidence)
        return "; ".join(filter(None, (means, self._how_far, self.counts)))

    @property
    def _how_far(self) -> str:
        """How far rounding moved the numbers, in words, beside their noise; nothing where it did not."""
        if self.moved is None or not self.moved.size:
            return ""
        far = {"most": float(self.moved.max()), "mean": float(self.moved.mean())}
        words = say("rounded by at most {most:.3g}, on average {mean:.2g}, which is in the intervals", **far)
        if self.stddev is None:  # not negative: attribute by attribute, or searched for
            unproven = say("that is how far they moved here: no bound is proven for tables of several attributes")
            return f"{words}; {unproven}" if len(self.attributes) > 1 else words
        noise = say("the noise has a standard deviation of {stddev:,.3g}", stddev=float(np.nanmean(self.stddev)))
        return f"{words}; {noise}"

    def rounded_to(self, counts: Floats) -> Self:
        """The same in whole numbers near the estimates; intervals hold these as well."""
        ends = {name: outer(self.ends[name], counts) for name, outer in _OUTWARDS.items() if name in self.ends}
        return replace(self, estimates=counts, moved=np.abs(counts - self.estimates), **ends)

    def poor(self, flag: Flag, thresholds: tuple[float, float] = THRESHOLDS) -> NDArray[np.bool_]:
        """Which numbers have this flag or a worse one, or are counts below zero, flat."""
        below = self.estimates.ravel() < 0 if self.attributes != QUERY else False  # queries may be differences
        return super().poor(flag, thresholds) | below

    def suppressed(self, flag: Flag) -> Self:
        """Without the numbers that have this flag or a worse one, and without counts below zero.

        Raises:
            PlanError: there are neither standard deviations nor intervals.
        """
        hidden = self.poor(flag).reshape(self.estimates.shape)
        kept = {name: np.where(hidden, np.nan, each) for name, each in self.ends.items()}
        stddev = None if self.stddev is None else np.where(hidden, np.nan, self.stddev)
        estimates = np.where(hidden, np.nan, self.estimates)
        return replace(self, estimates=estimates, stddev=stddev, lower=kept.get("lower"), upper=kept.get("upper"))

    def numbers(self, rows: slice = slice(None)) -> dict[str, Floats]:
        """The columns of numbers of some rows."""
        own = {"estimate": self.estimates.reshape(-1)[rows]}
        if self.stddevs is not None:
            each, reach = self._stddevs_of(rows), self._reach(rows)
            own |= {"stddev": each, "lower": own["estimate"] - reach, "upper": own["estimate"] + reach}
        return own | {name: each.reshape(-1)[rows] for name, each in (self.ends | dict(self.beside)).items()}

    def _stddevs_of(self, rows: slice) -> Floats:
        """The standard deviations of some rows."""
        stddevs, count = cast("Floats", self.stddevs), len(range(*rows.indices(len(self))))
        return np.full(count, stddevs[0]) if len(stddevs) == 1 else stddevs[rows]

    def _reach(self, rows: slice = slice(None)) -> Floats:
        """How far intervals reach either side, of some rows."""
        if self.stddev is None:
            return (self.ends["upper"] - self.ends["lower"]).reshape(-1)[rows] / 2
        width = np.asarray(self.width).reshape(-1)
        reach = (width if len(width) == 1 else width[rows]) * self._stddevs_of(rows)
        return np.asarray(reach + (0.0 if self.moved is None else self.moved.reshape(-1)[rows]))

    def batches(self, rows: int = 2**19, *, compact: bool = False) -> Iterator[pa.RecordBatch]:
        """The table as Arrow record batches: of a large one, no more than its estimates and a batch are in memory."""
        for keys, numbers in batches(self, rows=rows, compact=compact):
            yield pa.RecordBatch.from_arrays([*keys, *map(pa.array, numbers.values())], [*self.keys, *numbers])

    def to_arrow(self, *, compact: bool = False) -> pa.Table:
        """The table as a pyarrow Table; compact, with labels as dictionaries."""
        table = pa.Table.from_batches(self.batches(compact=compact))
        return table.replace_schema_metadata({"note": self.note}) if self.note else table

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: keys as lists, numbers as arrays."""
        return label_columns(self.attributes, axis_labels(self)) | self.numbers()

    @property
    def standard_errors(self) -> Floats | None:
        """Of biased numbers as wide as normal noise would have them whose intervals are these; None without any."""
        if self.stddev is not None:
            return cast("Floats", self.columns["stddev"])
        if self.confidence is None or self.lower is None or np.isnan(self.lower).all():
            return None
        return self._reach() / NormalDist().inv_cdf(0.5 + self.confidence / 2)

    @property
    def doubtful(self) -> NDArray[np.bool_] | None:
        """Which numbers lack more records than their interval reaches; None where none is known to lack any."""
        if not np.any(self.missing) or (self.stddev is None and self.lower is None):
            return None
        return np.asarray(np.broadcast_to(self.missing, self.estimates.shape).ravel() > self._reach())


def domain_of_queries(count: int) -> Domain:
    """The domain of a table of answers: one attribute, whose values are the queries."""
    return Domain({"query": Anonymous(count)})
