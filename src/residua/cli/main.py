"""The command `residua`: one function per command, errors as one sentence and an exit code by their kind."""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated

import typer

from residua import cli
from residua.cli import account_commands, quoting_commands, session_commands
from residua.cli.options import (
    AsJson,
    Confidence,
    Everything,
    Full,
    Known,
    Language,
    MeasuredPlan,
    OnExecutors,
    OutputForm,
    ReleasePath,
    ReportMap,
    ReportPath,
    ReportTheme,
    ReportTitle,
    Rounded,
    ShowValues,
    Simultaneous,
    SpecPath,
    Spreadsheet,
    Suppress,
    WhatIf,
    grouped,
    writing,
)
from residua.errors import FileError, GapWarning, ResiduaError, VerificationError

app = typer.Typer(
    name="residua",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: flags as flags, brackets as brackets
    pretty_exceptions_enable=False,
)
app.add_typer(account_commands.app)
app.add_typer(session_commands.app, name="session")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(cli.doctor.version_line())
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publish tables of counts under differential privacy."""


@writing(app)
def demo(out: Annotated[Path | None, typer.Option(help="Folder to write; residua-demo by default.")] = None) -> None:
    """Do the whole job on bundled data, and show it."""
    cli.starting.run_demo(out)


@writing(app)
def init(
    data: Annotated[str, typer.Argument(metavar="DATA.csv", help="A CSV file or its URI; only its header is read.")],
    out: Annotated[Path, typer.Option(help="The specification to write.")] = Path("spec.toml"),
    domain: Annotated[
        Path | None, typer.Option(help="What describes the columns: a Data Package, DDI codebook or SDMX structure.")
    ] = None,
) -> None:
    """Draft a specification from the names of the columns. You declare what each may hold."""
    cli.starting.write_draft(data, out, domain)


@app.command()
@grouped
def plan(
    spec: SpecPath,
    json: AsJson = False,
    everything: Everything = False,
    save: Annotated[Path | None, typer.Option(help="Also save the plan to this file.")] = None,
    *,
    what_if: WhatIf,
) -> None:
    """Show the best plan, its errors and its privacy. Reads no data.

    With a what-if the specification stays as it is; --save keeps the plan, and residua release --plan measures it.
    """
    if save is not None:
        cli.opening.require_plan_or_free(save)
    best = cli.planning.make_plan(cli.spec.read_spec(spec, what_if))
    if save is not None:
        best.save(save)
    with cli.show.killable():
        cli.planning.print_plan(best, as_json=json, everything=everything)


@app.command()
def release(
    spec: SpecPath,
    out: Annotated[Path, typer.Option(help="The release folder to write; it must not exist.")],
    plan: MeasuredPlan = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check all that would be refused.")] = False,
    json: AsJson = False,
    show_values: ShowValues = False,
    on_executors: OnExecutors = False,
) -> None:
    """Measure the data once and write the release. Debits the ledger first."""
    read = cli.spec.read_spec(spec)
    if dry_run:
        cli.steps.check_release(read, out, plan, show_values=show_values, as_json=json)
    else:
        cli.steps.run_release(read, out, plan, show_values=show_values, on_executors=on_executors, as_json=json)


@app.command()
def check(spec: SpecPath, plan: MeasuredPlan = None, json: AsJson = False, show_values: ShowValues = False) -> None:
    """Check all that a release would refuse. Spends nothing.

    The specification, the ledger and what is left of its budget, and every record against the domain.
    """
    cli.steps.check_release(cli.spec.read_spec(spec), None, plan, show_values=show_values, as_json=json)


# ---- a release: its tables and answers, what is made from it alone, and one that grows


@app.command()
@grouped
def table(
    folder: ReleasePath,
    attributes: Annotated[
        list[str] | None,
        typer.Argument(help="The table's attributes, or age=prefixes, age=ranges, county=LEVEL; none for the total."),
    ] = None,
    confidence: Confidence = None,
    simultaneous: Simultaneous = None,
    known: Known = None,
    rounded: Rounded = False,
    *,
    form: OutputForm,
) -> None:
    """Show one table, of a release with error bars."""
    asked = {"confidence": confidence, "simultaneous": simultaneous, "known": known}
    cli.tables.print_marginal(folder, attributes or [], form, rounded=rounded, **asked)


@writing(app)
def tables(
    folder: ReleasePath,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write them into this folder, as CSV by default; it must not exist; usually ./tables."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="csv, parquet, long, long-csv, xlsx, jsonstat, px, sdmx, datapackage, csvw. [default: csv]"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the whole is called, in its metadata.")] = None,
    language: Language = None,
    confidence: Confidence = None,
    known: Known = None,
    rounded: Rounded = False,
    suppress: Suppress = None,
    spreadsheet: Spreadsheet = False,
    full: Full = False,
    on_executors: OnExecutors = False,
) -> None:
    """List or write all tables that were asked for. Of a hierarchy there is one per level."""
    cli.exporting.write_tables(
        folder, out, format, confidence, on_executors=on_executors, spreadsheet=spreadsheet, full=full, known=known,
        title=title, language=language, rounded=rounded, suppress=suppress,
    )  # fmt: skip


@app.command()
def count(
    folder: ReleasePath,
    condition: Annotated[
        str | None,
        typer.Argument(help="SQL over the attributes, such as \"hour <= 8 and origin = 'EWR'\"; the total without."),
    ] = None,
    confidence: Confidence = None,
    known: Known = None,
    json: AsJson = False,
    language: Language = None,
) -> None:
    """Count records by a condition, with an interval.

    Of a projection: without.
    """
    cli.tables.print_count(folder, condition, language, as_json=json, confidence=confidence, known=known)


@app.command()
@grouped
def answers(
    folder: ReleasePath, confidence: Confidence = None, simultaneous: Simultaneous = None, *, form: OutputForm
) -> None:
    """Show the answers to all that was asked."""
    cli.tables.print_answers(folder, form, confidence=confidence, simultaneous=simultaneous)


@writing(app)
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
    cli.deriving.run_projection(folder, out, total, known or [], metric=metric, shrink=shrink, simulations=simulate)


@writing(app)
def estimate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    out: Annotated[Path, typer.Option(help="The folder of estimates to write; it must not exist.")],
    total: Annotated[str | None, typer.Option(help="A public total to meet exactly; else it is estimated.")] = None,
    known: Known = None,
) -> None:
    """Estimate tables of any attributes, by a model.

    They may be measured or not; the model is of everything measured. Costs nothing.
    """
    cli.deriving.run_estimation(folder, out, total, known or [])


@writing(app)
def replicates(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A projection, from residua project.")],
    out: Annotated[Path, typer.Option(help="The Parquet file to write; it must not exist.")],
    n: Annotated[int, typer.Option("-n", "--replicates", help="How many.", min=1)] = 50,
) -> None:
    """Simulate tables as other noise would have made them.

    Writes one long Parquet file: a row for each cell of each table of each replicate. Costs nothing.
    """
    cli.deriving.write_replicates(folder, out, n)


@writing(app)
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
    cli.deriving.write_rows(folder, out, n, attributes)


@app.command()
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

    One period after the other is appended. Prints how many records there were up to each, with error bars.
    The folder, with its noise, is confidential.
    """
    cli.steps.run_continual(folder, ledger, plan, append, period, as_json=json)


