"""Published numbers in columns, tidy: as Arrow, pandas, Polars, CSV and Parquet, and with quality flags."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
from numpy.typing import NDArray

from residua.domain.words import names_of, plain
from residua.errors import PlanError, named
from residua.files import write_atomically
from residua.language import mark, numeral, say
from residua.linalg.arrays import Floats
from residua.machine import missing, pyarrow
from residua.published.csv_text import csv_text, inert_columns
from residua.published.quality import COLUMN, FLAGS, SHARE, THRESHOLDS, Flag, check_flag, checked, grades, shortened
from residua.showing import Shown, printable

if TYPE_CHECKING:
    import pandas
    import polars


_SHOWN = 10


class Columns(Shown, ABC):
    """Published numbers, one per row: columns that say what a row is, and columns of numbers.

    Iterating gives the rows, each a dictionary. `table["estimate"]` is a column, `table[0]` a row, `table[2:5]` a list
    of rows, and `table[{"sex": "Female"}]` the rows with these labels. Polars, DuckDB and pandas take the table
    as it is.
    """

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

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = list(self.columns)
        lists = [
            np.asarray(values).tolist() if isinstance(values, np.ndarray) else values
            for values in self.columns.values()
        ]
        return (dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))

    @overload
    def __getitem__(self, wanted: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, wanted: slice | Mapping[str, Any]) -> list[dict[str, Any]]: ...

    @overload
    def __getitem__(self, wanted: str) -> Any: ...

    def __getitem__(self, wanted: int | str | slice | Mapping[str, Any]) -> Any:
        if isinstance(wanted, str):
            self._require(wanted)
            return self.columns[wanted]
        if isinstance(wanted, Mapping):
            return self._rows_with(wanted)
        if isinstance(wanted, slice):
            return [self._row(i) for i in range(*wanted.indices(len(self)))]
        if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer):
            raise PlanError(f"{named(wanted)} is no column, row or set of labels; write table['estimate'] or table[0].")
        if not -len(self) <= wanted < len(self):
            raise IndexError(f"there is no row {wanted}; the table has {len(self):,}.")
        return self._row(int(wanted) % len(self))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().schema.__arrow_c_schema__()

    def _require(self, name: str) -> None:
        if name not in self.columns:
            raise PlanError(f"there is no column {name!r}; there are {', '.join(map(repr, self.columns))}.")

    def _row(self, i: int) -> dict[str, Any]:
        return {name: plain(values[i]) for name, values in self.columns.items()}

    def _rows_with(self, labels: Mapping[str, Any]) -> list[dict[str, Any]]:
        chosen = np.ones(len(self), dtype=bool)
        for name, label in labels.items():
            self._require(name)
            chosen &= np.fromiter((value == label for value in self.columns[name]), dtype=bool, count=len(self))
        return [self._row(int(i)) for i in np.flatnonzero(chosen)]

    def for_people(self, rows: int) -> Iterator[list[Any]]:
        """The first rows, cell by cell, with names in place of codes where the domain gives them.

        Machine formats keep the codes.
        """
        domain = getattr(self, "domain", None)
        names = {} if domain is None else {key: names_of(domain[key]) for key in self.keys if key in domain}
        for row in zip(*(column[:rows] for column in self.columns.values()), strict=True):
            yield [
                numeral(f"{cell:.2g}")
                if key == SHARE and key not in self.keys
                else names.get(key, {}).get(str(cell), cell)
                for key, cell in zip(self.columns, row, strict=True)
            ]

    @property
    def note(self) -> str:
        """What a reader of the numbers must know, in a sentence; nothing if they speak for themselves."""
        return ""

    @property
    def decimals(self) -> int:
        """How many decimals people are shown."""
        return 1

    @property
    def doubtful(self) -> NDArray[np.bool_] | None:
        """Which numbers are not reliable whatever their standard error; None if none is."""
        return None

    @property
    def standard_errors(self) -> Floats | None:
        """What numbers are judged by; None if there is nothing."""
        return self.columns.get("stddev")

    def poor(self, flag: Flag, thresholds: tuple[float, float] = THRESHOLDS) -> NDArray[np.bool_]:
        """Which numbers have this flag or a worse one, flat.

        Raises:
            PlanError: it is not a flag of poor numbers, or there is nothing to judge them by.
        """
        check_flag(flag)
        if self.standard_errors is None:
            raise PlanError("these numbers have no standard deviation to judge them by; flag those of the release.")
        graded = grades(self.columns["estimate"], self.standard_errors, thresholds, self.doubtful)
        return np.asarray(graded >= FLAGS.index(flag))

    def flagged(
        self,
        thresholds: Sequence[float] = THRESHOLDS,
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
            PlanError: numbers with neither standard deviations nor intervals, or thresholds that mean nothing.

        Reference: Statistics Canada's bands, 16.5 % and 33.3 %.
        """
        return Flagged(self, checked(thresholds), suppress, omit)

    def to_arrow(self) -> pyarrow.Table:
        """The table as a pyarrow Table."""
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
        return cast("pandas.DataFrame", library("pandas").DataFrame(self.columns))

    def to_polars(self) -> polars.DataFrame:
        """The table as a Polars DataFrame."""
        return cast("polars.DataFrame", library("polars").DataFrame(self.columns))

    def to_csv(
        self, path: str | Path | None = None, *, spreadsheet: bool = False, full: bool = False, overwrite: bool = False
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

        columns = self.columns if full else shortened(self.columns)
        text = csv_text(inert_columns(columns) if spreadsheet else columns)
        if path is not None:
            header = text.partition("\n")[0].encode() + b"\n"
            write_atomically(Path(path), text.encode(), ours=lambda head: overwrite or head.startswith(header))
        return text

    def to_parquet(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the table as a Parquet file.

        Args:
            path: the file; an older one with the same columns is replaced.
            overwrite: replace the file whatever it holds.

        Raises:
            FileError: something else is there, or it cannot be written.
        """
        import io

        buffer = io.BytesIO()
        pyarrow.parquet.write_table(self.to_arrow(), buffer)

        def ours(head: bytes) -> bool:
            return overwrite or _parquet_columns(Path(path)) == list(self.columns)

        write_atomically(Path(path), buffer.getvalue(), ours=ours)

    def __repr__(self) -> str:
        names = list(self.columns)
        rows = [[printable(name) for name in names]]
        rows += ([shown(cell, self.decimals) for cell in row] for row in self.for_people(_SHOWN))
        widths = [max(len(row[j]) for row in rows) for j in range(len(names))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        rest = [say("… {n} more rows", n=len(self) - _SHOWN)] if len(self) > _SHOWN else []
        return "\n".join([*lines, *rest, *([f"({self.note})"] if self.note else [])])


def shown(cell: Any, decimals: int, *, thousands: str = "") -> str:
    """A cell as text, for people: numbers to some decimals, blank where there is none."""
    if isinstance(cell, float):
        return "" if math.isnan(cell) else numeral(f"{cell:{thousands}.{decimals}f}")
    return "" if cell is None else printable(str(cell))


def _parquet_columns(path: Path) -> list[str] | None:
    """The columns of a Parquet file; None if it is none."""
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except (pyarrow.ArrowException, OSError):
        return None


def library(name: str) -> Any:
    """An optional library, loaded when it is first needed.

    Raises:
        ResiduaError: it is not installed.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise missing(f'{name} is not installed; install it with: pip install "residua[{name}]"') from None


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
        if self.suppress is not None:
            check_flag(self.suppress)
        if self.table.standard_errors is None:
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
    def domain(self) -> Any:
        """Where the labels come from, if that is known."""
        return getattr(self.table, "domain", None)

    @property
    def note(self) -> str:
        """What the flags mean, after what the numbers do."""
        limits = dict(zip(("first", "second"), (100 * each for each in self.thresholds), strict=True))
        varies = mark("quality: by coefficient of variation, caution above {first} %, unreliable above {second} %")
        reaches = mark(
            "quality: by width of interval, as of normal noise, caution above {first} %, unreliable above {second} %"
        )
        flags = say(varies if "stddev" in self.table.columns else reaches, **limits)
        words = mark("{n} of {all} rows suppressed")
        hidden = say(words, n=int(self._hidden.sum()), all=len(self._hidden)) if self.suppress else ""
        return "; ".join(filter(None, (self.table.note, flags, hidden)))

    @property
    def decimals(self) -> int:
        """As in the table itself."""
        return self.table.decimals

    @cached_property
    def _quality(self) -> NDArray[Any]:
        errors = self.table.standard_errors
        assert errors is not None
        graded = grades(self.table.columns["estimate"], errors, self.thresholds, self.table.doubtful)
        return np.asarray(np.array(FLAGS, dtype=object)[graded])

    @cached_property
    def _hidden(self) -> NDArray[np.bool_]:
        if self.suppress is None:
            return np.zeros(len(self._quality), dtype=bool)
        return self.table.poor(self.suppress, self.thresholds)

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
