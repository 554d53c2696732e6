"""What DuckDB returns, streamed: from a database, a relation, or other sources, each a table of the query; and ibis.

A query over other sources reads them through us, so that it reaches nothing else. Expressions of ibis on DuckDB are
such queries; on any other engine ibis streams them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any, Self

from residua.errors import SourceError, named
from residua.machine import duckdb, pyarrow as pa
from residua.source.frames import LazySource
from residua.source.options import NO_OPTIONS, Options, explained
from residua.source.records import BATCH_ROWS, Records, distinct
from residua.source.remote import require_source_path, shown_value
from residua.sql import SqlError, engine_words, one_select, sandbox, without_progress_bar


class QueriedSource(Records):
    """Records that a query returns from DuckDB. Chance, the clock and undecided ties may make two readings differ.

    Args:
        query: one SELECT, or the name of a table.
        parse: the text of one SELECT, as `residua.sql` reads it.

    Raises:
        SourceError: it is not a SELECT, or more than one.
    """

    repeatable = False
    _held: Any = None  # the connection of a snapshot

    def __init__(self, query: str, options: Options = NO_OPTIONS, parse: Callable[[str], str] = one_select) -> None:
        super().__init__(options)
        if not isinstance(query, str) or not query.strip():
            raise SourceError(f"query={query!r} is no query; pass SQL or the name of a table.")
        try:
            self.query = parse(query)
        except SqlError as problem:
            raise SourceError(f"the query {query[:60]!r} is refused: {problem}; write exactly one SELECT.") from None

    def __str__(self) -> str:
        return f"the query {self.query[:60]!r}"

    @abstractmethod
    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """A connection that runs the query, and sees one state of the data where the engine can hold it still."""
        yield

    def _connected(self) -> AbstractContextManager[Any]:
        return self._opened() if self._held is None else nullcontext(self._held)

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """One connection for all readings."""
        with ExitStack() as stack:
            still = copy(self)
            with self._explained():  # not around what is done meanwhile, which has errors of its own
                still._held = stack.enter_context(self._connected())
            yield still

    def _described(self) -> Sequence[str]:
        """The names of the columns, found without running anything."""
        with self._explained(), self._connected() as connection:
            return list(connection.sql(self.query).columns)

    def columns(self) -> tuple[str, ...]:
        """The columns' names, found without running anything."""
        return distinct(self._described(), str(self))

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        names = list(self._described())
        chosen, places = [names.index(name) for name in columns], range(len(names))
        with self._explained(), self._connected() as connection:
            for batch in _streamed(
                connection.sql(f"SELECT {_listed(chosen)} FROM ({self.query}\n) AS records({_listed(places)})")
            ):
                yield batch.rename_columns(list(columns))

    def _explained(self) -> AbstractContextManager[None]:
        """Turns DuckDB's errors into one sentence; its own words only where they cannot hold values of the data."""
        return duckdb_explained(str(self), self.show_values)


def duckdb_explained(what: str, show_values: bool) -> AbstractContextManager[None]:
    """Turns DuckDB's errors into one sentence; its own words only where they cannot hold values of the data."""

    def sentence(problem: Exception) -> str:
        return f"{what} failed in DuckDB ({engine_words(problem, values=show_values)}); correct the query."

    return explained(sentence, duckdb.Error, OSError)  # what DuckDB streams fails as an OSError


def _listed(places: Iterable[int]) -> str:
    """Columns by their place: DuckDB would take names that differ in case only for one."""
    return ", ".join(f"c{i}" for i in places)


