"""The seam between data and counting: a source is asked for tables of counts.

By default it streams Arrow record batches of named columns through the codec, which says what a value means, so that
the same data gives the same counts whatever holds it; an engine that can count where the data is overrides `count`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from residua.errors import SourceError
from residua.source.naming import missing_columns
from residua.source.options import NO_OPTIONS, Options, SourceOptions, options_of

if TYPE_CHECKING:
    from residua.domain import Domain
    from residua.linalg.layout import Layout
    from residua.source.bound import Bound
    from residua.source.checking import Checked
    from residua.source.counting import Counted, Progress
    from residua.source.digest import Digest

Paths = str | Path | Sequence[str | Path]
BATCH_ROWS = 65_536


class Source(ABC):
    """Records to be counted, read in batches so that memory does not grow with their number.

    Make one with `Source.csv`, `Source.parquet`, `Source.frame`, `Source.duckdb`, …; wherever a source is asked for, a
    path or a frame will do as well (`source_of`).

    Guarantee: an error about data names columns and kinds of problems, and no value of any record, unless
    `show_values` was asked for.

    Args:
        options: what is said of the records: their weight, whose they are, whether errors may quote them (`Options`).
            `Source.csv` and all others take them by name.
    """

    # Whether two readings are the same unless somebody changed the data meanwhile; what does not fit into memory is
    # read twice (`residua.source.checking`), and a difference is then explained by this.
    repeatable: bool = True
    # Whether workers of the engine can measure and write a release by themselves (`residua.measurement.on_spark`).
    has_executors: bool = False

    def __init__(self, options: Options = NO_OPTIONS) -> None:
        self.options = options

    @property
    def weight(self) -> str | None:
        """The column of pre-aggregated counts, if there is one."""
        return self.options.weight

    @property
    def show_values(self) -> bool:
        """Whether error messages may quote values of the data."""
        return self.options.show_values

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns there are."""

    @abstractmethod
    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of these columns, which are known to exist."""

    def fingerprint(self) -> str:
        """A digest that tells this dataset from another, so that a ledger notices a wrong one.

        It is computed from all columns of all records, in any order (`residua.source.digest`): the same records have
        the same fingerprint in every engine, where their values are spelled alike. Keep it beside the ledger, never in
        a release. `count` gives it as well.
        """
        from residua.source.digest import Digest

        digest = Digest()
        with self.snapshot() as still:
            for _ in still.digested((), digest):
                pass
        return digest.fingerprint

    def earlier_fingerprint(self) -> str | None:
        """The fingerprint that version 0.1.0 gave this dataset, where it can still be told."""
        return None

    @contextmanager
    def snapshot(self) -> Iterator[Source]:
        """The same records, however often they are read within this context, where the engine can hold them still.

        What it cannot hold still (files, frames) is read as it is, and the fingerprint tells whether it changed.
        """
        yield self

    def rows_hint(self) -> int | None:
        """About how many rows there are, if that is cheap to say; for progress only."""
        return None

    def count(
        self, domain: Domain, layout: Layout, progress: Progress | None = None, bound: Bound | None = None
    ) -> Counted:
        """The true counts of every table of a layout: what `residua.measurement` asks for, and nothing else does.

        Guarantee: every table counts the same records: a record that any attribute of the domain leaves out is in
        none, whether or not that attribute is in a table.

        An engine that overrides this must give exactly what the default gives: the policies of the domain, the weight,
        counts below 2^62, errors that name every column with values the domain refuses, and the fingerprint of the
        records that were counted, found in the same reading.

        Args:
            domain: what the records may hold; all its attributes are read.
            layout: the tables, in the order of the domain's attributes.
            progress: called after each batch with the rows read and a guess of how many there are.
            bound: how many records of each person are counted, by `residua.source.choosing`; all when not given.

        Raises:
            SourceError: data that cannot be read, values that the domain refuses, or counts of 2^62 and more.
        """
        from residua.source.counting import count

        return count(self, domain, layout, progress, bound)

    def checked(self, domain: Domain, progress: Progress | None = None, bound: Bound | None = None) -> Checked:
        """Reads the records once to see that they fit the domain, before anything is spent (`residua.source.checking`).

        Args:
            domain: what the records may hold.
            progress: called after each batch.
            bound: how many records of one person are counted at most.

        Raises:
            SourceError: as `count`.
        """
        from residua.source.checking import checked

        return checked(self, domain, progress, bound)

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Arrow record batches of these columns, while all columns there are go into a digest.

        Raises:
            SourceError: a column that is not there, or data that cannot be read.
        """
        asked = list(columns)
        self.check(asked)
        names = [*asked, *(name for name in self.columns() if name not in asked)]
        for batch in self.batches(names):
            digest.add(batch, names)
            yield batch.select(asked)
        import pyarrow  # where records were read, it is loaded

        pyarrow.default_memory_pool().release_unused()  # what reading took is not kept for the next reading

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Arrow record batches of these columns, in the order asked for.

        Raises:
            SourceError: a column that is not there, or data that cannot be read.
        """
        from residua.source.spelling import plain_batch

        self.check(columns)
        for batch in self._read(columns):
            yield plain_batch(batch.select(list(columns)) if batch.schema.names != list(columns) else batch)

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that are not there.

        Raises:
            SourceError: names what is missing and what was probably meant.
        """
        there = self.columns()
        missing = [name for name in columns if name not in there]
        if len(missing) == len(columns) and missing and there and not self.show_values:
            # Where no name is as expected, they may be the values of a first record, read as a header.
            listed = ", ".join(repr(name) for name in missing[:12]) + (", …" if len(missing) > 12 else "")
            raise SourceError(f"{self} has no column {listed}; check its header, or rename the attributes.")
        if missing:
            raise SourceError(missing_columns(missing, there, str(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    @staticmethod
    def csv(paths: Paths, *, delimiter: str | None = None, **options: Unpack[SourceOptions]) -> Source:
        """Delimited text with a header, one file or many (a list, or a pattern such as `"part-*.csv"`).

        Everything is read as text, so "01" stays "01". Compressed files (`.gz`, `.bz2`, `.zst`) are unpacked
        while reading. Blank lines are skipped; a header without rows holds zero records; a column without a name, such
        as an index, is ignored.

        Args:
            paths: a path, a list of paths, or a pattern.
            delimiter: one character; a comma, or a tab for `.tsv`, when not given.
            options: weight, person, no_person, show_values (`Source`).
        """
        from residua.source.delimited import DelimitedSource

        return DelimitedSource(paths, options_of(options), delimiter=delimiter)

    @staticmethod
    def parquet(paths: Paths, **options: Unpack[SourceOptions]) -> Source:
        """Parquet: one file, many (a list, or a pattern), or a folder of them.

        Below a folder, names such as `year=2024` are columns of text (hive partitions); files whose names begin with
        a dot or an underscore are skipped.
        """
        from residua.source.parquet import ParquetSource

        return ParquetSource(paths, options_of(options))

    @staticmethod
    def feather(paths: Paths, **options: Unpack[SourceOptions]) -> Source:
        """Feather (Arrow IPC files), one file or many (a list, or a pattern)."""
        from residua.source.feather import FeatherSource

        return FeatherSource(paths, options_of(options))

    @staticmethod
    def jsonl(paths: Paths, **options: Unpack[SourceOptions]) -> Source:
        """JSON lines, one object per line, one file or many (a list, or a pattern), compressed or not.

        A key that a line does not have is absent there, like null.
        """
        from residua.source.json_lines import JsonLinesSource

        return JsonLinesSource(paths, options_of(options))

    @staticmethod
    def delta(path: str | Path, *, version: int | None = None, **options: Unpack[SourceOptions]) -> Source:
        """A Delta Lake table, at one version: the latest when the source is made, unless another is named.

        Needs the library: `pip install 'residua[delta]'`. A store's credentials come from the environment.
        """
        from residua.source.lakes import delta_source

        return delta_source(path, version, options_of(options))

    @staticmethod
    def iceberg(table: Any, *, snapshot: int | None = None, **options: Unpack[SourceOptions]) -> Source:
        """An Iceberg table (`"catalogue.namespace.table"`, a `.metadata.json` file, or an open one), at one snapshot.

        The current one when the source is made, unless another is named. Needs the library: `pip install
        'residua[iceberg]'`; where catalogues are, and their credentials, is in that library's own settings.
        """
        from residua.source.lakes import iceberg_source

        return iceberg_source(table, snapshot, options_of(options))

    @staticmethod
    def frame(frame: Any, **options: Unpack[SourceOptions]) -> Source:
        """A pandas or Polars frame, a Polars lazy frame, or an Arrow table, batch, dataset or reader.

        A reader can be read only once, so it is read into memory here; give a dataset or files when the data
        are larger than memory.
        """
        from residua.source.frames import frame_source

        return frame_source(frame, options_of(options))

    @staticmethod
    def duckdb(database: Any, query: str, **options: Unpack[SourceOptions]) -> Source:
        """What a query returns from a DuckDB database.

        Guarantee: the query is exactly one SELECT. A database given by its path is opened for reading only, and the
        query reaches no other file; what an open connection may do is up to whoever opened it.

        Args:
            database: the path of a database, or an open connection.
            query: one SELECT, or just the name of a table.
            options: weight, person, no_person, show_values (`Source`).

        Example:
            >>> import duckdb
            >>> with duckdb.connect() as connection:
            ...     Source.duckdb(connection, "SELECT 'Male' AS sex, 39 AS age").columns()
            ('sex', 'age')
        """
        from residua.source.database import DatabaseSource

        return DatabaseSource(database, query, options_of(options))

    @staticmethod
    def sql(database: str | Mapping[str, Any], query: str, **options: Unpack[SourceOptions]) -> Source:
        """What a query returns from a database, or from files or frames, each a table with a name.

        Guarantee: the query is exactly one SELECT. Over files and frames it reaches nothing but these tables; delimited
        text is text there as well: write `CAST(age AS INTEGER)` where a number is meant. In a database it runs in a
        transaction that may only read and sees one state of the data (PostgreSQL: REPEATABLE READ READ ONLY), and
        records come in batches, however many there are. No message shows a password.

        Args:
            database: the URI of a database (`postgresql://host/database`, `sqlite:///people.db`, …), its credentials
                best in the environment or a service file; or name → path, pattern, frame or source.
            query: one SELECT, or just the name of a table.
            options: weight, person, no_person, show_values (`Source`).

        Example:
            >>> import pyarrow as pa
            >>> flights, airports = pa.table({"origin": ["EWR"]}), pa.table({"code": ["EWR"], "state": ["NJ"]})
            >>> query = "SELECT state FROM flights JOIN airports ON origin = code"
            >>> Source.sql({"flights": flights, "airports": airports}, query).columns()
            ('state',)
        """
        if isinstance(database, str):
            from residua.source.adbc import AdbcSource
            from residua.source.address import Address

            return AdbcSource(Address(database), query, options_of(options))
        from residua.source.query import QuerySource

        return QuerySource(database, query, options_of(options))

    @staticmethod
    def adbc(connection: Any, query: str, **options: Unpack[SourceOptions]) -> Source:
        """What a query returns through an open ADBC connection, of whatever driver.

        Guarantee: the query is exactly one SELECT. What else the connection may do, and whether two readings see one
        state of the data, is up to whoever opened it; it stays open.

        Args:
            connection: what a driver's `dbapi.connect` gave.
            query: one SELECT, or just the name of a table.
            options: weight, person, no_person, show_values (`Source`).
        """
        from residua.source.adbc import AdbcSource

        return AdbcSource(connection, query, options_of(options))

    @staticmethod
    def spark(frame: Any, **options: Unpack[SourceOptions]) -> Source:
        """A Spark frame, classic or of Spark Connect, counted on the executors; only tables come to the driver.

        A text names a table of the session at hand, or a path of Parquet files. The executors need residua of the same
        version (docs/spark.md).
        """
        from residua.source.spark import SparkSource
        from residua.source.spark_asking import frame_of

        made = options_of(options)
        return SparkSource(frame_of(frame, made.show_values) if isinstance(frame, str | Path) else frame, made)

    def with_columns(self, expressions: Mapping[str, str]) -> Source:
        """The same records with columns computed from their own, or in place of them.

        Guarantee: an expression sees one record at a time, and neither files nor network; the fingerprint is that of
        the records as they are.

        Args:
            expressions: column → SQL over the columns of one record. Delimited text is text:
                `"CAST(dep_time AS INTEGER) // 100"`.

        Example:
            >>> import pyarrow as pa
            >>> data = Source.frame(pa.table({"born": [1990, 2010]})).with_columns({"adult": "born < 2006"})
            >>> [batch.to_pydict() for batch in data.batches(["adult"])]
            [{'adult': [True, False]}]
        """
        from residua.source.computed import ComputedSource

        return ComputedSource(self, expressions) if expressions else self
