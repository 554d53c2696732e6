"""The command `residua`: one function per command, errors as one sentence and exit code 2."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from residua.cli.commands import add_commands
from residua.cli.quoted_commands import AsCsv, AsJson, Quality, Suppress
from residua.cli.session_commands import ShowValues
from residua.cli.session_commands import app as session
from residua.errors import GapWarning, ResiduaError

app = typer.Typer(
    name="residua",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: flags as flags, brackets as brackets
    pretty_exceptions_enable=False,
)
app.add_typer(session, name="session")


def _version(asked: bool) -> None:
    if asked:
        from residua import __version__

        typer.echo(f"residua {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publish tables of counts under differential privacy."""


SpecPath = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The specification file.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="DIR", help="A release folder (or a projection's).")]
Confidence = Annotated[float | None, typer.Option(help="How often an interval holds the truth. [default: 0.95]")]
Simultaneous = Annotated[str | None, typer.Option(help="'table' or 'release': intervals that all hold together.")]
Spreadsheet = Annotated[
    bool, typer.Option("--spreadsheet", help="CSV whose text cannot start a formula: ' before =, +, - and @.")
]
Full = Annotated[bool, typer.Option("--full", help="CSV with every digit, not only those that the error justifies.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every row.")]
OnExecutors = Annotated[bool, typer.Option("--on-executors", help="By Spark's executors, into a folder they share.")]


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Folder to write; residua-demo by default.")] = None,
) -> None:
    """Do the whole job on bundled data, and show it."""
    from residua.cli.demo import run_demo

    run_demo(out)


@app.command()
def init(
    data: Annotated[str, typer.Argument(metavar="DATA.csv", help="A CSV file or its URI; only its header is read.")],
    out: Annotated[Path, typer.Option(help="The specification to write.")] = Path("spec.toml"),
) -> None:
    """Draft a specification from the names of the columns. You declare what each may hold."""
    from residua.cli.draft import write_draft

    write_draft(data, out)


@app.command()
def plan(
    spec: SpecPath,
    json: AsJson = False,
    everything: Everything = False,
    save: Annotated[Path | None, typer.Option(help="Also save the plan to this file.")] = None,
    rho: Annotated[float | None, typer.Option(help="What if: this budget, in place of [privacy]'s.")] = None,
    mu: Annotated[float | None, typer.Option(help="What if: this budget.")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="What if: this budget, with --delta (or the file's); without one, Laplace noise."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="What if: with --epsilon (or the file's).")] = None,
    records: Annotated[int | None, typer.Option(help="What if: a person has at most this many records.")] = None,
    minimise: Annotated[str | None, typer.Option(help="What if: 'total', 'max', 'largest' or 'p-norm'.")] = None,
    stddev: Annotated[
        float | None, typer.Option(help="What if: the least privacy at which every number has this stddev.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="What if: the least privacy at which every number has this margin of error.")
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="Of --margin. [default: 0.95]")] = None,
) -> None:
    """Show the best plan, its errors and its privacy. Reads no data.

    With a what-if the specification stays as it is; --save keeps the plan, and residua release --plan measures it.
    """
    from residua.cli.places import require_plan_or_free
    from residua.cli.plans import plan_facts, print_plan
    from residua.cli.show import killable, print_json
    from residua.cli.steps import make_plan, read
    from residua.cli.what_if import WhatIf

    if save is not None:
        require_plan_or_free(save)
    made = make_plan(read(spec, WhatIf(rho, mu, epsilon, delta, records, minimise, stddev, margin, confidence)))
    if save is not None:
        made.save(save)
    with killable():
        if json:
            print_json(plan_facts(made))
        else:
            print_plan(made, everything=everything)


@app.command()
def release(
    spec: SpecPath,
    out: Annotated[Path, typer.Option(help="The release folder to write; it must not exist.")],
    plan: Annotated[
        Path | None, typer.Option(help="Measure this saved plan, in place of what the specification asks and spends.")
    ] = None,
    show_values: ShowValues = False,
    on_executors: OnExecutors = False,
) -> None:
    """Measure the data once and write the release. Debits the ledger first."""
    from residua.cli.steps import read, run_release

    run_release(read(spec), out, plan, show_values=show_values, on_executors=on_executors)


@app.command()
def table(
    folder: ReleasePath,
    attributes: Annotated[
        list[str] | None,
        typer.Argument(help="The table's attributes, or age=prefixes, age=ranges, county=LEVEL; none for the total."),
    ] = None,
    confidence: Confidence = None,
    simultaneous: Simultaneous = None,
    csv: AsCsv = False,
    rounded: Annotated[bool, typer.Option("--rounded", help="Whole numbers, of a projection.")] = False,
    everything: Everything = False,
    spreadsheet: Spreadsheet = False,
    full: Full = False,
    quality: Quality = False,
    suppress: Suppress = None,
    json: AsJson = False,
) -> None:
    """Show one table, of a release with error bars."""
    from residua.cli.show import Form
    from residua.cli.tables import print_marginal

    form = Form(csv or spreadsheet or full, everything, spreadsheet, full, quality or bool(suppress), suppress, json)
    print_marginal(folder, attributes or [], confidence, simultaneous, form, rounded=rounded)


