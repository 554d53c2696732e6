"""How the command prints: to a terminal for people, as JSON for machines."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import typer
from rich.console import Console
from rich.table import Table as RichTable

from residua.release.table import Columns

Side = Literal["left", "right"]
ROWS_SHOWN = 40
_ANY_WIDTH = 10_000
# Names and labels are shown as they are: "[red]" is no markup, ":smile:" no picture. Tables are as wide as they need:
# a narrow terminal breaks their lines, where rich would cut numbers short.
out = Console(markup=False, emoji=False, highlight=False, soft_wrap=True, width=_ANY_WIDTH)
err = Console(markup=False, emoji=False, stderr=True, highlight=False, soft_wrap=True)


def print_json(facts: Any) -> None:
    """Prints plain values as JSON, for machines."""
    typer.echo(json.dumps(facts, indent=1))


def plain_table(*columns: tuple[str, Side]) -> RichTable:
    """An empty table without lines; a column is a title and "left" or "right"."""
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for title, justify in columns:
        shown.add_column(title, justify=justify)
    return shown


def print_table(table: Columns, *, rows: int | None = ROWS_SHOWN) -> None:
    """Published numbers, with error bars where there are any."""
    names = list(table.columns)
    shown = plain_table(*((name, "left" if name in table.keys else "right") for name in names))
    count = len(table) if rows is None else min(len(table), rows)
    for i in range(count):
        cells = (table.columns[name][i] for name in names)
        shown.add_row(*(f"{cell:,.1f}" if isinstance(cell, float) else str(cell) for cell in cells))
    out.print(shown)
    if count < len(table):
        out.print(f"… {len(table) - count:,} more rows (--all shows them, --csv writes them)")


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A callback `(step, done, total)` that draws a bar on a terminal, and nothing elsewhere."""
    if not err.is_terminal:  # rich would write empty lines
        yield lambda step, done, total: None
        return
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bars:
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
