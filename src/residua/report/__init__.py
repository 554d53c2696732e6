"""Reports: one self-contained page for people, what notebooks show, and plans as text. Templates load when needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["fragment", "report_html", "text_of_plan", "write_report"]


def report_html(thing: Any, *, title: str | None = None, beside: Any = None) -> str:
    """The report of a plan, a release, a projection or a session, as a text."""
    from residua.report.contents import page_of
    from residua.report.page import html

    return html(page_of(thing, title, beside))


def write_report(
    thing: Any, path: str | Path, *, title: str | None = None, beside: Any = None, overwrite: bool = False
) -> None:
    """Writes a report; see `Reported.report`."""
    from residua.report.contents import page_of
    from residua.report.page import write_page

    write_page(page_of(thing, title, beside), path, overwrite=overwrite)


def fragment(thing: Any) -> str:
    """What a notebook shows of a value."""
    from residua.report.fragments import fragment as shown

    return shown(thing)


def text_of_plan(plan: Any) -> str:
    """A plan as `print(plan)` shows it."""
    from residua.report.plan_text import plan_text

    return plan_text(plan)