@app.command()
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
    from residua.cli.asked_tables import write_tables
    from residua.cli.show import Form

    form = Form(spreadsheet=spreadsheet, full=full)
    write_tables(folder, out, confidence, form, format=format, title=title, language=language, spark=on_executors)


@app.command()
def report(
    subject: Annotated[
        Path, typer.Argument(metavar="DIR", help="A release or projection folder, a saved plan, or a specification.")
    ],
    beside: Annotated[
        Path | None, typer.Argument(metavar="PLAN", help="Another plan or specification, to see two side by side.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write; an older report is replaced.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="What the page is called.")] = None,
) -> None:
    """Write one page for people, with pictures.

    It holds protection, accuracy and tables, and loads nothing. Reads no data and costs nothing.
    """
    from residua.cli.reporting import write_report_of

    write_report_of(subject, beside, out, title)


@app.command()
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


@app.command()
def answers(
    folder: ReleasePath,
    confidence: Confidence = None,
    simultaneous: Simultaneous = None,
    csv: AsCsv = False,
    everything: Everything = False,
    spreadsheet: Spreadsheet = False,
    full: Full = False,
    json: AsJson = False,
) -> None:
    """Show the answers to all that was asked. Of a projection they have no error bars."""
    from residua.cli.show import Form
    from residua.cli.tables import print_answers

    form = Form(csv or spreadsheet or full, everything, spreadsheet, full, json=json)
    print_answers(folder, confidence, simultaneous, form)


add_commands(app)


@app.command()
def project(
    folder: ReleasePath,
    out: Annotated[Path, typer.Option(help="The projection folder to write; it must not exist.")],
    total: Annotated[
        str | None,
        typer.Option(
            help="A public total to meet exactly; 'released' keeps the release's own, usual if clear; or 'free'."
        ),
    ] = None,
    known: Annotated[
        list[Path] | None,
        typer.Option(
            help="A public table to meet exactly: CSV or Parquet with its attributes and 'count'. Repeatable."
        ),
    ] = None,
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
    from residua.cli.projecting import run_projection

    run_projection(folder, out, total=total, known=known or [], metric=metric, shrink=shrink, simulations=simulate)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A specification; or a saved plan, beside another.")],
    second: Annotated[
        Path | None, typer.Argument(metavar="B", help="A specification or a saved plan, to see the two side by side.")
    ] = None,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show two plans side by side.

    For one specification: the best plans beside what people use today.
    """
    if second is not None:
        from residua.cli.side_by_side import print_side_by_side

        print_side_by_side(first, second, as_json=json, everything=everything)
        return
    from residua.cli.show import killable
    from residua.cli.side_by_side import print_comparison
    from residua.cli.steps import read

    with killable():
        print_comparison(read(first), as_json=json)


@app.command()
def persons(
    spec: SpecPath,
    rho: Annotated[float | None, typer.Option(help="Spend this on counts with noise, which may be published.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The same with Laplace noise.")] = None,
    most: Annotated[int, typer.Option(help="Persons with so many records or more are counted together.")] = 1024,
    share: Annotated[float, typer.Option(help="The share of records that a recommended bound should count.")] = 0.9,
    json: AsJson = False,
    show_values: ShowValues = False,
) -> None:
    """Show how many records people have, to bound them.

    With --rho or --epsilon: with noise, paid for. Without: exactly, on a terminal, for the curator's eyes only.
    """
    from residua.cli.persons import print_looked, print_true
    from residua.cli.steps import read

    if rho is None and epsilon is None:
        print_true(read(spec), show_values=show_values)
    else:
        print_looked(read(spec), rho, epsilon, most, share, as_json=json, show_values=show_values)


@app.command()
def ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger file.")],
    json: AsJson = False,
    accept: Annotated[
        Path | None,
        typer.Option(metavar="SPEC.toml", help="Declare that the data of this specification holds the same people."),
    ] = None,
    why: Annotated[str | None, typer.Option(help="Why it is another dataset, such as: corrected codes.")] = None,
) -> None:
    """Show what was spent of a budget, and what is left.

    With --accept: corrected data of the same people is put on record.
    """
    from residua.cli.accounts import accept_data, print_ledger

    if accept is not None or why is not None:
        accept_data(file, accept, why)
    print_ledger(file, as_json=json)


def main() -> None:
    """Runs the command; a mistake is one sentence on standard error and exit code 2."""
    from residua.cli.show import err

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # the plan prints its gap
            warnings.showwarning = lambda message, *where: err.print(f"residua: {message}")
            app()
    except ResiduaError as problem:
        err.print(f"residua: {problem}")
    except OSError as problem:
        err.print(f"residua: {problem.filename or 'a file'}: {problem.strerror}; check the path and its permissions.")
    except MemoryError:
        err.print("residua: there is not enough memory; ask for fewer or smaller tables.")
    else:
        return
    sys.exit(2)


if __name__ == "__main__":
    main()
