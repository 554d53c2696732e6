"""The planner page in a real browser, served by the real command: every control, keys alone, hostile text, no server.

The server of this file is started once. Figures: about 15 s on one core, all together.
"""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from residua.cli.spec import read_spec
from tests.conformance.planner import SPEC, check_accessible, downloaded, errors, open_all, planned, step, toml, upload
from tests.published import LABELS, NAME

pytestmark = pytest.mark.xdist_group("planner")


def test_it_is_accessible_and_tells_no_source(page, server):
    step(page, "publish")
    page.click("#keep")
    page.wait_for_selector("#compare table")
    page.fill("#people", "20,000")
    assert "secret" not in page.content()
    for name in ("columns", "tables", "accuracy", "publish"):
        step(page, name)
        open_all(page)
        planned(page)
        check_accessible(page)
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_keys_alone_declare_ask_and_save(page, server):
    """No pointer: from the skip link to a saved specification that the command reads."""

    def to(name: str, most: int = 80, key: str = "Tab") -> None:
        for _ in range(most):
            page.keyboard.press(key)
            if name in page.evaluate("(e => [e.labels?.[0]?.textContent, e.textContent])(document.activeElement)"):
                return
        raise AssertionError(f"no way to {name}")

    page.locator("body").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    to("1Columns2 columns")
    page.keyboard.press("Enter")
    to("Add a column")
    page.keyboard.press("Enter")
    to("Name", key="Shift+Tab")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("region")
    to("Values, one per line")
    page.keyboard.type("north\nsouth\n\neast")
    to("Next: choose tables")
    page.keyboard.press("Enter")
    to("two", key="Shift+Tab")
    page.keyboard.press("Space")
    to("Next: how accurate")
    page.keyboard.press("Enter")
    to("Compare with an accuracy I need", key="Shift+Tab")
    page.keyboard.press("Enter")
    to("Every number within ±", key="Shift+Tab")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("7,5", delay=300)  # slowly: nothing that comes late takes the field away
    to("Move the budget")
    before = page.input_value("#amount")
    page.keyboard.press("ArrowRight")
    assert float(page.input_value("#amount")) > float(before)
    planned(page)
    expect(page.locator("#cost")).to_contain_text("To be that accurate takes")
    to("Save", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("Saved survey.toml")
    spec = read_spec(server.path)
    assert spec.domain["region"].labels == ("north", "south", "east")
    assert spec.workload.sets == ((), ("age",), ("sex",), ("region",))
    assert max(spec.targets) == pytest.approx((7.5 / 1.959964) ** 2, rel=1e-4)
    assert spec.guarantee.rho == float(page.input_value("#amount"))
    assert spec.source["path"] == "/secret/people.csv"
    assert server.path.read_text().startswith("# A survey, for the tests.")


def test_every_kind_of_attribute(page):
    page.click("#new")
    page.click("#demo")
    expect(page.locator("#file")).to_contain_text("bundled example")
    planned(page)
    expect(page.locator(".preview")).to_contain_text("education")
    page.click("#new")
    page.click("#paste-fold summary")
    page.fill("#pasted", "sex")
    page.click("#paste")
    expect(page.locator("#todo")).to_contain_text("1 column to finish")
    page.get_by_text("Leave out", exact=True).click()
    page.click("#undo")

    def add(name: str, kind: str) -> object:
        page.click("#add-attribute")
        card = page.locator("#attributes > li").last
        card.get_by_label("Name", exact=True).first.fill(name)
        card.get_by_label("It holds").select_option(kind)
        return card

    page.get_by_label("Values, one per line").fill("F\nM")
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
    card.get_by_text("Leave out", exact=True).click()
    page.locator("#attributes > li summary").last.click()
    page.locator("#attributes > li").last.get_by_text("Move up").click()
    page.get_by_text("Combinations that cannot occur").click()
    page.fill("#rules", '[[impossible]]\nage = 0\nincome = "high"')
    planned(page)
    step(page, "columns")
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
    step(page, "tables")
    page.locator("#tables").get_by_label("three").check()
    card = page.locator("#tables > li").first
    card.get_by_text("Leave large tables out").click()
    card.get_by_label("At most so many cells").fill("15")
    card.get_by_text("A weight of your own").click()
    card.get_by_label("Weight", exact=True).fill("1/cells")

    def add(kind: str) -> object:
        page.click("#add-table")
        last = page.locator("#tables > li").last
        last.get_by_label("What", exact=True).select_option(kind)
        return last

    card = add("sets")
    card.get_by_text("Add a table").click()
    card.get_by_label("Add a column to table 1").select_option("sex")
    card.get_by_label("Add a column to table 1").select_option("age")
    card.get_by_label("Remove sex from table 1").click()
    card.get_by_text("Add a table").click()
    card.get_by_label("Remove table 2").click()
    add("small").get_by_label("At most so many cells").fill("5")
    card = add("prefixes")
    card.get_by_label("Of the column").select_option("age")
    card.get_by_label("Add a column to the groups").select_option("sex")
    card = add("ranges")
    card.get_by_label("Of the column").select_option("age")
    card.get_by_label("Only these ranges").fill("1 .. 3\n2 .. 9")
    add("hierarchy").get_by_label("Of the column").select_option("sex")
    add("other").get_by_label("TOML").fill('product = { age = "prefixes" }\nsets = [["age"]]')
    card = add("product")
    card.get_by_label("Column", exact=True).select_option("sex")
    card.get_by_label("Counted").select_option("all")
    card.get_by_text("Cross with another").click()
    card.get_by_label("Column", exact=True).last.select_option("age")
    card.get_by_label("Counted").last.select_option("prefixes")
    card.get_by_label("one column").check()
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
    step(page, "tables")
    card = page.locator("#tables > li").nth(1)
    card.get_by_label("These matter").select_option("16")
    page.get_by_label("Entry 2 up").click()
    page.click("#by-order")
    assert [entry["weight"] for entry in toml(page)["workload"][:2]] == [4**8, 4**7]
    page.click("#undo")
    page.click("#undo")
    assert toml(page)["workload"][1] == {"sets": [["age"]], "weight": 16}
    page.click("#undo")
    step(page, "tables")
    for _ in range(8):
        page.locator("#tables > li").last.get_by_role("button", name="Remove", exact=True).click()
    page.locator("#tables").get_by_label("three").uncheck()
    planned(page)
    step(page, "accuracy")
    page.click("#wish")
    for wish, amount in (("variance", "100"), ("margin", "20"), ("stddev", "4")):
        page.get_by_label("meaning").first.select_option(wish)
        page.fill("#within", amount)
    planned(page)
    expect(page.locator("#cost")).to_contain_text("To be that accurate takes")
    page.get_by_label("I know how accurate").check()
    planned(page)
    expect(page.locator("#price")).to_contain_text("rho")
    assert "rho" not in toml(page).get("privacy", {})
    expect(page.locator("#errors tbody tr").first).to_contain_text("yes")
    step(page, "columns")
    page.locator("#attributes summary").first.click()
    page.get_by_label("Name", exact=True).fill("years")
    step(page, "accuracy")
    page.get_by_text("For experts").click()
    page.get_by_label("Noise").select_option("pure")
    assert toml(page)["privacy"] == {"epsilon": "least"}


def test_budget_currencies_comparison_and_list(page):
    upload(page, SPEC)
    assert errors(page)["sex"] == "3.92"
    step(page, "publish")
    page.click("#keep")
    page.wait_for_selector("#compare table")
    step(page, "accuracy")
    for currency, value in (("mu", 1), ("approx", 4.88655), ("rho", 0.5)):
        page.get_by_label("Currency").select_option(currency)
        assert abs(float(page.input_value("#amount")) - value) < 1e-4, "the same budget in another currency"
        planned(page)
        assert errors(page)["sex"] == "3.92"
    page.fill("#amount", "0,125")
    planned(page)
    assert errors(page)["sex"] == "7.84", "a quarter of rho: twice the error"
    step(page, "publish")
    row = page.locator("#compare tr", has=page.locator("th", has_text=re.compile("^sex$")))
    assert row.locator("td").all_inner_texts() == ["2", "4", "2"]
    expect(page.locator(".changes")).to_contain_text("budget rho 0.5, now rho 0,125")
    both = downloaded(page, "#compare button:has-text('Report')")
    assert "What changes" in both
    page.get_by_text("Forget A").click()
    expect(page.locator("#compare")).to_have_count(0)
    step(page, "accuracy")
    page.locator("#slider").fill("700")
    planned(page)
    assert float(page.input_value("#amount")) == pytest.approx(1.58, abs=0.01)
    box = page.locator("figure.curve > svg").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 40)
    planned(page)
    assert 0.1 < float(page.input_value("#amount")) < 1, "a point of the curve is a budget"
    page.get_by_label("Currency").select_option("pure")
    page.fill("#amount", "1")
    planned(page)
    page.get_by_label("Currency").select_option("rho")
    page.get_by_label("some have several records").check()
    page.get_by_label("Records of one person").fill("2")
    page.get_by_text("For experts").click()
    page.get_by_label("Best is").select_option("p-norm")
    page.get_by_label("p", exact=True).fill("3")
    page.get_by_label("[objective]").fill("tolerance = 1e-3")
    found = toml(page)
    assert (found["privacy"]["records"], found["objective"]) == (2, {"minimise": "p-norm", "p": 3, "tolerance": 1e-3})
    step(page, "accuracy")
    page.get_by_label("What each record says").check()
    assert toml(page)["privacy"]["replace"] is True
    page.fill("#find", "× s")
    expect(page.locator("#errors tbody tr")).to_have_count(1)
    page.fill("#find", "")
    page.get_by_label("Order").select_option("worst")
    expect(page.locator("#errors tbody tr")).to_have_count(4)
    step(page, "accuracy")
    page.fill("#amount", "much")
    expect(page.locator("#problem")).to_contain_text("is not a number")


