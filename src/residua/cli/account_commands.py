"""The commands of whoever runs it: what was spent, what can be trusted, what works here, and the planner page."""

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from residua import cli
from residua.cli.options import AsJson, Host, Port, RootPath, ShowValues, SpecPath, command

app = typer.Typer()


@command(app)
def audit(subject: Path, *, json: AsJson = False) -> None:
    """Price what a plan or release measures.

    For every unit, beside the guarantee it states; exits with 1 if that does not cover the price. Reads no data.

    Args:
        subject (PLAN|DIR): A saved plan, or a release folder.
    """
    if not cli.auditing.print_audit(subject, as_json=json):
        raise typer.Exit(1)


@command(app)
def verify(folder: Path, *, ledger: Path | None = None, key: Path | None = None, json: AsJson = False) -> None:
    """Verify that a release is what it says.

    Whole, priced as stated, and, where asked, paid for by a ledger and signed; exits with 1 if not. Reads no data.

    Args:
        folder (DIR): A release folder.
        ledger: The ledger that must have paid for it.
        key: The public key (PEM) that must have signed it.
    """
    if not cli.auditing.print_verified(folder, ledger, key, as_json=json):
        raise typer.Exit(1)


@command(app, writes=True)
def sign(folder: Path, *, key: Path) -> None:
    """Sign a release, so that a forged one is noticed.

    Args:
        folder (DIR): A release folder.
        key: Your private key: Ed25519, as PEM.
    """
    from residua.release.signing import sign as sign_release

    sign_release(folder, key)
    cli.show.print_written(
        folder, verb="Signed", rest=f"; readers verify it with: residua verify {folder} --key PUBLIC.pem"
    )


@command(app)
def doctor(*, json: AsJson = False) -> None:
    """Say what is installed and what works here.

    Exits with 1 if something that is needed does not. Reads no data and sends nothing.
    """
    if not cli.doctor.print_parts(as_json=json):
        raise typer.Exit(1)


@command(app)
def ui(
    spec: Path | None = None,
    *,
    browser: bool = True,
    host: Host = "127.0.0.1",
    port: Port = 0,
    root_path: RootPath = "",
    json: AsJson = False,
) -> None:
    """Plan on a page in the browser. Reads no data.

    Begin with the header of a file, answer questions, and see the tables you will publish with their error bars. With
    the folder of a release: its tables, charts and quoted numbers. On this machine only, unless told so.

    Args:
        spec (SPEC.toml): Opened, and saved to; or the folder of a release, to look at.
        browser: Open the page in the browser.
    """
    from residua.ui.serve import serve

    say = cli.show.print_json if json else cli.show.out.print
    serve(spec, browser=browser, say=say, host=host, port=port, root=root_path)


@command(app)
def persons(
    spec: SpecPath,
    *,
    rho: float | None = None,
    epsilon: float | None = None,
    most: int = 1024,
    share: float = 0.9,
    json: AsJson = False,
    show_values: ShowValues = False,
) -> None:
    """Show how many records people have, to bound them.

    With --rho or --epsilon: with noise, paid for. Without: exactly, on a terminal, for the curator's eyes only.

    Args:
        rho: Spend this on counts with noise, which may be published.
        epsilon: The same with Laplace noise.
        most: Persons with so many records or more are counted together.
        share: The share of records that a recommended bound should count.
    """
    read = cli.spec.read_spec(spec)
    if rho is None and epsilon is None:
        cli.persons.print_true(read, show_values=show_values)
    else:
        cli.persons.print_looked(read, rho, epsilon, most, share, as_json=json, show_values=show_values)


@command(app)
def discover(
    spec: Path,
    column: str,
    *,
    rho: float | None = None,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    kind: str = "values",
    values_per_person: int | None = None,
    show_values: ShowValues = False,
    json: AsJson = False,
) -> None:
    """Find out privately which values a column holds.

    Or which range its numbers have. Writes them into the specification; the ledger pays, and adds up delta.

    Args:
        spec (SPEC.toml): A specification, or a draft of one.
        column (COLUMN): The column to find out about.
        rho: What to spend, in rho.
        mu: The same as mu.
        epsilon: The same as epsilon, in a ledger of pure DP.
        delta: The probability that nothing is promised, such as 1e-9.
        kind: values, 'whole numbers' or numbers: which values, or which range.
        values_per_person: How many different values of a person count.
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


@command(ledgers)
def create(spec: SpecPath, *, population: str | None = None, json: AsJson = False) -> None:
    """Make the ledger that a specification names, with its budget.

    The budget is that of [ledger], or of [privacy] where [ledger] states none. One that is there stays as it is.

    Args:
        population: Who the people are, in words that may be public.
    """
    read = cli.discovering.read_for_ledger(spec)
    ledger = cli.steps.create_ledger(read, population)
    once = "" if read.ledger_budget else "; [ledger] states no budget: it is that of [privacy], enough for one release"
    cli.accounts.print_made(ledger, f"{once}; nothing is spent", as_json=json)


@command(ledgers)
def allot(
    file: Path,
    new: Path,
    *,
    rho: float | None = None,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    purpose: str | None = None,
    discovery_delta: float | None = None,
    witness: Path | None = None,
    json: AsJson = False,
) -> None:
    """Move a part of a budget into a ledger of its own.

    A team can then spend that much and no more; for the whole it is spent already, and is not given back.

    Args:
        file (FILE): The ledger that has the whole budget.
        new (NEW): The ledger to make, for a team.
        rho: How much, in the currency of the whole.
        mu: The same as mu.
        epsilon: The same as epsilon, with --delta if that has one.
        delta: With --epsilon.
        purpose: Whom it is for, in words that may be public.
        discovery_delta: How much of the whole's, to discover values.
        witness: Its witness; beside the whole's, if that has one.
    """
    asked = {"rho": rho, "mu": mu, "epsilon": epsilon, "delta": delta}
    how = {"purpose": purpose, "discovery_delta": discovery_delta, "witness": witness}
    ledger = cli.accounts.allotted(file, new, asked, **how)
    cli.accounts.print_made(ledger, f", of the budget of {file}", as_json=json)


@command(ledgers)
def show(file: Path, *, json: AsJson = False, accept: Path | None = None, why: str | None = None) -> None:
    """Show what was spent of a budget, and what is left.

    With --accept: corrected data of the same people is put on record.

    Args:
        file (FILE): A ledger file.
        accept (SPEC.toml): Declare that the data of this specification holds the same people.
        why: Why it is another dataset, such as: corrected codes.
    """
    if accept is not None or why is not None:
        cli.accounts.accept_data(file, accept, why)
    cli.accounts.print_ledger(file, as_json=json)
