"""What keyboards and screen readers need where the theme leaves a gap; `tests/conformance/test_site.py` looks again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes

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


# A number as tables write it, with its unit or a second number in brackets behind it.
NUMBER = re.compile(r"(about |[~<>≤≥±×−-])* ?\d[\d,.]*( ?(%|s|ms|MB|kB|GB|k|M|x|×|times))?( ?\([^)]*\))?")
MOSTLY = 0.7


def _numbers_to_the_right(app: Any, document: Any) -> None:
    """Columns that hold numbers stand under each other digit by digit; the first says what each row is."""
    for table in document.findall(nodes.tgroup):
        for head, *cells in list(zip(*(row.children for row in table.findall(nodes.row)), strict=False))[1:]:
            told = [words for cell in cells if (words := cell.astext().strip()) not in ("", "–", "—", "-")]
            if told and sum(NUMBER.fullmatch(words) is not None for words in told) >= MOSTLY * len(told):
                for cell in (head, *cells):
                    cell["classes"] = [*cell["classes"], "text-right"]


def setup(app: Any) -> dict[str, bool]:
    """Runs when a page is read, and when all pages are written."""
    app.connect("doctree-read", _numbers_to_the_right)
    app.connect("build-finished", _mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
