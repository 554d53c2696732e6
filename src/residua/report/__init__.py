"""Reports: one self-contained page for people, what notebooks show, and plans as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from residua.report.contents import page_of
from residua.report.fragments import fragment
from residua.report.page import html, write_page
from residua.report.plan_text import plan_text

__all__ = ["fragment", "plan_text", "report_html", "write_report"]


def report_html(thing: Any, *, title: str | None = None, beside: Any = None) -> str:
    """The report of a plan, a release, a projection or a session, as a text."""
    return html(page_of(thing, title, beside))


def write_report(
    thing: Any, path: str | Path, *, title: str | None = None, beside: Any = None, overwrite: bool = False
) -> None:
    """Writes a report; see `Reported.report`."""
    write_page(page_of(thing, title, beside), path, overwrite=overwrite)
