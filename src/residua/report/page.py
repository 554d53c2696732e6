"""Writing a page: one HTML file with its style inside, a policy that lets nothing be loaded, and every text escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from residua.files import check_replaceable, write_atomically
from residua.printable import printable
from residua.report.contents import Page

_BEGINS = b"<!DOCTYPE html>\n<!-- residua report -->"


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

    made: str = (
        environment().get_template("page.html").render(page=page, policy=policy(), style=style(), version=__version__)
    )
    return made + "\n"


def fragment_html(template: str, **values: Any) -> str:
    """A small picture of a value for a notebook, with the style of the report."""
    made: str = environment().get_template(template).render(style=style(), **values)
    return made


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
