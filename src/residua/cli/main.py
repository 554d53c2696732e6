"""The command `residua`: one function per command, errors as one sentence and an exit code by their kind."""

import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated

import typer

from residua import cli
from residua.cli import account_commands, log, options, quoting_commands, session_commands
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


@options.command(app, writes=True)
def demo(*, out: Path | None = None) -> None:
    """Do the whole job on bundled data, and show it.

    Args:
        out: Folder to write; residua-demo by default.
    """
    cli.starting.run_demo(out)


@options.command(app, writes=True)
def init(data: str, *, out: Path = Path("spec.toml"), domain: Path | None = None) -> None:
    """Draft a specification from the names of the columns. You declare what each may hold.

    Args:
        data (DATA.csv): A CSV file or its URI. Its header is read, and up to 1,000 rows, to recognise numbers and dates
            and how they are written; no value is kept.
        out: The specification to write.
        domain: What describes the columns: a Data Package, DDI codebook or SDMX structure.
    """
    cli.starting.write_draft(data, out, domain)


@options.command(app)
def plan(
    spec: options.SpecPath,
    *,
    json: options.AsJson = False,
    everything: options.Everything = False,
    save: Path | None = None,
    what_if: options.WhatIf,
) -> None:
    """Show the best plan, its errors and its privacy. Reads no data.

    With a what-if the specification stays as it is; --save keeps the plan, and residua release --plan measures it.

    Args:
        save: Also save the plan to this file.
    """
    if save is not None:
        cli.opening.require_plan_or_free(save)
    best = cli.planning.make_plan(cli.spec.read_spec(spec, what_if))
    if save is not None:
        best.save(save)
    with cli.show.killable():
        cli.planning.print_plan(best, as_json=json, everything=everything)


@options.command(app)
def release(
    spec: options.SpecPath,
    *,
    out: Path,
    plan: options.MeasuredPlan = None,
    dry_run: bool = False,
    json: options.AsJson = False,
    show_values: options.ShowValues = False,
    on_executors: options.OnExecutors = False,
) -> None:
    """Measure the data once and write the release. Debits the ledger first.

    Args:
        out: The release folder to write; it must not exist.
        dry_run: Only check all that would be refused.
    """
    read = cli.spec.read_spec(spec)
    if dry_run:
        cli.steps.check_release(read, out, plan, show_values=show_values, as_json=json)
    else:
        cli.steps.run_release(read, out, plan, show_values=show_values, on_executors=on_executors, as_json=json)


@options.command(app)
def check(
    spec: options.SpecPath,
    *,
    plan: options.MeasuredPlan = None,
    json: options.AsJson = False,
    show_values: options.ShowValues = False,
) -> None:
    """Check all that a release would refuse. Spends nothing.

    The specification, the ledger and what is left of its budget, and every record against the domain.
    """
    cli.steps.check_release(cli.spec.read_spec(spec), None, plan, show_values=show_values, as_json=json)


# ---- a release: its tables and answers, what is made from it alone, and one that grows


@options.command(app)
def table(
    folder: options.ReleasePath,
    attributes: list[str] | None = None,
    *,
    confidence: options.Confidence = None,
    simultaneous: options.Simultaneous = None,
    known: options.Known = None,
    rounded: options.Rounded = False,
    form: options.OutputForm,
) -> None:
    """Show one table, of a release with error bars.

    Args:
        attributes: The table's attributes, or age=prefixes, age=ranges, county=LEVEL; none for the total.
    """
    asked = {"confidence": confidence, "simultaneous": simultaneous, "known": known}
    cli.tables.print_marginal(folder, attributes or [], form, rounded=rounded, **asked)


@options.command(app, writes=True)
def tables(
    folder: options.ReleasePath,
    *,
    out: Path | None = None,
    format: str | None = None,
    title: str | None = None,
    language: options.Language = None,
    confidence: options.Confidence = None,
    known: options.Known = None,
    rounded: options.Rounded = False,
    suppress: options.Suppress = None,
    spreadsheet: options.Spreadsheet = False,
    full: options.Full = False,
    on_executors: options.OnExecutors = False,
) -> None:
    """List or write all tables that were asked for. Of a hierarchy there is one per level.

    Args:
        out: Also write them into this folder, as CSV by default; it must not exist; usually ./tables.
        format: csv, parquet, long, long-csv, xlsx, jsonstat, px, sdmx, datapackage, csvw. [default: csv]
        title: What the whole is called, in its metadata.
    """
    cli.exporting.write_tables(
        folder, out, format, confidence, on_executors=on_executors, spreadsheet=spreadsheet, full=full, known=known,
        title=title, language=language, rounded=rounded, suppress=suppress,
    )  # fmt: skip


@options.command(app)
def count(
    folder: options.ReleasePath,
    condition: str | None = None,
    *,
    confidence: options.Confidence = None,
    known: options.Known = None,
    json: options.AsJson = False,
    language: options.Language = None,
) -> None:
    """Count records by a condition, with an interval.

    Of a projection: without.

    Args:
        condition: SQL over the attributes, such as "hour <= 8 and origin = 'EWR'"; the total without.
    """
    cli.tables.print_count(folder, condition, language, as_json=json, confidence=confidence, known=known)


@options.command(app)
def answers(
    folder: options.ReleasePath,
    *,
    confidence: options.Confidence = None,
    simultaneous: options.Simultaneous = None,
    form: options.OutputForm,
) -> None:
    """Show the answers to all that was asked."""
    cli.tables.print_answers(folder, form, confidence=confidence, simultaneous=simultaneous)


