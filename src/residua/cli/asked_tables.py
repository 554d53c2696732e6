"""Which table of a release a command means, and all that were asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from residua.cli.show import Form, out, plain_table
from residua.domain import Domain
from residua.errors import FileError
from residua.release import Release


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


def write_tables(release: Release, folder: Path | None, confidence: float, form: Form) -> None:
    """Lists all tables that were asked for, and writes each as a CSV file if a folder is named.

    Raises:
        FileError: the folder exists or cannot be made.
    """
    if folder is not None:
        try:
            folder.mkdir()
        except OSError as problem:
            raise FileError(f"out: cannot make {str(folder)!r}: {problem.strerror}; choose another folder.") from None
    columns = (("table", "left"), ("rows", "right"), *((("file", "left"),) if folder is not None else ()))
    shown = plain_table(*columns)
    for number, table in enumerate(release.tables(confidence=confidence), start=1):
        row = [table.title, f"{len(table):,}"]
        if folder is not None:
            path = folder / f"{number:04d}-{_plain(table.title)}.csv"
            table.to_csv(path, spreadsheet=form.spreadsheet, full=form.full)
            row.append(str(path))
        shown.add_row(*row)
    out.print(shown)


def _plain(title: str) -> str:
    """A title as part of a file's name."""
    return re.sub(r"[^\w]+", "-", title).strip("-")[:100]
