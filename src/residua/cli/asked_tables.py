"""Which table of a release or a projection a command means, and all that were asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from residua.cli.made import is_made, load_made
from residua.cli.places import require_free
from residua.cli.show import Form, out, plain_table
from residua.domain import Domain
from residua.errors import PlanError
from residua.folders import whole_folder
from residua.projection.tables import ProjectedTable
from residua.release import Release, Table


def split_queries(domain: Domain, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Attributes and what is asked of each, from arguments such as `sex` and `age=prefixes`."""
    names, queries = [], {}
    for argument in arguments:
        name, equals, asked = argument.rpartition("=")
        if argument in domain or not equals:
            names.append(argument)
            continue
        names.append(name)
        queries[name] = asked
    return names, queries


def write_tables(folder: Path, target: Path | None, confidence: float | None, form: Form) -> None:
    """Lists all tables that were asked for, and writes each as a CSV file if a folder is named, all or none.

    Raises:
        FileError: the folder exists or cannot be made.
        PlanError: a confidence for a projection, or queries that make no tables.
    """
    if target is not None:
        require_free(target, "folder of tables")
    with whole_folder(target, "folder of tables") if target is not None else nullcontext() as partial:
        columns = (("table", "left"), ("rows", "right"), *((("file", "left"),) if target is not None else ()))
        shown = plain_table(*columns)
        for number, table in enumerate(_tables(folder, confidence), start=1):
            row = [table.title, f"{len(table):,}"]
            if target is not None and partial is not None:
                name = f"{number:04d}-{_plain(table.title)}.csv"
                table.to_csv(partial / name, spreadsheet=form.spreadsheet, full=form.full)
                row.append(str(target / name))
            shown.add_row(*row)
    out.print(shown)


def no_intervals(confidence: float | None, simultaneous: str | None = None) -> None:
    """Refuses to speak of confidence where numbers are biased."""
    if confidence is not None or simultaneous is not None:
        raise PlanError("a projection is biased and has no intervals; ask the release for --confidence.")


def _tables(folder: Path, confidence: float | None) -> Iterator[Table | ProjectedTable]:
    if is_made(folder):
        no_intervals(confidence)
        yield from load_made(folder).tables()
    else:
        yield from Release.load(folder).tables(confidence=0.95 if confidence is None else confidence)


def _plain(title: str) -> str:
    """A title as part of a file's name."""
    return re.sub(r"[^\w]+", "-", title).strip("-")[:100]
