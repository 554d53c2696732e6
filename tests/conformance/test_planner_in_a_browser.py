"""The planner page in a real browser, served by the real command: every control, keys alone, hostile text, no server.

The server of this file is started once; the last test kills it. Figures: about 15 s on one core, all together.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

from residua.cli.spec import read_spec
from tests.conformance.test_report_in_a_browser import FLAGS
from tests.published import LABELS, NAME

pytestmark = pytest.mark.xdist_group("planner")
expect.set_options(timeout=20_000)
SPEC = """\
# A survey, for the tests.

[source]
path = "/secret/people.csv"

[privacy]
rho = 0.5

[[workload]]
ways = [0, 1, 2]

[domain.age]
low = 0
high = 9

[domain.sex]
values = ["F", "M"]
"""


class Server:
    def __init__(self, path: Path) -> None:
        self.path = path
        command = [sys.executable, "-m", "residua", "ui", str(path), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        link = re.search(r"http://\S+", self.process.stdout.readline())
        assert link is not None
        self.link, self.cookie = link[0], ""
        self.host = urlsplit(self.link).netloc

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """A request without a browser; with the page's cookie and origin unless others are given."""
        told = {"Host": self.host, "Origin": f"http://{self.host}", "Cookie": self.cookie, **headers}
        told = {name.replace("_", "-"): value for name, value in told.items() if value is not None}
        text = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        if text is not None:
            told.setdefault("Content-Type", "application/json")
        speaking = http.client.HTTPConnection(self.host, timeout=20)
        try:
            speaking.request(method, path, text, told)
            answer = speaking.getresponse()
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            speaking.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("planner") / "survey.toml"
    path.write_text(SPEC)
    made = Server(path)
    yield made
    with made.process:  # which closes its pipe
        made.process.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield opened
        opened.close()


