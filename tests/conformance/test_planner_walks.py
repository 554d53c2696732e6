"""Five tasks on the planner page, at three widths and in both schemes, as strangers do them: by what is written there.

After each task: axe finds nothing wrong in light and dark, nothing is cut off, and landmarks lie where they lay when
this was written (a shift of more than three pixels fails; only what fonts do not move is compared). The page of a link
is the same page, to the pixel.
"""

from __future__ import annotations

import base64
import json
import struct
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, expect

import residua as rs
from tests.conformance.planner import Server, Tab, check_accessible, downloaded, planned, step

pytestmark = pytest.mark.xdist_group("planner")
WIDTHS = {1280: 860, 768: 1024, 390: 844}
# Landmark → (left, width) at each width; None where it is not on the screen.
LANDMARKS = {
    1280: {".top": (0, 1280), ".steps ol": (0, 1280), "#ask": (28, 432), "#see": (508, 744), ".sides": None},
    768: {".top": (0, 768), ".steps ol": (0, 768), "#ask": (28, 712), "#see": None, ".sides": (0, 768)},
    390: {".top": (0, 390), ".steps ol": (0, 390), "#ask": (16, 358), "#see": None, ".sides": (0, 390)},
}
BOXES = """selectors => selectors.map(selector => {
  const box = document.querySelector(selector)?.getBoundingClientRect();
  return box && box.width ? [box.x, box.y, box.width, box.height] : null })"""
# What reaches beyond the right edge and cannot be scrolled to.
CUT = """() => [...document.querySelectorAll("#page *")].filter(one => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1 && !one.closest(".scroll, .unseen, .hush, svg")
}).map(one => one.outerHTML.slice(0, 120))"""


