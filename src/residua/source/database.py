"""What DuckDB returns, streamed: from a database, a relation, or other sources, each a table of the query; and ibis.

A query over other sources reads them through us, so that it reaches nothing else. Expressions of ibis on DuckDB are
such queries; on any other engine ibis streams them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any, Self

from residua.errors import SourceError
from residua.source.frames import LazySource
from residua.source.options import NO_OPTIONS, Options
from residua.source.records import BATCH_ROWS, Records, distinct
from residua.source.remote import require_source_path, shown_value
from residua.sql import SqlError, engine_words, one_select, sandbox, without_progress_bar


class QueriedSource(Records):
    """Records that a query returns from DuckDB. Chance, the clock and undecided ties may make two readings differ.

    Columns are asked for by their place: DuckDB would take names that differ in case only for one.

    Args:
        query: one SELECT, or the name of a table.
        parse: the text of one SELECT, as `residua.sql` reads it.

    Raises:
        SourceError: it is not a SELECT, or more than one.
    """

    repeatable = False

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
    def _connected(self) -> Iterator[Any]:
        """The connection that runs the query."""
        yield

    def _described(self) -> Sequence[str]:
        """The names of the columns, found without running anything."""
        with self._explained(), self._connected() as connection:
            return list(connection.sql(self.query).columns)

    @contextmanager
    def _asked(self, select: str, names: str) -> Iterator[Any]:
        """The relation that `select`, which ends in FROM, gives of the records, whose columns have these names."""
        with self._explained(), self._connected() as connection:
            yield connection.sql(f"{select} ({self.query}\n) AS records({names})")

    def columns(self) -> tuple[str, ...]:
        """The columns' names, found without running anything."""
        return distinct(self._described(), str(self))

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        names = list(self._described())
        chosen = ", ".join(f"c{names.index(name)}" for name in columns)
        with self._asked(f"SELECT {chosen} FROM", ", ".join(f"c{i}" for i in range(len(names)))) as relation:
            # DuckDB 2 names it to_arrow_reader, DuckDB 1 fetch_arrow_reader.
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            for batch in reader(BATCH_ROWS):
                yield batch.rename_columns(list(columns))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns DuckDB's errors into one sentence; its own words only where they cannot hold values of the data."""
        import duckdb

        try:
            yield
        except (duckdb.Error, OSError) as problem:  # what DuckDB streams fails as an OSError
            words = engine_words(problem, values=self.show_values)
            raise SourceError(f"{self} failed in DuckDB ({words}); correct the query.") from None


class DatabaseSource(QueriedSource):
    """A query on a database."""

    def __init__(self, database: Any, query: str, options: Options = NO_OPTIONS) -> None:
        if isinstance(database, str | Path):
            require_source_path(database)
            if not Path(database).is_file():
                raise SourceError(f"there is no database {shown_value(str(database))}; check the path.")
        elif not hasattr(database, "cursor"):
            raise SourceError(f"database={database!r} is no database; pass a path or a DuckDB connection.")
        super().__init__(query, options)
        self._database = database
        self._held: Any = None  # the connection of a snapshot

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """One transaction over all readings."""
        import duckdb

        with ExitStack() as stack:
            with self._explained():  # not around what is done meanwhile, which has errors of its own
                connection = stack.enter_context(self._connected())
                connection.execute("BEGIN TRANSACTION")
            still = copy(self)
            still._held = connection
            try:
                yield still
            finally:
                with suppress(duckdb.Error):
                    connection.execute("ROLLBACK")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        import duckdb

        if self._held is not None:
            yield self._held
            return
        if isinstance(self._database, str | Path):
            with sandbox(self._database) as connection:
                yield connection
            return
        with self._database.cursor() as connection:
            with suppress(duckdb.Error):  # a configuration that is locked stays as it is
                without_progress_bar(connection)
            yield connection


class RelationSource(QueriedSource):
    """A DuckDB relation."""

    def __init__(self, relation: Any, options: Options = NO_OPTIONS) -> None:
        super().__init__("residua_records", options)
        self._relation = relation

    def __str__(self) -> str:
        return "the DuckDB relation"

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        raise AssertionError("a relation has its own connection")

    def _described(self) -> Sequence[str]:
        return list(self._relation.columns)

    @contextmanager
    def _asked(self, select: str, names: str) -> Iterator[Any]:
        with self._explained():
            yield self._relation.query("residua_records", f"{select} residua_records AS records({names})")


class QuerySource(QueriedSource):
    """One SELECT over named tables.

    Args:
        tables: name → where its records come from.
        query: one SELECT, or the name of a table.
    """

    def __init__(self, tables: Mapping[str, Records], query: str, options: Options = NO_OPTIONS) -> None:
        super().__init__(query, options)
        self._tables = dict(tables)

    def __str__(self) -> str:
        return f"the query {self.query[:60]!r} over {', '.join(map(repr, self._tables))}"

    @contextmanager
    def _connected(self) -> Iterator[Any]:
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
        import pyarrow as pa

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
        import pyarrow as pa

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
