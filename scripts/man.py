"""Writes packaging/man/residua.1, the manual page of the command, from what the command says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from residua import __version__
from residua.cli.main import app

PAGE = Path(__file__).parents[1] / "packaging" / "man" / "residua.1"
EXITS = [
    ("0", "It is done."),
    ("1", "A check that was asked for says no."),
    ("2", "The command, the specification or an argument is wrong."),
    ("3", "The data are not as declared."),
    ("4", "The ledger refuses: the budget is spent, or it is another's."),
    ("5", "Files, disk or memory."),
    ("70", "A mistake of residua."),
]


def escaped(text: str) -> str:
    """Text as troff shows it: no line begins a request."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def described(command: Any, path: str) -> list[str]:
    """A command with its options, and the commands below it."""
    lines = []
    for name, below in sorted(getattr(command, "commands", {}).items()):
        whole = f"{path} {name}".strip()
        arguments = [one for one in below.params if one.param_type_name == "argument"]
        usage = " ".join([whole, *(one.metavar or one.name.upper() for one in arguments)])
        lines += [".SS " + escaped(usage), escaped(" ".join((below.help or "").split()))]
        for option in below.params:
            if option.param_type_name == "option" and option.help:
                lines += [".TP", f"\\fB{escaped(', '.join(option.opts))}\\fR", escaped(option.help)]
        lines += described(below, whole)
    return lines


def page() -> str:
    """The page."""
    lines = [
        f'.TH RESIDUA 1 "" "residua {__version__}" "User commands"',
        ".SH NAME",
        "residua \\- publish tables of counts under differential privacy",
        ".SH SYNOPSIS",
        ".B residua",
        "\\fICOMMAND\\fR [\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]",
        ".SH COMMANDS",
        *described(typer.main.get_command(app), ""),
        ".SH EXIT STATUS",
    ]
    for code, meaning in EXITS:
        lines += [".TP", f".B {code}", meaning]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
