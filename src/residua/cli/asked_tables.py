"""Which table of a release or a projection a command means, and all that were asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from residua.cli.made import is_made, load_made
from residua.cli.places import require_free
from residua.cli.show import Form, out, plain_table, progress_bar
from residua.domain import Domain
from residua.errors import PlanError
from residua.formats.answered import numbered
from residua.formats.cube import Cube
from residua.formats.export import export
from residua.formats.long import NAMES
from residua.projection.tabled import Tabled
from residua.projection.tables import ProjectedTable
from residua.release import Release, Table
from residua.release.queried import MOST_ROWS, too_long

ROWS_LISTED = 500  # tables that are written are listed on the terminal, up to so many


def split_queries(domain: Domain, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Attributes and what is asked of each, from arguments such as `sex` and `age=prefixes`."""
    names, queries = [], {}
    for argument in arguments:
        name, equals, asked = argument.rpartition("=")
        if name not in domain and " within " in argument:  # block=tract within county=06037
            name, equals, asked = argument.partition("=")
        if argument in domain or not equals:
            names.append(argument)
            continue
        names.append(name)
        queries[name] = asked
    return names, queries


def write_tables(
    folder: Path,
    target: Path | None,
    confidence: float | None,
    form: Form,
    *,
    format: str | None = None,
    title: str | None = None,
    language: str | None = None,
    spark: bool = False,
) -> None:
    """Lists all tables that were asked for, and writes them in a format if a folder is named, all or none.

    Raises:
        FileError: the folder exists or cannot be made.
        PlanError: a confidence for a projection, an unknown format, or queries that make no tables.
    """
    if target is None:
        if format is not None or spark:
            given = "--on-executors says by whom" if spark else "--format says how"
            raise PlanError(f"{given} tables are written; say where, with --out DIR.")
        _list_tables(folder, confidence)
        return
    require_free(target, "folder of tables")
    published = load_made(folder) if is_made(folder) else Release.load(folder)
    if is_made(folder):
        no_intervals(confidence)
    if spark:
        _write_on_executors(published, target, confidence, form, format, title=title, language=language)
        return
    _use_system_memory()
    shown = plain_table(("table", "left"), ("rows", "right"), ("file", "left"))
    with progress_bar() as show:

        def told(cube: Cube, path: Path) -> None:
            show("writing tables", cube.number, None)
            if cube.number <= ROWS_LISTED:
                shown.add_row(cube.title, f"{len(cube):,}", str(path))

        written = len(export(
            published, target, format or "csv", confidence=confidence, language=language, title=title, full=form.full,
            spreadsheet=form.spreadsheet, told=told,
        ))  # fmt: skip
    if format in NAMES:
        out.print(f"Wrote {target / NAMES[format]}: all tables in one file")
        return
    out.print(shown)
    if written > ROWS_LISTED:
        out.print(f"… {written - ROWS_LISTED:,} more tables; {target} holds all {written:,}.")


def _list_tables(folder: Path, confidence: float | None) -> None:
    """Lists all tables that were asked for; last those that are too long to be written."""
    if is_made(folder):
        no_intervals(confidence)
    published = load_made(folder) if is_made(folder) else Release.load(folder)
    shown, seen = plain_table(("table", "left"), ("rows", "right")), Counter[str]()
    for table in _tables(published, confidence):
        shown.add_row(numbered(table.title, seen), f"{len(table):,}")
    for title, numbers in too_long(published.plan.workload):
        shown.add_row(numbered(title, seen), f"{numbers:,}")
    out.print(shown)


def _use_system_memory() -> None:
    """Arrow's own pool gives memory back after every batch and asks for it again: a second of the system's time."""
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())


def _write_on_executors(
    published: object,
    target: Path,
    confidence: float | None,
    form: Form,
    format: str | None,
    *,
    title: str | None,
    language: str | None,
) -> None:
    from residua.source.spark import session_at_hand

    if form.spreadsheet:
        raise PlanError("--spreadsheet is for CSV, and executors write parquet; leave one of the two out.")
    with progress_bar() as show:
        files = export(
            published, target, format or "parquet", confidence=confidence, language=language, title=title,
            full=form.full, spark=session_at_hand(), progress=show,
        )  # fmt: skip
    out.print(f"Wrote {target}: {len(files):,} Parquet files with all tables, a row per cell.")


def no_intervals(confidence: float | None, simultaneous: str | None = None) -> None:
    """Refuses to speak of confidence where numbers are biased."""
    if confidence is not None or simultaneous is not None:
        raise PlanError("a projection is biased and has no intervals; ask the release for --confidence.")


def _tables(published: Release | Tabled, confidence: float | None) -> Iterator[Table | ProjectedTable]:
    if isinstance(published, Release):
        return published.tables(confidence=0.95 if confidence is None else confidence, most=MOST_ROWS)
    return published.tables(most=MOST_ROWS)
