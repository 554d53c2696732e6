"""The arguments and options that several commands share, each declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., None])
SpecPath = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The specification file.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="DIR", help="A release folder (or a projection's).")]
Known = Annotated[
    list[Path] | None,
    typer.Option(help="A public table to meet exactly: CSV or Parquet with its attributes and 'count'. Repeatable."),
]
Confidence = Annotated[float | None, typer.Option(help="How often an interval holds the truth. [default: 0.95]")]
Simultaneous = Annotated[str | None, typer.Option(help="'table' or 'release': intervals that all hold together.")]
Quality = Annotated[bool, typer.Option("--quality", help="Flag numbers by coefficient of variation.")]
Suppress = Annotated[
    str | None, typer.Option(help="Leave numbers blank from this flag on: 'use with caution' or 'unreliable'.")
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every row.")]
Spreadsheet = Annotated[
    bool, typer.Option("--spreadsheet", help="CSV whose text cannot start a formula: ' before =, +, - and @.")
]
Full = Annotated[bool, typer.Option("--full", help="CSV with every digit, not only those that the error justifies.")]
OnExecutors = Annotated[bool, typer.Option("--on-executors", help="By Spark's executors, into a folder they share.")]
ShowValues = Annotated[
    bool,
    typer.Option(
        "--show-values",
        help="Let messages quote values of the data and count records left out, also off a terminal: confidential.",
    ),
]
ReportPath = Annotated[Path, typer.Option(help="The page to write; an older report is replaced.")]
ReportTitle = Annotated[str | None, typer.Option(help="What the page is called.")]
# How numbers are shown: the fields of `OutputForm`.
OUTPUT: Mapping[str, Any] = {
    "quality": Quality,
    "suppress": Suppress,
    "csv": AsCsv,
    "json": AsJson,
    "everything": Everything,
    "spreadsheet": Spreadsheet,
    "full": Full,
}


def with_output(command: Command) -> Command:
    """A command with the options of output in place of its `**form`."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    return declared(command, [*(one for one in own if one.kind is not Parameter.VAR_KEYWORD), *shared(OUTPUT)])


def shared(options: Mapping[str, Any]) -> list[Parameter]:
    """Options that are false or nothing where they are left out."""
    return [
        Parameter(key, Parameter.KEYWORD_ONLY, annotation=kind, default=False if kind.__origin__ is bool else None)
        for key, kind in options.items()
    ]


def declared(command: Command, parameters: Iterable[Parameter]) -> Command:
    """A command that Typer sees with these parameters; it calls it by their names."""
    alike = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = inspect.Signature(alike)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in alike}
    return command
