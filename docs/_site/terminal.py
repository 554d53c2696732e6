"""The picture of a terminal: what `residua plan` prints, drawn when the site is built, with no font from elsewhere."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

import residua as rs

FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # Rich names a host to load them from


def drawn() -> str:
    """The picture, of the plan of docs/learn/ten-minutes.md."""
    domain = rs.Domain(
        {
            "year": rs.Bins([1950, 1980, 1990, 2000, 2005, 2010, 2014], unknown="other"),
            "type": ["Fixed wing multi engine", "Fixed wing single engine", "Rotorcraft"],
            "engines": rs.Integers(1, 4),
            "seats": rs.Bins([1, 20, 60, 110, 150, 200, 300, 500]),
            "engine": ["Turbo-fan", "Turbo-jet", "Turbo-prop", "Turbo-shaft", "Reciprocating", "4 Cycle"],
        }
    )
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.1))
    console = Console(record=True, width=128, file=io.StringIO(), highlight=False, markup=False)
    console.print("$ residua plan spec.toml")
    console.print(str(plan))
    return FONTS.sub("", console.export_svg(title="residua", unique_id="terminal"))


def write(app: Any, config: Any) -> None:
    """Draws it again where it has changed."""
    picture, text = Path(app.srcdir) / "pictures" / "terminal.svg", drawn()
    if not picture.exists() or picture.read_text(encoding="utf-8") != text:
        picture.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Runs before the pages are read."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
