"""Five tasks on the planner page, at three widths and in both schemes, as strangers do them: by what is written there.

After each task: axe finds nothing wrong in light and dark, nothing is cut off, and landmarks stand where they were
stored (`layouts.py`). The page of a link is the same page, to the pixel.
"""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, expect

import residua as rs
from tests.conformance.layouts import BOXES, FONTS, check_layout
from tests.conformance.planner import Server, Tab, check_accessible, downloaded, planned, step, toml

pytestmark = pytest.mark.xdist_group("planner")
WIDTHS = {1280: 860, 768: 1024, 390: 844}
LANDMARKS = [
    ".top",
    ".steps ol",
    "#ask",
    "#ask h2",
    "#next",
    "#see",
    "#facts",
    ".preview",
    ".preview header",
    ".all",
    ".sides",
]
# What reaches beyond the right edge and cannot be scrolled to.
CUT = """() => [...document.querySelectorAll("#page *")].filter(one => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1 && !one.closest(".scroll, .unseen, .hush, svg")
}).map(one => one.outerHTML.slice(0, 120))"""


def check(page: Page, width: int, task: str) -> None:
    """Nothing cut off, landmarks in place, and no violation in light and dark: of questions, picture, or both."""
    planned(page)
    for side in ("Picture", "Questions") if page.locator(".sides").is_visible() else ("",):
        look(page, side)
        page.evaluate("window.scrollTo(0, 0)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT) == []
        check_layout(page, f"{task} {width} {side}".rstrip(), LANDMARKS)
        check_accessible(page)


def look(page: Page, side: str) -> None:
    """Questions or picture, where there is room for one of them only."""
    if page.locator(".sides").is_visible():
        page.locator(".sides").get_by_role("button", name=side).click()
        expect(page.locator("#see" if side == "Picture" else "#ask")).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_five_tasks(page: Page, server, width: int, tmp_path: Path) -> None:
    page.route(
        "**/report.css", lambda route: route.fulfill(body=f"{route.fetch().text()}{FONTS}", content_type="text/css")
    )
    page.reload()
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    tasks = (declare_from_a_file, choose_and_see, find_the_budget, compare)
    for task in tasks:
        task(page)
        check(page, width, task.__name__)
    reopen(page, server)
    publish(page, tmp_path)
    check(page, width, "publish")
    page.unroute("**/report.css")


DATA = b"region;sex;age\nnorth;F;31\nsouth;M;64\n"


def declare_from_a_file(page: Page) -> None:
    page.get_by_role("button", name="New").click()
    page.set_input_files("#data", {"name": "people.csv", "mimeType": "text/csv", "buffer": DATA})
    expect(page.locator("#todo")).to_contain_text("3 columns to finish")
    assert "north" not in page.content(), "a record of the file"
    page.get_by_label("Values, one per line").fill("north\nsouth\neast\nwest")
    expect(page.locator("#todo")).to_contain_text("2 columns to finish")
    look(page, "Picture")
    expect(page.locator("#answer")).to_contain_text("region")  # what is finished is planned
    look(page, "Questions")
    page.get_by_role("button", name="Next column").click()
    page.get_by_label("Values, one per line").fill("F\nM")
    page.get_by_role("button", name="Next column").click()
    page.get_by_label("It holds").select_option("range")
    page.get_by_label("From").fill("0")
    page.get_by_label("To", exact=True).fill("99")
    expect(page.locator("#todo")).to_have_count(0)


def choose_and_see(page: Page) -> None:
    page.get_by_role("button", name="Next: choose tables").click()
    look(page, "Picture")
    page.get_by_label("How many people?").fill("20,000")
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


def publish(page: Page, folder: Path) -> None:
    """What is downloaded, put beside the data, and the commands that stand there: nothing else has to be known."""
    step(page, "publish")
    (folder / "survey.toml").write_text(downloaded(page, "#download"))
    (folder / "people.csv").write_bytes(DATA)
    for command in page.locator("#command").inner_text().splitlines():
        name, *more = command.split()
        assert name == "residua"
        done = subprocess.run([sys.executable, "-m", "residua", *more], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
    assert "each number ± 50.0" in (folder / "report.html").read_text(encoding="utf-8")
    expect(page.locator("#places")).to_contain_text('path = "people.csv"\ndelimiter = ";"')


def reopen(page: Page, server) -> None:
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
    page.reload()  # which keeps the draft while it leaves
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


def test_a_draft_is_found_at_another_port(page: Page, server, browser: Browser) -> None:
    """It lies in a file of its own, which nobody else may read; it is gone when the work is saved or discarded."""
    step(page, "columns")
    page.locator("#attributes summary").first.click()
    with page.expect_response(lambda answer: answer.url.endswith("/draft") and "43" in str(answer.request.post_data)):
        page.get_by_label("To", exact=True).fill("43")
    (kept,) = (server.state / "residua" / "drafts").iterdir()
    assert "secret" not in kept.read_text(), "where the data lies is no part of it"
    if os.name == "posix":
        assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    another = Server(server.path)
    try:
        other = Tab(browser, another).page
        expect(other.locator("#alert")).to_contain_text("draft of this page is back")
        step(other, "columns")
        expect(other.locator("#attributes .kind").first).to_have_text("0 to 43")
        other.get_by_role("button", name="Discard it").click()
        for _ in range(1200):  # it is asked for, and done a little later
            if not kept.exists():
                break
            other.wait_for_timeout(50)
        assert not kept.exists()
        other.context.close()
    finally:
        another.process.terminate()
        another.process.communicate()


def test_a_data_file_is_opened_wherever_it_is_dropped_or_chosen(page: Page) -> None:
    """On the field for it, anywhere on the page, or by Open…: its header, never a record."""
    page.get_by_role("button", name="New").click()
    make = """([name, text]) => {
      const held = new DataTransfer();
      held.items.add(new File([text], name));
      return held;
    }"""
    for where, name, header in ((".drop", "people.csv", "region;sex"), ("body", "more.csv", "sex,town")):
        held = page.evaluate_handle(make, [name, f"{header}\nAlice,3\n"])
        page.dispatch_event(where, "drop", {"dataTransfer": held})
        expect(page.locator("#status")).to_contain_text(f"of {name}: only the header was read")
    page.set_input_files("#chosen", {"name": "last.csv", "mimeType": "", "buffer": b"year\n2026\n"})
    expect(page.locator("#attributes .name")).to_have_text(["region", "sex", "town", "year"])
    assert "Alice" not in page.content()
    planned(page)


def test_tables_are_ordered_by_dragging(page: Page) -> None:
    step(page, "tables")
    page.click("#add-table")
    page.locator("#tables > li").last.get_by_label("What", exact=True).select_option("small")
    page.locator("#tables > li").last.get_by_label("At most so many cells").fill("5")
    planned(page)
    page.locator(".grip").last.hover()
    page.mouse.down()
    for _ in range(2):  # the first of them begins the dragging
        page.locator("#tables > li").first.hover()
    page.mouse.up()
    expect(page.locator("#tables > li").first.get_by_label("What", exact=True)).to_have_value("small")
    assert toml(page)["workload"] == [{"max_cells": 5}, {"ways": [0, 1, 2]}]


def test_tables_that_are_chosen_one_by_one(page: Page) -> None:
    """Until one is chosen the picture says that a table is missing, not a column; of one number there is no picture."""
    step(page, "tables")
    page.get_by_label("How many people?").fill("20.000")
    expect(page.locator(".preview figure")).to_be_visible()
    for _ in range(page.locator("#tables > li").count() - 1):
        page.locator("#tables > li").last.get_by_role("button", name="Remove", exact=True).click()
        planned(page)
    page.locator("#tables > li").get_by_label("What", exact=True).select_option("sets")
    expect(page.locator("#problem")).to_contain_text("Add a table")
    page.get_by_role("button", name="Add a table").click()
    expect(page.locator(".preview")).to_contain_text("One number needs no picture")


def last_year(folder: Path) -> Path:
    domain = rs.Domain({"age": rs.Integers(0, 12), "sex": ["F", "M"], "town": ["A", "B"]})
    data = pa.table({"age": [1, 2, 2, 5, 9] * 4000, "sex": ["F", "M", "M", "M", "M"] * 4000, "town": ["A"] * 20000})
    plan = rs.plan(rs.marginals(domain, ways=[0, 1]), rs.ZCDP(rho=0.5))
    rs.measure(plan, data, ledger=rs.Ledger(folder / "l.ledger", rs.ZCDP(rho=0.5))).save(folder / "release")
    return folder / "release"


def test_last_years_release_is_what_is_expected(page: Page, tmp_path: Path) -> None:
    """Values that are no longer declared are left out, and that is said; files that are not of the release stay."""
    (folder := last_year(tmp_path)).joinpath("people.csv").write_text("age,sex\n31,F\n")
    page.click("#public summary")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.post_data or ""))
    page.set_input_files("#public-release", folder)
    expect(page.locator("#status")).to_contain_text("Public counts of 2 columns; 3 values not declared here left out.")
    assert not any("people.csv" in body for body in sent), "what is not of the release stays where it is"
    planned(page)
    women = page.get_by_label("sex: value, count")
    page.click("#public summary")  # now below a picture
    expect(women).to_have_value(re.compile(r"^F, (39|40)\d\d\nM, (159|160)\d\d$"))
    assert int(page.input_value("#people").replace(",", "")) == pytest.approx(20_000, abs=100)
    (no := tmp_path / "data").mkdir()
    (no / "people.csv").write_text("age,sex\n31,F\n")
    page.set_input_files("#public-release", no)
    expect(page.locator("#alert")).to_contain_text("not the folder of a release")