def _streamed(relation: Any) -> Iterator[Any]:
    # DuckDB 2 names it to_arrow_reader, DuckDB 1 fetch_arrow_reader.
    yield from (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(BATCH_ROWS)


class DatabaseSource(QueriedSource):
    """A query on a database."""

    def __init__(self, database: Any, query: str, options: Options = NO_OPTIONS) -> None:
        if isinstance(database, str | Path):
            require_source_path(database)
            if not Path(database).is_file():
                raise SourceError(f"there is no database {shown_value(str(database))}; check the path.")
        elif not hasattr(database, "cursor"):
            raise SourceError(f"database={named(database)} is no database; pass a path or a DuckDB connection.")
        super().__init__(query, options)
        self._database = database

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """In one transaction."""
        own = isinstance(self._database, str | Path)
        with sandbox(self._database) if own else self._database.cursor() as connection:
            with suppress(duckdb.Error):  # a configuration that is locked stays as it is
                without_progress_bar(connection)
            with self._explained():
                connection.execute("BEGIN TRANSACTION")
            try:
                yield connection
            finally:
                with suppress(duckdb.Error):
                    connection.execute("ROLLBACK")


def relation_source(relation: Any, options: Options = NO_OPTIONS) -> LazySource:
    """The source of a DuckDB relation, which has its own connection."""
    shown, places = "the DuckDB relation", range(len(relation.columns))

    def cut(relation: Any, chosen: list[int]) -> Iterator[Any]:
        with duckdb_explained(shown, options.show_values):
            asked = f"SELECT {_listed(chosen)} FROM residua_records AS records({_listed(places)})"
            yield from _streamed(relation.query("residua_records", asked))

    return LazySource(relation, relation.columns, cut, None, options, shown)


class QuerySource(QueriedSource):
    """One SELECT over named tables.

    Args:
        tables: name → where its records come from.
        query: one SELECT, or the name of a table.
    """

    snapshot = Records.snapshot  # what files and frames are held still by

    def __init__(self, tables: Mapping[str, Records], query: str, options: Options = NO_OPTIONS) -> None:
        super().__init__(query, options)
        self._tables = dict(tables)

    def __str__(self) -> str:
        return f"the query {self.query[:60]!r} over {', '.join(map(repr, self._tables))}"

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        streams = {name: _Stream(name, source) for name, source in self._tables.items()}
        try:
            with self._explained(), sandbox() as connection:
                for name, stream in streams.items():
                    connection.register(name, stream)
                yield connection
        except SourceError as problem:
            # What went wrong while a table was read says more than that the query failed.
            raise next((one.problem for one in streams.values() if one.problem), problem) from None


class _Stream:
    """A source that can be read again and again as a stream of Arrow batches of one schema."""

    def __init__(self, name: str, source: Records) -> None:
        self._name, self._source = name, source
        self._columns = source.columns()
        self.problem: SourceError | None = None
        folded: dict[str, str] = {}
        for column in self._columns:
            other = folded.setdefault(column.lower(), column)
            if other != column:
                named = f" {other!r} and {column!r}" if source.show_values else ""
                raise SourceError(f"table {name!r} has columns{named} that differ in case only; rename one for SQL.")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = self._noted(self._source.batches(self._columns))
        first = next(batches, None)
        if first is None:
            schema = pa.schema([(name, pa.string()) for name in self._columns])
        else:
            kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in first.schema.types]
            schema = pa.schema(zip(first.schema.names, kinds, strict=True))
        given = self._cast(chain([first] if first is not None else [], batches), schema)
        return pa.RecordBatchReader.from_batches(schema, given).__arrow_c_stream__(requested_schema)

    def _noted(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from batches
        except SourceError as problem:  # DuckDB would wrap it
            self.problem = problem
            raise

    def _cast(self, batches: Iterator[Any], schema: Any) -> Iterator[Any]:
        try:
            for batch in batches:
                yield batch if batch.schema.equals(schema) else batch.cast(schema)
        except pa.ArrowException:
            self.problem = SourceError(f"table {self._name!r} has a column of several types; convert it to one.")
            raise


def ibis_source(expression: Any, options: Options = NO_OPTIONS) -> Records:
    """The source of what an ibis expression returns; which state of the data it sees is up to ibis and its engine.

    Raises:
        SourceError: an expression that is no table, or has no engine.
    """
    import ibis

    if not hasattr(expression, "columns"):
        raise SourceError("the ibis expression is no table; select columns from one.")
    try:
        backend = expression.get_backend()
    except Exception as problem:  # ibis has an error of its own for each reason
        raise SourceError(
            f"the ibis expression has no engine to run on ({type(problem).__name__}); make one."
        ) from None
    if backend.name == "duckdb":
        return DatabaseSource(backend.con, str(ibis.to_sql(expression)), options)
    shown = f"the ibis expression on {backend.name}"

    def cut(table: Any, positions: list[int]) -> Iterator[Any]:
        try:
            yield from table.select(*(table.columns[i] for i in positions)).to_pyarrow_batches(chunk_size=BATCH_ROWS)
        except Exception as problem:  # of ibis or of the engine; its words may quote values
            why = str(problem).strip().splitlines()[:1] if options.show_values else [type(problem).__name__]
            raise SourceError(f"{shown} failed ({''.join(why)[:160]}); run it in ibis to see why.") from None

    return LazySource(expression, expression.columns, cut, None, options, shown)
