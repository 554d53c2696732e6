"""`residua ui`: the planner page, in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