quoting_commands.add_commands(app)


# ---- plans and releases side by side, persons, ledgers, and the page


@writing(app)
def report(
    subject: Annotated[
        Path, typer.Argument(metavar="DIR", help="A release or projection folder, a saved plan, or a specification.")
    ],
    beside: Annotated[
        Path | None, typer.Argument(metavar="PLAN", help="Another plan or specification, to see two side by side.")
    ] = None,
    out: ReportPath = Path("report.html"),
    title: ReportTitle = None,
    since: Annotated[Path | None, typer.Option(metavar="DIR", help="An earlier release, to see what changed.")] = None,
    map: ReportMap = None,
    theme: ReportTheme = None,
    language: Language = None,
) -> None:
    """Write one page for people.

    A headline, charts, all tables, methods and the guarantee. Reads no data, loads nothing and costs nothing.
    """
    cli.comparing.write_report_of(
        subject, beside, out, title, since=since, map=map, theme=theme, language=language
    )  # fmt: skip


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
        cli.comparing.print_side_by_side(first, second, as_json=json, everything=everything)
        return
    with cli.show.killable():
        cli.comparing.print_comparison(cli.spec.read_spec(first), as_json=json)


def main() -> None:
    """Runs the command; a mistake is one sentence on standard error, and the exit code says of which kind."""
    if sys.platform == "win32":  # which writes into files and pipes in an encoding that lacks most letters
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # the plan prints its gap
            warnings.showwarning = lambda message, *where: _say(str(message))
            app()
    except ResiduaError as problem:
        _say(str(problem))
        code = problem.exit_code
    except OSError as problem:
        _say(f"{problem.filename or 'a file'}: {problem.strerror}; check the path and its permissions.")
        code = FileError.exit_code
    except MemoryError:
        _say("there is not enough memory; ask for fewer or smaller tables.")
        code = FileError.exit_code
    except ModuleNotFoundError as problem:  # a light installation (docs/decisions/01-dependencies)
        _say(f"{(problem.name or '').partition('.')[0]} is not installed; run: pip install residua, which brings it.")
        code = FileError.exit_code
    except Exception:
        traceback.print_exc()
        _say("this is a mistake of residua; please report it, without data.")
        code = VerificationError.exit_code
    else:
        return
    sys.exit(code)


def _say(sentence: str) -> None:
    cli.show.err.print(f"residua: {sentence}")
