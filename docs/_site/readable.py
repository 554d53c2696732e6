"""What keyboards and screen readers need where the theme leaves a gap; `tests/conformance/test_site.py` looks again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# A caption is a heading of some level, two landmarks need two names, whatever scrolls is reached by keyboard, a corner
# of a table heads nothing, and a list of arguments is no list of definitions.
FIXES = (
    (re.compile(r'class="caption" role="heading"(?! aria)'), 'class="caption" role="heading" aria-level="2"'),
    (re.compile(r'<aside class="sidebar-drawer">'), '<aside class="sidebar-drawer" aria-label="All pages">'),
    (re.compile(r'<aside class="toc-drawer( no-toc)?">'), r'<aside class="toc-drawer\1" aria-label="On this page">'),
    (re.compile(r'<th class="head[^"]*"><p></p></th>'), "<td></td>"),
    (re.compile(r"<pre>"), '<pre tabindex="0">'),
    (re.compile(r'<div class="table-wrapper'), '<div tabindex="0" class="table-wrapper'),
    (re.compile(r'<dd>(<em class="sig-param">.*)</dd>'), r'<span class="sig-line">\1</span>'),
    (re.compile(r'<dl>\n((?:<span class="sig-line">.*\n)+)</dl>'), r"\1"),
)


def readable(html: str) -> str:
    """A page with the gaps closed."""
    for found, instead in FIXES:
        html = found.sub(instead, html)
    return html


def _mend(app: Any, problem: Exception | None) -> None:
    for page in Path(app.outdir).rglob("*.html") if problem is None and app.builder.name == "html" else ():
        page.write_text(readable(page.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Runs when all pages are written."""
    app.connect("build-finished", _mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