def test_headline_numbers_of_the_curve_are_chosen(page: Page) -> None:
    step(page, "accuracy")
    while (shown := page.locator("#headlines li").count()) > 1:
        page.locator("#headlines button").last.click()
        expect(page.locator("#headlines li")).to_have_count(shown - 1)
    page.select_option("#headline", "sex")
    page.get_by_label("Count of sex").fill("2,000")
    planned(page)
    chosen = page.locator("#headlines li", has=page.get_by_label("Count of sex"))
    expect(chosen.locator("b")).to_have_text("0.1\u00a0%")  # 2 of 2,000
    expect(page.locator("figure.curve polyline")).to_have_count(page.locator("#headlines li").count())


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
    page.get_by_text("Levels, other values, titles").click()
    settings = page.get_by_label("Further settings, as TOML").input_value()
    assert 'title = "Gender"' in settings
    assert '"2" = "Female"' in settings
    assert list(columns("a.csv", b'\xef\xbb\xbf"a;b";c\nAlice;2\n')) == ["a;b", "c"]
    assert list(columns("a.csv", "Größe;€\nAlice;2\n".encode("cp1252"))) == ["Größe", "€"], (
        "as Excel writes it in Germany"
    )
    step(page, "publish")
    expect(page.locator("#places")).to_contain_text('delimiter = ";"\nencoding = "cp1252"')
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
    page.get_by_label("Without negative counts").check()
    expect(page.locator(".preview figure")).to_be_visible()
    page.get_by_label("The", exact=True).select_option("mean")
    page.get_by_label("Column").select_option("age")
    page.click("#quote")
    expect(page.locator("#quoted")).to_contain_text("mean of age")
    page.context.close()


def test_what_was_saved_is_what_a_reload_shows(page: Page, server) -> None:
    """The last of this file, because it changes the server's."""
    step(page, "columns")
    page.locator("#attributes summary").first.click()
    page.get_by_label("To", exact=True).fill("44")
    step(page, "publish")
    page.get_by_role("button", name="Save survey.toml").click()
    expect(page.locator("#status")).to_contain_text("Saved survey.toml")
    assert "high = 44" in server.path.read_text()
    page.reload()
    step(page, "columns")
    expect(page.locator("#attributes .kind").first).to_have_text("0 to 44")
    assert page.locator("#alert").inner_text() == "", "there is no draft of what is saved"
