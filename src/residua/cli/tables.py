"""`residua table`, `answers`, `count` and `tables`: of a release, of a projection or of estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from residua.cli.objectives import USUAL_CONFIDENCE
from residua.cli.show import OutputForm, err, out, print_json, progress_bar
from residua.cli.steps import bias_of, load_published
from residua.domain import Domain
from residua.errors import PlanError
from residua.folders import require_free
from residua.formats.cube import Cube
from residua.formats.export import export
from residua.formats.long import NAMES, numbered
from residua.release import Release
from residua.release.queried import MOST_ROWS, too_long
from residua.screen import PlainTable

ROWS_LISTED = 500  # tables that are written are listed on the terminal, up to so many


def print_marginal(folder: Path, attributes: Sequence[str], form: OutputForm, *, rounded: bool, **asked: Any) -> None:
    """One table, with error bars if it is a release's."""
    published, sure = _opened(folder, **asked)
    if rounded and isinstance(published, Release):
        raise PlanError("--rounded is for projections and estimates; run residua project on the release first.")
    names, queries = _split_queries(published.domain, attributes)
    if rounded and queries:
        raise PlanError("--rounded is for the cells of a table, not its prefixes, ranges or levels; leave one out.")
    table = published.rounded(names) if rounded else published.table(names, queries=queries, **sure)
    form.print(table, bias=bias_of(published))


def print_answers(folder: Path, form: OutputForm, **asked: Any) -> None:
    """The answers to everything that was asked."""
    published, sure = _opened(folder, **asked)
    form.print(published.answers(**sure), bias=bias_of(published))


def print_count(folder: Path, condition: str | None, confidence: float | None, *, as_json: bool) -> None:
    """One count; of all records without a condition."""
    published, sure = _opened(folder, confidence=confidence)
    title, counted = condition or "(total)", published.count(condition or None, **sure)
    facts = {**vars(counted), **sure} if sure else {"estimate": counted}
    if as_json:
        print_json({"count": title, **facts})
    elif not sure:
        out.print(f"{title}: {counted:,.1f}")
        err.print(f"({bias_of(published)})")
    else:
        interval = f"; {100 * sure['confidence']:.10g} % interval: {counted.lower:,.1f} to {counted.upper:,.1f}"
        held = interval if counted.lower == counted.lower else "; no interval: the release is biased"  # NaN
        out.print(f"{title}: {counted.estimate:,.1f} (standard deviation {counted.stddev:,.1f}{held})")


def _opened(folder: Path, **asked: Any) -> tuple[Any, dict[str, Any]]:
    """What a folder holds, and how sure its intervals are to be: nothing where numbers have none.

    Raises:
        PlanError: a confidence where numbers are biased.
    """
    published = load_published(folder)
    if isinstance(published, Release):
        return published, asked | ({"confidence": USUAL_CONFIDENCE} if asked["confidence"] is None else {})
    if any(value is not None for value in asked.values()):
        raise PlanError("a projection is biased and has no intervals; ask the release for --confidence.")
    return published, {}


def _split_queries(domain: Domain, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
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
    folder: Path, target: Path | None, form: OutputForm, *, format: str | None, on_executors: bool, **described: Any
) -> None:
    """Lists all tables that were asked for, and writes them in a format if a folder is named, all or none.

    Args:
        folder: a release, a projection or estimates.
        target: the folder to write.
        form: how CSV is wanted.
        format: of the files.
        on_executors: whether Spark's executors write them.
        described: `confidence`, `title` and `language`, as for `Release.export`.

    Raises:
        FileError: the folder exists or cannot be made.
        PlanError: a confidence for a projection, an unknown format, or queries that make no tables.
    """
    if target is None and (format is not None or on_executors):
        given = "--on-executors says by whom" if on_executors else "--format says how"
        raise PlanError(f"{given} tables are written; say where, with --out DIR.")
    if target is not None:
        require_free(target, "folder of tables")
    if on_executors and form.spreadsheet:
        raise PlanError("--spreadsheet is for CSV, and executors write parquet; leave one of the two out.")
    published, sure = _opened(folder, confidence=described.pop("confidence"))
    described |= sure
    if target is None:
        _list_tables(published, sure)
    elif on_executors:
        from residua.source.spark import session_at_hand

        described |= {"full": form.full, "spark": session_at_hand()}
        with progress_bar() as show:
            files = export(published, target, format or "parquet", **described, progress=show)
        out.print(f"Wrote {target}: {len(files):,} Parquet files with all tables, a row per cell.")
    else:
        _use_system_memory()
        _write_tables(published, target, form, format or "csv", described)


def _write_tables(published: object, target: Path, form: OutputForm, format: str, described: dict[str, Any]) -> None:
    shown = PlainTable(["table", "file"], ["rows"])
    with progress_bar() as show:

        def list_table(cube: Cube, path: Path) -> None:
            show("writing tables", cube.number, None)
            if cube.number <= ROWS_LISTED:
                shown.add_row(cube.title, str(path), f"{len(cube):,}")

        described |= {"full": form.full, "spreadsheet": form.spreadsheet, "told": list_table}
        written = len(export(published, target, format, **described))
    if format in NAMES:
        out.print(f"Wrote {target / NAMES[format]}: all tables in one file")
        return
    out.print(shown)
    if written > ROWS_LISTED:
        out.print(f"… {written - ROWS_LISTED:,} more tables; {target} holds all {written:,}.")


def _list_tables(published: Any, sure: dict[str, Any]) -> None:
    """Lists all tables that were asked for; last those that are too long to be written."""
    shown, seen = PlainTable(["table"], ["rows"]), Counter[str]()
    for table in published.tables(most=MOST_ROWS, **sure):
        shown.add_row(numbered(table.title, seen), f"{len(table):,}")
    for title, numbers in too_long(published.plan.workload):
        shown.add_row(numbered(title, seen), f"{numbers:,}")
    out.print(shown)


def _use_system_memory() -> None:
    """Arrow's own pool gives memory back after every batch and asks for it again: a second of the system's time."""
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
