"""How the command prints: to a terminal for people, as JSON for machines."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import typer
from rich.console import Console
from rich.table import Table as RichTable

from residua.printable import printable
from residua.published.table import Columns
from residua.published.table import shown as as_text

Side = Literal["left", "right"]
ROWS_SHOWN = 40
_ANY_WIDTH = 10_000


@dataclass(frozen=True)
class Form:
    """How a table is wanted.

    Args:
        csv: as CSV; with `spreadsheet` and `full` as for `Columns.to_csv`.
        everything: every row.
        quality: with flags by coefficient of variation.
        suppress: the flag from which on numbers are left blank.
    """

    csv: bool = False
    everything: bool = False
    spreadsheet: bool = False
    full: bool = False
    quality: bool = False
    suppress: Any = None


class PlainTable:
    """A table without lines; a column is a title and "left" or "right". Every cell is one line."""

    def __init__(self, *columns: tuple[str, Side]) -> None:
        self.grid = RichTable(box=None, pad_edge=False, header_style="bold")
        for title, justify in columns:
            self.grid.add_column(printable(title), justify=justify)

    def add_row(self, *cells: str) -> None:
        """Adds a row, one cell per column."""
        self.grid.add_row(*map(printable, cells))


class Screen:
    """A console on which a line is a line: names and labels that others wrote can neither break nor colour it.

    A line may begin with line ends, which leave lines empty; those inside it are shown as escapes.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    @property
    def is_terminal(self) -> bool:
        """Whether a person is looking."""
        return self.console.is_terminal

    def print(self, what: str | PlainTable = "") -> None:
        """Prints a line or a table."""
        if isinstance(what, PlainTable):
            self.console.print(what.grid)
            return
        line = what.lstrip("\n")
        self.console.print("\n" * (len(what) - len(line)) + printable(line))


# Names and labels are shown as they are: "[red]" is not markup, ":smile:" is not an emoji. Tables are as wide as they
# need: a narrow terminal breaks their lines, where rich would cut numbers short.
out = Screen(Console(markup=False, emoji=False, highlight=False, soft_wrap=True, width=_ANY_WIDTH))
err = Screen(Console(markup=False, emoji=False, stderr=True, highlight=False, soft_wrap=True))


def print_json(facts: Any) -> None:
    """Prints plain values as JSON, for machines. It is all ASCII: what is not is an escape."""
    typer.echo(json.dumps(facts, indent=1))


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
