"""Where files and databases are: URIs whose credentials, which belong in the environment, are never shown."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from residua.errors import SourceError

STORES = ("s3", "gs", "gcs", "abfs", "abfss")  # whose files can be listed
WEB = ("http", "https")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_AZURE = {"blob_storage_authority", "dfs_storage_authority", "enable_tls", "credential_kind"}
_PLACES = {
    "s3": {"region", "endpoint_override", "scheme"},
    "gs": {"endpoint_override", "scheme"},
    "abfs": _AZURE,
    "abfss": _AZURE,
}
_REMEDY = "leave credentials to the environment or to a profile of the store's own tools"


@dataclass(frozen=True)
class Uri:
    """Where a file or a folder is, in a store or on the web.

    Args:
        scheme: `s3`, `gs`, `abfss`, `https`, …
        place: the bucket, the container with its account, or the host.
        path: what follows, as it is written; without a leading slash in a store.
        query: of a store, its region or endpoint, or which kind of credential is looked for; on the web anything, which
            is never shown: it may be a signature.
    """

    scheme: str
    place: str
    path: str
    query: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}/{self.path.lstrip('/')}"

    def __repr__(self) -> str:
        return f"Uri({str(self)!r})"

    @property
    def is_store(self) -> bool:
        """Whether it is an object store."""
        return self.scheme in STORES

    def at(self, path: str) -> Uri:
        """Another path of the same place."""
        return Uri(self.scheme, self.place, path, self.query)


def is_uri(path: object) -> bool:
    """Whether a path is a URI rather than the name of a file."""
    return isinstance(path, str) and _SCHEME.match(path) is not None


def parse_uri(text: str) -> Uri:
    """The place that a URI names.

    Raises:
        SourceError: a scheme that is not known, a URI without a place, or one that holds a credential; the message
            does not repeat it.
    """
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme not in (*STORES, *WEB):
        raise SourceError(
            f"{shown_uri(text)!r} is of a kind that residua does not read; give a path, or a URI that begins with "
            "s3://, gs://, abfss:// or https://."
        )
    # In a store everything after the bucket is a name, in which ? and # are characters, except a query of ours.
    authority, slash, path = rest.partition("/")
    query = ""
    if scheme in WEB:
        try:
            parts = urlsplit(text)
        except ValueError:
            raise SourceError(f"{shown_uri(text)!r} is not a URI; correct it.") from None
        authority, path, query = parts.netloc, parts.path, parts.query
    elif _known_query(text):
        path, _, query = path.rpartition("?")
    place = _place(scheme, authority, text)
    _check_query(scheme, query, text)
    if not place or (scheme in STORES and (not slash or not path.strip("/"))):
        raise SourceError(f"{shown_uri(text)!r} names no file; write it as {scheme}://BUCKET/FILE.")
    if "\0" in text:
        raise SourceError(f"{shown_uri(text)!r} holds a NUL character and cannot be the name of a file; correct it.")
    return Uri(scheme, place, path, query)


def _known_query(text: str) -> bool:
    return re.search(r"\?\w+=[^?]*$", text) is not None


def _place(scheme: str, authority: str, text: str) -> str:
    user, at, _ = authority.rpartition("@")
    if scheme in STORES and ":" in authority:  # no bucket's name has one: it comes before a password, which may hold /
        raise SourceError(f"{shown_uri(text)!r} holds a user or a password; {_REMEDY}.")
    container = scheme in ("abfs", "abfss") and ":" not in user and user != ""
    anonymous = scheme in ("gs", "gcs") and user == "anonymous"
    if at and not (container or anonymous):
        raise SourceError(f"{shown_uri(text)!r} holds a user or a password; {_REMEDY}.")
    if not re.fullmatch(r"[\w.@:\[\]-]*", authority, flags=re.ASCII):
        raise SourceError(f"{shown_uri(text)!r} names no place that there can be; correct it.")
    return authority


def _check_query(scheme: str, query: str, text: str) -> None:
    if scheme in WEB:
        return
    unknown = [name for name, _ in parse_qsl(query, keep_blank_values=True) if name not in _PLACES.get(scheme, set())]
    if unknown:
        known = " and ".join(sorted(_PLACES.get(scheme, {"nothing"})))
        raise SourceError(
            f"{shown_uri(text)!r} has a query that says more than where it is; for {scheme}:// it may say {known}: "
            f"{_REMEDY}."
        )


def refuse_keys(text: str) -> None:
    """Refuses a path of Spark's, whose schemes are its own, that holds a password, or a query that may be a key.

    Raises:
        SourceError: it does; the message does not repeat it.
    """
    if is_uri(text) and (":" in text.partition("://")[2].rpartition("@")[0] or _known_query(text)):
        raise SourceError(f"{shown_uri(text)!r} holds a password or a key; leave credentials to Spark's settings.")


def shown_uri(text: str) -> str:
    """What messages may show of one URI: neither a user or a password, whatever they hold, nor a query."""
    scheme, _, rest = text.partition("://")
    user, _, place = rest.rpartition("@")
    container = scheme.lower() in ("abfs", "abfss")  # which is no user
    hidden = ":" in user or ("@" in rest.partition("/")[0] and not container)
    return redacted(f"{scheme}://…@{place}" if hidden else text)


def shown_value(value: object) -> str:
    """What messages may show of whatever stands where a path should."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown_value, value))}]"
    return repr(shown_uri(value)) if isinstance(value, str) and "://" in value else redacted(repr(value))


def redacted(text: str) -> str:
    """A text without users, passwords and queries of the URIs in it: what messages may show."""
    hidden = re.sub(r"(://)[^/@\s'\"]*:[^\s'\"]*@", r"\1…@", text)  # up to the last @: a password may hold a slash
    hidden = re.sub(r"((?:s3|gs|gcs|abfss?)://[^/:\s'\"]*):[^\s'\"]*", r"\1:…", hidden, flags=re.IGNORECASE)
    hidden = re.sub(r"((?:s3|https?)://)[^/@\s'\"]+@", r"\1…@", hidden, flags=re.IGNORECASE)
    return re.sub(r"(://[^?\s'\"]*)\?[^\s'\"]*", r"\1?…", hidden)


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
