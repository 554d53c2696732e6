"""`residua tables`: all tables that were asked for, listed or written in a format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from residua.cli.show import out, print_written, progress_bar
from residua.cli.tables import opened
from residua.domain.words import title_in_words
from residua.errors import FileError, PlanError
from residua.folders import require_free
from residua.formats.cube import Cube
from residua.formats.export import export
from residua.formats.long import NAMES, numbered
from residua.language import current, numeral, say, speaking
from residua.machine import pyarrow, there
from residua.release.tables import MOST_ROWS, too_long
from residua.screen import PlainTable

_SUFFIXES = {".csv", ".parquet", ".xlsx", ".json", ".px", ".xml", ".zip"}  # of files that tables are kept in
ROWS_LISTED = 500  # tables that are written are listed on the terminal, up to so many


def write_tables(
    folder: Path, target: Path | None, format: str | None, confidence: float | None, *, on_executors: bool,
    spreadsheet: bool, full: bool, known: Sequence[Path] | None = None, rounded: bool = False, **words: str | None,
) -> None:  # fmt: skip
    """Lists all tables that were asked for, and writes them if a folder or how they are wanted is named, all or none.

    Args:
        folder: a release, a projection or estimates.
        target: the folder to write; `tables`, if how they are wanted is said and this is not.
        format: of the files.
        spreadsheet, full: how CSV is wanted.
        on_executors: whether Spark's executors write them.
        known: files of known facts.
        rounded: whole numbers that add up.
        confidence: as for `Release.export`; so are the words, `title`, `language` and `suppress`.

    Raises:
        FileError: the folder exists or cannot be made.
        PlanError: a confidence for a projection, an unknown format, or queries that make no tables.
    """
    if target is None and (format or on_executors or rounded or words.get("suppress")):
        target = Path("tables")
    if target is not None:
        if target.suffix.lower() in _SUFFIXES:
            raise FileError(f"--out {str(target)!r} is called as a file is, and becomes a folder; name a folder.")
        require_free(target, "folder of tables")
    if on_executors and spreadsheet:
        raise PlanError("--spreadsheet is for CSV, and executors write parquet; leave one of the two out.")
    published, sure = opened(folder, confidence=confidence, known=known, rounded=rounded)
    described = {"full": full, **words, **sure}
    if target is None:
        with speaking(words["language"], published.domain):
            _list_tables(published, sure)
    elif on_executors:
        from residua.source.spark import session_at_hand

        with progress_bar() as show:
            files = export(published, target, format or "parquet", **described, spark=session_at_hand(), progress=show)
        print_written(target, f": {len(files):,} Parquet files with all tables, a row per cell.")
    else:
        _use_system_memory()
        _write_tables(published, target, format or "csv", spreadsheet=spreadsheet, **described)


def _write_tables(published: object, target: Path, format: str, **described: Any) -> None:
    shown, moves = PlainTable(["table", "file"], ["rows"]), list[tuple[float, float, int]]()
    with progress_bar() as show:

        def list_table(cube: Cube, path: Path) -> None:
            show("writing tables", cube.number, None)
            if cube.table.moved is not None:
                moves.append((float(cube.table.moved.max()), float(cube.table.moved.sum()), len(cube)))
            if cube.number <= ROWS_LISTED:
                shown.add_row(cube.title, str(path), f"{len(cube):,}")

        written = len(export(published, target, format, **described, listing=list_table))
    if format in NAMES:
        print_written(target / NAMES[format], ": all tables in one file")
        return
    out.print(shown)
    if written > ROWS_LISTED:
        out.print(f"… {written - ROWS_LISTED:,} more tables; {target} holds all {written:,}.")
    if moves:
        most, moved, cells = zip(*moves, strict=True)
        out.print(f"Rounded: numbers moved by {max(most):.2f} at most, by {sum(moved) / sum(cells):.2f} on average.")


def _list_tables(published: Any, sure: dict[str, Any]) -> None:
    """Lists all tables that were asked for; last those that are too long to be written."""
    shown, seen = PlainTable([say("Table")], [say("Rows")]), Counter[str]()
    short = ((table.title, len(table)) for table in published.tables(most=MOST_ROWS, **sure))
    for title, rows in chain(short, too_long(published.plan.workload)):
        named = title_in_words(published.domain, title) if current() else title
        shown.add_row(numbered(named, seen), numeral(f"{rows:,}"))
    out.print(shown)


def _use_system_memory() -> None:
    """Arrow's own pool gives memory back after every batch and asks for it again: a second of the system's time."""
    if there("pyarrow"):
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
