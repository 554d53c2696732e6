"""What a DuckDB database, query or relation returns, streamed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any, Self

from residua.errors import SourceError
from residua.source.options import NO_OPTIONS, Options
from residua.source.paths import require_source_path
from residua.source.records import BATCH_ROWS, Records, distinct
from residua.source.uris import shown_value
from residua.sql import SqlError, engine_words, one_select, sandbox, without_progress_bar


class QueriedSource(Records):
    """Records that DuckDB returns. Chance, the clock and undecided ties may make two readings differ.

    Columns are asked for by their place: DuckDB would take names that differ in case only for one.
    """

    repeatable = False

    @abstractmethod
    def _described(self) -> Sequence[str]:
        """The names of the columns, found without running anything."""

    @abstractmethod
    @contextmanager
    def _asked(self, select: str, columns: int) -> Iterator[Any]:
        """The relation that `select`, which ends in FROM, gives of the records, whose columns are c0, c1, …."""
        yield

    def columns(self) -> tuple[str, ...]:
        """The columns' names, found without running anything."""
        return distinct(self._described(), str(self))

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        names = list(self._described())
        chosen = ", ".join(f"c{names.index(name)}" for name in columns)
        with self._asked(f"SELECT {chosen} FROM", len(names)) as relation:
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
        super().__init__(options)
        if isinstance(database, str | Path):
            require_source_path(database)
        if isinstance(database, str | Path) and not Path(database).is_file():
            raise SourceError(f"there is no database {shown_value(str(database))}; check the path.")
        if not isinstance(database, str | Path) and not hasattr(database, "cursor"):
            raise SourceError(f"database={database!r} is no database; pass a path or a DuckDB connection.")
        self._database = database
        self._held: Any = None  # the connection of a snapshot
        self.query = checked_query(query)

    def __str__(self) -> str:
        return f"the query {self.query[:60]!r}"

    def _described(self) -> Sequence[str]:
        with self._explained(), self._connected() as connection:
            return list(connection.sql(self.query).columns)

    @contextmanager
    def _asked(self, select: str, columns: int) -> Iterator[Any]:
        with self._explained(), self._connected() as connection:
            yield connection.sql(f"{select} ({self.query}\n) AS records({places(columns)})")

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
        super().__init__(options)
        self._relation = relation

    def __str__(self) -> str:
        return "the DuckDB relation"

    def _described(self) -> Sequence[str]:
        return list(self._relation.columns)

    @contextmanager
    def _asked(self, select: str, columns: int) -> Iterator[Any]:
        with self._explained():
            sql = f"{select} residua_records AS records({places(columns)})"
            yield self._relation.query("residua_records", sql)


def checked_query(query: object) -> str:
    """The text of one SELECT.

    Raises:
        SourceError: it is not a SELECT, or more than one.
    """
    if not isinstance(query, str) or not query.strip():
        raise SourceError(f"query={query!r} is no query; pass SQL or the name of a table.")
    try:
        return one_select(query)
    except SqlError as problem:
        raise SourceError(f"the query {query[:60]!r} is refused: {problem}; write exactly one SELECT.") from None


def places(columns: int) -> str:
    """Names for that many columns, by their place."""
    return ", ".join(f"c{i}" for i in range(columns))
