"""Where a database is: a URI whose secrets are never shown, and the ADBC driver that its scheme names."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from residua.errors import SourceError

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
            package = f"'residua[{extra}]'" if extra else module.replace("_", "-")
            raise SourceError(f"{self} needs a driver that is not installed; run: pip install {package}") from None
        arguments = self._arguments()
        try:
            return driver.connect(*arguments, autocommit=True)
        except Exception as problem:  # each driver has its own; none may be shown as it is
            why = f" ({words(problem, self)})" if not self.secrets else ""
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


def words(problem: Exception, address: Address | None = None) -> str:
    """The first line of what a driver says is wrong, without secrets."""
    first = (str(problem).strip().splitlines() or ["no reason given"])[0]
    for secret in address.secrets if address is not None else ():
        first = first.replace(secret, "…")
    return first.split("Query was:")[0].split("SQLSTATE")[0].strip().rstrip(".")[:160]