def test_report_and_notebook_leave_the_page(page, browser, tmp_path):
    upload(page, SPEC)
    step(page, "publish")
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
    step(page, "columns")
    assert page.locator("#attributes > li").count() == 100
    assert LABELS[0] in page.locator("#attributes .kind").first.inner_text()
    assert page.locator("script:not([src='planner.js']), img, iframe, svg svg").count() == 0
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
    step(page, "columns")
    card = page.locator("#attributes > li").first
    card.locator("summary").first.click()
    card.get_by_label("To", exact=True).fill("")
    expect(card).to_contain_text("To: an empty field is not a whole number")
    card.get_by_label("To", exact=True).fill("-5")
    expect(card.locator(".wrong")).to_contain_text("-5")
    expect(card).to_have_class("card unfinished")
    expect(page.locator("#errors tbody")).not_to_contain_text("age")
    expect(page.locator("#errors tbody")).to_contain_text("sex")  # the rest is planned
    before = server.path.read_bytes()
    page.click("#save")
    expect(page.locator("#alert")).to_contain_text("'age'")
    assert server.path.read_bytes() == before, "nothing wrong is saved"
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
    page.set_input_files("#chosen", {"name": "x.toml", "mimeType": "text/plain", "buffer": b"[domain"})
    page.get_by_role("button", name="Go on without it").click()
    expect(page.locator("#alert")).to_contain_text("is not TOML")
