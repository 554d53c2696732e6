"""What a DuckDB database, query or relation returns, streamed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from residua.errors import SourceError
from residua.source.paths import require_source_path
from residua.source.source import BATCH_ROWS, Source


class DatabaseSource(Source):
    """A query on a database. Fingerprint: the returned records in any order (see `fingerprint`)."""

    def __init__(self, database: Any, query: str, *, weight: str | None = None) -> None:
        super().__init__(weight)
        if not isinstance(query, str) or not query.strip():
            raise SourceError(f"query={query!r} is no query; pass SQL or the name of a table.")
        if isinstance(database, str | Path):
            require_source_path(database)
        if isinstance(database, str | Path) and not Path(database).is_file():
            raise SourceError(f"there is no database {str(database)!r}; check the path.")
        if not isinstance(database, str | Path) and not hasattr(database, "cursor"):
            raise SourceError(f"database={database!r} is no database; pass a path or a DuckDB connection.")
        self._database = database
        self.query = query.strip().rstrip(";")

    def __str__(self) -> str:
        return f"the query {self.query[:60]!r}"

    def columns(self) -> tuple[str, ...]:
        """What the query returns, without running it."""
        with self._ask(f"SELECT * FROM ({self.query}\n) LIMIT 0") as result:
            return _names(result.columns, str(self))

    def fingerprint(self) -> str:
        """A digest of the records the query returns, whatever their order.

        MD5 of each record's text, summed, then SHA-256. It notices an accident, not an adversary, and runs the
        query once more; a query whose answer depends on chance or on the hour has no stable fingerprint.
        """
        names = self.columns()
        with self._ask(_digest_query(names, f"({self.query}\n)")) as result:
            return _digest(names, result.fetchall()[0])

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        chosen = ", ".join(quoted(name) for name in columns)
        with self._ask(f"SELECT {chosen} FROM ({self.query}\n)") as result:
            yield from _stream(result)

    @contextmanager
    def _ask(self, sql: str) -> Iterator[Any]:
        import duckdb

        with explained(str(self)):
            if isinstance(self._database, str | Path):
                opened = duckdb.connect(str(self._database), read_only=True)
            else:
                opened = self._database.cursor()
            with opened as connection:
                connection.execute("SET SESSION enable_progress_bar = false")  # it would write to the terminal
                yield connection.sql(sql)


class RelationSource(Source):
    """A DuckDB relation. Fingerprint: the records in any order, as for a query."""

    def __init__(self, relation: Any, *, weight: str | None = None) -> None:
        super().__init__(weight)
        self._relation = relation

    def __str__(self) -> str:
        return "the DuckDB relation"

    def columns(self) -> tuple[str, ...]:
        """The relation's columns."""
        return _names(self._relation.columns, str(self))

    def fingerprint(self) -> str:
        """A digest of the relation's records, whatever their order; limits as for `DatabaseSource`."""
        with explained(str(self)):
            sql = _digest_query(self.columns(), "records")
            return _digest(self.columns(), self._relation.query("records", sql).fetchall()[0])

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        with explained(str(self)):
            yield from _stream(self._relation.project(", ".join(quoted(name) for name in columns)))


def quoted(name: str) -> str:
    """A column's name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _stream(relation: Any) -> Iterator[Any]:
    # DuckDB 2 names it to_arrow_reader, DuckDB 1 fetch_arrow_reader.
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    yield from reader(BATCH_ROWS)


def _names(names: Sequence[str], what: str) -> tuple[str, ...]:
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise SourceError(f"{what} returns two columns named {twice[0]!r}; rename one with AS.")
    return tuple(names)


def _digest_query(names: Sequence[str], records: str) -> str:
    # Each value with its length before it, so that no two different records have one text.
    texts = [f"{quoted(name)}::VARCHAR" for name in names]
    record = " || ".join(f"coalesce(length({text}) || ':' || {text}, '-')" for text in texts)
    sums = "sum(md5_number_lower(record)), sum(md5_number_upper(record))"
    return f"SELECT count(*), {sums} FROM (SELECT {record} AS record FROM {records})"


def _digest(names: Sequence[str], sums: object) -> str:
    return f"query:{hashlib.sha256(repr((tuple(names), sums)).encode()).hexdigest()}"


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns DuckDB's errors into one sentence."""
    import duckdb

    try:
        yield
    except duckdb.Error as problem:
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else "no reason given"
        raise SourceError(f"{what} failed in DuckDB ({first[:160].rstrip('.')}); correct the query.") from None
