"""What a query returns from any database with an ADBC driver, streamed as Arrow inside one transaction; its URI."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from residua.errors import SourceError
from residua.machine import missing, pyarrow as pa
from residua.source.database import QueriedSource
from residua.source.options import NO_OPTIONS, Options, explained
from residua.source.records import BATCH_ROWS
from residua.sql import plain_select, quoted

_BEGIN = {
    **dict.fromkeys(("postgresql", "postgres"), "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    "sqlite": "BEGIN",
}
_SAFE = ("42", "25", "0A", "53", "57")  # SQLSTATE classes whose words are of the query and the server, not of data

# Scheme → the driver's module, and the extra that installs it, where there is one.
_DRIVERS = {
    "postgresql": ("adbc_driver_postgresql", "postgres"),
    "postgres": ("adbc_driver_postgresql", "postgres"),
    "sqlite": ("adbc_driver_sqlite", "sqlite"),
    "snowflake": ("adbc_driver_snowflake", None),
    "bigquery": ("adbc_driver_bigquery", None),
    "grpc": ("adbc_driver_flightsql", None),
    "grpc+tls": ("adbc_driver_flightsql", None),
    "grpc+tcp": ("adbc_driver_flightsql", None),
}
_SECRETS = ("pass", "pwd", "token", "secret", "credential", "private", "apikey", "api_key", "accesskey", "access_key")
_NO_SECRETS = ("passfile",)  # only says where one is


@dataclass(frozen=True, repr=False)
class Address:
    """A database's URI. What is printed of it has neither a password nor any parameter.

    Args:
        uri: `postgresql://host/database`, `sqlite:///path`, `snowflake://…`, `bigquery://project/dataset`,
            `grpc+tls://host:port`.

    Raises:
        SourceError: no URI, or of a scheme that has no driver.
    """

    uri: str

    def __post_init__(self) -> None:
        if not isinstance(self.uri, str) or "://" not in self.uri:
            raise SourceError("the URI of a database is not known; write postgresql://host/database, for example.")
        if self.scheme not in _DRIVERS:
            named = (
                f"{self.scheme}:// databases" if re.fullmatch(r"[a-z][a-z0-9+.-]*", self.scheme) else "this database"
            )
            raise SourceError(
                f"there is no driver for {named}; there are {', '.join(_DRIVERS)}, and "
                "rs.Source.adbc takes a connection of any other."
            )

    @property
    def scheme(self) -> str:
        """What stands before ://."""
        return self.uri.split("://", 1)[0].lower()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The passwords and tokens in the URI."""
        user, place = self._parts
        password = user.partition(":")[2]
        asked = [
            value
            for name, value in parse_qsl(place.partition("?")[2])  # drivers know no fragments: # is a character
            if any(word in name.lower() for word in _SECRETS) and name.lower() not in _NO_SECRETS
        ]
        if self.scheme != "sqlite" and not password and re.match(r"[^?]*:[^?]*@", place):
            return (self.uri,)  # a password with a slash, which should have been escaped
        return tuple(secret for secret in (password, unquote(password), *asked) if secret)

    @property
    def _parts(self) -> tuple[str, str]:
        """User and password, as drivers find them: what stands before the last @ that no slash precedes; the rest."""
        rest = self.uri.partition("://")[2]
        user, at, _ = rest.partition("/")[0].rpartition("@")
        return ("", rest) if self.scheme == "sqlite" or not at else (user, rest[len(user) + 1 :])

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __str__(self) -> str:
        if self.scheme == "sqlite":
            return self.uri.partition("?")[0]
        if self.secrets == (self.uri,):
            return f"{self.scheme}://…"
        return f"{self.scheme}://{self._parts[1].partition('?')[0]}"

    def connect(self) -> Any:
        """A connection of the driver, which commits by itself.

        Raises:
            SourceError: the driver is not installed, or the database cannot be reached.
        """
        module, extra = _DRIVERS[self.scheme]
        try:
            driver = importlib.import_module(f"{module}.dbapi")
        except ImportError:
            package = f'"residua[{extra}]"' if extra else module.replace("_", "-")
            sentence = f"{self} needs a driver that is not installed; run: pip install {package}"
            raise missing(sentence, SourceError) from None
        arguments = self._arguments()
        try:
            return driver.connect(*arguments, autocommit=True)
        except Exception as problem:  # each driver has its own; none may be shown as it is
            why = f" ({driver_words(problem, self)})" if not self.secrets else ""
        raise SourceError(
            f"{self} cannot be reached{why}; check the host, the user and the credentials, which belong into the "
            "environment or a service file (for PostgreSQL: PGPASSWORD, ~/.pgpass, PGSERVICE)."
        )

    def _arguments(self) -> list[Any]:
        rest = self.uri.partition("://")[2]
        if self.scheme == "sqlite":
            path, _, query = rest.removeprefix("/").partition("?")  # sqlite:///a.db and sqlite:////tmp/a.db
            if not Path(path).is_file():
                raise SourceError(f"there is no database {path!r}; check the path, sqlite:///PATH.")
            return [f"file:{quote(path)}?mode=ro{'&' + query if query else ''}"]
        if self.scheme == "bigquery":
            project, _, dataset = rest.partition("?")[0].strip("/").partition("/")
            named = {"adbc.bigquery.sql.project_id": project, "adbc.bigquery.sql.dataset_id": dataset}
            return [{name: value for name, value in named.items() if value}]
        return [rest if self.scheme == "snowflake" else self.uri]


def driver_words(problem: Exception, address: Address | None = None) -> str:
    """The first line of what a driver says is wrong, without secrets."""
    first = (str(problem).strip().splitlines() or ["no reason given"])[0]
    for secret in address.secrets if address is not None else ():
        first = first.replace(secret, "…")
    return first.split("Query was:")[0].split("SQLSTATE")[0].strip().rstrip(".")[:160]


class AdbcSource(QueriedSource):
    """A query on a database behind an ADBC driver.

    Args:
        database: where it is, or an open connection of a driver's `dbapi` module.
        query: one SELECT, or the name of a table.
    """

    def __init__(self, database: Address | Any, query: str, options: Options = NO_OPTIONS) -> None:
        if not isinstance(database, Address) and not hasattr(database, "adbc_get_info"):
            raise SourceError(
                f"connection is a {type(database).__name__}, no ADBC connection; pass what a driver's dbapi.connect "
                "gives."
            )
        super().__init__(query, options, lambda text: plain_select(text, dialect=_dialect(database)))
        self._database = database
        self._is_sqlite = _dialect(database) == "sqlite"
        self._names: Sequence[str] = ()

    def _described(self) -> Sequence[str]:
        """The columns' names, found by asking for no records."""
        if not self._names:
            none = f"SELECT * FROM ({self.query}\n) AS records WHERE 1 = 0"
            with self._connected() as connection, self._reader(connection, none) as reader:
                self._names = reader.schema.names
        return self._names

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        names = list(self.columns())
        with self._connected() as connection:
            # SQLite's columns hold values of any types: each as text, numbers with as many digits as they have.
            each = (f"{_SQLITE.replace('@', quoted(name))} AS {quoted(name)}" for name in names)
            text = f"SELECT {', '.join(each) if self._is_sqlite else '*'} FROM ({self.query}\n) AS records"
            with self._reader(connection, text) as reader, self._explained():
                for batch in reader:
                    for low in range(0, batch.num_rows, BATCH_ROWS):
                        part = batch.slice(low, BATCH_ROWS)
                        yield part.select([names.index(name) for name in columns]).rename_columns(list(columns))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """In one transaction, which may only read; an open connection has its own."""
        if not isinstance(self._database, Address):
            yield self._database
            return
        connection = self._database.connect()
        try:
            begin = _BEGIN.get(self._database.scheme)
            if begin is not None:
                with self._explained(), connection.cursor() as cursor:
                    cursor.execute(begin)
            yield connection
        finally:
            with suppress(Exception):  # a transaction that only read ends with its connection
                connection.close()

    @contextmanager
    def _reader(self, connection: Any, text: str) -> Iterator[Any]:
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

    def _explained(self) -> AbstractContextManager[None]:
        """Turns a driver's errors into one sentence; its own words only where they cannot hold values of the data."""
        import adbc_driver_manager

        def sentence(problem: Exception) -> str:
            state = getattr(problem, "sqlstate", None) or ""
            why = "a value cannot be computed or converted, or the server is gone"
            if self.show_values or state.startswith(_SAFE) or _OF_THE_QUERY.search(str(problem)):
                why = driver_words(problem, self._database if isinstance(self._database, Address) else None)
            return f"{self} failed in the database ({why}); correct the query."

        return explained(sentence, adbc_driver_manager.Error, OSError, pa.ArrowException)


# SQLite has no SQLSTATE, and errors while streaming have none; these speak of the query's text.
_OF_THE_QUERY = re.compile(
    r"no such (table|column|function)|syntax error|incomplete input|cannot execute \w+ in a read-only"
)
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
