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


def planner(browser: Browser) -> None:
    """The states of the planner page: the example, wishes, two plans side by side, nothing yet, a telephone."""
    command = [sys.executable, "-m", "residua", "ui", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        link = re.search(r"http://\S+", server.stdout.readline())
        assert link is not None
        page = browser.new_context(viewport={"width": 1200, "height": 860}).new_page()
        page.goto(link[0])
        page.wait_for_selector("#errors table")
        _planner_states(page)
        server.terminate()


def _planner_states(page: Page) -> None:
    def shown(name: str, at: str = "body") -> None:
        page.wait_for_timeout(400)
        page.wait_for_selector("#answer[aria-busy=false]", state="attached")
        page.wait_for_selector("#problem:not(:has(#stop))", state="attached")
        page.evaluate(f"document.querySelector({at!r}).scrollIntoView()")
        page.screenshot(path=PICTURES / f"{name}.png")

    shown("planner-example")
    page.locator("#attributes summary").nth(0).click()
    page.get_by_text("Levels, other values, titles").click()
    page.get_by_text("Add a level").click()
    page.get_by_label("Name", exact=True).last.fill("band")
    page.get_by_label("Edges").last.fill("17, 30, 45, 65, 91")
    shown("planner-attribute")
    page.locator("#attributes summary").nth(0).click()
    page.get_by_label("Wish for each number").select_option("stddev")
    page.get_by_label("At most", exact=True).fill("6")
    shown("planner-wishes", "#outcome")
    page.get_by_label("Wish for each number").select_option("")
    page.wait_for_timeout(600)
    page.click("#keep")
    page.fill("#amount", "0.25")
    page.wait_for_selector("#compare table")
    shown("planner-side-by-side", "#compare-section")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    shown("planner-narrow-dark", ".budget")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1200, "height": 640})
    page.click("#new")
    shown("planner-empty")


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
        shot(browser, folder / "release.html", "report-top")
        shot(browser, folder / "release.html", "report-accuracy", at="#accuracy")
        shot(browser, folder / "release.html", "report-pictures", at="figure:nth-of-type(6)", height=1500)
        shot(browser, folder / "release.html", "report-narrow-dark", at="#pictures", width=380, height=900, dark=True)
        shot(browser, folder / "two.html", "report-two-plans", at="#comparison", height=900)
        shot(browser, folder / "notebook.html", "notebook", height=1500)
        planner(browser)
        browser.close()


if __name__ == "__main__":
    draw_all()