def check(page: Page, width: int) -> None:
    """Nothing cut off, landmarks in place, and no violation in light and dark."""
    page.evaluate("window.scrollTo(0, 0)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT) == []
    wanted = LANDMARKS[width]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        boxes = dict(zip(wanted, page.evaluate(BOXES, list(wanted)), strict=True))
        for selector, place in wanted.items():
            box = boxes[selector]
            assert (box is None) == (place is None), (selector, box)
            if box is not None and place is not None:
                assert abs(box[0] - place[0]) <= 3, (selector, box, scheme)
                assert abs(box[2] - place[1]) <= 3, (selector, box, scheme)
        assert abs(boxes[".top"][1]) <= 1, "controls stay at the top"
        check_accessible(page, **({} if scheme == "light" else {"runOnly": ["color-contrast"]}))
    page.emulate_media(color_scheme="light")


def look(page: Page, side: str) -> None:
    """Questions or picture, where there is room for one of them only."""
    if page.locator(".sides").is_visible():
        page.locator(".sides").get_by_role("button", name=side).click()


@pytest.mark.parametrize("width", WIDTHS)
def test_five_tasks(page: Page, server, width: int) -> None:
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    declare_from_a_file(page)
    check(page, width)
    choose_and_see(page)
    check(page, width)
    find_the_budget(page)
    check(page, width)
    compare(page)
    check(page, width)
    publish(page, server, width)


def declare_from_a_file(page: Page) -> None:
    page.get_by_role("button", name="New").click()
    data = b"region;sex;age\nnorth;F;31\nsouth;M;64\n"
    page.set_input_files("#data", {"name": "people.csv", "mimeType": "text/csv", "buffer": data})
    expect(page.locator("#todo")).to_contain_text("3 columns to finish")
    assert "north" not in page.content(), "a record of the file"
    page.locator("#attributes summary", has_text="region").click()
    page.get_by_label("Values, one per line").fill("north\nsouth\neast\nwest")
    expect(page.locator("#todo")).to_contain_text("2 columns to finish")
    look(page, "Picture")
    expect(page.locator("#answer")).to_contain_text("region")  # what is finished is planned
    look(page, "Questions")
    page.locator("#attributes summary", has_text="sex").click()
    page.get_by_label("Values, one per line").fill("F\nM")
    page.locator("#attributes summary", has_text="age").click()
    page.get_by_label("It holds").select_option("range")
    page.get_by_label("From").fill("0")
    page.get_by_label("To", exact=True).fill("99")
    expect(page.locator("#todo")).to_have_count(0)


def choose_and_see(page: Page) -> None:
    page.get_by_role("button", name="Next: choose tables").click()
    look(page, "Picture")
    page.get_by_label("About how many people").fill("20,000")
    expect(page.locator(".preview figure")).to_be_visible()
    expect(page.locator(".preview .flags").first).to_contain_text("reliable")
    page.get_by_text("Add public counts").click()
    page.get_by_label("region: value, count").fill("north, 12000\nsouth, 5000\neast; 2000\nwest 1000")
    expect(page.locator(".preview")).to_contain_text("public counts where you gave them")
    page.get_by_text("Add public counts").click()
    planned(page)
    look(page, "Questions")


def find_the_budget(page: Page) -> None:
    page.get_by_role("button", name="Next: how accurate").click()
    page.get_by_label("I know how accurate the numbers must be").check()
    page.get_by_label("Every number within ±").fill("25")
    expect(page.locator("#price")).to_contain_text("rho")
    planned(page)
    look(page, "Picture")
    worst = page.locator("#errors tbody td:nth-child(3)").all_inner_texts()
    assert max(map(float, worst)) <= 25, "within ±25, every table"
    look(page, "Questions")


def compare(page: Page) -> None:
    page.get_by_role("button", name="Next: publish").click()
    page.click("#keep")
    step(page, "accuracy")
    page.get_by_label("Every number within ±").fill("50")
    planned(page)
    step(page, "publish")
    expect(page.locator("#compare")).to_contain_text("accuracy ±25, now ±50")
    page.click("#undo")
    expect(page.locator("#compare")).to_contain_text("nothing")
    page.click("#redo")
    planned(page)


def publish(page: Page, server, width: int) -> None:
    expect(page.locator("#command")).to_have_text("residua release survey.toml --out release")
    if width == 390:
        page.get_by_role("button", name="Save survey.toml").click()
        expect(page.locator("#status")).to_contain_text("Saved survey.toml")
        assert "margin = 50" in server.path.read_text()
    kept = json.loads(downloaded(page, "#page-file"))
    assert kept["view"]["people"] == "20,000"
    selectors = [".top", "#ask", "#see", ".preview", ".all", "#errors table", "#facts"]
    packed = base64.urlsafe_b64encode(zlib.compress(json.dumps(kept).encode(), wbits=-15)).decode().rstrip("=")
    step(page, "tables")
    look(page, "Picture")
    planned(page)
    before = page.evaluate(BOXES, selectors)
    other = page.context.new_page()
    other.set_viewport_size(page.viewport_size)
    other.goto(f"http://{server.host}/#page={packed}")
    step(other, "tables")
    look(other, "Picture")
    expect(other.locator("#errors table")).to_be_visible()
    planned(other)
    assert other.evaluate(BOXES, selectors) == before, "the page of a link is the page"
    assert other.input_value("#people") == "20,000"
    other.close()


def test_work_is_never_lost(page: Page, server) -> None:
    """New and Open ask; every change is undone; a reload brings the draft back; work can be kept as a file."""
    step(page, "columns")
    page.locator("#attributes summary").first.click()
    page.get_by_label("To", exact=True).fill("42")
    page.click("#new")
    expect(page.locator("dialog")).to_contain_text("Keep your work first?")
    page.get_by_role("button", name="Stay here").click()
    assert page.get_by_label("To", exact=True).input_value() == "42"
    planned(page)
    page.reload()
    expect(page.locator("#alert")).to_contain_text("draft of this page is back")
    step(page, "columns")
    page.locator("#attributes summary").first.click()
    assert page.get_by_label("To", exact=True).input_value() == "42"
    step(page, "publish")
    page.click("#undo")
    step(page, "columns")
    expect(page.locator("#attributes .kind").first).not_to_contain_text("42")
    page.click("#redo")
    expect(page.locator("#attributes .kind").first).to_contain_text("42")
    page.set_input_files("#chosen", {"name": "x.toml", "mimeType": "", "buffer": b"[domain.a]\nsize = 2\n"})
    with page.expect_download():
        page.get_by_role("button", name="Keep it as a file").click()
    expect(page.locator("#file")).to_contain_text("x.toml")


def a_parquet_file() -> bytes:
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "name": ["Alice"],
            "age": pa.array([31], pa.int16()),
            "paid": [1.5],
            "born": pa.array([0], pa.date32()),
            "in": [True],
            "nested": [{"x": 1, "y": [2]}],
            "last": ["z"],
        }
    )
    pq.write_table(table, out := BytesIO())
    return out.getvalue()


def an_excel_file() -> bytes:
    xlsxwriter = pytest.importorskip("xlsxwriter")
    book = xlsxwriter.Workbook(out := BytesIO(), {"in_memory": True})
    sheet = book.add_worksheet()
    for i, row in enumerate([["age & sex", "päid", 2024], ["Alice", 3, 4]]):
        sheet.write_row(i, 0, row)
    book.close()
    assert zipfile.is_zipfile(out)
    return out.getvalue()


