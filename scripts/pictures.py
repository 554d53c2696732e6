"""Makes docs/pictures again: reports, notebooks and the planner page, as Debian's Chromium draws them.

    bash scripts/debian.sh chromium=chromium && .venv-test/bin/pip install nbconvert
    .venv-test/bin/python -m scripts.pictures

The notebook is a real one: its kernel runs it, and nbconvert gives it JupyterLab's own style.

The release is measured anew, so that its noise, and the pictures, differ a little each time.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

import residua as rs
from residua.demo_data import demo_folder

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def shot(
    browser: Browser,
    page: Path,
    name: str,
    *,
    at: str = "body",
    width: int = 1000,
    height: int = 1100,
    dark: bool = False,
) -> None:
    """A picture of a page, from where an element begins."""
    context = browser.new_context(color_scheme="dark" if dark else "light", viewport={"width": width, "height": height})
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.evaluate(f"document.querySelector({at!r}).scrollIntoView()")
    opened.screenshot(path=PICTURES / f"{name}.png")
    context.close()


CELLS = (
    """import residua as rs
from residua.demo_data import demo_folder
age = rs.Bins([17, 25, 35, 45, 55, 65, 91])
domain = rs.Domain({"age": age, "sex": ["Female", "Male"], "income": ["<=50K", ">50K"]})
plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.05))
plan""",
    """ledger = rs.Ledger("adult.ledger", rs.ZCDP(rho=0.5))
release = rs.measure(plan, demo_folder() / "adult.parquet", ledger=ledger)
release.table(["age", "sex"])""",
    "ledger",
)


def notebook() -> str:
    """A notebook that has run, as JupyterLab shows it."""
    import nbclient
    import nbconvert
    import nbformat

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, resources={"metadata": {"path": tempfile.mkdtemp()}}).execute()
    return str(nbconvert.HTMLExporter().from_notebook_node(book)[0])


def planner(browser: Browser, release: Path) -> None:
    """The states of the planner page: the start, the example, two plans side by side, a telephone, a release."""
    for path in ([], [str(release)]):
        command = [sys.executable, "-m", "residua", "ui", *path, "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            link = re.search(r"http://\S+", server.stdout.readline())
            assert link is not None
            page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
            page.goto(link[0])
            try:
                _released_state(page) if path else _planner_states(page)
            finally:
                server.terminate()


def _shown(page: Page, name: str) -> None:
    page.wait_for_timeout(800)
    page.screenshot(path=PICTURES / f"{name}.png")


def _planner_states(page: Page) -> None:
    page.wait_for_selector("#start")
    _shown(page, "planner-start")
    page.click("#demo")
    page.wait_for_selector("#errors table")
    page.click("[data-step=accuracy]")
    _shown(page, "planner-example")
    page.click("[data-step=publish]")
    page.click("#keep")
    page.click("[data-step=accuracy]")
    page.fill("#amount", "0.125")
    page.click("[data-step=publish]")
    page.wait_for_selector("#compare table")
    page.wait_for_timeout(800)
    page.locator("#h-compare").evaluate("one => window.scrollTo(0, one.getBoundingClientRect().top + scrollY - 130)")
    _shown(page, "planner-side-by-side")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".sides").get_by_role("button", name="Picture").click()
    _shown(page, "planner-narrow-dark")


def _released_state(page: Page) -> None:
    page.locator("#released-tables button", has_text="education").first.click()
    page.wait_for_selector(".preview figure")
    page.get_by_label("Column").select_option("education")
    _shown(page, "planner-release")


def draw_all() -> None:
    """All pictures."""
    from residua.cli.spec import read_spec

    folder = Path(tempfile.mkdtemp())
    spec = read_spec(demo_folder() / "adult.toml")
    plan = rs.plan(spec.workload, rs.ZCDP(rho=0.5))
    release = rs.measure(plan, demo_folder() / "adult.parquet", ledger=rs.Ledger(folder / "l", rs.ZCDP(rho=0.5)))
    release.report(folder / "release.html", title="Adult: tables of up to two attributes")
    plan.report(folder / "two.html", beside=rs.plan(spec.workload, rs.ZCDP(rho=0.25)))
    (folder / "notebook.html").write_text(notebook())
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        shot(browser, folder / "release.html", "report-top", width=1280, height=820)
        shot(browser, folder / "release.html", "report-accuracy", at="#accuracy")
        shot(browser, folder / "release.html", "report-pictures", at="#pictures", width=1280, height=1500)
        shot(browser, folder / "release.html", "report-narrow-dark", width=390, height=1400, dark=True)
        shot(browser, folder / "two.html", "report-two-plans", at="#comparison", height=900)
        shot(browser, folder / "notebook.html", "notebook", height=1500)
        release.save(folder / "adult-2026")
        planner(browser, folder / "adult-2026")
        browser.close()


if __name__ == "__main__":
    draw_all()
