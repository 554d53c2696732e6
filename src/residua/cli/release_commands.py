"""The commands on a release: its tables and answers, what is made from it alone, and one that grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from residua.cli.options import (
    AsJson,
    Confidence,
    Full,
    Known,
    OnExecutors,
    ReleasePath,
    Simultaneous,
    Spreadsheet,
    with_output,
)


@with_output
def table(
    folder: ReleasePath,
    attributes: Annotated[
        list[str] | None,
        typer.Argument(help="The table's attributes, or age=prefixes, age=ranges, county=LEVEL; none for the total."),
    ] = None,
    confidence: Confidence = None,
    simultaneous: Simultaneous = None,
    rounded: Annotated[bool, typer.Option("--rounded", help="Whole numbers, of a projection.")] = False,
    **form: Any,
) -> None:
    """Show one table, of a release with error bars."""
    from residua.cli.show import OutputForm
    from residua.cli.tables import print_marginal

    asked = {"confidence": confidence, "simultaneous": simultaneous}
    print_marginal(folder, attributes or [], OutputForm(**form), rounded=rounded, **asked)


def tables(
    folder: ReleasePath,
    out: Annotated[
        Path | None, typer.Option(help="Also write them into this folder, as CSV by default; it must not exist.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="csv, parquet, long, long-csv, xlsx, jsonstat, px, sdmx, datapackage, csvw. [default: csv]"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the whole is called, in its metadata.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Of titles, where the domain declares several: en, de, …")
    ] = None,
    confidence: Confidence = None,
    spreadsheet: Spreadsheet = False,
    full: Full = False,
    on_executors: OnExecutors = False,
) -> None:
    """List or write all tables that were asked for. Of a hierarchy there is one per level."""
    from residua.cli.show import OutputForm
    from residua.cli.tables import write_tables

    described = {"confidence": confidence, "title": title, "language": language}
    form = OutputForm(spreadsheet=spreadsheet, full=full)
    write_tables(folder, out, form, format=format, on_executors=on_executors, **described)


def count(
    folder: ReleasePath,
    condition: Annotated[
        str | None,
        typer.Argument(help="SQL over the attributes, such as \"hour <= 8 and origin = 'EWR'\"; the total without."),
    ] = None,
    confidence: Confidence = None,
    json: AsJson = False,
) -> None:
    """Count records by a condition, with an interval.

    Of a projection: without.
    """
    from residua.cli.tables import print_count

    print_count(folder, condition, confidence, as_json=json)


@with_output
def answers(folder: ReleasePath, confidence: Confidence = None, simultaneous: Simultaneous = None, **form: Any) -> None:
    """Show the answers to all that was asked. Of a projection they have no error bars."""
    from residua.cli.show import OutputForm
    from residua.cli.tables import print_answers

    print_answers(folder, OutputForm(**form), confidence=confidence, simultaneous=simultaneous)


def project(
    folder: ReleasePath,
    out: Annotated[Path, typer.Option(help="The projection folder to write; it must not exist.")],
    total: Annotated[
        str | None,
        typer.Option(
            help="A public total to meet exactly; 'released' keeps the release's own, usual if clear; or 'free'."
        ),
    ] = None,
    known: Known = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="In which sense nearest: 'margins' (usual for tables: small ones weigh more), 'covariance' or 'plain'."
        ),
    ] = None,
    shrink: Annotated[
        bool | None,
        typer.Option(help="Shrink interactions by their noise first; usually if noise is large beside the total."),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(
            help="Simulate this many releases to indicate the error; usually 1 if no bound can be given.", min=0
        ),
    ] = None,
) -> None:
    """Make tables non-negative, meeting public facts. Touches no data and costs nothing."""
    from residua.cli.tables import run_projection

    run_projection(folder, out, total, known or [], metric=metric, shrink=shrink, simulations=simulate)


def estimate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    out: Annotated[Path, typer.Option(help="The folder of estimates to write; it must not exist.")],
    total: Annotated[str | None, typer.Option(help="A public total to meet exactly; else it is estimated.")] = None,
    known: Known = None,
) -> None:
    """Estimate tables of any attributes, by a model.

    They may be measured or not; the model is of everything measured. Costs nothing.
    """
    from residua.cli.tables import run_estimation

    run_estimation(folder, out, total, known or [])


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
    from residua.cli.tables import write_rows

    write_rows(folder, out, n, attributes)


def continual(
    folder: Annotated[Path, typer.Argument(help="The folder of the continual release.")],
    ledger: Annotated[Path, typer.Option(help="Its ledger; made with the plan's budget if it is not there.")],
    plan: Annotated[
        Path | None, typer.Option(help="Begin: a saved plan of prefixes of one attribute, paid for all its periods.")
    ] = None,
    append: Annotated[
        Path | None, typer.Option(help="Data with the records of the next period; those of others are not counted.")
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="With --append: the period that is meant; any other than the next is refused.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Release a time axis as it grows, paid once.

    One period after the other is appended.

    Prints how many records there were up to each period, with error bars. The folder is confidential: it holds the
    noise.
    """
    from residua.cli.show import out, print_json, print_table
    from residua.errors import SpecError
    from residua.measurement import Continual, Ledger
    from residua.measurement.continual import require_period
    from residua.plans import Plan

    if period is not None and append is None:
        raise SpecError("--period says which period --append means; give both, or neither.")
    begun = None if plan is None else Plan.load(plan)
    if (
        period is not None and begun is not None and begun.correlated is not None and not folder.exists()
    ):  # before the plan is paid for
        require_period(period, begun.domain[begun.domain.names[begun.measured_attributes[0]]].labels[0])
    fresh = begun is not None and not ledger.exists()
    account = Ledger(ledger, begun.guarantee, unit=begun.unit) if fresh and begun else Ledger(ledger)
    stream = Continual(folder, ledger=account, plan=begun)
    if append is not None:
        stream.append(append, period=period)
    if json:
        print_json({"periods": stream.periods, "horizon": stream.horizon, "cumulative": stream.cumulative().columns})
        return
    if stream.periods:
        print_table(stream.cumulative())
    then = f"next: {stream.next_period}" if stream.periods < stream.horizon else "all periods are released"
    out.print(f"{stream.periods} of {stream.horizon} periods, {stream.plan.guarantee!r} paid for all of them; {then}")


COMMANDS = (table, tables, count, answers, project, estimate, rows, continual)
