"""The documentation site: no warning, every public name with its signature, no outside request, no violation of axe."""

from __future__ import annotations

import html
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

import residua as rs
from tests.conformance.test_report_in_a_browser import opened

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.xdist_group("site")  # it is built once


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `scripts/site` builds it, a warning an error; the gallery runs in `test_gallery.py`."""
    out = tmp_path_factory.mktemp("site")
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(out / "trees")]
    quiet = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
        "SITE_NOT_RUN": "gallery/*",
    }  # those of other libraries are not Sphinx's
    done = subprocess.run(
        [*sphinx, str(DOCS), str(out / "html")], capture_output=True, text=True, env=quiet, timeout=900
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return out / "html"


def words(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.partition(">")[2]))


def test_every_public_name_has_a_page_with_its_signature(site: Path) -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html")}
    missing = [name for name in rs.__all__ if not any(f'id="residua.{name}"' in page for page in pages.values())]
    assert missing in ([], ["analysis"])  # a module; its functions are there
    for name, thing in ((name, getattr(rs, name)) for name in ("plan", "measure", "marginals", "Domain", "estimate")):
        (page,) = [page for page in pages.values() if f'id="residua.{name}"' in page]
        told = words(page.partition(f'id="residua.{name}"')[2][:20_000])
        first = next(iter(inspect.signature(thing).parameters))
        assert re.search(rf"residua\.{name}\(\s*{first}: \w", told), name  # the name, its argument, a type
    assert not any(hidden in page for page in pages.values() for hidden in ("_Options", "_Old"))


def test_notebooks_have_run_and_show_pictures(site: Path) -> None:
    flights = (site / "learn" / "flights.html").read_text(encoding="utf-8")
    assert flights.count("<svg") > 4
    # With half of the noise stated 67 % would. Were each by itself, fewer than 80 % would hold once in 10^18 runs; they
    # share margins, whose part of the noise is a tenth.
    assert re.search(r"(8\d|9\d|100)\.\d% of 288 intervals hold the truth", flights)
    assert "Traceback" not in flights
    assert "<math" in (site / "mathematics" / "residuals.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["index", "learn/flights", "mathematics/noise", "api/05-combine-plans"])
def test_pages_make_no_outside_request_and_axe_finds_no_violation(site: Path, browser: Browser, name: str) -> None:
    page, requests, complaints = opened(browser, site / f"{name}.html")
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert complaints == []
    page.evaluate("document.querySelectorAll('svg > *').forEach(each => each.remove())")
    for scheme, width in (("light", 1280), ("dark", 768), ("light", 390), ("dark", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, (scheme, width, found.generate_report())
    page.context.close()


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_the_front_page_fits_and_its_code_is_not_clipped(site: Path, browser: Browser, width: int) -> None:
    page, *_ = opened(browser, site / "index.html", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("article pre").count() == 1
    assert page.evaluate(
        "document.querySelector('article pre').scrollWidth <= document.querySelector('article pre').clientWidth"
    )
    assert page.locator("article img").count() == 1
    page.context.close()


def test_numbers_in_tables_stand_under_each_other(site: Path, browser: Browser) -> None:
    page, *_ = opened(browser, site / "learn" / "ten-minutes.html")
    cell = page.locator("article td", has_text=re.compile(r"^175 \(42\)$"))
    assert cell.evaluate("e => getComputedStyle(e).textAlign") == "right"
    assert page.locator("article td", has_text="residua init").evaluate("e => getComputedStyle(e).textAlign") == "left"
    page.context.close()


def test_no_page_names_anything_to_fetch_elsewhere(site: Path) -> None:
    fetched = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["'](?:https?:)?//""")
    assert [page.name for page in site.rglob("*.html") if fetched.search(page.read_text(encoding="utf-8"))] == []


SOUGHT = {
    "rounding": "uncertainty",
    "docker": "operations",
    "spss": "engines",
    "turnover": "how-to/amounts",
    "weights": "uncertainty",
}
WHY = ("decisions", "mathematics/", "changes", "findings", "architecture", "contributing", "trust")


def test_the_search_finds_what_to_do_before_why_it_is_so(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    for word, wanted in SOUGHT.items():
        page.goto(f"{(site / 'search.html').as_uri()}?q={word}")
        page.wait_for_selector("#search-results p.search-summary:has-text('found')")
        links = page.locator("#search-results ul.search li > a").evaluate_all(
            "all => all.map(a => a.getAttribute('href'))"
        )
        pages = list(dict.fromkeys(link.partition(".html")[0] for link in links))
        first_why = next((i for i, name in enumerate(pages) if name.startswith(WHY)), len(pages))
        assert pages.index(wanted) < first_why, f"{word}: {pages}"
    page.close()