def an_spss_file() -> bytes:
    """A dictionary by hand: a labelled number, a long text with a long name, a date; then one record."""

    def ints(*numbers: int) -> bytes:
        return struct.pack(f"<{len(numbers)}i", *numbers)

    head = b"$FL2" + b"made by a test".ljust(60) + ints(2, 5, 0, 0, 1) + struct.pack("<d", 100.0) + b" " * 84
    whole, date, text = 5 << 16 | 8 << 8, 20 << 16 | 11 << 8, 1 << 16 | 12 << 8
    body = ints(2, 0, 1, 0, whole, whole) + b"SEX     " + ints(6) + b"Gender\0\0"
    body += ints(2, 12, 0, 0, text, text) + b"TOWN    " + ints(2, -1, 0, 0, 0, 0) + b"        "
    body += ints(2, 0, 0, 1, date, date) + b"BORN    " + struct.pack("<d", 9.0)
    labels = [(1.0, b"Male"), (2.0, b"Female")]
    body += ints(3, 2) + b"".join(struct.pack("<dB", v, len(t)) + t.ljust(7 if len(t) < 8 else 15) for v, t in labels)
    body += ints(4, 1, 1)
    long = b"SEX=sex\tTOWN=home_town\tBORN=born"
    body += ints(7, 13, 1, len(long)) + long + ints(7, 20, 1, 5) + b"UTF-8" + ints(999, 0)
    return head + body + struct.pack("<d", 1.0) + b"Alice Smith " + struct.pack("<d", 2.0)


def test_headers_of_every_format_are_read_in_the_browser(page: Page, tab) -> None:
    """Names, types and declared labels; no record comes onto the page, and nothing of the file is sent anywhere."""

    def columns(name: str, content: bytes) -> dict[str, str]:
        page.get_by_role("button", name="New").click()
        if page.locator("dialog").count():
            page.get_by_role("button", name="Go on without it").click()
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.post_data or ""))
        page.set_input_files("#data", {"name": name, "mimeType": "", "buffer": content})
        expect(page.locator("#attributes > li").first).to_be_visible()
        planned(page)
        assert "Alice" not in page.content()
        assert not any("Alice" in body for body in sent)
        cards = page.locator("#attributes > li").all()
        return {card.locator(".name").inner_text(): card.locator(".kind").inner_text() for card in cards}

    empty = {"values": "which values?", "bins": "which classes?", "range": "from where to where?"}
    dates = "? to ? by day"
    assert columns("a.parquet", a_parquet_file()) == {
        "name": empty["values"],
        "age": empty["range"],
        "paid": empty["bins"],
        "born": dates,
        "in": "false, true",
        "nested": empty["values"],
        "last": empty["values"],
    }
    assert list(columns("a.xlsx", an_excel_file())) == ["age & sex", "päid", "2024"]
    assert columns("a.sav", an_spss_file()) == {"sex": "1, 2", "home_town": empty["values"], "born": dates}
    page.locator("#attributes summary").first.click()
    page.get_by_text("Levels, other values, titles").click()
    settings = page.get_by_label("Further settings, as TOML").input_value()
    assert 'title = "Gender"' in settings
    assert '"2" = "Female"' in settings
    assert list(columns("a.csv", b'\xef\xbb\xbf"a;b";c\nAlice;2\n')) == ["a;b", "c"]
    page.get_by_role("button", name="New").click()
    page.get_by_role("button", name="Go on without it").click()
    for name, content in (("a.parquet", b"PAR1 no"), ("a.sav", b"$FL2"), ("a.xlsx", b"PK"), ("a.doc", b"x")):
        page.set_input_files("#data", {"name": name, "mimeType": "", "buffer": content})
        expect(page.locator("#alert")).to_contain_text("Paste the names of its columns")
        page.get_by_role("button", name="Close").click()


def test_a_release_is_opened(browser: Browser, tmp_path: Path) -> None:
    """The folder of a release on the command line: tables, charts, projections, quoted numbers; at every width."""
    domain = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"]})
    data = pa.table({"age": [1, 2, 2, 5, 9] * 400, "sex": ["F", "M", "M", "F", "M"] * 400})
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(rho=0.5))
    rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l.ledger", rs.ZCDP(rho=0.5))).save(tmp_path / "release")
    released = Server(tmp_path / "release")
    try:
        walk_release(Tab(browser, released).page)
    finally:
        released.process.terminate()
        released.process.communicate()


def walk_release(page: Page) -> None:
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        page.locator("#released-tables button", has_text="age × sex").click()
        expect(page.locator("#h-table")).to_have_text("age × sex")
        expect(page.locator(".preview figure")).to_be_visible()
        assert page.evaluate(CUT) == []
        check_accessible(page)
    page.get_by_label("As it could be true").check()
    expect(page.locator(".preview figure")).to_be_visible()
    page.get_by_label("The", exact=True).select_option("mean")
    page.get_by_label("Column").select_option("age")
    page.click("#quote")
    expect(page.locator("#quoted")).to_contain_text("mean of age")
    page.context.close()