@options.command(app, writes=True)
def project(
    folder: options.ReleasePath,
    *,
    out: Path,
    total: str | None = None,
    known: options.Known = None,
    metric: str | None = None,
    shrink: bool | None = None,
    simulate: Annotated[int | None, typer.Option(min=0)] = None,
) -> None:
    """Make tables non-negative, meeting public facts. Touches no data and costs nothing.

    Args:
        out: The projection folder to write; it must not exist.
        total: A public total to meet exactly; 'released' keeps the release's own, usual if clear; or 'free'.
        metric: In which sense nearest: 'margins' (usual for tables: small ones weigh more), 'covariance' or 'plain'.
        shrink: Shrink interactions by their noise first; usually if noise is large beside the total.
        simulate: Simulate this many releases to indicate the error; usually 1 if no bound can be given.
    """
    cli.deriving.run_projection(folder, out, total, known or [], metric=metric, shrink=shrink, simulations=simulate)


@options.command(app, writes=True)
def estimate(folder: Path, *, out: Path, total: str | None = None, known: options.Known = None) -> None:
    """Estimate tables of any attributes, by a model.

    They may be measured or not; the model is of everything measured. Costs nothing.

    Args:
        folder (DIR): A release folder.
        out: The folder of estimates to write; it must not exist.
        total: A public total to meet exactly; else it is estimated.
    """
    cli.deriving.run_estimation(folder, out, total, known or [])


@options.command(app, writes=True)
def replicates(folder: Path, *, out: Path, n: Annotated[int, typer.Option("-n", "--replicates", min=1)] = 50) -> None:
    """Simulate tables as other noise would have made them.

    Writes one long Parquet file: a row for each cell of each table of each replicate. Costs nothing.

    Args:
        folder (DIR): A projection, from residua project.
        out: The Parquet file to write; it must not exist.
        n: How many.
    """
    cli.deriving.write_replicates(folder, out, n)


@options.command(app, writes=True)
def rows(
    folder: Path,
    *,
    out: Path,
    n: Annotated[int | None, typer.Option("-n", "--rows")] = None,
    attributes: Annotated[list[str] | None, typer.Option("--attribute")] = None,
) -> None:
    """Make synthetic rows from estimates.

    Their tables are near the estimated ones. No row is a person's record. Touches no data and costs nothing.

    Args:
        folder (DIR): A folder of estimates, from residua estimate.
        out: The file to write: .parquet or .csv. It must not exist.
        n: How many rows; the estimated total by default.
        attributes: A column; all by default. Repeatable.
    """
    cli.deriving.write_rows(folder, out, n, attributes)


@options.command(app)
def continual(
    folder: Path,
    *,
    ledger: Path,
    plan: Path | None = None,
    append: Path | None = None,
    period: str | None = None,
    json: options.AsJson = False,
) -> None:
    """Release a time axis as it grows, paid once.

    One period after the other is appended. Prints how many records there were up to each, with error bars.
    The folder, with its noise, is confidential.

    Args:
        folder: The folder of the continual release.
        ledger: Its ledger; made with the plan's budget if it is not there.
        plan: Begin: a saved plan of prefixes of one attribute, paid for all its periods.
        append: Data with the records of the next period; those of others are not counted.
        period: With --append: the period that is meant; any other than the next is refused.
    """
    cli.steps.run_continual(folder, ledger, plan, append, period, as_json=json)


app.registered_commands += quoting_commands.app.registered_commands  # where help lists them


# ---- plans and releases side by side, persons, ledgers, and the page


@options.command(app, writes=True)
def report(
    subject: Path,
    beside: Path | None = None,
    *,
    out: options.ReportPath = Path("report.html"),
    title: options.ReportTitle = None,
    since: Path | None = None,
    map: options.ReportMap = None,
    theme: options.ReportTheme = None,
    language: options.Language = None,
) -> None:
    """Write one page for people.

    A headline, charts, all tables, methods and the guarantee. Reads no data, loads nothing and costs nothing.

    Args:
        subject (DIR): A release or projection folder, a saved plan, or a specification.
        beside (PLAN): Another plan or specification, to see two side by side.
        since (DIR): An earlier release, to see what changed.
    """
    cli.comparing.write_report_of(subject, beside, out, since, title=title, map=map, theme=theme, language=language)


@options.command(app)
def compare(
    first: Path, second: Path | None = None, *, json: options.AsJson = False, everything: options.Everything = False
) -> None:
    """Show two plans side by side.

    For one specification: the best plans beside what people use today.

    Args:
        first (A): A specification; or a saved plan, beside another.
        second (B): A specification or a saved plan, to see the two side by side.
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
    said, held, code = None, None, 0
    log.WRITTEN.clear()
    try:
        held = log.opened()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # the plan prints its gap
            warnings.showwarning = lambda message, *where: _say(str(message))
            app()
    except SystemExit as end:  # Typer's own
        code = int(end.code or 0)
    except ResiduaError as problem:
        said, code = str(problem), problem.exit_code
    except OSError as problem:
        said = f"{problem.filename or 'a file'}: {problem.strerror}; check the path and its permissions."
        code = FileError.exit_code
    except MemoryError:
        said, code = "there is not enough memory; ask for fewer or smaller tables.", FileError.exit_code
    except ModuleNotFoundError as problem:  # a light installation (docs/decisions/01-dependencies)
        said = f"{(problem.name or '').partition('.')[0]} is not installed; run: pip install residua, which brings it."
        code = FileError.exit_code
    except Exception:
        traceback.print_exc()
        said = "this is a mistake of residua; please report it, without data."
        code = VerificationError.exit_code
    if said is not None:
        _say(said)
    log.add(held, code, said)
    sys.exit(code)


def _say(sentence: str) -> None:
    cli.show.err.print(f"residua: {sentence}")
