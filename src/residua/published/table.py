"""A published table: one row per cell, with its estimate, its standard deviation and an interval."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from residua.domain import Domain, Label
from residua.errors import ResiduaError
from residua.files import write_atomically
from residua.linalg.arrays import Floats, Objects
from residua.printable import inert, printable
from residua.privacy import Person, Unit
from residua.published.digits import shortened
from residua.tabular import Tabular

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from residua.published.quality import Flagged


_SHOWN = 10


class Columns(Tabular, ABC):
    """Published numbers, one per row: columns that say what a row is, and columns of numbers."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The columns that say what a row is."""

    @property
    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """The columns by name: keys as lists, numbers as arrays."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def note(self) -> str:
        """What a reader of the numbers must know, in a sentence; nothing if they speak for themselves."""
        return ""

    @property
    def decimals(self) -> int:
        """How many decimals people are shown."""
        return 1

    def flagged(
        self,
        thresholds: Sequence[float] = (0.165, 0.333),
        *,
        suppress: Literal["use with caution", "unreliable"] | None = None,
        omit: bool = False,
    ) -> Flagged:
        """The same numbers with a column `quality`, by coefficient of variation; poor ones suppressed on request.

        Args:
            thresholds: above the first, a number is to `use with caution`; above the second it is `unreliable`.
            suppress: numbers with this flag or a worse one are left blank.
            omit: leave their rows out instead.

        Raises:
            PlanError: numbers without standard deviations (a projection's), or thresholds that mean nothing.

        Reference: Statistics Canada's bands, 16.5 % and 33.3 %.
        """
        from residua.published.quality import Flagged, checked

        return Flagged(self, checked(thresholds), suppress, omit)

    def to_arrow(self) -> pyarrow.Table:
        """The table as a pyarrow Table."""
        import pyarrow

        table = pyarrow.table(self.columns)
        return table.replace_schema_metadata({"note": self.note}) if self.note else table

    def batches(self, rows: int = 2**19, *, compact: bool = False) -> Iterator[pyarrow.RecordBatch]:
        """The table as Arrow record batches of at most so many rows, made as they are asked for.

        Args:
            rows: of each.
            compact: labels as dictionaries, which take a byte or two for each row.
        """
        yield from self.to_arrow().to_batches(rows)

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a pandas DataFrame."""
        frame: pandas.DataFrame = _extra("pandas").DataFrame(self.columns)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The table as a Polars DataFrame."""
        frame: polars.DataFrame = _extra("polars").DataFrame(self.columns)
        return frame

    def to_csv(
        self,
        path: str | Path | None = None,
        *,
        spreadsheet: bool = False,
        full: bool = False,
        overwrite: bool = False,
    ) -> str:
        """The table as CSV text, also written to a file if one is named.

        Args:
            path: the file; an older one with the same columns is replaced.
            spreadsheet: put an apostrophe before text that a spreadsheet would take for a formula (labels and names
                that begin with `=`, `+`, `-` or `@`); numbers stay numbers. For people: other programs read the
                apostrophe as a part of the label.
            full: every digit, instead of as many as the standard deviations justify.
            overwrite: replace the file whatever it holds.

        Raises:
            FileError: something else is there, or it cannot be written.
        """
        import io

        import pyarrow
        import pyarrow.csv

        columns = self.columns if full else shortened(self.columns)
        if spreadsheet:
            columns = {inert(name): _inert_cells(values) for name, values in columns.items()}
        buffer = io.BytesIO()
        blank = {name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()}  # what is no number
        pyarrow.csv.write_csv(pyarrow.table(blank), buffer)
        if path is not None:
            header = buffer.getvalue().partition(b"\n")[0] + b"\n"
            write_atomically(Path(path), buffer.getvalue(), ours=lambda head: overwrite or head.startswith(header))
        return buffer.getvalue().decode()

    def to_parquet(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the table as a Parquet file.

        Args:
            path: the file; an older one with the same columns is replaced.
            overwrite: replace the file whatever it holds.

        Raises:
            FileError: something else is there, or it cannot be written.
        """
        import io

        import pyarrow.parquet

        buffer = io.BytesIO()
        pyarrow.parquet.write_table(self.to_arrow(), buffer)

        def ours(head: bytes) -> bool:
            return overwrite or _parquet_columns(Path(path)) == list(self.columns)

        write_atomically(Path(path), buffer.getvalue(), ours=ours)

    def __repr__(self) -> str:
        names = list(self.columns)
        rows = [[printable(name) for name in names]]
        for i in range(min(len(self), _SHOWN)):
            cells = [self.columns[name][i] for name in names]
            rows.append([shown(cell, self.decimals) for cell in cells])
        widths = [max(len(row[j]) for row in rows) for j in range(len(names))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        rest = [f"… {len(self) - _SHOWN:,} more rows"] if len(self) > _SHOWN else []
        return "\n".join([*lines, *rest, *([f"({self.note})"] if self.note else [])])


def shown(cell: Any, decimals: int, *, thousands: str = "") -> str:
    """A cell as text, for people: numbers to some decimals, blank where there is none."""
    if isinstance(cell, float):
        return "" if math.isnan(cell) else f"{cell:{thousands}.{decimals}f}"
    return "" if cell is None else printable(str(cell))


def _parquet_columns(path: Path) -> list[str] | None:
    """The columns of a Parquet file; None if it is none."""
    import pyarrow
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except (pyarrow.ArrowException, OSError):
        return None


class Rows(Columns):
    """Estimates with error bars, one per row: what they are, the estimate, its standard deviation, an interval."""

    width: float | Floats
    confidence: float | None
    simultaneous: str | None
    counts: str

    @property
    def note(self) -> str:
        """What the intervals mean, and what is counted if that is not every record."""
        if self.confidence is None or np.isnan(self.width).any():
            return self.counts
        held = {None: "each by itself", "table": "all of this table together", "release": "all of the release together"}
        means = f"lower to upper: {100 * self.confidence:.10g} % intervals, {held[self.simultaneous]}"
        return f"{means}; {self.counts}" if self.counts else means

    @abstractmethod
    def _key_columns(self) -> dict[str, list[Any]]: ...

    @abstractmethod
    def _numbers(self) -> tuple[Floats, Floats]:
        """Estimates and standard deviations, flat."""

    def __len__(self) -> int:
        return len(self._numbers()[0])

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: keys as lists, numbers as arrays."""
        estimates, stddevs = self._numbers()
        reach = self.width * stddevs
        numbers = {"estimate": estimates, "stddev": stddevs, "lower": estimates - reach, "upper": estimates + reach}
        return {**self._key_columns(), **numbers}


def what_is_counted(unit: Unit) -> str:
    """What a table counts, in words, where the unit of protection bounds it; nothing where every record is counted."""
    if not isinstance(unit, Person):
        return ""
    records = "1 record" if unit.records == 1 else f"{unit.records:,} records"
    limits = "".join(f", {most:,} in each value of {name!r}" for name, most in unit.limits.items())
    return f"counts at most {records} of each person{limits}"


def label_columns(
    domain: Domain,
    attributes: Sequence[str],
    shape: Sequence[int],
    given: Sequence[Sequence[Any]] | None = None,
) -> dict[str, list[Any]]:
    """A column of labels (the attributes' own, unless given) for each axis of a table, one per cell, row by row."""
    columns = {}
    for axis, name in enumerate(attributes):
        labels = of_one_type(domain[name].labels if given is None else given[axis])
        along = [-1 if a == axis else 1 for a in range(len(shape))]
        codes = np.broadcast_to(np.arange(shape[axis]).reshape(along), tuple(shape))
        columns[name] = labels[codes.ravel()].tolist()
    return columns


@dataclass(frozen=True, eq=False, repr=False)
class Table(Rows):
    """A table's estimates with error bars, tidy: attributes, estimate, stddev, lower, upper.

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

    def __post_init__(self) -> None:
        self.estimates.setflags(write=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    def batches(self, rows: int = 2**19, *, compact: bool = False) -> Iterator[pyarrow.RecordBatch]:
        """The table as Arrow record batches: of a large one, no more than its estimates and a batch are in memory."""
        from residua.published.streaming import record_batches

        return record_batches(self, rows, compact=compact)

    def to_arrow(self, *, compact: bool = False) -> pyarrow.Table:
        """The table as a pyarrow Table; compact, with labels as dictionaries."""
        import pyarrow

        table = pyarrow.Table.from_batches(self.batches(compact=compact))
        return table.replace_schema_metadata({"note": self.note}) if self.note else table

    def __len__(self) -> int:
        return int(self.estimates.size)

    def _key_columns(self) -> dict[str, list[Any]]:
        return label_columns(self.domain, self.attributes, self.estimates.shape, self.labels)

    def _numbers(self) -> tuple[Floats, Floats]:
        return self.estimates.ravel(), np.broadcast_to(self.stddev, self.estimates.shape).ravel()


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Rows):
    """Answers to queries with error bars: query, estimate, stddev, lower, upper."""

    labels: tuple[str, ...]
    estimates: Floats
    stddevs: Floats
    width: float | Floats
    confidence: float | None = None
    simultaneous: str | None = None
    counts: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The query's label."""
        return ("query",)

    def _key_columns(self) -> dict[str, list[Any]]:
        return {"query": list(self.labels)}

    def _numbers(self) -> tuple[Floats, Floats]:
        return self.estimates, self.stddevs


def of_one_type(labels: Sequence[Label]) -> Objects:
    """Labels for a column, which has one type: numbers beside text, such as `(other)`, become text."""
    mixed = len({type(label) for label in labels}) > 1
    return np.array([str(label) for label in labels] if mixed else labels, dtype=object)


def _inert_cells(values: Any) -> Any:
    return (
        [inert(value) if isinstance(value, str) else value for value in values] if isinstance(values, list) else values
    )


def _extra(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise ResiduaError(f"{name} is not installed; install it with: pip install 'residua[{name}]'") from None
