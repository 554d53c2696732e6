"""The commands that quote numbers, such as `residua mean`: what each asks, and the options that all of them have."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residua import cli
from residua.cli.options import Confidence, Known, OutputForm, ReleasePath, called_with, command, declared
from residua.language import speaking

if TYPE_CHECKING:
    from residua.cli.quoting import Asking
    from residua.quoting import Quoted

Total = Annotated[float | None, typer.Option(help="The public number of records.")]
Of = Annotated[
    str | None, typer.Option(help="What is compared: age (its mean) or income=high (the share); counts if left out.")
]


@dataclass(frozen=True, kw_only=True)
class QuotingOptions:
    """What the commands that quote are asked, in the words of the command line.

    Args:
        place (DIR): A release folder or a projection's; or SPEC.toml or a saved plan, and --people.
        by: Groups: an attribute, or county=LEVEL. Repeatable.
        where: Only records with this value: sex=Female, age=18..64. Repeated: any of these values.
        values: A number for a label, high=150000, such as of an endless bin. Repeatable.
        simultaneous: Intervals that all hold together.
        people: Before any data: how accurate it would be with a table of so many, spread evenly.
    """

    place: Path = field(kw_only=False)
    by: list[str] | None = None
    where: list[str] | None = None
    values: list[str] | None = None
    confidence: Confidence = None
    simultaneous: bool = False
    known: Known = None
    people: float | None = None


app = typer.Typer()
_FLAGS = ("quality", "suppress")
Ask = Callable[..., "Quoted"]


def _command(name: str, *without: str, **otherwise: Any) -> Callable[[Ask], Ask]:
    """Makes a command of a function that asks: with its own arguments, and the shared options.

    Args:
        name: what the command is called.
        without: shared options that it does not have.
        otherwise: shared options that it declares in its own words.
    """

    def added(ask: Ask) -> Ask:
        _, *own = declared(ask)
        place, *asked = declared(QuotingOptions)
        shared = [one for one in (*asked, *declared(OutputForm)) if one.name not in without]
        place, *shared = (one.replace(annotation=otherwise.get(one.name, one.annotation)) for one in (place, *shared))

        def run(**given: Any) -> None:
            options = {one.name: given.pop(one.name) for one in (place, *asked) if one.name in given}
            asking = cli.quoting.Asking(**options)
            asked_for = {one.name: given.pop(one.name) for one in own}
            if "people" in without:  # only a release can answer
                cli.quoting.require_folder(asking.place)
            for each in asked_for.keys() & {"attribute", "between", "over"}:
                cli.quoting.require_attribute(asking.domain, asked_for[each])
            form = OutputForm(**{"everything": True} | given)
            with speaking(form.language or ("en" if form.json else None), asking.domain):
                quoted = ask(asking, **asked_for)
                cli.show.print_published(quoted, form, {"quoted": quoted.what})

        app.command(name)(called_with(update_wrapper(run, ask), [place, *own, *shared]))
        return ask

    return added


@command(app)
def weighted(
    folder: ReleasePath,
    attributes: list[str] | None = None,
    *,
    strata: str | None = None,
    drawn: list[str] | None = None,
    clusters: str | None = None,
    design_effect: float = 1.0,
    confidence: Confidence = None,
    form: OutputForm,
) -> None:
    """Show totals of the population, by survey weights.

    With intervals for noise and sampling error together, and which share of the variance privacy adds.

    Args:
        attributes: The table's attributes; none for the total.
        strata: The attribute that respondents were drawn by.
        drawn: How many respondents were drawn in a stratum: north=400. Repeatable.
        clusters: The attribute whose values were drawn as a whole.
        design_effect: What clusters multiply the variance by, if known.
    """
    survey = {"clusters": clusters, "design_effect": design_effect}
    cli.tables.print_weighted(folder, attributes or [], form, strata, drawn or [], confidence, **survey)


@_command(
    "share", "values", by=Annotated[list[str] | None, typer.Option(help="Shares of each group's records. Repeatable.")]
)
def share(asking: "Asking", of: list[str], *, total: Total = None) -> "Quoted":
    """Show shares, of all or within groups.

    Args:
        of: Attributes, for a share per value; or a condition, income=high.
    """
    return asking.source.share(asking.parts(of), total=total, **asking.groups)


@_command("ratio", "values")
def ratio(asking: "Asking", *, numerator: list[str], denominator: list[str]) -> "Quoted":
    """Show a ratio of two counts, or of two sums.

    How many records meet one condition for each that meets another, or turnover per hour, with intervals.

    Args:
        numerator: A condition, sex=Female (repeatable), or an amount, turnover.
        denominator: Another condition, or another amount.
    """
    sides = (asking.side(numerator, "--numerator"), asking.side(denominator, "--denominator"))
    return asking.source.ratio(*sides, **asking.groups)


@_command("change", "values", "people", place=Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")])
def change(asking: "Asking", before: Path) -> "Quoted":
    """Show how counts changed since an earlier release.

    In numbers and relative, with intervals: the noise of two releases is independent.

    Args:
        before (BEFORE): The folder of the earlier release.
    """
    return asking.changed(before)


@command(app, writes=True)
def combine(folders: list[Path], *, out: Path, by: str = "population", disjoint: bool = False) -> None:
    """Combine releases of disjoint populations.

    Into one of all people together, and of each population, by its folder's name. Touches no data and costs nothing.

    Args:
        folders (DIR): Release folders, each of a ledger of its own.
        out: The release folder to write; it must not exist.
        by: What the new attribute is called whose values are the folders' names.
        disjoint: Declare that nobody is in two of the populations.
    """
    cli.deriving.write_combined(folders, out, by, disjoint=disjoint)


@_command("mean")
def mean(asking: "Asking", attribute: str, *, total: Total = None) -> "Quoted":
    """Show the mean of a numeric attribute, with intervals.

    Args:
        attribute: A numeric attribute.
    """
    return asking.source.mean(attribute, total=total, values=asking.numbers(attribute), **asking.groups)


@_command("sum")
def sum_(asking: "Asking", attribute: str) -> "Quoted":
    """Show the sum of a numeric attribute, with intervals.

    Args:
        attribute: A numeric attribute.
    """
    return asking.source.sum(attribute, values=asking.numbers(attribute), **asking.groups)


@_command("quantile")
def quantile(asking: "Asking", attribute: str, q: list[float]) -> "Quoted":
    """Show quantiles of an attribute, with intervals.

    Args:
        attribute: A numeric attribute.
        q: Shares between 0 and 1; 0.5 is the median.
    """
    shares = q[0] if len(q) == 1 else q
    return asking.source.quantile(attribute, shares, values=asking.numbers(attribute), **asking.groups)


@_command("median", *_FLAGS)
def median(asking: "Asking", attribute: str) -> "Quoted":
    """Show the median of an attribute, with intervals.

    Args:
        attribute: A numeric attribute.
    """
    return quantile(asking, attribute, [0.5])


@_command("gini", *_FLAGS)
def gini(asking: "Asking", attribute: str) -> "Quoted":
    """Show the Gini coefficient of a numeric attribute.

    Args:
        attribute: A numeric attribute.
    """
    return asking.source.gini(attribute, values=asking.numbers(attribute), **asking.groups)


@_command("difference", *_FLAGS)
def difference(asking: "Asking", between: str, labels: list[str] | None = None, *, of: Of = None) -> "Quoted":
    """Show differences between groups.

    Of counts, means or shares, with intervals.

    Args:
        between: The attribute whose values are compared.
        labels: Coefficients by label, Female=1 Male=-1; two labels need none.
    """
    return asking.source.difference(between, asking.compared(between, labels), **asking.rate(of), **asking.groups)


@_command("relative-difference", *_FLAGS)
def relative_difference(asking: "Asking", between: str, first: str, second: str, *, of: Of = None) -> "Quoted":
    """Show by which share one group exceeds another.

    In counts, means or shares, with intervals.

    Args:
        between: The attribute whose values are compared.
        first: A label.
        second: The label that it is compared with.
    """
    one, other = asking.label(between, first), asking.label(between, second)
    return asking.source.relative_difference(between, one, other, **asking.rate(of), **asking.groups)


@_command("standardised", *_FLAGS)
def standardised(asking: "Asking", *, of: str, over: str, weights: Path) -> "Quoted":
    """Show rates standardised by public weights.

    Shares or means, with intervals.

    Args:
        of: age (its mean) or income=high (the share).
        over: The attribute that groups are made alike in.
        weights: CSV with the attribute's labels and a column 'weight': public.
    """
    public = asking.public_weights(over, weights)
    return asking.source.standardised(over=over, weights=public, **asking.rate(of), **asking.groups)


@_command("top", "by", "values", "suppress", "everything")
def top(asking: "Asking", attributes: list[str], *, k: int = 10) -> "Quoted":
    """Show the largest counts, and how sure their order is.

    Args:
        attributes: Whose counts are listed.
        k: How many.
    """
    return asking.source.top(asking.attributes(attributes), k, **asking.only, **asking.sure)
