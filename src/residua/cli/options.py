"""The arguments and options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
