"""The commands of whoever runs it: what was spent, what can be trusted, what works here, and the planner page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from residua import cli
from residua.cli.options import AsJson, Host, Port, RootPath, ShowValues, SpecPath, writing

app = typer.Typer()


@app.command()
def audit(
    subject: Annotated[Path, typer.Argument(metavar="PLAN|DIR", help="A saved plan, or a release folder.")],
    json: AsJson = False,
) -> None:
    """Price what a plan or release measures.

    For every unit, beside the guarantee it states; exits with 1 if that does not cover the price. Reads no data.
    """
    if not cli.auditing.print_audit(subject, as_json=json):
        raise typer.Exit(1)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    ledger: Annotated[Path | None, typer.Option(help="The ledger that must have paid for it.")] = None,
    key: Annotated[Path | None, typer.Option(help="The public key (PEM) that must have signed it.")] = None,
    json: AsJson = False,
) -> None:
    """Verify that a release is what it says.

    Whole, priced as stated, and, where asked, paid for by a ledger and signed; exits with 1 if not. Reads no data.
    """
    if not cli.auditing.print_verified(folder, ledger, key, as_json=json):
        raise typer.Exit(1)


@writing(app)
def sign(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    key: Annotated[Path, typer.Option(help="Your private key: Ed25519, as PEM.")],
) -> None:
    """Sign a release, so that a forged one is noticed."""
    from residua.release.signing import sign as sign_release

    sign_release(folder, key)
    cli.show.print_written(
        folder, verb="Signed", rest=f"; readers verify it with: residua verify {folder} --key PUBLIC.pem"
    )


@app.command()
def doctor(json: AsJson = False) -> None:
    """Say what is installed and what works here.

    Exits with 1 if something that is needed does not. Reads no data and sends nothing.
    """
    if not cli.doctor.print_parts(as_json=json):
        raise typer.Exit(1)


@app.command()
def ui(
    spec: Annotated[
        Path | None,
        typer.Argument(metavar="SPEC.toml", help="Opened, and saved to; or the folder of a release, to look at."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    host: Host = "127.0.0.1",
    port: Port = 0,
    root_path: RootPath = "",
    json: AsJson = False,
) -> None:
    """Plan on a page in the browser. Reads no data.

    Begin with the header of a file, answer questions, and see the tables you will publish with their error bars. With
    the folder of a release: its tables, charts and quoted numbers. On this machine only, unless told so.
    """
    from residua.ui.serve import serve

    say = cli.show.print_json if json else cli.show.out.print
    serve(spec, browser=browser, say=say, host=host, port=port, root=root_path)


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
    read = cli.spec.read_spec(spec)
    if rho is None and epsilon is None:
        cli.persons.print_true(read, show_values=show_values)
    else:
        cli.persons.print_looked(read, rho, epsilon, most, share, as_json=json, show_values=show_values)


@app.command()
def discover(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="A specification, or a draft of one.")],
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to find out about.")],
    rho: Annotated[float | None, typer.Option(help="What to spend, in rho.")] = None,
    mu: Annotated[float | None, typer.Option(help="The same as mu.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The same as epsilon, in a ledger of pure DP.")] = None,
    delta: Annotated[float | None, typer.Option(help="The probability that nothing is promised, such as 1e-9.")] = None,
    kind: Annotated[str, typer.Option(help="values, 'whole numbers' or numbers: which values, or which range.")] = (
        "values"
    ),
    values_per_person: Annotated[int | None, typer.Option(help="How many different values of a person count.")] = None,
    show_values: ShowValues = False,
    json: AsJson = False,
) -> None:
    """Find out privately which values a column holds.

    Or which range its numbers have. Writes them into the specification; the ledger pays, and adds up delta.
    """
    amounts: dict[str, Any] = {"rho": rho, "mu": mu, "epsilon": epsilon}
    how: dict[str, Any] = {"delta": delta, "kind": kind, "values_per_person": values_per_person}
    cli.discovering.run_discovery(spec, column, amounts, how, as_json=json, show_values=show_values)


class ShowByDefault(TyperGroup):
    """What is no command of its own is a file to show: `residua ledger FILE` is `residua ledger show FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the command in front of the arguments."""
        own = [*self.commands, "--help"]
        return super().parse_args(ctx, args if not args or args[0] in own else ["show", *args])


ledgers = typer.Typer(cls=ShowByDefault, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(ledgers, name="ledger", help="Show what was spent of a budget; make a ledger.")


@ledgers.command()
def create(
    spec: SpecPath,
    population: Annotated[str | None, typer.Option(help="Who the people are, in words that may be public.")] = None,
    json: AsJson = False,
) -> None:
    """Make the ledger that a specification names, with its budget.

    The budget is that of [ledger], or of [privacy] where [ledger] states none. One that is there stays as it is.
    """
    ledger = cli.steps.create_ledger(cli.discovering.read_for_ledger(spec), population)
    cli.accounts.print_made(ledger, "; nothing is spent", as_json=json)


@ledgers.command()
def allot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The ledger that has the whole budget.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The ledger to make, for a team.")],
    rho: Annotated[float | None, typer.Option(help="How much, in the currency of the whole.")] = None,
    mu: Annotated[float | None, typer.Option(help="The same as mu.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The same as epsilon, with --delta if that has one.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon.")] = None,
    purpose: Annotated[str | None, typer.Option(help="Whom it is for, in words that may be public.")] = None,
    discovery_delta: Annotated[float | None, typer.Option(help="How much of the whole's, to discover values.")] = None,
    witness: Annotated[Path | None, typer.Option(help="Its witness; beside the whole's, if that has one.")] = None,
    json: AsJson = False,
) -> None:
    """Move a part of a budget into a ledger of its own.

    A team can then spend that much and no more; for the whole it is spent already, and is not given back.
    """
    asked = {"rho": rho, "mu": mu, "epsilon": epsilon, "delta": delta}
    how = {"purpose": purpose, "discovery_delta": discovery_delta, "witness": witness}
    ledger = cli.accounts.allotted(file, new, asked, **how)
    cli.accounts.print_made(ledger, f", of the budget of {file}", as_json=json)


@ledgers.command()
def show(
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
    if accept is not None or why is not None:
        cli.accounts.accept_data(file, accept, why)
    cli.accounts.print_ledger(file, as_json=json)
