"""How the command prints: to a terminal for people, as JSON for machines."""

from __future__ import annotations

import io
import json
import math
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from residua.cli.log import WRITTEN
from residua.cli.options import OutputForm
from residua.domain.words import heading, in_words
from residua.language import current, mark, say
from residua.published.columns import Columns, shown as as_text
from residua.screen import ANY_WIDTH, PlainTable, Screen
from residua.showing import printable, terminal_bars

ROWS_SHOWN = 40
_HEADS = {
    "estimate": mark("Estimate"), "stddev": mark("Standard error"), "lower": mark("Lower"), "upper": mark("Upper"),
    "quality": mark("Quality"), "query": mark("Query"), "left_out": mark("Left out"), "sum": mark("sum"),
    "rank": mark("Rank"), "rank_lower": mark("Rank, lower"), "rank_upper": mark("Rank, upper"),
    "in_top": mark("Chance"), "quantile": mark("Quantile"), "relative": mark("Relative"),
    "relative_lower": mark("Relative, lower"), "relative_upper": mark("Relative, upper"),
}  # fmt: skip


# Names and labels are shown as they are: "[red]" is not markup, ":smile:" is not an emoji. Tables are as wide as they
# need: a narrow terminal breaks their lines, where rich would cut numbers short.
_console = partial(Console, markup=False, emoji=False, highlight=False, soft_wrap=True)
out, err = Screen(_console(width=ANY_WIDTH)), Screen(_console(stderr=True))


def print_written(path: object, rest: str, verb: str = "Wrote") -> None:
    """Says that something was written, and keeps its name for --json."""
    WRITTEN.append(str(path))
    out.print(f"{verb} {path}{rest}")


def print_published(
    table: Columns, form: OutputForm, named: Mapping[str, str] | None = None, *, bias: str = ""
) -> None:
    """Prints published numbers.

    Args:
        table: the numbers.
        form: how they are wanted.
        named: in JSON, what they are; their title if left out.
        bias: what is said of numbers without error bars.
    """
    if form.quality or form.suppress:
        suppress: Any = form.suppress  # whatever was typed: refused if it is no flag
        table = table.flagged(suppress=suppress)
    if form.json:
        named = named or {"title": getattr(table, "title", "") or " × ".join(table.keys)}
        rows = [dict(zip(table.columns, row, strict=True)) for row in zip(*table.columns.values(), strict=True)]
        print_json({**named, "note": table.note or bias, "rows": rows})
    elif form.csv or form.spreadsheet or form.full:
        text = table.to_csv(spreadsheet=form.spreadsheet, full=form.full)
        if out.is_terminal:  # control characters as escapes; another program gets them as they are
            text = "".join(printable(line) + "\n" for line in text.split("\n")[:-1])
        typer.echo(text, nl=False)
    else:
        print_table(table, rows=None if form.everything else ROWS_SHOWN)
        accuracy = getattr(table, "accuracy", None)
        if bias:
            err.print(f"({accuracy}; {bias})" if accuracy else f"({bias})")


@contextmanager
def gathered(as_json: bool) -> Iterator[None]:
    """Prints what is said as lines; or, once all is done, as one JSON document: which files were written, all lines."""
    if not as_json:
        yield
        return
    shown = out.console
    WRITTEN.clear()
    out.console = _console(file=io.StringIO(), width=ANY_WIDTH)
    try:
        yield
        lines = out.console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    finally:
        out.console = shown
    print_json({"wrote": WRITTEN, "said": [line.rstrip() for line in lines if line.strip()]})


def print_json(facts: Any) -> None:
    """Prints values as JSON, for machines. It is all ASCII: what is not is an escape."""
    typer.echo(json.dumps(_plain(facts), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    """A value as JSON has it: arrays as lists; what is not a finite number is null."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _plain(value.tolist()) if isinstance(value, np.ndarray | np.generic) else value


def print_table(table: Columns, *, rows: int | None = ROWS_SHOWN) -> None:
    """Published numbers, with error bars where there are any, and what the bars mean."""
    count = len(table) if rows is None else min(len(table), rows)
    texts = ((as_text(_worded(cell), table.decimals, thousands=",") for cell in row) for row in table.for_people(count))
    heads = [head_of(table, name) for name in table.columns]
    out.print(PlainTable(heads[: len(table.keys)], heads[len(table.keys) :], texts))
    if count < len(table):
        out.print(say("… {n} more rows (--all shows them, --csv writes them)", n=len(table) - count))
    if table.note:
        out.print(f"({table.note})")


def head_of(table: Columns, name: str) -> str:
    """What a column is called: its name, by which it can be asked for; in words where a language was asked for."""
    domain = getattr(table, "domain", None)
    if domain is not None and name in domain:
        return heading(domain, name)
    return say(_HEADS.get(name, name)) if current() else name


def _worded(value: Any) -> Any:
    """A label or a flag in words, where a language was asked for."""
    return say(in_words(value)) if current() and isinstance(value, str) else value


def command_name() -> str:
    """What to type for this command."""
    return "residua" if shutil.which("residua") else str(Path(sys.argv[0]))


def progress_bar() -> AbstractContextManager[Callable[..., None]]:
    """A callback `(step, done, total)` that draws a bar on a terminal, and nothing elsewhere."""
    if err.is_terminal:
        return terminal_bars(err.console)
    return nullcontext(lambda step, done, total: None)  # Rich would write empty lines


@contextmanager
def killable() -> Iterator[None]:
    """Where nothing is written or spent: Ctrl-C ends the command at once, even in the middle of linear algebra."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
