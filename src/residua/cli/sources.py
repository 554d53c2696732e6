"""The data a specification names: files, a database, or a query over files, relative to the specification."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from residua.cli.show import err
from residua.errors import SpecError
from residua.files import is_uri
from residua.source import Source, source_of
from residua.source.adbc import Address
from residua.source.dialect import Notation
from residua.source.options import SourceOptions
from residua.source.remote import parse_uri, refuse_keys, require_source_path, shown_uri, shown_value

if TYPE_CHECKING:
    from residua.cli.spec import Spec
    from residua.source.options import Tallies

_TABLE = "data"  # what a query calls the files of `path`


def open_source(spec: Spec, *, show_values: bool = False) -> Source:
    """The data a specification names; nothing is read yet.

    Args:
        spec: the specification.
        show_values: whether messages may quote values of the data off a terminal too; on one they always may.

    Raises:
        SpecError: [source] names nothing, or several things.
        SourceError: what it names is not there.
    """
    settings = spec.source
    named = ("path", "tables", "database", "uri", "delta", "iceberg", "spark", "query")
    given = {key for key in named if key in settings}
    options: SourceOptions = {"show_values": show_values or err.is_terminal}
    options.update({name: settings[name] for name in ("counts", "person", "no_person") if name in settings})  # type: ignore[typeddict-item]
    options["weights"] = spec.weights
    notation = {name: settings[name] for name in (*Notation.__annotations__, "sheet") if name in settings}
    if notation and not given & {"path", "tables"}:
        kind = "a workbook" if "sheet" in notation else "delimited text"
        raise SpecError(f"[source] {next(iter(notation))} belongs to {kind}; give a path, or remove it.")
    for number, owner in (("version", "delta"), ("snapshot", "iceberg")):
        if number in settings and owner not in given:
            raise SpecError(f"[source] {number} belongs to {owner}; name the table with {owner}, or remove it.")
    match sorted(given):
        case ["delta"]:
            place = _text("delta", settings["delta"])
            place = place if is_uri(place) else str(spec.folder / place)
            source = Source.delta(place, version=settings.get("version"), **options)
        case ["iceberg"]:
            place = _text("iceberg", settings["iceberg"])
            local = place.endswith(".metadata.json") and not is_uri(place)
            place = str(spec.folder / place) if local else place
            source = Source.iceberg(place, snapshot=settings.get("snapshot"), **options)
        case ["path"]:
            source = _files(spec.folder, "path", settings["path"], notation, options)
        case ["path", "query"]:
            inner: SourceOptions = {"show_values": options["show_values"]}
            table = _files(spec.folder, "path", settings["path"], notation, inner)
            source = Source.sql({_TABLE: table}, settings["query"], **options)
        case ["query", "tables"]:
            source = Source.sql(_tables(spec.folder, settings, notation, options), settings["query"], **options)
        case ["database", "query"]:
            source = Source.duckdb(
                str(spec.folder / _text("database", settings["database"])), settings["query"], **options
            )
        case ["spark"]:
            source = Source.spark(_text("spark", settings["spark"]), **options)
        case ["query", "uri"]:
            source = Source.sql(_uri(spec.folder, settings["uri"]), settings["query"], **options)
        case _:
            raise SpecError(
                "[source] needs path (and a query if you like), tables and query, database and query, uri and query, "
                'delta, iceberg, or spark; write path = "data.csv", for example.'
            )
    return source_of(source.with_columns(spec.expressions))


def refuse_credentials(settings: Mapping[str, Any]) -> None:
    """Refuses a specification that holds what opens a store: it is kept, copied and sent to others.

    Raises:
        SpecError: a URI with a user, a password or a query that may be a signature; the message does not repeat it.
            Also what should be the URI of a database and is none: it may be a secret.
        SourceError: a URI that is none.
    """
    if "uri" in settings:
        _without_password(settings["uri"])
    if isinstance(settings.get("spark"), str):
        refuse_keys(settings["spark"])
    named = {key: settings[key] for key in ("path", "delta", "iceberg") if key in settings}
    tables = settings.get("tables")
    if isinstance(tables, Mapping):
        named |= {f"tables.{name}": value for name, value in tables.items()}
    for key, value in named.items():
        for text in value if isinstance(value, list) else [value]:
            if is_uri(text) and parse_uri(text).query and not parse_uri(text).is_store:
                raise SpecError(
                    f"[source] {key} = {shown_uri(text)!r} has a query, which may be a signature and does not belong "
                    "in a specification; leave it out, or read the data from Python."
                )


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SpecError(
            f"[source] {key} = {shown_value(value)} is not the name of a table or a file; write it as text."
        )
    return value


def notice(counted: Tallies, *, show_values: bool = False) -> None:
    """For the curator's terminal only: these are true counts and stay out of the release and out of logs.

    Off a terminal nothing is said, not even that there is something to say, unless that was asked for.
    """
    if not (show_values or err.is_terminal):
        return
    for what, tally in (("left out for", counted.dropped), ("counted as other in", counted.other)):
        for name, records in tally.items():
            if records:
                err.print(f"for your eyes only, not published: {records:,} records {what} {name!r}")
    if counted.no_person:
        err.print(f"for your eyes only, not published: {counted.no_person:,} records left out, which are nobody's")
    if counted.loss is not None:
        people = int(counted.loss.lost[1:].sum())
        err.print(
            f"for your eyes only, not published: {counted.loss.dropped:,} records of {people:,} persons left out, "
            "beyond those that are counted of each"
        )


def _tables(
    folder: Path, settings: Mapping[str, Any], notation: Mapping[str, Any], options: SourceOptions
) -> dict[str, Source]:
    declared = settings["tables"]
    if not isinstance(declared, Mapping) or not declared:
        raise SpecError('[source.tables] is not a table of names and paths; write people = "people.csv", for example.')
    inner: SourceOptions = {"show_values": options["show_values"]}
    return {name: _files(folder, f"tables.{name}", paths, notation, inner) for name, paths in declared.items()}


def _without_password(uri: Any) -> str:
    if not isinstance(uri, str) or "://" not in uri:
        raise SpecError("[source] uri is no URI; write postgresql://host/database, for example.")  # it may be a secret
    if Address(uri).secrets:
        raise SpecError(
            "[source] uri holds a password or a token, which belongs into no file that is passed on; take it out, and "
            "give it in the environment or a service file (for PostgreSQL: PGPASSWORD, ~/.pgpass, PGSERVICE)."
        )
    return uri


def _uri(folder: Path, given: Any) -> str:
    """A database's URI, which holds no secret; the path of an SQLite file is relative to the specification."""
    uri = _without_password(given)
    return f"sqlite:///{folder / uri[len('sqlite:///') :]}" if uri.lower().startswith("sqlite:///") else uri


def _files(folder: Path, key: str, paths: Any, notation: Mapping[str, Any], options: SourceOptions) -> Source:
    listed = [paths] if isinstance(paths, str) else paths
    if not isinstance(listed, list) or not listed or not all(isinstance(path, str) for path in listed):
        raise SpecError(f"[source] {key} = {shown_value(paths)} is not a path or a list of paths; name the file.")
    located = [_under(folder, path) for path in listed]
    if "sheet" in notation and len(notation) > 1:
        raise SpecError("[source] sheet is of a workbook, and the others are of delimited text; remove one of them.")
    if not notation:
        return source_of(located, **options)
    return (Source.excel if "sheet" in notation else Source.csv)(located, **notation, **options)


def _under(folder: Path, path: str) -> str:
    if is_uri(path):
        return path
    require_source_path(folder / path)
    if Path(path).is_absolute() or not glob.has_magic(path) or (folder / path).is_file():
        return str(folder / path)
    return str(Path(glob.escape(str(folder)), path))  # the pattern is in the path only, not in the folder's name
