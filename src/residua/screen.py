"""Lines and tables of text for people: on a terminal, or as a text. Names that others wrote cannot break a line."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table as RichTable

from residua.showing import printable

ANY_WIDTH = 10_000


class PlainTable:
    """A table without lines. Every cell is one line.

    Args:
        texts: the titles of the first columns, flush left.
        numbers: those of the others, flush right.
        rows: one cell per column each.
    """

    def __init__(self, texts: Iterable[str], numbers: Iterable[str], rows: Iterable[Iterable[str]] = ()) -> None:
        self.grid = RichTable(box=None, pad_edge=False, header_style="bold")
        for title in texts:
            self.grid.add_column(printable(title))
        for title in numbers:
            self.grid.add_column(printable(title), justify="right")
        for row in rows:
            self.add_row(*row)

    def add_row(self, *cells: str) -> None:
        """Adds a row."""
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


def text_of(parts: Iterable[str | PlainTable]) -> str:
    """Lines and tables as one text, as wide as they need, without colours."""
    buffer = io.StringIO()
    # Names and labels are shown as they are: "[red]" is not markup, ":smile:" is not an emoji.
    plain = Console(
        file=buffer, markup=False, emoji=False, highlight=False, soft_wrap=True, width=ANY_WIDTH, color_system=None,
        force_terminal=False, force_jupyter=False,
    )  # fmt: skip
    screen = Screen(plain)
    for part in parts:
        screen.print(part)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip("\n").split("\n"))
