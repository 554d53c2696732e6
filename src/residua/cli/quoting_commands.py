"""The commands that quote numbers, such as `residua mean`: what each asks, and the options that all of them have."""
# Annotations are not postponed here: those of the commands are made from the ones below.

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residua import cli
from residua.cli.options import Confidence, Known, OutputForm, ReleasePath, declared, grouped, options_of
from residua.language import speaking

if TYPE_CHECKING:
    from residua.cli.quoting import Asking
    from residua.quoting import Quoted

Attribute = Annotated[str, typer.Argument(help="A numeric attribute.")]
Between = Annotated[str, typer.Argument(help="The attribute whose values are compared.")]
Total = Annotated[float | None, typer.Option(help="The public number of records.")]
Of = Annotated[
    str | None, typer.Option(help="What is compared: age (its mean) or income=high (the share); counts if left out.")
]


@dataclass(frozen=True)
class QuotingOptions:
    """What the commands that quote are asked, in the words of the command line."""

    place: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A release folder or a projection's; or SPEC.toml or a saved plan, and --people."
        ),
    ]
    by: Annotated[list[str] | None, typer.Option(help="Groups: an attribute, or county=LEVEL. Repeatable.")] = None
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only records with this value: sex=Female, age=18..64. Repeated: any of these values."),
    ] = None
    values: Annotated[
        list[str] | None, typer.Option(help="A number for a label, high=150000, such as of an endless bin. Repeatable.")
    ] = None
    confidence: Confidence = None
    simultaneous: Annotated[bool, typer.Option("--simultaneous", help="Intervals that all hold together.")] = False
    known: Known = None
    people: Annotated[
        float | None,
        typer.Option(help="Before any data: how accurate it would be with a table of so many, spread evenly."),
    ] = None


_FLAGS = ("quality", "suppress")
_COMMANDS: dict[str, Callable[..., None]] = {}
Ask = Callable[..., "Quoted"]


def _command(name: str, *without: str, **otherwise: Any) -> Callable[[Ask], Ask]:
    """Makes a command of a function that asks: with its own arguments, and the shared options.

    Args:
        name: what the command is called.
        without: shared options that it does not have.
        otherwise: shared options that it declares in its own words.
    """

    def declare(ask: Ask) -> Ask:
        place, *asked = options_of(QuotingOptions)
        own = list(inspect.signature(ask).parameters.values())[1:]
        shared = [one for one in (*asked, *options_of(OutputForm)) if one.name not in without]
        shared = [one.replace(annotation=otherwise.get(one.name, one.annotation)) for one in shared]

        def command(**given: Any) -> None:
            options = {one.name: given.pop(one.name) for one in (place, *asked) if one.name in given}
            asking = cli.quoting.Asking(**options)
            asked_for = {one.name: given.pop(one.name) for one in own}
            form = OutputForm(**{"everything": True} | given)
            language = form.language or ("en" if form.json else None)
            with speaking(language, asking.domain):
                quoted = ask(asking, **asked_for)
                cli.show.print_published(quoted, form, {"quoted": quoted.what})

        declared(command, [place, *own, *shared])
        command.__doc__ = ask.__doc__
        _COMMANDS[name] = command
        return ask

    return declare


def add_commands(app: typer.Typer) -> None:
    """Makes all of them commands."""
    app.command()(grouped(weighted))
    for name, command in _COMMANDS.items():
        app.command(name)(command)


def weighted(
    folder: ReleasePath,
    attributes: Annotated[list[str] | None, typer.Argument(help="The table's attributes; none for the total.")] = None,
    strata: Annotated[str | None, typer.Option(help="The attribute that respondents were drawn by.")] = None,
    drawn: Annotated[
        list[str] | None, typer.Option(help="How many respondents were drawn in a stratum: north=400. Repeatable.")
    ] = None,
    clusters: Annotated[str | None, typer.Option(help="The attribute whose values were drawn as a whole.")] = None,
    design_effect: Annotated[float, typer.Option(help="What clusters multiply the variance by, if known.")] = 1.0,
    confidence: Confidence = None,
    *,
    form: OutputForm,
) -> None:
    """Show totals of the population, by survey weights.

    With intervals for noise and sampling error together, and which share of the variance privacy adds.
    """
    survey = {"clusters": clusters, "design_effect": design_effect}
    cli.tables.print_weighted(folder, attributes or [], form, strata, drawn or [], confidence, **survey)


