"""Reports in a real browser: nothing is loaded, axe-core finds no violation, keys suffice, the PDF is tagged."""

from __future__ import annotations

import io
from pathlib import Path

import pypdf
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

import residua as rs
from tests.conformance.layouts import FONTS, check_layout
from tests.published import LABELS, NAME, RHO, plan, release


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    release().report(folder / "release.html", title="People")
    plan().report(folder / "plan.html", beside=rs.plan(plan().workload, rs.ZCDP(RHO / 2)))
    rs.project(release()).report(folder / "projection.html")
    return {path.stem: path for path in folder.iterdir()}


def opened(browser: Browser, path: Path, *, dark: bool = False, width: int = 1100) -> tuple[Page, list[str], list[str]]:
    """A page, the requests it made, and what it complained about."""
    page = browser.new_context(
        color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}
    ).new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(path.as_uri())
    return page, requests, complaints


@pytest.mark.parametrize(
    ("name", "dark"), [(name, dark) for name in ("release", "plan", "projection") for dark in (False, True)]
)
def test_nothing_is_loaded_and_axe_finds_no_violation(browser, reports, name, dark):
    page, requests, complaints = opened(browser, reports[name], dark=dark)
    assert requests == [reports[name].as_uri()]
    assert complaints == []
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    # What is inside a picture is not read out: the picture has a name, and its numbers are in a table. Thousands of
    # marks would only make axe slow.
    page.evaluate("document.querySelectorAll('svg > *').forEach(each => each.remove())")
    for width in (1280, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, (width, found.generate_report())
    dark_paper = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 24, 27)"
    assert dark_paper == dark
    page.context.close()


def test_hostile_labels_do_nothing_and_are_read(browser, reports):
    page, requests, complaints = opened(browser, reports["release"])
    assert len(requests) == 1
    assert complaints == []
    assert page.locator("img, iframe, object, embed, link").count() == 0
    assert NAME in page.locator("main").inner_text()
    assert LABELS[0] in page.locator("main").text_content()
    page.context.close()


def test_the_policy_stops_what_would_be_injected(browser, reports, tmp_path):
    """Were escaping to fail, the policy would still keep scripts, pictures and styles out."""
    bad = "<script>document.title = 'owned'</script><img src='https://example.org/x.png'>"
    bad += "<p id='p' style='color: red'>x</p>"
    (tmp_path / "bad.html").write_text(reports["plan"].read_text().replace("</main>", f"{bad}</main>"))
    page, _, complaints = opened(browser, tmp_path / "bad.html")
    assert page.title() != "owned"
    assert page.evaluate("getComputedStyle(document.getElementById('p')).color") != "rgb(255, 0, 0)"
    assert len([words for words in complaints if "Content Security Policy" in words]) >= 3
    page.context.close()


# Texts of a chart that can be seen, as boxes; those of pairs whose boxes share more than a hair's breadth.
OVERLAPS = """() => {
  const clashes = [];
  for (const chart of document.querySelectorAll(".chart, .panels, .heat")) {
    const texts = [...chart.querySelectorAll("svg text, th, td:not(.plot)")];
    const boxes = texts.filter((one) => one.checkVisibility() && one.textContent)
      .map((one) => [one.textContent, one.getBoundingClientRect()])
      .filter(([, box]) => box.width && box.height)
      .sort((a, b) => a[1].left - b[1].left);
    boxes.forEach(([words, a], i) => {
      for (let j = i + 1; j < boxes.length && boxes[j][1].left < a.right - 0.5; j++) {
        const [others, b] = boxes[j];
        if (a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5) clashes.push([words, others]);
      }
    });
  }
  return clashes;
}"""


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_no_label_touches_another_and_nothing_scrolls_sideways(browser, reports, width):
    for name in reports:
        page, *_ = opened(browser, reports[name], width=width)
        page.evaluate("document.querySelectorAll('.tables > details').forEach((each, i) => each.open = i < 8)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.evaluate(OVERLAPS) == [], name
        page.context.close()


def test_keys_suffice(browser, reports):
    page, *_ = opened(browser, reports["release"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0, "the link to skip is seen when it has the focus"
    seen = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.tagName"))
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    assert {"A", "INPUT", "SUMMARY"} <= seen
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open") is True
    page.context.close()


def test_it_prints_to_a_tagged_pdf(browser, reports):
    page, *_ = opened(browser, reports["release"], dark=True)
    document = pypdf.PdfReader(io.BytesIO(page.pdf(tagged=True, outline=True)))
    root = document.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert "/StructTreeRoot" in root
    assert root["/Lang"] == "en"
    text = " ".join(sheet.extract_text() for sheet in document.pages).replace("\n", " ")
    assert "These numbers hide whether any one record is in the data" in text
    page.context.close()


def test_what_notebooks_show_follows_a_theme_that_was_chosen_by_hand(browser, tmp_path):
    """The site and JupyterLab can be dark where the system is light, and the other way round."""
    light, dark = "rgb(26, 35, 39)", "rgb(233, 238, 236)"
    for attribute, wanted in {
        'data-theme="dark"': dark,
        'data-theme="light"': light,
        'data-jp-theme-light="false"': dark,
        'data-jp-theme-light="true"': light,
    }.items():
        path = tmp_path / "cell.html"
        path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body {attribute}>{plan()._repr_html_()}')
        page, *_ = opened(browser, path, dark=wanted == light)
        assert page.locator(".residua").first.evaluate("e => getComputedStyle(e).color") == wanted, attribute
        page.context.close()


LANDMARKS = [
    ".masthead",
    "h1",
    ".lead",
    "nav",
    ".headline",
    ".number",
    ".said",
    ".main",
    ".reading",
    "#accuracy",
    "footer",
]


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_landmarks_stand_where_they_were_drawn(browser, reports, width):
    """A shift of a plan's report by more than a few pixels fails; a release's has its first number as high up."""
    context = browser.new_context(viewport={"width": width, "height": 900}, bypass_csp=True)
    for name in ("plan", "release"):
        page = context.new_page()
        page.goto(reports[name].as_uri())
        page.add_style_tag(content=FONTS)
        if name == "plan":
            check_layout(page, f"report {width}", LANDMARKS)
        boxes = {at: page.locator(at).first.bounding_box() for at in ("h1", ".number", ".main")}
        assert boxes["h1"]["y"] < boxes[".number"]["y"] < 500, "the first number is on the first screen"
        assert width < 1280 or boxes[".main"]["y"] < 500, "and so is the most important chart"
    context.close()