class Tab:
    """One page for all tests, what it asked for, and what it complained about."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.page = browser.new_context(accept_downloads=True).new_page()
        self.page.set_default_timeout(20_000)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.goto(server.link)
        assert self.page.url == f"http://{server.host}/", "the token leaves the address"
        (cookie,) = self.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        server.cookie = f"{cookie['name']}={cookie['value']}"

    def _dialog(self, dialog: Dialog) -> None:
        if dialog.type != "beforeunload":
            self.complaints.append(dialog.message)
        dialog.accept()


@pytest.fixture(scope="module")
def tab(browser: Browser, server: Server) -> Tab:
    return Tab(browser, server)


@pytest.fixture
def page(tab: Tab, server: Server) -> Iterator[Page]:
    """The page, opened anew; what it asks for and complains about must be nothing from outside, and nothing."""
    tab.page.set_viewport_size({"width": 1300, "height": 900})
    tab.page.goto(f"http://{server.host}/")
    tab.page.wait_for_selector("#errors table")
    yield tab.page
    own = f"http://{server.host}/"
    assert [url for url in tab.requests if not url.startswith((own, f"blob:{own}"))] == []
    killed = server.process.poll() is not None
    assert [words for words in tab.complaints if not (killed and "ERR_CONNECTION_REFUSED" in words)] == []


def planned(page: Page) -> None:
    """Waits until the newest question is answered."""
    page.wait_for_timeout(150)
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")


def errors(page: Page) -> dict[str, str]:
    rows = page.locator("#errors tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").nth(1).inner_text() for row in rows}


def downloaded(page: Page, button: str) -> str:
    with page.expect_download() as waiting:
        page.click(button)
    return Path(waiting.value.path()).read_text()


def toml(page: Page) -> dict:
    return tomllib.loads(downloaded(page, "#download"))


def upload(page: Page, text: str, name: str = "sent.toml") -> None:
    page.set_input_files("#chosen", {"name": name, "mimeType": "text/plain", "buffer": text.encode()})
    expect(page.locator("#file")).to_contain_text(name)
    planned(page)


def check_accessible(page: Page, **options: object) -> None:
    found = Axe().run(page, options={"resultTypes": ["violations"], **options})
    assert found.violations_count == 0, found.generate_report()


def test_the_token_works_once_and_others_are_refused(server, page):
    """Also: a foreign host, origin or cookie; a body that is too long or means nothing; no trace, no data."""
    token = urlsplit(server.link).query
    assert server.ask("GET", f"/?{token}", Cookie="", Origin=None)[0] == 403, "once"
    assert server.ask("GET", "/?token=wrong", Cookie="", Origin=None)[0] == 403
    assert server.ask("GET", "/", Origin=None)[0] == 200
    for change in (
        {"Host": "planner.example.org"},
        {"Host": f"localhost:{server.host.split(':')[1]}"},
        {"Host": "127.0.0.1"},
        {"Cookie": ""},
        {"Cookie": server.cookie[:-1] + "x"},
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": None},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        status, words, headers = server.ask("POST", "/start", {"which": "first"}, **change)
        assert status in (403, 421), change
        assert "survey" not in words
        assert "default-src 'none'" in headers["content-security-policy"]
    assert server.ask("POST", "/start", {"which": "first"})[0] == 200
    assert server.ask("POST", "/open", b"x" * (2**23 + 1))[0] == 413
    assert server.ask("POST", "/open", b"{}", Content_Type="text/plain")[0] == 415
    assert server.ask("POST", "/open", b"[" * 100_000)[0] == 400
    assert server.ask("GET", "/plan", Origin=None)[0] == 405
    for path in ("/../pyproject.toml", "/static/page.html", "/etc/passwd", "/docs", "/openapi.json"):
        assert server.ask("GET", path, Origin=None)[0] == 404
    for body in ({}, {"document": "d1"}, {"document": 7, "form": []}, {"document": "d1", "form": {"attributes": 3}}):
        status, words, _ = server.ask("POST", "/plan", {"page": "p", **body})
        assert status == 200
        assert "error" in json.loads(words)
        assert "Traceback" not in words
    policy = server.ask("GET", "/", Origin=None)[2]["content-security-policy"]
    assert "unsafe" not in policy
    text = "".join(server.ask("GET", path, Origin=None)[1] for path in ("/", "/planner.js"))
    assert re.search(r"<script(?![^>]*src=)|style=|onclick=|innerHTML|eval\(", text) is None


def test_it_is_accessible_and_tells_no_source(page, server):
    page.click("#keep")
    page.wait_for_selector("#compare table")
    assert "secret" not in page.content()
    for summary in page.locator("summary").all():
        summary.click()
    planned(page)
    check_accessible(page)
    page.emulate_media(color_scheme="dark")
    check_accessible(page, runOnly=["color-contrast"])
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 25)"
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.emulate_media(color_scheme="light")


def test_keys_alone_declare_ask_and_save(page, server):
    """No pointer: from the skip link to a saved specification that the command reads."""

    def to(name: str, most: int = 80) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if name in page.evaluate("(e => [e.labels?.[0]?.textContent, e.textContent])(document.activeElement)"):
                return
        raise AssertionError(f"no way to {name}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    to("Add an attribute")
    page.keyboard.press("Enter")
    page.keyboard.type("region")  # the name has the focus, and is selected
    to("Values, one per line")
    page.keyboard.type("north\nsouth\n\neast")
    to("two")
    page.keyboard.press("Space")
    to("Wish for each number")
    page.keyboard.press("ArrowDown")  # a standard error of at most …
    to("At most")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("7.5")
    to("Move the budget")
    before = page.input_value("#amount")
    page.keyboard.press("ArrowRight")
    assert float(page.input_value("#amount")) > float(before)
    planned(page)
    expect(page.locator("#answer")).to_contain_text("What the wishes cost")
    page.keyboard.press("Shift+Tab")
    for _ in range(60):
        if page.evaluate("document.activeElement.id") == "save":
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("Saved survey.toml")
    spec = read_spec(server.path)
    assert spec.domain["region"].labels == ("north", "south", "east")
    assert spec.workload.sets == ((), ("age",), ("sex",), ("region",))
    assert set(spec.targets) == {7.5**2}
    assert spec.guarantee.rho == float(page.input_value("#amount"))
    assert spec.source["path"] == "/secret/people.csv"
    assert server.path.read_text().startswith("# A survey, for the tests.")


def test_every_kind_of_attribute(page):
    page.click("#new")
    expect(page.locator("#start")).to_be_visible()
    expect(page.locator("#problem")).to_contain_text("Declare an attribute")
    page.click("#demo")
    expect(page.locator("#file")).to_contain_text("bundled example")
    planned(page)
    page.click("#new")
    expect(page.locator("#attributes li")).to_have_count(0)

    def add(name: str, kind: str) -> object:
        page.click("#add-attribute")
        card = page.locator("#attributes > li").last
        card.get_by_label("Name", exact=True).first.fill(name)
        card.get_by_label("Kind").select_option(kind)
        return card

    add("sex", "values").get_by_label("Values, one per line").fill("F\nM")
    card = add("grade", "values")
    card.get_by_label("Values, one per line").fill("1\n2")
    card.get_by_label("They are").select_option("number")
    card = add("age", "range")
    card.get_by_label("From").fill("0")
    card.get_by_label("To", exact=True).fill("9")
    card.get_by_text("Levels, other values, titles").click()
    card.get_by_text("Add a level").click()
    card.get_by_label("Name", exact=True).last.fill("band")
    card.get_by_label("Edges").fill("0, 5, 10")
    card.get_by_label("A value that is not declared").select_option("other")
    card.get_by_label("Further settings, as TOML").fill('title = "Age"')
    card = add("county", "values")
    card.get_by_label("Values, one per line").fill("Kern\nNapa\nErie")
    card.get_by_text("Levels, other values, titles").click()
    card.get_by_text("Add a level").click()
    card.get_by_label("Name", exact=True).last.fill("state")
    card.get_by_label("Groups").fill("CA\n  Kern\n  Napa\nNY\n  Erie")
    card = add("income", "bins")
    card.get_by_label("Edges").fill("0, 10, inf")
    card.get_by_label("Labels, one per line").fill("low\nhigh")
    card = add("day", "dates")
    card.get_by_label("First day").fill("2024-01-01")
    card.get_by_label("Last day").fill("2024-03-31")
    card.get_by_label("Counted by").select_option("month")
    card.get_by_label("quarter").check()
    add("code", "codes").get_by_label("How many").fill("3")
    add("size", "other").get_by_label("TOML").fill("intervals = [[0, 1], [1, 2]]")
    card = add("gone", "codes")
    card.get_by_text("Remove", exact=True).click()
    page.locator("#attributes > li").last.get_by_text("Move up").click()
    page.get_by_text("Impossible combinations").click()
    page.fill("#rules", '[[impossible]]\nage = 0\nincome = "high"')
    planned(page)
    expect(page.locator("#attributes .count").nth(2)).to_have_text("11 cells")
    found = toml(page)
    rules = found["domain"].pop("impossible")
    assert rules == [{"age": 0, "income": "high"}]
    assert list(found["domain"]) == ["sex", "grade", "age", "county", "income", "day", "size", "code"]
    assert found["domain"]["grade"] == {"values": [1, 2]}
    assert found["domain"]["age"] == {
        **{"low": 0, "high": 9, "unknown": "other", "title": "Age"},
        "levels": {"band": [0, 5, 10]},
    }
    assert found["domain"]["county"]["levels"] == {"state": {"CA": ["Kern", "Napa"], "NY": ["Erie"]}}
    assert found["domain"]["income"] == {"edges": [0, 10, float("inf")], "labels": ["low", "high"]}
    assert found["domain"]["day"]["levels"] == ["quarter"]


def test_every_kind_of_entry_and_wish(page):
    upload(page, SPEC.replace("[domain.sex]", '[domain.sex]\nlevels = { all = { both = ["F", "M"] } }'))
    page.locator("#tables").get_by_label("three").check()
    card = page.locator("#tables > li").first
    card.get_by_label("At most so many cells").fill("15")
    card.get_by_text("Weight").click()
    card.get_by_label("How much it matters").fill("1/cells")

    def add(kind: str) -> object:
        page.click("#add-table")
        last = page.locator("#tables > li").last
        last.get_by_label("What", exact=True).select_option(kind)
        return last

    card = add("sets")
    card.get_by_text("Add a table").click()
    card.get_by_label("Add an attribute to table 1").select_option("sex")
    card.get_by_label("Add an attribute to table 1").select_option("age")
    card.get_by_label("Remove sex from table 1").click()
    card.get_by_text("Add a table").click()
    card.get_by_label("Remove table 2").click()
    add("small").get_by_label("At most so many cells").fill("5")
    card = add("prefixes")
    card.get_by_label("Of the attribute").select_option("age")
    card.get_by_label("Add an attribute to the groups").select_option("sex")
    card = add("ranges")
    card.get_by_label("Of the attribute").select_option("age")
    card.get_by_label("Only these ranges").fill("1 .. 3\n2 .. 9")
    add("hierarchy").get_by_label("Of the attribute").select_option("sex")
    add("other").get_by_label("TOML").fill('product = { age = "prefixes" }\nsets = [["age"]]')
    card = add("product")
    card.get_by_label("Attribute", exact=True).select_option("sex")
    card.get_by_label("Counted").select_option("all")
    card.get_by_text("Cross with another").click()
    card.get_by_label("Attribute", exact=True).last.select_option("age")
    card.get_by_label("Counted").last.select_option("prefixes")
    card.get_by_label("one attribute").check()
    card = add("queries")
    card.get_by_label("Condition, as SQL").fill("age >= 5")
    card.get_by_label("Label").fill("grown")
    found = toml(page)
    assert found["workload"] == [
        {"ways": [0, 1, 2, 3], "max_cells": 15, "weight": "1/cells"},
        {"sets": [["age"]]},
        {"max_cells": 5},
        {"prefixes": "age", "by": ["sex"]},
        {"ranges": "age", "listed": [[1, 3], [2, 9]]},
        {"hierarchy": "sex"},
        {"product": {"age": "prefixes"}, "sets": [["age"]]},
        {"product": {"sex": "all", "age": "prefixes"}, "ways": [1]},
        {"queries": {"grown": "age >= 5"}},
    ]
    for _ in range(8):
        page.locator("#tables > li").last.get_by_role("button", name="Remove", exact=True).click()
    page.locator("#tables").get_by_label("three").uncheck()
    planned(page)
    card = page.locator("#tables > li").first
    for wish, amount in (("variance", "100"), ("margin", "20"), ("stddev", "4")):
        card.get_by_label("Wish for each number").select_option(wish)
        card.get_by_label("At most", exact=True).fill(amount)
        if wish == "margin":
            card.get_by_label("With confidence").fill("0.9")
            assert toml(page)["workload"][0]["confidence"] == 0.9
    planned(page)
    expect(page.locator("[data-part=wishes]")).to_contain_text("To meet them all takes")
    page.get_by_label("the wishes").check()
    planned(page)
    assert "rho" not in toml(page).get("privacy", {})
    expect(page.locator("[data-part=wishes]")).to_contain_text("yes")
    page.locator("#attributes summary").first.click()
    page.get_by_label("Name", exact=True).fill("years")
    page.wait_for_timeout(500)
    page.get_by_label("Noise").select_option("pure")
    assert toml(page)["privacy"] == {"epsilon": "least"}


def test_budget_currencies_comparison_and_list(page):
    upload(page, SPEC)
    assert errors(page)["sex"] == "2"
    page.click("#keep")
    page.wait_for_selector("#compare table")
    for currency, value in (("mu", 1), ("approx", 4.88655), ("rho", 0.5)):
        page.get_by_label("Currency").select_option(currency)
        assert abs(float(page.input_value("#amount")) - value) < 1e-4, "the same budget in another currency"
        planned(page)
        assert errors(page)["sex"] == "2"
    page.fill("#amount", "0.125")
    planned(page)
    assert errors(page)["sex"] == "4", "a quarter of rho: twice the error"
    row = page.locator("#compare tr", has=page.locator("th", has_text=re.compile("^sex$")))
    assert row.locator("td").all_inner_texts() == ["2", "4", "2"]
    both = downloaded(page, "#compare button:has-text('Report')")
    assert "What changes" in both
    page.get_by_text("Forget A").click()
    expect(page.locator("#compare-section")).to_be_hidden()
    page.locator("#slider").fill("700")
    planned(page)
    assert float(page.input_value("#amount")) == pytest.approx(1.58, abs=0.01)
    page.get_by_label("Currency").select_option("pure")
    page.fill("#amount", "1")
    planned(page)
    expect(page.locator("#answer")).to_contain_text("pure differential privacy")
    page.get_by_label("Currency").select_option("rho")
    page.get_by_text("Whom it protects, and what is best").click()
    page.get_by_label("Records of one person").fill("2")
    page.get_by_label("Best is").select_option("p-norm")
    page.get_by_label("p", exact=True).fill("3")
    page.get_by_label("[objective]").fill("tolerance = 1e-3")
    found = toml(page)
    assert (found["privacy"]["records"], found["objective"]) == (2, {"minimise": "p-norm", "p": 3, "tolerance": 1e-3})
    page.get_by_label("Protected").select_option("replace")
    page.get_by_label("Best is").select_option("max")
    assert toml(page)["privacy"]["replace"] is True
    page.fill("#find", "× s")
    expect(page.locator("#errors tbody tr")).to_have_count(1)
    page.fill("#find", "")
    page.get_by_label("Order").select_option("worst")
    expect(page.locator("#errors tbody tr")).to_have_count(4)
    page.fill("#amount", "much")
    expect(page.locator("#problem")).to_contain_text("is not a number")


def test_report_and_notebook_leave_the_page(page, browser, tmp_path):
    upload(page, SPEC)
    text = downloaded(page, "#report")
    assert text.startswith("<!DOCTYPE html>\n<!-- residua report -->")
    assert "age × sex" in text
    book = json.loads(downloaded(page, "#notebook"))
    space: dict = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], space)
    assert space["plan"].guarantee.rho == 0.5


def test_a_hundred_attributes_with_hostile_labels(page):
    """Names and labels that are markup, scripts and turned writing do nothing; a hundred attributes are found."""
    labels = ", ".join(json.dumps(label) for label in LABELS if not set(label) & set("\n\x1b"))
    names = [NAME, "<img src=x onerror=alert(4)>", "__proto__", *(f"a{i}" for i in range(97))]
    domain = "".join(f"[domain.{json.dumps(name)}]\nvalues = [{labels}]\n" for name in names)
    upload(page, f"[privacy]\nrho = 0.5\n[[workload]]\nways = [0, 1, 2]\n{domain}", "<b>hostile.toml")
    expect(page.locator("#answer")).to_contain_text("5,051 tables")
    assert page.locator("#attributes > li").count() == 100
    assert LABELS[0] in page.locator("#attributes .kind").first.inner_text()
    assert page.locator("script:not([src='/planner.js']), img, iframe, b, svg svg").count() == 0
    page.locator("#attributes summary").first.click()
    page.fill("#seek", "onerror")
    expect(page.locator("#attributes > li:visible")).to_have_count(2)
    page.fill("#find", "__proto__ × a96")
    expect(page.locator("#errors tbody tr")).to_have_count(1)
    assert page.evaluate("({}).polluted") is None
    found = toml(page)
    assert list(found["domain"]) == names
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_mistakes_are_shown_where_they_are(page, server):
    upload(page, SPEC)
    card = page.locator("#attributes > li").first
    card.locator("summary").first.click()
    card.get_by_label("To", exact=True).fill("")
    expect(page.locator("#problem")).to_contain_text("high: an empty field is not a whole number")
    card.get_by_label("To", exact=True).fill("-5")
    expect(page.locator("#problem")).to_contain_text("attribute 'age'")
    expect(card).to_have_class("card wrong")
    expect(page.locator("#answer")).to_have_class("old")
    before = server.path.read_bytes()
    page.click("#save")
    expect(page.locator("#alert")).to_contain_text("attribute 'age'")
    assert server.path.read_bytes() == before, "nothing wrong is saved"
    page.set_input_files("#chosen", {"name": "x.toml", "mimeType": "text/plain", "buffer": b"[domain"})
    expect(page.locator("#alert")).to_contain_text("is not TOML")
    card.get_by_label("To", exact=True).fill("5")
    planned(page)
    page.route("**/plan", lambda route: route.fulfill(json={"slow": 10}))
    card.get_by_label("To", exact=True).fill("6")
    expect(page.locator("#problem")).to_contain_text("no plan within 10 seconds")
    page.unroute("**/plan")
    page.get_by_text("let it run").click()
    expect(page.locator("#problem")).to_be_empty()
    page.route("**/plan", lambda route: None)  # no answer for a while
    card.get_by_label("To", exact=True).fill("7")
    page.click("#stop")
    expect(page.locator("#problem")).to_contain_text("Stopped")
    page.unroute("**/plan")


def test_a_draft_is_opened_where_the_file_of_the_command_line_is(page, server):
    """What was kept of a page whose server was gone; the sections that no page sees are those of the file."""
    form = json.loads(server.ask("POST", "/start", {"which": "first"})[1])["form"]
    form["attributes"][0]["high"] = "42"
    draft = {"kind": "residua draft", "form": form}
    page.set_input_files("#chosen", {"name": "d.json", "mimeType": "", "buffer": json.dumps(draft).encode()})
    planned(page)
    found = toml(page)
    assert (found["domain"]["age"]["high"], found["source"]["path"]) == (42, "/secret/people.csv")
    for bad in (b"{}", b"{", json.dumps({"kind": "residua draft", "form": {"attributes": 3}}).encode()):
        page.set_input_files("#chosen", {"name": "d.json", "mimeType": "", "buffer": bad})
        expect(page.locator("#alert")).to_contain_text("neither a specification nor a draft")
    assert toml(page)["domain"]["age"]["high"] == 42, "and the page is as it was"


def test_a_killed_server_is_noticed_and_the_work_is_kept(page, server):
    """The page says so, keeps every field, and hands out a draft, which another planner opens."""
    upload(page, SPEC)
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(20)
    page.locator("#attributes summary").first.click()
    page.get_by_label("To", exact=True).fill("77")
    expect(page.locator("#alert")).to_contain_text("has stopped")
    assert page.get_by_label("To", exact=True).input_value() == "77"
    draft = downloaded(page, "#draft")
    assert json.loads(draft)["form"]["attributes"][0]["high"] == "77"
    check_accessible(page, runOnly=["color-contrast", "button-name", "region"])
    for child in children:  # what plans has ended too, or is a zombie that waits for its parent
        status = Path(f"/proc/{child}/status")
        assert not status.exists() or "State:\tZ" in status.read_text()