@_command(
    "share", "values", by=Annotated[list[str] | None, typer.Option(help="Shares of each group's records. Repeatable.")]
)
def share(
    asking: "Asking",
    of: Annotated[list[str], typer.Argument(help="Attributes, for a share per value; or a condition, income=high.")],
    total: Total = None,
) -> "Quoted":
    """Show shares, of all or within groups."""
    return asking.source.share(asking.parts(of), total=total, **asking.groups)


@_command("ratio", "values")
def ratio(
    asking: "Asking",
    numerator: Annotated[list[str], typer.Option(help="A condition, sex=Female (repeatable), or an amount, turnover.")],
    denominator: Annotated[list[str], typer.Option(help="Another condition, or another amount.")],
) -> "Quoted":
    """Show a ratio of two counts, or of two sums.

    How many records meet one condition for each that meets another, or turnover per hour, with intervals.
    """
    sides = (asking.side(numerator, "--numerator"), asking.side(denominator, "--denominator"))
    return asking.source.ratio(*sides, **asking.groups)


@_command("change", "values", "people")
def change(
    asking: "Asking",
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="The folder of the earlier release.")],
) -> "Quoted":
    """Show how counts changed since an earlier release.

    In numbers and relative, with intervals: the noise of two releases is independent.
    """
    return asking.changed(before)


@_command("mean")
def mean(asking: "Asking", attribute: Attribute, total: Total = None) -> "Quoted":
    """Show the mean of a numeric attribute, with intervals."""
    return asking.source.mean(attribute, total=total, values=asking.numbers(attribute), **asking.groups)


@_command("sum")
def sum_(asking: "Asking", attribute: Attribute) -> "Quoted":
    """Show the sum of a numeric attribute, with intervals."""
    return asking.source.sum(attribute, values=asking.numbers(attribute), **asking.groups)


@_command("quantile")
def quantile(
    asking: "Asking",
    attribute: Attribute,
    q: Annotated[list[float], typer.Argument(help="Shares between 0 and 1; 0.5 is the median.")],
) -> "Quoted":
    """Show quantiles of an attribute, with intervals."""
    shares = q[0] if len(q) == 1 else q
    return asking.source.quantile(attribute, shares, values=asking.numbers(attribute), **asking.groups)


@_command("median", *_FLAGS)
def median(asking: "Asking", attribute: Attribute) -> "Quoted":
    """Show the median of an attribute, with intervals."""
    return quantile(asking, attribute, [0.5])


@_command("gini", *_FLAGS)
def gini(asking: "Asking", attribute: Attribute) -> "Quoted":
    """Show the Gini coefficient of a numeric attribute."""
    return asking.source.gini(attribute, values=asking.numbers(attribute), **asking.groups)


@_command("difference", *_FLAGS)
def difference(
    asking: "Asking",
    between: Between,
    labels: Annotated[
        list[str] | None, typer.Argument(help="Coefficients by label, Female=1 Male=-1; two labels need none.")
    ] = None,
    of: Of = None,
) -> "Quoted":
    """Show differences between groups.

    Of counts, means or shares, with intervals.
    """
    return asking.source.difference(between, asking.compared(between, labels), **asking.rate(of), **asking.groups)


@_command("relative-difference", *_FLAGS)
def relative_difference(
    asking: "Asking",
    between: Between,
    first: Annotated[str, typer.Argument(help="A label.")],
    second: Annotated[str, typer.Argument(help="The label that it is compared with.")],
    of: Of = None,
) -> "Quoted":
    """Show by which share one group exceeds another.

    In counts, means or shares, with intervals.
    """
    one, other = asking.label(between, first), asking.label(between, second)
    return asking.source.relative_difference(between, one, other, **asking.rate(of), **asking.groups)


@_command("standardised", *_FLAGS)
def standardised(
    asking: "Asking",
    of: Annotated[str, typer.Option(help="age (its mean) or income=high (the share).")],
    over: Annotated[str, typer.Option(help="The attribute that groups are made alike in.")],
    weights: Annotated[Path, typer.Option(help="CSV with the attribute's labels and a column 'weight': public.")],
) -> "Quoted":
    """Show rates standardised by public weights.

    Shares or means, with intervals.
    """
    public = asking.public_weights(over, weights)
    return asking.source.standardised(over=over, weights=public, **asking.rate(of), **asking.groups)


@_command("top", "by", "values", "suppress", "everything")
def top(
    asking: "Asking",
    attributes: Annotated[list[str], typer.Argument(help="Whose counts are listed.")],
    k: Annotated[int, typer.Option("--k", help="How many.")] = 10,
) -> "Quoted":
    """Show the largest counts, and how sure their order is."""
    return asking.source.top(asking.attributes(attributes), k, **asking.only, **asking.sure)
