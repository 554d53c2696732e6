"""The command `residua`: one function per command, errors as one sentence and exit code 2."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from residua.cli import quoting_commands, release_commands, session_commands
from residua.cli.options import AsJson, Everything, OnExecutors, ReportPath, ReportTitle, ShowValues, SpecPath
from residua.errors import GapWarning, ResiduaError

app = typer.Typer(
    name="residua",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: flags as flags, brackets as brackets
    pretty_exceptions_enable=False,
)
app.add_typer(session_commands.app, name="session")


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


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Folder to write; residua-demo by default.")] = None,
) -> None:
    """Do the whole job on bundled data, and show it."""
    from residua.cli.starting import run_demo

    run_demo(out)


@app.command()
def init(
    data: Annotated[str, typer.Argument(metavar="DATA.csv", help="A CSV file or its URI; only its header is read.")],
    out: Annotated[Path, typer.Option(help="The specification to write.")] = Path("spec.toml"),
) -> None:
    """Draft a specification from the names of the columns. You declare what each may hold."""
    from residua.cli.starting import write_draft

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
    from residua.cli.objectives import WhatIf
    from residua.cli.show import killable, print_json
    from residua.cli.spec import read_spec
    from residua.cli.steps import make_plan, print_plan, require_plan_or_free
    from residua.report.plan_text import plan_facts

    if save is not None:
        require_plan_or_free(save)
    what_if = WhatIf(rho, mu, epsilon, delta, records, minimise, stddev, margin, confidence)
    best = make_plan(read_spec(spec, what_if))
    if save is not None:
        best.save(save)
    with killable():
        if json:
            print_json(plan_facts(best))
        else:
            print_plan(best, everything=everything)


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
    from residua.cli.spec import read_spec
    from residua.cli.steps import run_release

    run_release(read_spec(spec), out, plan, show_values=show_values, on_executors=on_executors)


for command in release_commands.COMMANDS:
    app.command()(command)
quoting_commands.add_commands(app)


@app.command()
def report(
    subject: Annotated[
        Path, typer.Argument(metavar="DIR", help="A release or projection folder, a saved plan, or a specification.")
    ],
    beside: Annotated[
        Path | None, typer.Argument(metavar="PLAN", help="Another plan or specification, to see two side by side.")
    ] = None,
    out: ReportPath = Path("report.html"),
    title: ReportTitle = None,
) -> None:
    """Write one page for people, with pictures.

    It holds protection, accuracy and tables, and loads nothing. Reads no data and costs nothing.
    """
    from residua.cli.comparing import write_report_of

    write_report_of(subject, beside, out, title)


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
    from residua.cli.comparing import print_comparison, print_side_by_side
    from residua.cli.show import killable
    from residua.cli.spec import read_spec

    if second is not None:
        print_side_by_side(first, second, as_json=json, everything=everything)
        return
    with killable():
        print_comparison(read_spec(first), as_json=json)


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
    from residua.cli.spec import read_spec

    if rho is None and epsilon is None:
        print_true(read_spec(spec), show_values=show_values)
    else:
        print_looked(read_spec(spec), rho, epsilon, most, share, as_json=json, show_values=show_values)


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


@app.command()
def ui(
    spec: Annotated[
        Path | None,
        typer.Argument(metavar="SPEC.toml", help="Opened, and saved to; the bundled example if left out."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Plan on a page in the browser. Reads no data.

    Declare attributes, pick tables, move the budget, and see errors at once. On this machine only.
    """
    from residua.cli.show import out
    from residua.ui.serve import serve

    serve(spec, browser=browser, say=out.print)


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
