"""The source that anything readable stands for: a path, a frame, a relation, a pair of database and query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from residua.errors import SourceError
from residua.source.naming import kind_by_suffix
from residua.source.options import NO_OPTIONS, SourceOptions, options_of
from residua.source.source import Source
from residua.source.uris import is_uri, parse_uri, shown_value


def source_of(data: Any, **options: Unpack[SourceOptions]) -> Source:
    """The source that anything readable stands for.

    Args:
        data: a source (returned unchanged), a path, pattern or list of paths (CSV, TSV, Parquet, Feather or JSON lines
            by their suffix), a folder of Parquet files, a frame (`Source.frame`), a DuckDB relation, a Spark frame,
            an ibis table or expression, or a pair (database, query).
        options: weight, person, no_person, show_values (`Source`); a source brings its own.

    Raises:
        SourceError: something that cannot be read.
    """
    if isinstance(data, Source):
        asked = options_of(options)
        if asked != NO_OPTIONS:
            option = next(name for name in options if getattr(asked, name) != getattr(NO_OPTIONS, name))
            raise SourceError(f"{option} is given for a source that was made without it; say it where it is made.")
        return data
    if isinstance(data, str | Path):
        return _file_source([data], options)
    if isinstance(data, tuple) and len(data) == 2 and _is_query(data):
        return Source.duckdb(data[0], data[1], **options)
    if isinstance(data, Sequence):
        return _file_source(data, options)
    if type(data).__module__.startswith("pyspark.") and type(data).__name__ == "DataFrame":
        return Source.spark(data, **options)
    if type(data).__name__ == "DuckDBPyRelation":
        from residua.source.database import RelationSource

        return RelationSource(data, options_of(options))
    if type(data).__module__.startswith("ibis.expr.types"):
        from residua.source.ibis_tables import ibis_source

        return ibis_source(data, options_of(options))
    return Source.frame(data, **options)


def _is_query(pair: tuple[Any, Any]) -> bool:
    # A pair of paths is a list of files, unless the first is a database.
    database, query = pair
    if not isinstance(query, str):
        return False
    return not isinstance(database, str | Path) or Path(database).suffix in (".duckdb", ".db", ".ddb")


def _file_source(paths: Sequence[Any], options: SourceOptions) -> Source:
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        raise SourceError(
            f"source {shown_value(paths)} is no list of paths; pass paths, a frame, or rs.Source.duckdb(…)."
        )
    kinds = {_kind(str(path)) for path in paths}
    if len(kinds) > 1:
        raise SourceError("source mixes files of different kinds; pass files of one kind.")
    made = {"parquet": Source.parquet, "feather": Source.feather, "jsonl": Source.jsonl}.get(kinds.pop())
    return made(paths, **options) if made is not None else Source.csv(paths, **options)


def _kind(path: str) -> str:
    uri = parse_uri(path) if is_uri(path) else None
    path = path if uri is None else str(uri)  # without what messages must not hold
    if kind := kind_by_suffix(path):
        return kind
    if path.lower().endswith((".duckdb", ".db", ".ddb")):
        raise SourceError(f"{path!r} is a database; say which table with rs.Source.duckdb({path!r}, query).")
    if uri is None:
        from residua.source.paths import require_source_path

        require_source_path(path)
    if uri.is_store if uri is not None else Path(path).is_dir():
        return "parquet"
    raise SourceError(
        f"cannot tell what {path!r} holds from its suffix; use rs.Source.csv(…), rs.Source.parquet(…) or another."
    )
