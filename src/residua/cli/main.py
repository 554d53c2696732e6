"""The command `residua`: one function a command, errors as one sentence and exit code 2."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from residua.cli.session_commands import app as session
from residua.errors import GapWarning, ResiduaError

app = typer.Typer(
    name="residua",
    help="Publish tables of counts under differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(session, name="session")

SpecPath = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The specification file.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="DIR", help="A release folder (or a projection's).")]
Confidence = Annotated[float | None, typer.Option(help="How often an interval holds the truth. [default: 0.95]")]
Simultaneous = Annotated[str | None, typer.Option(help="'table' or 'release': intervals that all hold together.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every row.")]


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Folder to write; residua-demo by default.")] = None,
) -> None:
    """Plan and release all 1- and 2-way tables of the bundled Adult data, and show a few."""
    from residua.cli.demo import run_demo

    run_demo(out)


@app.command()
def init(
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="A CSV file; only its header is read.")],
    out: Annotated[Path, typer.Option(help="The specification to write.")] = Path("spec.toml"),
) -> None:
    """Draft a specification from the header of a CSV file, for you to complete."""
    from residua.cli.draft import write_draft

    write_draft(data, out)


@app.command()
def plan(
    spec: SpecPath,
    json: AsJson = False,
    everything: Everything = False,
    save: Annotated[Path | None, typer.Option(help="Also save the plan to this file.")] = None,
) -> None:
    """Show the best plan: every table's expected error, the privacy, and how close to optimal. Reads no data."""
    from residua.cli.plans import plan_facts, print_plan
    from residua.cli.show import killable, print_json
    from residua.cli.steps import make_plan, read

    made = make_plan(read(spec))
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
) -> None:
    """Measure the data once, with exact noise, and write the release. Debits the ledger first."""
    from residua.cli.steps import read, run_release

    run_release(read(spec), out)


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
) -> None:
    """Show one table of a release with error bars, or of a projection without."""
    from residua.cli.tables import print_marginal

    print_marginal(folder, attributes or [], confidence, simultaneous, csv=csv, rounded=rounded, everything=everything)


@app.command()
def tables(
    folder: ReleasePath,
    out: Annotated[
        Path | None, typer.Option(help="Also write each as CSV into this folder; it must not exist.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="How often an interval holds the truth.")] = 0.95,
) -> None:
    """List every table that was asked of a release (of a hierarchy one a level), or write them all as CSV."""
    from residua.cli.asked_tables import write_tables
    from residua.release import Release

    write_tables(Release.load(folder), out, confidence)


@app.command()
def answers(
    folder: ReleasePath,
    confidence: Confidence = None,
    simultaneous: Simultaneous = None,
    csv: AsCsv = False,
    everything: Everything = False,
) -> None:
    """Show the answers to all queries that were asked, with error bars (of a projection: without)."""
    from residua.cli.tables import print_answers

    print_answers(folder, confidence, simultaneous, csv=csv, everything=everything)


@app.command()
def project(
    folder: ReleasePath,
    out: Annotated[Path, typer.Option(help="The projection folder to write; it must not exist.")],
    total: Annotated[
        str | None,
        typer.Option(help="A public total to meet exactly; 'released' (usual) keeps the release's own; or 'free'."),
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
    simulate: Annotated[
        int | None,
        typer.Option(
            help="Simulate so many releases to indicate the error; usually 1 if no bound can be given.", min=0
        ),
    ] = None,
) -> None:
    """Make a release's tables non-negative and consistent with what is known. Touches no data and costs nothing."""
    from residua.cli.projecting import run_projection

    run_projection(folder, out, total=total, known=known or [], metric=metric, simulations=simulate)


@app.command()
def compare(spec: SpecPath, json: AsJson = False) -> None:
    """Show the best plans beside what people use today, at one budget. Reads no data."""
    from residua.cli.comparing import print_comparison
    from residua.cli.show import killable
    from residua.cli.steps import read

    with killable():
        print_comparison(read(spec), as_json=json)


@app.command()
def ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger file.")],
    json: AsJson = False,
) -> None:
    """Show what was spent of a dataset's budget, and what is left."""
    from residua.cli.accounts import print_ledger

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
