"""One way to print a benchmark's table."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)
