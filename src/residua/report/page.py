"""A page: what the templates show, and writing it as one HTML file.

Its style is inside, a policy lets nothing be loaded, and every text is escaped. Our own statements, which are Markdown,
are shown as blocks.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from residua.files import check_replaceable, write_atomically
from residua.report.accuracy import Accuracy
from residua.report.budget import Budget
from residua.report.odds import Protection
from residua.report.pictures import Picture
from residua.showing import printable

_BEGINS = b"<!DOCTYPE html>\n<!-- residua report -->"
PLANNED = {"noise": "Exactly sampled", "published": "would be published"}
MEASURED = {"noise": "Exactly sampled", "published": "are published"}
ADVICE = (
    "Estimates below zero are as they should be: noise goes both ways. Keep them when adding up, and read them as "
    "“about zero”.",
    "All tables agree with each other: a table summed over an attribute is the smaller table, exactly.",
    "For sums, shares and differences ask the release itself: errors of cells of one release are correlated.",
    "Publishing more tables of the same release costs no privacy. Measuring again does.",
)


@dataclass(frozen=True)
class Section:
    """A section of the page: the template of this name."""

    name: str
    title: str


@dataclass
class Page:
    """Everything that the templates show."""

    title: str
    lead: str
    protection: Protection
    sections: list[Section] = field(default_factory=list)
    tense: Mapping[str, str] = field(default_factory=lambda: MEASURED)
    odds: list[tuple[str, str, str]] = field(default_factory=list)
    currencies: tuple[tuple[str, str, str], ...] = ()
    what_if: list[tuple[str, str, str]] = field(default_factory=list)
    accuracy: Accuracy | None = None
    accuracy_caption: str = ""
    accuracy_head: tuple[str, ...] = ()
    accuracy_rows: list[tuple[str, ...]] = field(default_factory=list)
    curve: Markup | None = None
    curve_narrow: Markup | None = None
    biased: str = ""
    counted: str = ""
    projection: bool = False
    pictures: list[Picture] = field(default_factory=list)
    pictures_note: str = ""
    budget: Budget | None = None
    budget_ways: list[tuple[str, ...]] = field(default_factory=list)
    budget_picture: Markup | None = None
    budget_narrow: Markup | None = None
    objective: str = ""
    proof: str = ""
    comparison: dict[str, Any] | None = None
    session: dict[str, Any] | None = None
    cite: str = ""
    advice: tuple[str, ...] = ADVICE
    command: str = ""
    reuse: str = "Whoever has the folder can ask it for any number that it tells, with its error bar:"
    statement: list[Block] = field(default_factory=list)
    statement_caption: str = ""

    def add(self, name: str, title: str) -> None:
        """Adds a section."""
        self.sections.append(Section(name, title))


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, a list or a table; its texts are plain, and the template escapes them.

    Args:
        kind: which of them.
        lines: its texts; of a table the head.
        rows: of a table the cells.
    """

    kind: str
    lines: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


def blocks(text: str) -> list[Block]:
    """The blocks of a text.

    Example:
        >>> [(block.kind, block.lines) for block in blocks("# One\\n\\nTwo\\nlines.\\n\\n- a\\n- b\\n")]
        [('heading', ('One',)), ('paragraph', ('Two lines.',)), ('list', ('a', 'b'))]
        >>> blocks("| a | b |\\n|---|---|\\n| x | 1 |")[0].rows
        (('x', '1'),)
    """
    parts = []
    for paragraph in text.strip().split("\n\n"):
        lines = [line for line in paragraph.split("\n") if line]
        if not lines:
            continue
        if lines[0].startswith("#"):
            parts.append(Block("heading", (lines[0].lstrip("# "),)))
        elif all(line.startswith("- ") for line in lines):
            parts.append(Block("list", tuple(_plain(line[2:]) for line in lines)))
        elif len(lines) > 1 and set(lines[1]) <= set("|-"):
            head, *rows = [_cells(line) for line in (lines[0], *lines[2:])]
            parts.append(Block("table", head, tuple(rows)))
        else:
            parts.append(Block("paragraph", (_plain(" ".join(lines)),)))
    return parts


def _plain(text: str) -> str:
    return text.replace("**", "").replace("`", "")


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip("|").split("|"))


@cache
def environment() -> Environment:
    """Our templates; every value that they show is printable and escaped, and a name that is missing is an error."""
    loader = PackageLoader("residua.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_shown)


@cache
def style() -> Markup:
    """The style sheet, shared by reports and notebooks. It is ours: it holds no text of others."""
    return Markup(environment().get_template("style.css").render())


def policy() -> str:
    """Nothing may be loaded, run, framed or sent; the one style sheet is named by its digest."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _shown(value: Any) -> Any:
    """Texts of others without characters that turn the direction of writing, or that nobody sees."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def html(page: Page) -> str:
    """A whole page."""
    from residua import __version__

    template = environment().get_template("page.html")
    return f"{template.render(page=page, policy=policy(), style=style(), version=__version__)}\n"


def fragment_html(template: str, **values: Any) -> str:
    """A small picture of a value for a notebook, with the style of the report."""
    text: str = environment().get_template(template).render(style=style(), **values)
    return text


def require_report_or_free(path: Path) -> None:
    """Refuses, before any work, a place that holds something else than a report.

    Raises:
        FileError: it does, or it cannot be a file.
    """
    check_replaceable(path, lambda head: head.startswith(_BEGINS))


def write_page(page: Page, path: str | Path, *, overwrite: bool = False) -> None:
    """Writes a page over an older report, but over nothing else.

    Raises:
        FileError: something else is there, or the disk refuses.
    """
    write_atomically(Path(path), html(page).encode(), ours=lambda head: overwrite or head.startswith(_BEGINS))
