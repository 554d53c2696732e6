"""The commands that quote numbers, such as `residua mean`: one function per command, options and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Place = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A release folder or a projection's; or SPEC.toml or a saved plan, and --records."
    ),
]
Attribute = Annotated[str, typer.Argument(help="A numeric attribute.")]
By = Annotated[list[str] | None, typer.Option(help="Groups: an attribute, or county=LEVEL. Repeatable.")]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only records with this value: sex=Female, age=18..64. Repeated: any of these values."),
]
Values = Annotated[
    list[str] | None, typer.Option(help="A number for a label, high=150000, such as of an endless bin. Repeatable.")
]
Total = Annotated[float | None, typer.Option(help="The public number of records.")]
Of = Annotated[
    str | None, typer.Option(help="What is compared: age (its mean) or income=high (the share); counts if left out.")
]
Confidence = Annotated[float | None, typer.Option(help="How often an interval holds the truth. [default: 0.95]")]
Together = Annotated[bool, typer.Option("--simultaneous", help="Intervals that all hold together.")]
Records = Annotated[
    float | None, typer.Option(help="Before any data: how accurate it would be with so many records, spread evenly.")
]
Quality = Annotated[bool, typer.Option("--quality", help="Flag numbers by coefficient of variation.")]
Suppress = Annotated[
    str | None, typer.Option(help="Leave numbers blank from this flag on: 'use with caution' or 'unreliable'.")
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every row.")]


def share(
    place: Place,
    of: Annotated[list[str], typer.Argument(help="Attributes, for a share per value; or a condition, income=high.")],
    by: Annotated[list[str] | None, typer.Option(help="Shares of each group's records. Repeatable.")] = None,
    where: Where = None,
    total: Total = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    quality: Quality = False,
    suppress: Suppress = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
    within: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
) -> None:
    """Show shares, of all or within groups."""
    from residua.cli.quoting import Asking, Shown
    from residua.cli.show import err

    asking = Asking(place, records, confidence, simultaneous)
    shown = Shown(quality, suppress, csv, json, everything)
    if within:
        err.print("(--within is now --by; the old name ends with version 0.2.)")
    found = asking.share(of, asking.by([*(by or []), *(within or [])]), asking.where(where), total)
    shown.print(found)


def ratio(
    place: Place,
    numerator: Annotated[list[str], typer.Option(help="A condition, sex=Female. Repeatable.")],
    denominator: Annotated[list[str], typer.Option(help="Another condition. Repeatable.")],
    by: By = None,
    where: Where = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    quality: Quality = False,
    suppress: Suppress = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show a ratio of two counts.

    How many records meet one condition for each that meets another, with intervals.
    """
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    conditions = (asking.condition(numerator, "--numerator"), asking.condition(denominator, "--denominator"))
    found = asking.source.ratio(*conditions, by=asking.by(by), where=asking.where(where), **asking.sure)
    Shown(quality, suppress, csv, json, everything).print(found)


