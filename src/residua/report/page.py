"""A page: what the templates show, and writing it as one HTML file.

Its style is inside, a policy lets nothing be loaded, and every text is escaped. Our own statements, which are Markdown,
are shown as blocks.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from residua.files import check_replaceable, write_atomically
from residua.language import current, numeral, say, say_many
from residua.report.theme import Theme
from residua.showing import printable

_BEGINS = b"<!DOCTYPE html>\n<!-- residua report -->"


@dataclass(frozen=True)
class Section:
    """A section of the page: a template, a heading, and what the template shows."""

    name: str
    title: str
    facts: Mapping[str, Any]


def section(name: str, title: str, **facts: Any) -> Section:
    """The section that the template of this name makes of some facts."""
    return Section(name, title, facts)


class Page:
    """A title, a sentence that says what the page is about, and sections; those that are None are left out."""

    theme = Theme()

    def __init__(self, title: str, lead: str, *sections: Section | None) -> None:
        self.title, self.lead = title, lead
        self.sections = [each for each in sections if each is not None]

    def facts(self, name: str) -> Mapping[str, Any]:
        """What the section of this name shows."""
        return next(each.facts for each in self.sections if each.name == name)


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
            split = (line.strip("|").split("|") for line in (lines[0], *lines[2:]))
            head, *rows = (tuple(map(str.strip, cells)) for cells in split)
            parts.append(Block("table", head, tuple(rows)))
        else:
            parts.append(Block("paragraph", (_plain(" ".join(lines)),)))
    return parts


def _plain(text: str) -> str:
    return text.replace("**", "")


@cache
def environment() -> Environment:
    """Our templates; every value that they show is printable and escaped, and a name that is missing is an error."""
    loader = PackageLoader("residua.report")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_shown)
    made.globals |= {"say": say, "say_many": say_many, "say_html": say_html, "numeral": numeral, "language": current}
    return made


def say_html(sentence: str, **values: Any) -> Markup:
    """A sentence with markup of ours in the current language; texts in its placeholders are escaped."""
    safe = {name: escape(_shown(value)) if isinstance(value, str) else value for name, value in values.items()}
    return Markup(say(sentence, **safe))


@cache
def style() -> Markup:
    """The style sheet, shared by reports and notebooks. It is ours: it holds no text of others."""
    return Markup("").join(Markup(environment().get_template(name).render()) for name in ("tokens.css", "style.css"))


@cache
def script() -> Markup:
    """The one script, which searches the list of tables; a page is whole without it."""
    return Markup(environment().get_template("search.js").render())


def policy(style: str, script: str = "") -> str:
    """Nothing may be loaded, framed or sent; the style sheet and the script are named by their digests."""
    scripts = f" script-src '{_digest(script)}';" if script else ""
    held = "img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; style-src '{_digest(style)}';{scripts} {held}"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _shown(value: Any) -> Any:
    """Texts of others without characters that turn the direction of writing, or that nobody sees."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def html(page: Page) -> str:
    """A whole page."""
    from residua import __version__

    look = style() + Markup(page.theme.style)  # checked when the theme was read
    search = script() if any(each.name == "tables" for each in page.sections) else ""
    values = {"page": page, "policy": policy(look, search), "style": look, "script": search}
    return f"{environment().get_template('page.html').render(**values, version=__version__)}\n"


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
