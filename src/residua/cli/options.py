"""Commands from functions: a signature says which arguments and options there are, a docstring what each is.

Parameters by position are arguments, those by name alone are options, and of one that is a dataclass every field is
one. What each is stands under Args, `name: words`, or `name (WORD): words` with the word that help shows for it.
Options that several commands have are declared here once.
"""
# Here and in the modules of commands annotations are not postponed: options are made from them.

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import update_wrapper
from inspect import Parameter
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin

import typer

from residua import cli

_ENTRY = re.compile(r"^    (\w+)(?: \((\S+)\))?: (.+(?:\n     +.+)*)", re.MULTILINE)  # name (WORD): words
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


@dataclass(frozen=True, kw_only=True)
class OutputForm:
    """How a table is wanted: as text for people, CSV or JSON; `spreadsheet` and `full` are as for `Columns.to_csv`.

    Args:
        quality: Flag numbers by coefficient of variation.
        csv: Print CSV.
    """

    quality: bool = False
    suppress: Suppress = None
    csv: bool = False
    json: AsJson = False
    everything: Everything = False
    spreadsheet: Spreadsheet = False
    full: Full = False
    language: Language = None


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What to change. Each means what the key of this name means in a specification; None leaves it as it is.

    A budget is in place of all that [privacy] spends (a delta alone goes with the file's epsilon, and an epsilon alone
    with the file's delta); a target is of every query, in place of all targets of the file and, unless one is given
    too, of its budget.

    Args:
        rho: What if: this budget, in place of [privacy]'s.
        mu: What if: this budget.
        epsilon: What if: this budget, with --delta (or the file's); without one, Laplace noise.
        delta: What if: with --epsilon (or the file's).
        records: What if: a person has at most this many records.
        minimise: What if: 'total', 'max', 'largest' or 'p-norm'.
        stddev: What if: the smallest budget at which every number has this stddev.
        margin: What if: the smallest budget at which every number has this margin of error.
        confidence: Of --margin. [default: 0.95]
    """

    rho: float | None = None
    mu: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    records: int | None = None
    minimise: str | None = None
    stddev: float | None = None
    margin: float | None = None
    confidence: float | None = None


def command(app: typer.Typer, name: str | None = None, *, writes: bool = False) -> Callable[[Command], Command]:
    """Makes a function a command; one that writes says in lines what it wrote, with --json in one JSON document."""

    def added(function: Command) -> Command:
        own = inspect.signature(function).parameters
        groups: dict[str, Any] = {key: each.annotation for key, each in own.items() if is_dataclass(each.annotation)}

        def run(**given: Any) -> None:
            as_json = given.pop("json") if writes else False
            for key, kind in groups.items():
                given[key] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
            with cli.show.gathered(as_json):
                function(**given)

        several = (declared(groups[each.name]) if each.name in groups else [each] for each in declared(function))
        more = [Parameter("json", Parameter.KEYWORD_ONLY, annotation=AsJson, default=False)] if writes else []
        app.command(name)(called_with(update_wrapper(run, function), [*chain(*several), *more]))
        return function

    return added


def called_with(command: Callable[..., None], parameters: Iterable[Parameter]) -> Callable[..., None]:
    """A function that Typer calls with these parameters, by their names; its Args are no part of the help."""
    alike = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = inspect.Signature(alike)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in alike}
    command.__doc__ = said(command)[0]
    return command


def declared(documented: Any) -> list[Parameter]:
    """The parameters of a function or a dataclass as arguments and options, with their words."""
    entries = _ENTRY.findall(said(documented)[1])
    words, parameters = {name: (word or None, " ".join(text.split())) for name, word, text in entries}, []
    for each in inspect.signature(documented).parameters.values():
        word, text = words.get(each.name, (None, None))
        if get_origin(each.annotation) is Annotated:  # with a name or a range of its own, if not with its words
            (info,) = each.annotation.__metadata__
            info.help = info.help or text
        else:
            made: Any = typer.Option if each.kind == Parameter.KEYWORD_ONLY else typer.Argument
            flag = [f"--{each.name.replace('_', '-')}"] if each.default is False else []  # and no --no-…
            each = each.replace(annotation=Annotated[each.annotation, made(*flag, metavar=word, help=text)])
        parameters.append(each)
    return parameters


def said(documented: Any) -> tuple[str, str]:
    """A docstring without its Args, and these."""
    what, _, arguments = (inspect.getdoc(documented) or "").partition("\n\nArgs:")
    return what, arguments
