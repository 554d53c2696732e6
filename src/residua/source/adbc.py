"""What a query returns from any database with an ADBC driver, streamed as Arrow inside one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from functools import partial
from typing import Any, Self

from residua.errors import SourceError
from residua.source.database import checked_query
from residua.source.options import NO_OPTIONS, Options
from residua.source.records import BATCH_ROWS, Records, distinct
from residua.source.uris import Address, driver_words
from residua.sql import plain_select, quoted

_BEGIN = {
    **dict.fromkeys(("postgresql", "postgres"), "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    "sqlite": "BEGIN",
}
_SAFE = ("42", "25", "0A", "53", "57")  # SQLSTATE classes whose words are of the query and the server, not of data


class AdbcSource(Records):
    """A query on a database behind an ADBC driver.

    Args:
        database: where it is, or an open connection of a driver's `dbapi` module.
        query: one SELECT, or the name of a table.
    """

    repeatable = False

    def __init__(self, database: Address | Any, query: str, options: Options = NO_OPTIONS) -> None:
        super().__init__(options)
        if not isinstance(database, Address) and not hasattr(database, "adbc_get_info"):
            raise SourceError(
                f"connection is a {type(database).__name__}, no ADBC connection; pass what a driver's dbapi.connect "
                "gives."
            )
        self._database = database
        self.query = checked_query(query, partial(plain_select, dialect=_dialect(database)))
        self._is_sqlite = _dialect(database) == "sqlite"
        self._held: Any = None  # the connection of a snapshot
        self._names: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"the query {self.query[:60]!r}"

    def columns(self) -> tuple[str, ...]:
        """The columns' names, found by asking for no records."""
        if self._names is None:
            none = f"SELECT * FROM ({self.query}\n) AS records WHERE 1 = 0"
            with self._connected() as connection, self._asked(connection, none) as reader:
                self._names = distinct(reader.schema.names, str(self))
        return self._names

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """One transaction over all readings, which may only read; an open connection has its own."""
        with self._connected() as connection:
            still = copy(self)
            still._held = connection
            yield still

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        names = list(self.columns())
        with self._connected() as connection:
            text = self._as_text(names) if self._is_sqlite else f"SELECT * FROM ({self.query}\n) AS records"
            with self._asked(connection, text) as reader, self._explained():
                for batch in reader:
                    for low in range(0, batch.num_rows, BATCH_ROWS):
                        part = batch.slice(low, BATCH_ROWS)
                        yield part.select([names.index(name) for name in columns]).rename_columns(list(columns))

    def _as_text(self, names: Sequence[str]) -> str:
        """SQLite's columns hold values of any types: each as text, numbers with as many digits as they have."""
        chosen = ", ".join(f"{_SQLITE.replace('@', quoted(name))} AS {quoted(name)}" for name in names)
        return f"SELECT {chosen} FROM ({self.query}\n) AS records"

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if self._held is not None:
            yield self._held
            return
        if not isinstance(self._database, Address):
            yield self._database
            return
        with ExitStack() as stack:
            connection = self._database.connect()
            stack.callback(_closed, connection)
            begin = _BEGIN.get(self._database.scheme)
            if begin is not None:
                with self._explained(), connection.cursor() as cursor:
                    cursor.execute(begin)
            yield connection

    @contextmanager
    def _asked(self, connection: Any, text: str) -> Iterator[Any]:
        import adbc_driver_manager

        with ExitStack() as stack:
            with self._explained():
                cursor = connection.cursor()
                stack.callback(cursor.close)
                with suppress(adbc_driver_manager.NotSupportedError):
                    cursor.adbc_prepare(text)  # the engine itself parses it, as one statement
                if self._is_sqlite:
                    cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
                cursor.execute(text)
                reader = cursor.fetch_record_batch()
            yield reader

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns a driver's errors into one sentence; its own words only where they cannot hold values of the data."""
        import adbc_driver_manager
        import pyarrow as pa

        try:
            yield
        except (adbc_driver_manager.Error, OSError, pa.ArrowException) as problem:
            state = getattr(problem, "sqlstate", None) or ""
            safe = self.show_values or state.startswith(_SAFE) or _vendor_words(problem)
            address = self._database if isinstance(self._database, Address) else None
            why = (
                driver_words(problem, address)
                if safe
                else "a value cannot be computed or converted, or the server is gone"
            )
            raise SourceError(f"{self} failed in the database ({why}); correct the query.") from None


# A real number as the shortest text that is the same number; whole ones as the whole numbers they are.
_SQLITE = (
    "CASE WHEN typeof(@) <> 'real' THEN CAST(@ AS TEXT) WHEN abs(@) < 9007199254740992 AND @ = CAST(@ AS INTEGER) THEN "
    "CAST(CAST(@ AS INTEGER) AS TEXT) WHEN CAST(printf('%!.15g', @) AS REAL) = @ THEN printf('%!.15g', @) WHEN "
    "CAST(printf('%!.16g', @) AS REAL) = @ THEN printf('%!.16g', @) ELSE printf('%!.17g', @) END"
)


def _dialect(database: Address | Any) -> str:
    if not isinstance(database, Address):
        return str(database.adbc_get_info().get("vendor_name")).lower()
    return "postgresql" if database.scheme == "postgres" else database.scheme


def _vendor_words(problem: Exception) -> bool:
    # SQLite has no SQLSTATE, and errors while streaming have none; these speak of the query's text.
    known = r"no such (table|column|function)|syntax error|incomplete input|cannot execute \w+ in a read-only"
    return bool(re.search(known, str(problem)))


def _closed(connection: Any) -> None:
    # A transaction that only read ends with its connection.
    with suppress(Exception):
        connection.close()