def mean(
    place: Place,
    attribute: Attribute,
    by: By = None,
    where: Where = None,
    values: Values = None,
    total: Total = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    quality: Quality = False,
    suppress: Suppress = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show the mean of a numeric attribute, with intervals."""
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    found = asking.source.mean(
        attribute, total=total, values=asking.values(attribute, values), **asking.groups(by, where)
    )
    Shown(quality, suppress, csv, json, everything).print(found)


def total(
    place: Place,
    attribute: Attribute,
    by: By = None,
    where: Where = None,
    values: Values = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    quality: Quality = False,
    suppress: Suppress = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show the sum of a numeric attribute, with intervals."""
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    found = asking.source.sum(attribute, values=asking.values(attribute, values), **asking.groups(by, where))
    Shown(quality, suppress, csv, json, everything).print(found)


def quantile(
    place: Place,
    attribute: Attribute,
    q: Annotated[list[float], typer.Argument(help="Shares between 0 and 1; 0.5 is the median.")],
    by: By = None,
    where: Where = None,
    values: Values = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    quality: Quality = False,
    suppress: Suppress = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show quantiles of an attribute, with intervals."""
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    asked = q[0] if len(q) == 1 else q
    found = asking.source.quantile(
        attribute, asked, values=asking.values(attribute, values), **asking.groups(by, where)
    )
    Shown(quality, suppress, csv, json, everything).print(found)


def median(
    place: Place,
    attribute: Attribute,
    by: By = None,
    where: Where = None,
    values: Values = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show the median of an attribute, with intervals."""
    quantile(
        place,
        attribute,
        [0.5],
        by,
        where,
        values,
        confidence,
        simultaneous,
        records,
        False,
        None,
        csv,
        json,
        everything,
    )


def gini(
    place: Place,
    attribute: Attribute,
    by: By = None,
    where: Where = None,
    values: Values = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show the Gini coefficient of a numeric attribute."""
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    found = asking.source.gini(attribute, values=asking.values(attribute, values), **asking.groups(by, where))
    Shown(csv=csv, json=json, everything=everything).print(found)


def difference(
    place: Place,
    between: Annotated[str, typer.Argument(help="The attribute whose values are compared.")],
    labels: Annotated[
        list[str] | None, typer.Argument(help="Coefficients by label, Female=1 Male=-1; two labels need none.")
    ] = None,
    of: Of = None,
    by: By = None,
    where: Where = None,
    values: Values = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show differences between groups.

    Of counts, means or shares, with intervals.
    """
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    rate = asking.rate(of, values)
    found = asking.source.difference(between, asking.compared(between, labels), **rate, **asking.groups(by, where))
    Shown(csv=csv, json=json, everything=everything).print(found)


def relative_difference(
    place: Place,
    between: Annotated[str, typer.Argument(help="The attribute whose values are compared.")],
    first: Annotated[str, typer.Argument(help="A label.")],
    second: Annotated[str, typer.Argument(help="The label that it is compared with.")],
    of: Of = None,
    by: By = None,
    where: Where = None,
    values: Values = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show by which share one group exceeds another.

    In counts, means or shares, with intervals.
    """
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    one, other = asking.label(between, first), asking.label(between, second)
    found = asking.source.relative_difference(
        between, one, other, **asking.rate(of, values), **asking.groups(by, where)
    )
    Shown(csv=csv, json=json, everything=everything).print(found)


def standardised(
    place: Place,
    of: Annotated[str, typer.Option(help="age (its mean) or income=high (the share).")],
    over: Annotated[str, typer.Option(help="The attribute that groups are made alike in.")],
    weights: Annotated[Path, typer.Option(help="CSV with the attribute's labels and a column 'weight': public.")],
    by: By = None,
    where: Where = None,
    values: Values = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    csv: AsCsv = False,
    json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Show rates standardised by public weights.

    Shares or means, with intervals.
    """
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    rate = asking.rate(of, values)
    found = asking.source.standardised(
        rate.pop("of"), over, asking.weights(over, weights), **rate, **asking.groups(by, where)
    )
    Shown(csv=csv, json=json, everything=everything).print(found)


def top(
    place: Place,
    attributes: Annotated[list[str], typer.Argument(help="Whose counts are listed.")],
    k: Annotated[int, typer.Option("--k", help="How many.")] = 10,
    where: Where = None,
    confidence: Confidence = None,
    simultaneous: Together = False,
    records: Records = None,
    quality: Quality = False,
    csv: AsCsv = False,
    json: AsJson = False,
) -> None:
    """Show the largest counts, and how sure their order is."""
    from residua.cli.quoting import Asking, Shown

    asking = Asking(place, records, confidence, simultaneous)
    found = asking.source.top(asking.by(attributes), k, where=asking.where(where), **asking.sure)
    Shown(quality, None, csv, json, everything=True).print(found)


def add_commands(app: typer.Typer) -> None:
    """Makes all of them commands."""
    for command in (share, ratio, mean, quantile, median, gini, difference, standardised, top):
        app.command()(command)
    app.command("sum")(total)
    app.command("relative-difference")(relative_difference)
