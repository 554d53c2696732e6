"""Where records come from: a constructor for each kind of data, and the source that anything readable stands for.

The engines below know only `Records`; this module is above them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, cast

from residua.errors import SourceError, kind_of
from residua.files import is_uri
from residua.source.adbc import AdbcSource, Address
from residua.source.database import DatabaseSource, QuerySource, ibis_source, relation_source
from residua.source.dialect import Notation
from residua.source.files import FeatherSource, ParquetSource, Paths
from residua.source.frames import delta_source, frame_source, iceberg_source
from residua.source.office_files import DictionarySource, ExcelSource
from residua.source.options import NO_OPTIONS, PACKED, SUFFIXES, SourceOptions, is_like_a_path, options_of
from residua.source.records import Records
from residua.source.remote import parse_uri, require_source_path
from residua.source.text_files import DelimitedSource, JsonLinesSource

_DATABASES = (".duckdb", ".db", ".ddb")


class Source(Records):
    """Records to be counted, read in batches so that memory does not grow with their number.

    Make one with `Source.csv`, `Source.parquet`, `Source.frame`, `Source.duckdb`, …; wherever a source is asked for, a
    path or a frame will do as well (`source_of`). The records of every engine are a `Source` (`isinstance` says so).

    Guarantee: an error about data names columns and kinds of problems, and no value of any record, unless
    `show_values` was asked for.

    Args:
        options: what is said of the records: how many each row stands for, whose they are, whether errors may quote
            them (`Options`). `Source.csv` and all others take them by name.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return Records in other.__mro__ if cls is Source else NotImplemented

    @staticmethod
    def csv(
        paths: Paths,
        *,
        delimiter: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        date_format: str | Sequence[str] | None = None,
        **options: Unpack[SourceOptions],
    ) -> Source:
        """Delimited text with a header, one file or many (a list, or a pattern such as `"part-*.csv"`).

        Everything is read as text, so "01" stays "01". Compressed files (`.gz`, `.bz2`, `.zst`) are unpacked
        while reading. Blank lines are skipped; a header without rows holds zero records; a column without a name, such
        as an index, is ignored.

        Args:
            paths: a path, a list of paths, or a pattern.
            delimiter: one character; a comma, or a tab for `.tsv`, when not given.
            encoding: as Python names it, such as `"cp1252"`; UTF-8 when not given.
            decimal: `","`: fields such as 1.234,5 are read as 1234.5.
            date_format: such as `"%d.%m.%Y"`, or several: fields that are such dates are read as 2024-01-31. Months may
                have names (%b, English, German, French, Spanish, Italian or Dutch).
            options: counts, person, no_person, show_values (`Source`).
        """
        form: Notation = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "date_format": date_format}
        return _source(DelimitedSource(paths, options_of(options), **form))

    @staticmethod
    def parquet(paths: Paths, **options: Unpack[SourceOptions]) -> Source:
        """Parquet: one file, many (a list, or a pattern), or a folder of them.

        Below a folder, names such as `year=2024` are columns of text (hive partitions); files whose names begin with
        a dot or an underscore are skipped.
        """
        return _source(ParquetSource(paths, options_of(options)))

    @staticmethod
    def feather(paths: Paths, **options: Unpack[SourceOptions]) -> Source:
        """Feather (Arrow IPC files), one file or many (a list, or a pattern)."""
        return _source(FeatherSource(paths, options_of(options)))

    @staticmethod
    def jsonl(paths: Paths, **options: Unpack[SourceOptions]) -> Source:
        """JSON lines, one object per line, one file or many (a list, or a pattern), compressed or not.

        A key that a line does not have is absent there, like null.
        """
        return _source(JsonLinesSource(paths, options_of(options)))

    @staticmethod
    def excel(paths: Paths, *, sheet: str | None = None, **options: Unpack[SourceOptions]) -> Source:
        """A sheet of Excel or OpenDocument workbooks, one file or many; its first row names the columns.

        Needs the library: `pip install "residua[excel]"`. A workbook of several sheets needs the name of one.
        """
        return _source(ExcelSource(paths, options_of(options), sheet=sheet))

    @staticmethod
    def spss(paths: Paths, **options: Unpack[SourceOptions]) -> Source:
        """Files of SPSS (`.sav`, `.zsav`, `.por`), Stata (`.dta`) or SAS (`.sas7bdat`, `.xpt`), by their suffix.

        Needs the library: `pip install "residua[spss]"`. Values are codes, not their labels; codes that the file
        declares to be missing are absent. `residua init` drafts a domain from the file's labels.
        """
        return _source(DictionarySource(paths, options_of(options)))

    @staticmethod
    def delta(path: str | Path, *, version: int | None = None, **options: Unpack[SourceOptions]) -> Source:
        """A Delta Lake table, at one version: the latest when the source is made, unless another is named.

        Needs the library: `pip install "residua[delta]"`. A store's credentials come from the environment.
        """
        return _source(delta_source(path, version, options_of(options)))

    @staticmethod
    def iceberg(table: Any, *, snapshot: int | None = None, **options: Unpack[SourceOptions]) -> Source:
        """An Iceberg table (`"catalogue.namespace.table"`, a `.metadata.json` file, or an open one), at one snapshot.

        The current one when the source is made, unless another is named. Needs the library: `pip install
        "residua[iceberg]"`; where catalogues are, and their credentials, is in that library's own settings.
        """
        return _source(iceberg_source(table, snapshot, options_of(options)))

    @staticmethod
    def frame(frame: Any, **options: Unpack[SourceOptions]) -> Source:
        """A pandas or Polars frame, a Polars lazy frame, or an Arrow table, batch, dataset or reader.

        A reader can be read only once, so it is read into memory here; give a dataset or files when the data
        are larger than memory.
        """
        return _source(frame_source(frame, options_of(options)))

    @staticmethod
    def duckdb(database: Any, query: str, **options: Unpack[SourceOptions]) -> Source:
        """What a query returns from a DuckDB database.

        Guarantee: the query is exactly one SELECT. A database given by its path is opened for reading only, and the
        query reaches no other file; what an open connection may do is up to whoever opened it.

        Args:
            database: the path of a database, or an open connection.
            query: one SELECT, or just the name of a table.
            options: counts, person, no_person, show_values (`Source`).

        Example:
            >>> import duckdb
            >>> with duckdb.connect() as connection:
            ...     Source.duckdb(connection, "SELECT 'Male' AS sex, 39 AS age").columns()
            ('sex', 'age')
        """
        return _source(DatabaseSource(database, query, options_of(options)))

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
            options: counts, person, no_person, show_values (`Source`).

        Example:
            >>> import pyarrow as pa
            >>> flights, airports = pa.table({"origin": ["EWR"]}), pa.table({"code": ["EWR"], "state": ["NJ"]})
            >>> query = "SELECT state FROM flights JOIN airports ON origin = code"
            >>> Source.sql({"flights": flights, "airports": airports}, query).columns()
            ('state',)
        """
        if isinstance(database, str):
            return _source(AdbcSource(Address(database), query, options_of(options)))
        said = options_of(options)
        return _source(QuerySource(_named_tables(database, said.show_values), query, said))

    @staticmethod
    def adbc(connection: Any, query: str, **options: Unpack[SourceOptions]) -> Source:
        """What a query returns through an open ADBC connection, of whatever driver.

        Guarantee: the query is exactly one SELECT. What else the connection may do, and whether two readings see one
        state of the data, is up to whoever opened it; it stays open.

        Args:
            connection: what a driver's `dbapi.connect` gave.
            query: one SELECT, or just the name of a table.
            options: counts, person, no_person, show_values (`Source`).
        """
        return _source(AdbcSource(connection, query, options_of(options)))

    @staticmethod
    def spark(frame: Any, **options: Unpack[SourceOptions]) -> Source:
        """A Spark frame, classic or of Spark Connect, counted on the executors; only tables come to the driver.

        A text names a table of the session at hand, or a path of Parquet files. The executors need residua of the same
        version (docs/spark.md).
        """
        from residua.source.spark import SparkSource, frame_of

        said = options_of(options)
        named = isinstance(frame, str | Path)
        return _source(SparkSource(frame_of(frame, said.show_values) if named else frame, said))


def source_of(data: Any, **options: Unpack[SourceOptions]) -> Source:
    """The source that anything readable stands for.

    Args:
        data: a source (returned unchanged), a path, pattern or list of paths (CSV, TSV, Parquet, Feather, JSON lines,
            Excel, SPSS, Stata or SAS, by their suffix), a folder of Parquet files, a frame (`Source.frame`), a
            DuckDB relation, a Spark frame, an ibis table or expression, or a pair (database, query).
        options: counts, person, no_person, show_values (`Source`); a source brings its own.

    Raises:
        SourceError: something that cannot be read.
    """
    if isinstance(data, Records):
        asked = options_of(options)
        if asked != NO_OPTIONS:
            option = next(name for name in options if getattr(asked, name) != getattr(NO_OPTIONS, name))
            raise SourceError(f"{option} is given for a source that was made without it; say it where it is made.")
        return _source(data)
    if isinstance(data, str | Path):
        return _file_source([data], options, typed=True)
    if isinstance(data, tuple) and len(data) == 2 and _is_query(data):
        return Source.duckdb(data[0], data[1], **options)
    if isinstance(data, Sequence):
        return _file_source(data, options)
    if type(data).__module__.startswith("pyspark.") and type(data).__name__ == "DataFrame":
        return Source.spark(data, **options)
    if type(data).__name__ == "DuckDBPyRelation":
        return _source(relation_source(data, options_of(options)))
    if type(data).__module__.startswith("ibis.expr.types"):
        return _source(ibis_source(data, options_of(options)))
    return Source.frame(data, **options)


def _source(records: Records) -> Source:
    return cast(Source, records)  # all records are: see `__subclasshook__`


def _named_tables(tables: Mapping[str, Any], show_values: bool) -> dict[str, Records]:
    """The sources of the tables that a query names."""
    if not isinstance(tables, Mapping) or not tables:
        raise SourceError("tables is not a mapping of names to data; pass {name: path}.")
    if len({str(name).lower() for name in tables}) < len(tables):
        raise SourceError("two tables differ in case only, which SQL takes for one; rename one.")
    sources: dict[str, Records] = {}
    for name, data in tables.items():
        if not isinstance(name, str) or not name.strip():
            raise SourceError("a table has no name; name it as the query does.")
        if isinstance(data, Records) and data.options.person:
            raise SourceError(
                f"table {name!r} names a person column, which a query does not pass on; name the query's own: "
                "Source.sql(…, person=…)."
            )
        sources[name] = data if isinstance(data, Records) else source_of(_listed(data), show_values=show_values)
    return sources


def _listed(data: Any) -> Any:
    return [data] if isinstance(data, str | Path) else data  # of a list, errors show what is like a path


def _is_query(pair: tuple[Any, Any]) -> bool:
    # A pair of paths is a list of files, unless the first is a database.
    database, query = pair
    if not isinstance(query, str):
        return False
    return not isinstance(database, str | Path) or Path(database).suffix in _DATABASES


def _file_source(paths: Sequence[Any], options: SourceOptions, *, typed: bool = False) -> Source:
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        raise SourceError(
            f"source is {kind_of(paths)} that holds no paths; pass paths, a frame, or rs.Source.duckdb(…)."
        )
    kinds = {_kind(str(path), typed or is_like_a_path(path)) for path in paths}
    if len(kinds) > 1:
        raise SourceError("source mixes files of different kinds; pass files of one kind.")
    reader = getattr(Source, {"tsv": "csv"}.get(kind := kinds.pop(), kind))
    return cast("Source", reader(paths, **options))


def _kind(path: str, shown: bool) -> str:
    uri = parse_uri(path) if is_uri(path) else None
    path = path if uri is None else str(uri)  # without what messages must not hold
    lowered = path.lower()
    for packed in PACKED:
        lowered = lowered.removesuffix(packed)
    if kind := next((kind for kind, suffixes in SUFFIXES.items() if lowered.endswith(suffixes)), None):
        return kind
    if path.lower().endswith(_DATABASES):
        raise SourceError(f"{path!r} is a database; say which table with rs.Source.duckdb({path!r}, query).")
    if uri is None:
        require_source_path(path)
    if uri.is_store if uri is not None else Path(path).is_dir():
        return "parquet"
    what = repr(path) if shown else "a file"
    raise SourceError(
        f"cannot tell what {what} holds from its suffix; use rs.Source.csv(…), rs.Source.parquet(…) or another."
    )
