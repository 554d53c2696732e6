"""The seam between data and counting: a source yields Arrow record batches of named columns, and nothing else.

Engines differ only in how they make batches. What a value means is the codec's business, so that the same data
gives the same counts whatever holds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from residua.errors import SourceError

Paths = str | Path | Sequence[str | Path]
BATCH_ROWS = 65_536


class Source(ABC):
    """Records to be counted, read in batches so that memory does not grow with their number.

    Make one with `Source.csv`, `Source.parquet`, `Source.frame` or `Source.duckdb`; wherever a source is asked
    for, a path or a frame will do as well (`source_of`).

    Args:
        weight: a column of pre-aggregated counts: each row stands for that many records, a whole number ≥ 0.
    """

    def __init__(self, weight: str | None = None) -> None:
        if weight is not None and (not isinstance(weight, str) or not weight):
            raise SourceError(f"weight={weight!r} is not a column name; name the column of counts.")
        self.weight = weight

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns there are."""

    @abstractmethod
    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of these columns, which are known to exist."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest that tells this dataset from another, so that a ledger notices a wrong one.

        It is computed from the records: keep it beside the ledger, never in a release. Each engine says what
        its digest covers; the same records in another kind of file have another digest.
        """

    def rows_hint(self) -> int | None:
        """About how many rows there are, if that is cheap to say; for progress only."""
        return None

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Arrow record batches of these columns, in the order asked for.

        Raises:
            SourceError: a column that is not there, or data that cannot be read.
        """
        self.check(columns)
        for batch in self._read(columns):
            yield batch.select(list(columns)) if batch.schema.names != list(columns) else batch

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that are not there.

        Raises:
            SourceError: names what is missing and what was probably meant.
        """
        there = self.columns()
        missing = [name for name in columns if name not in there]
        if missing:
            raise SourceError(missing_columns(missing, there, str(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    @staticmethod
    def csv(paths: Paths, *, delimiter: str | None = None, weight: str | None = None) -> Source:
        """Delimited text with a header, one file or many (a list, or a pattern such as `"part-*.csv"`).

        Everything is read as text, so "01" stays "01". Compressed files (`.gz`, `.bz2`, `.zst`) are unpacked
        while reading. Blank lines are skipped; a header without rows holds zero records.

        Args:
            paths: a path, a list of paths, or a pattern.
            delimiter: one character; a comma, or a tab for `.tsv`, when not given.
            weight: the column of pre-aggregated counts.
        """
        from residua.source.delimited import DelimitedSource

        return DelimitedSource(paths, delimiter=delimiter, weight=weight)

    @staticmethod
    def parquet(paths: Paths, *, weight: str | None = None) -> Source:
        """Parquet, one file or many (a list, or a pattern)."""
        from residua.source.parquet import ParquetSource

        return ParquetSource(paths, weight=weight)

    @staticmethod
    def frame(frame: Any, *, weight: str | None = None) -> Source:
        """A pandas or Polars frame, a Polars lazy frame, or an Arrow table, batch, dataset or reader.

        A reader can be read only once, so it is read into memory here; give a dataset or files when the data
        are larger than memory.
        """
        from residua.source.frames import frame_source

        return frame_source(frame, weight)

    @staticmethod
    def duckdb(database: Any, query: str, *, weight: str | None = None) -> Source:
        """What a query returns from a DuckDB database.

        Args:
            database: the path of a database (opened for reading only), or an open connection.
            query: SQL, or just the name of a table.
            weight: the column of pre-aggregated counts.

        Example:
            >>> import duckdb
            >>> with duckdb.connect() as connection:
            ...     Source.duckdb(connection, "SELECT 'Male' AS sex, 39 AS age").columns()
            ('sex', 'age')
        """
        from residua.source.database import DatabaseSource

        return DatabaseSource(database, query, weight=weight)


def source_of(data: Any, *, weight: str | None = None) -> Source:
    """The source that anything readable stands for.

    Args:
        data: a source (returned unchanged), a path, pattern or list of paths (CSV, TSV or Parquet by their
            suffix), a frame (`Source.frame`), a DuckDB relation, or a pair (database, query).
        weight: the column of pre-aggregated counts; a source brings its own.

    Raises:
        SourceError: something that cannot be read.
    """
    if isinstance(data, Source):
        if weight is not None:
            raise SourceError("weight is given for a source that was made without it; say it where it is made.")
        return data
    if isinstance(data, str | Path):
        return _file_source([data], weight)
    if isinstance(data, tuple) and len(data) == 2 and _is_query(data):
        return Source.duckdb(data[0], data[1], weight=weight)
    if isinstance(data, Sequence):
        return _file_source(data, weight)
    if type(data).__name__ == "DuckDBPyRelation":
        from residua.source.database import RelationSource

        return RelationSource(data, weight=weight)
    return Source.frame(data, weight=weight)


def missing_columns(missing: Sequence[str], there: Sequence[str], where: str) -> str:
    """The sentence that says which columns are not there, and what was probably meant."""
    near = {name: get_close_matches(name, there, n=1, cutoff=0.6) for name in missing}
    named = ", ".join(repr(name) + (f" (is it {near[name][0]!r}?)" if near[name] else "") for name in missing)
    listed = ", ".join(repr(name) for name in there[:12]) + (", …" if len(there) > 12 else "")
    return f"{where} has no column {named}; it has {listed or 'none'}: rename the column or the attribute."


def _is_query(pair: tuple[Any, Any]) -> bool:
    # A pair of paths is a list of files, unless the first is a database.
    database, query = pair
    if not isinstance(query, str):
        return False
    return not isinstance(database, str | Path) or Path(database).suffix in (".duckdb", ".db", ".ddb")


def _file_source(paths: Sequence[Any], weight: str | None) -> Source:
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        raise SourceError(f"source {paths!r} is no list of paths; pass paths, a frame, or rs.Source.duckdb(…).")
    kinds = {_kind(str(path)) for path in paths}
    if len(kinds) > 1:
        raise SourceError("source mixes files of different kinds; pass files of one kind.")
    return Source.parquet(paths, weight=weight) if kinds == {"parquet"} else Source.csv(paths, weight=weight)


def _kind(path: str) -> str:
    lowered = path.lower()
    for packed in (".gz", ".bz2", ".zst"):
        lowered = lowered.removesuffix(packed)
    if lowered.endswith((".parquet", ".pq")):
        return "parquet"
    if lowered.endswith((".csv", ".tsv", ".txt")):
        return lowered[-3:]
    if lowered.endswith((".duckdb", ".db", ".ddb")):
        raise SourceError(f"{path!r} is a database; say which table with rs.Source.duckdb({path!r}, query).")
    raise SourceError(f"cannot tell what {path!r} holds from its suffix; use rs.Source.csv(…) or rs.Source.parquet(…).")
