"""The arguments and options that several commands share, each declared once; and how several make one argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import update_wrapper
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import typer

from residua import cli

Command = TypeVar("Command", bound=Callable[..., None])
SpecPath = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The specification file.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="DIR", help="A release folder (or a projection's).")]
MeasuredPlan = Annotated[
    Path | None, typer.Option(help="Measure this saved plan, in place of what the specification asks and spends.")
]
Known = Annotated[
    list[Path] | None,
    typer.Option(
        help="A public table to meet exactly: CSV or Parquet with its attributes and 'count'; or [facts] in TOML. "
        "Repeatable."
    ),
]
Confidence = Annotated[float | None, typer.Option(help="How often an interval holds the truth. [default: 0.95]")]
Simultaneous = Annotated[str | None, typer.Option(help="'table' or 'release': intervals that all hold together.")]
Language = Annotated[
    str | None,
    typer.Option(help="What people read in this language: en, de, fr; titles in any.", envvar="RESIDUA_LANGUAGE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every row.")]
Spreadsheet = Annotated[
    bool, typer.Option("--spreadsheet", help="CSV whose text cannot start a formula: ' before =, +, - and @.")
]
Full = Annotated[bool, typer.Option("--full", help="CSV with every digit, not only those that the error justifies.")]
Host = Annotated[str, typer.Option(help="The address to listen on, by its number.")]
Port = Annotated[int, typer.Option(help="The port to listen on; any that is free if 0.")]
RootPath = Annotated[str, typer.Option(help="Where people reach it behind a proxy: https://HOST/PATH, or /PATH.")]
Rounded = Annotated[bool, typer.Option("--rounded", help="Whole numbers, which add up across all tables.")]
Suppress = Annotated[
    str | None, typer.Option(help="Leave numbers blank from this flag on: 'use with caution' or 'unreliable'.")
]
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
ReportMap = Annotated[Path | None, typer.Option(help="GeoJSON with a region for every value of an attribute.")]
ReportTheme = Annotated[Path | None, typer.Option(help="TOML: an office's name, logo, colours and fonts.")]


@dataclass(frozen=True)
class OutputForm:
    """How a table is wanted: as text for people, CSV or JSON; `spreadsheet` and `full` are as for `Columns.to_csv`."""

    quality: Annotated[bool, typer.Option("--quality", help="Flag numbers by coefficient of variation.")] = False
    suppress: Suppress = None
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False
    json: AsJson = False
    everything: Everything = False
    spreadsheet: Spreadsheet = False
    full: Full = False
    language: Language = None


@dataclass(frozen=True)
class WhatIf:
    """What to change. Each means what the key of this name means in a specification; None leaves it as it is.

    Args:
        rho: in place of all that [privacy] spends; so are mu, epsilon and delta (a delta alone goes with the file's
            epsilon, and an epsilon alone with the file's delta).
        records: the most records a person has.
        minimise: what is minimised, without targets.
        stddev: a target for every query in place of all targets of the file and, unless one is given too, of its
            budget; so is margin, at this confidence.
    """

    rho: Annotated[float | None, typer.Option(help="What if: this budget, in place of [privacy]'s.")] = None
    mu: Annotated[float | None, typer.Option(help="What if: this budget.")] = None
    epsilon: Annotated[
        float | None,
        typer.Option(help="What if: this budget, with --delta (or the file's); without one, Laplace noise."),
    ] = None
    delta: Annotated[float | None, typer.Option(help="What if: with --epsilon (or the file's).")] = None
    records: Annotated[int | None, typer.Option(help="What if: a person has at most this many records.")] = None
    minimise: Annotated[str | None, typer.Option(help="What if: 'total', 'max', 'largest' or 'p-norm'.")] = None
    stddev: Annotated[
        float | None, typer.Option(help="What if: the least privacy at which every number has this stddev.")
    ] = None
    margin: Annotated[
        float | None, typer.Option(help="What if: the least privacy at which every number has this margin of error.")
    ] = None
    confidence: Annotated[float | None, typer.Option(help="Of --margin. [default: 0.95]")] = None


def grouped(command: Command) -> Command:
    """A command with an option for every field, in place of an argument that is a dataclass."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}

    def run(**given: Any) -> None:
        for key, kind in groups.items():
            given[key] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
        command(**given)

    options = [one for each in own for one in (options_of(each.annotation) if each.name in groups else [each])]
    return declared(cast("Command", update_wrapper(run, command)), options)


def options_of(kind: Any) -> list[Parameter]:
    """The options that a dataclass declares, those with defaults and those without."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            one.name,
            Parameter.KEYWORD_ONLY,
            annotation=hints[one.name],
            default=Parameter.empty if one.default is MISSING else one.default,
        )
        for one in fields(kind)
    ]


def declared(command: Command, parameters: Iterable[Parameter]) -> Command:
    """A command that Typer sees with these parameters; it calls it by their names."""
    alike = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = inspect.Signature(alike)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in alike}
    return command


def writing(app: typer.Typer) -> Callable[[Command], Command]:
    """A command that says in lines what it wrote; with --json the lines are one JSON document."""

    def added(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters.values()

        def run(json: bool, **given: Any) -> None:
            with cli.show.gathered(json):
                command(**given)

        as_json = Parameter("json", Parameter.KEYWORD_ONLY, annotation=AsJson, default=False)
        app.command()(declared(cast("Command", update_wrapper(run, command)), [*own, as_json]))
        return command

    return added
