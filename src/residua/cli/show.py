"""How the command prints: to a terminal for people, as JSON for machines."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console

from residua.printable import printable
from residua.published.table import Columns
from residua.published.table import shown as as_text
from residua.screen import ANY_WIDTH, PlainTable, Screen, Side

ROWS_SHOWN = 40


@dataclass(frozen=True)
class Form:
    """How a table is wanted.

    Args:
        csv: as CSV; with `spreadsheet` and `full` as for `Columns.to_csv`.
        everything: every row.
        quality: with flags by coefficient of variation.
        suppress: the flag from which on numbers are left blank.
        json: as JSON, every row.
    """

    csv: bool = False
    everything: bool = False
    spreadsheet: bool = False
    full: bool = False
    quality: bool = False
    suppress: Any = None
    json: bool = False


# Names and labels are shown as they are: "[red]" is not markup, ":smile:" is not an emoji. Tables are as wide as they
# need: a narrow terminal breaks their lines, where rich would cut numbers short.
out = Screen(Console(markup=False, emoji=False, highlight=False, soft_wrap=True, width=ANY_WIDTH))
err = Screen(Console(markup=False, emoji=False, stderr=True, highlight=False, soft_wrap=True))


def print_json(facts: Any) -> None:
    """Prints plain values as JSON, for machines. It is all ASCII: what is not is an escape."""
    typer.echo(json.dumps(facts, indent=1))


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table as plain values, for JSON; what is not a finite number is null."""
    listed = {name: values if isinstance(values, list) else values.tolist() for name, values in columns.items()}
    return [dict(zip(listed, map(_finite, row), strict=True)) for row in zip(*listed.values(), strict=True)]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_table(*columns: tuple[str, Side]) -> PlainTable:
    """An empty table; a column is a title and "left" or "right"."""
    return PlainTable(*columns)


def print_table(table: Columns, *, rows: int | None = ROWS_SHOWN) -> None:
    """Published numbers, with error bars where there are any, and what the bars mean."""
    names = list(table.columns)
    shown = plain_table(*((name, "left" if name in table.keys else "right") for name in names))
    count = len(table) if rows is None else min(len(table), rows)
    for i in range(count):
        cells = (table.columns[name][i] for name in names)
        shown.add_row(*(as_text(cell, table.decimals, thousands=",") for cell in cells))
    out.print(shown)
    if count < len(table):
        out.print(f"… {len(table) - count:,} more rows (--all shows them, --csv writes them)")
    if table.note:
        out.print(f"({table.note})")


def print_csv(table: Columns, form: Form) -> None:
    """A table as CSV: as it is for another program; on a terminal with its control characters as escapes."""
    text = table.to_csv(spreadsheet=form.spreadsheet, full=form.full)
    if out.is_terminal:
        text = "".join(printable(line) + "\n" for line in text.split("\n")[:-1])
    typer.echo(text, nl=False)


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A callback `(step, done, total)` that draws a bar on a terminal, and nothing elsewhere."""
    if not err.is_terminal:  # rich would write empty lines
        yield lambda step, done, total: None
        return
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err.console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def update(step: str, done: int, total: int | None) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield update


@contextmanager
def killable() -> Iterator[None]:
    """Where nothing is written or spent: Ctrl-C ends the command at once, even in the middle of linear algebra."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
