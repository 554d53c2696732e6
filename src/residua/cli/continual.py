"""`residua continual`: a time axis that is released as it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua.cli.options import AsJson


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

    One period after the other is appended.

    Prints how many records there were up to each period, with error bars. The folder is confidential: it holds the
    noise.
    """
    from residua.cli.show import out, print_json, print_table
    from residua.errors import SpecError
    from residua.measurement import Continual, Ledger
    from residua.measurement.continual import require_period
    from residua.plans import Plan

    if period is not None and append is None:
        raise SpecError("--period says which period --append means; give both, or neither.")
    begun = None if plan is None else Plan.load(plan)
    if (
        period is not None and begun is not None and begun.correlated is not None and not folder.exists()
    ):  # before the plan is paid for
        require_period(period, begun.domain[begun.domain.names[begun.measured_attributes[0]]].labels[0])
    fresh = begun is not None and not ledger.exists()
    account = Ledger(ledger, begun.guarantee, unit=begun.unit) if fresh and begun else Ledger(ledger)
    stream = Continual(folder, ledger=account, plan=begun)
    if append is not None:
        stream.append(append, period=period)
    if json:
        print_json({"periods": stream.periods, "horizon": stream.horizon, "cumulative": stream.cumulative().columns})
        return
    if stream.periods:
        print_table(stream.cumulative())
    then = f"next: {stream.next_period}" if stream.periods < stream.horizon else "all periods are released"
    out.print(f"{stream.periods} of {stream.horizon} periods, {stream.plan.guarantee!r} paid for all of them; {then}")
