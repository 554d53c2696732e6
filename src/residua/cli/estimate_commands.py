"""The commands of estimates, `residua estimate` and `residua rows`: options and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def estimate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    out: Annotated[Path, typer.Option(help="The folder of estimates to write; it must not exist.")],
    total: Annotated[str | None, typer.Option(help="A public total to meet exactly; else it is estimated.")] = None,
    known: Annotated[
        list[Path] | None,
        typer.Option(
            help="A public table to meet exactly: CSV or Parquet with its attributes and 'count'. Repeatable."
        ),
    ] = None,
) -> None:
    """Estimate tables of any attributes, by a model.

    They may be measured or not; the model is of everything measured. Costs nothing.
    """
    from residua.cli.estimating import run_estimation

    run_estimation(folder, out, total=total, known=known or [])


def rows(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of estimates, from residua estimate.")],
    out: Annotated[Path, typer.Option(help="The file to write: .parquet or .csv. It must not exist.")],
    n: Annotated[
        int | None, typer.Option("-n", "--rows", help="How many rows; the estimated total by default.")
    ] = None,
    attributes: Annotated[
        list[str] | None, typer.Option("--attribute", help="A column; all by default. Repeatable.")
    ] = None,
) -> None:
    """Make synthetic rows from estimates.

    Their tables are near the estimated ones. No row is a person's record. Touches no data and costs nothing.
    """
    from residua.cli.estimating import write_rows

    write_rows(folder, out, n, attributes)


def add_estimates(app: typer.Typer) -> None:
    """Makes them commands."""
    for command in (estimate, rows):
        app.command()(command)
