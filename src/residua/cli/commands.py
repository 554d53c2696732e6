"""All commands that have a file of their own, made known to the command."""

from __future__ import annotations

import typer

from residua.cli import quoted_commands
from residua.cli.continual_commands import continual
from residua.cli.estimate_commands import add_estimates
from residua.cli.planner_page import ui


def add_commands(app: typer.Typer) -> None:
    """Makes all of them commands."""
    quoted_commands.add_commands(app)
    add_estimates(app)
    app.command()(continual)
    app.command()(ui)
