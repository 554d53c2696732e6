"""The commands `residua session …`: one function per command."""

from pathlib import Path
from typing import Annotated

import typer

from residua import cli
from residua.cli.options import AsJson, ReportMap, ReportPath, ReportTheme, ReportTitle, ShowValues, command

app = typer.Typer(
    help="Look before you choose, and top up what was released.", no_args_is_help=True, rich_markup_mode=None
)

PlansPath = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="A specification with named plans.")]
Out = Annotated[Path, typer.Option(help="The release folder to write; it must not exist.")]
Share = Annotated[float | None, typer.Option(help="Recommend: which share of the queries must be good enough.")]
Snr = Annotated[float | None, typer.Option(help="Recommend: the least signal-to-noise ratio that is good enough.")]
Number = Annotated[int | None, typer.Option("--choice", help="Which choice, by its number; the latest if left out.")]
Verdicts = Annotated[
    Path | None, typer.Option(help="With groups: the CSV file to write, with what is recommended for each.")
]
Groups = Annotated[
    Path | None, typer.Option(help="With groups: a CSV file with each group's candidate, as --verdicts writes it.")
]
By = Annotated[str, typer.Option(help="Recommend by the 'estimate', or its 'lower' or 'upper' bound.")]


@command(app, "open")
def open_(spec: PlansPath, *, json: AsJson = False) -> None:
    """Make the session and its ledger, or check that they are there. Spends nothing."""
    with cli.sessions.opened(cli.sessions.read_session_spec(spec), create=True) as session:
        pass
    cli.sessions.print_status(session, as_json=json)


@command(app)
def look(
    spec: PlansPath,
    names: list[str] | None = None,
    *,
    share: Share = None,
    snr: Snr = None,
    by: By = "estimate",
    json: AsJson = False,
    price: bool = False,
    verdicts: Verdicts = None,
    show_values: ShowValues = False,
) -> None:
    """Measure what the candidates have in common, and show what each would make of it.

    Args:
        names: The candidates, in order; all plans if left out.
        price: Only say what the look would cost. Spends nothing.
    """
    rule = cli.looking.asked_rule(share, snr, by)
    read = cli.sessions.read_session_spec(spec)
    cli.looking.require_groups(read, rule, verdicts)
    cli.steps.checked_source(read.any)
    plans = cli.sessions.plans_of(read, names or [], least=2)
    with cli.sessions.opened(read, show_values=show_values) as session:
        choice = None if price else cli.looking.take_look(session, plans, read.digests)
    if choice is None:
        cli.looking.print_look_price(session, plans, as_json=json)
        return
    cli.looking.print_choice(session, choice, rule, as_json=json, verdicts=verdicts)


@command(app)
def step(
    spec: PlansPath,
    *,
    share: Share = None,
    snr: Snr = None,
    by: By = "estimate",
    number: Number = None,
    json: AsJson = False,
    groups: Groups = None,
    verdicts: Verdicts = None,
    show_values: ShowValues = False,
) -> None:
    """Drop the first candidate of the open choice and look further; with groups, in those a file says so of."""
    rule = cli.looking.asked_rule(share, snr, by)
    read = cli.sessions.read_session_spec(spec)
    cli.looking.require_groups(read, rule, verdicts)
    with cli.sessions.opened(read, show_values=show_values) as session:
        choice = cli.looking.open_choice(session, number)
        rest = dict(list(choice.candidates.items())[1:])
        cli.looking.require_unchanged(choice, rest, read.digests)
        cli.looking.require_listable(rest)
        following = cli.looking.stepped(choice, groups)
    cli.looking.print_choice(session, following, rule, as_json=json, verdicts=verdicts)


@command(app, writes=True)
def finish(
    spec: PlansPath,
    name: str | None = None,
    *,
    out: Out,
    number: Number = None,
    groups: Groups = None,
    show_values: ShowValues = False,
) -> None:
    """Pay what is left of a candidate of the open choice (with --groups, of each group's) and write the release.

    Args:
        name: The candidate; left out with --groups.
    """
    read = cli.sessions.read_session_spec(spec, out)
    with cli.sessions.opened(read, show_values=show_values) as session:
        choice = cli.looking.open_choice(session, number)
        cli.looking.require_unchanged(choice, list(choice.candidates) if name is None else [name], read.digests)
        finished = cli.looking.finished_choice(choice, name, groups)
    cli.sessions.write_release(session, finished, out)


@command(app)
def stop(spec: PlansPath, *, number: Number = None, json: AsJson = False) -> None:
    """Close the open choice without finishing a candidate. Spends nothing more."""
    with cli.sessions.opened(cli.sessions.read_session_spec(spec)) as session:
        cli.looking.open_choice(session, number).stop()
    cli.sessions.print_status(session, as_json=json)


@command(app, writes=True)
def release(spec: PlansPath, name: str, *, out: Out, show_values: ShowValues = False) -> None:
    """Measure what is missing of a plan, and write the release. What is answered already costs nothing.

    Args:
        name: The plan.
    """
    read = cli.sessions.read_session_spec(spec, out)
    cli.steps.checked_source(read.any)
    [plan] = cli.sessions.plans_of(read, [name]).values()
    with cli.sessions.opened(read, show_values=show_values) as session:
        released = session.release(plan, purpose=f"release {name}")
    cli.sessions.write_release(session, released, out)


@command(app, writes=True)
def adapt(
    spec: PlansPath,
    name: str,
    *,
    out: Out,
    estimates: Path | None = None,
    look: float = 0.5,
    scores: float = 0.02,
    show_values: ShowValues = False,
) -> None:
    """Look, learn how strong interactions are, spend the rest where it helps estimates most. Goes on after a crash.

    Args:
        name: The plan whose tables and budget are meant.
        estimates: A folder of estimates to write, too.
        look: Which share of the budget the look gets.
        scores: Which share scores of larger tables get; 0: none.
    """
    cli.sessions.run_adaptation(
        cli.sessions.read_session_spec(spec), name, out, estimates, look=look, scores=scores, show_values=show_values
    )


@command(app)
def status(spec: PlansPath, *, json: AsJson = False) -> None:
    """Show what the session has measured and spent, and what is being chosen."""
    with cli.sessions.opened(cli.sessions.read_session_spec(spec)) as session:
        pass
    cli.sessions.print_status(session, as_json=json)


@command(app, writes=True)
def report(
    spec: PlansPath,
    *,
    out: ReportPath = Path("report.html"),
    title: ReportTitle = None,
    map: ReportMap = None,
    theme: ReportTheme = None,
) -> None:
    """Write one self-contained page about all that the session has measured. Spends nothing."""
    with cli.sessions.opened(cli.sessions.read_session_spec(spec)) as session:
        session.report(out, title=title, map=map, theme=theme)
    cli.show.print_written(out, ": one page, to be opened in any browser or printed")
