"""The command for a time axis that is released as it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Release a time axis as it grows, paid once.

    One period after the other is appended.

    Prints how many records there were up to each period, with error bars. The folder is confidential: it holds the
    noise.
    """
    from residua.cli.continual import run_continual

    run_continual(folder, ledger, plan, append, period, as_json=json)
