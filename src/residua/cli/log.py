"""A log for operators: a line of JSON per command, in the file that RESIDUA_LOG names; nothing in it is of the data."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from residua import cli

WRITTEN: list[str] = []  # what the running command wrote, for --json and the log


def opened() -> TextIO | None:
    """The file, before anything is done; nothing where none is named.

    Raises:
        OSError: it cannot be written.
    """
    path = os.environ.get("RESIDUA_LOG")
    return Path(path).open("a", encoding="utf-8") if path else None


def add(log: TextIO | None, code: int, said: str | None) -> None:
    """Adds a line: when, which command, how it ended, what it wrote, and what it refused with.

    Left out: arguments, which may hold passwords; how long it took, which tells how much data there is; and what was
    said where sentences may quote values of the data, on a terminal and under --show-values.
    """
    if log is None:
        return
    quoting = cli.show.err.is_terminal or "--show-values" in sys.argv
    facts = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": next((word for word in sys.argv[1:] if word.isalpha()), None),
        "exit": code,
        "said": None if quoting else said,
        "wrote": [*WRITTEN],
    }
    with log:
        log.write(json.dumps(facts) + "\n")
