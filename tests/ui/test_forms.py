"""A specification and its form: what is opened and saved again is the same specification, to the command's reader."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

from residua.cli.spec import read_spec, spec_of
from residua.demo_data import demo_folder
from residua.errors import ResiduaError, SpecError
from residua.ui.documents import Desk, Document, demo, opened
from residua.ui.form import content_of, form_of, kept_of
from residua.ui.typed import number
from residua.ui.worker import answer

ROOT = Path(__file__).parents[2]
ATTRIBUTES = {
    "text": {"values": ["a", "b c", " d ", "=1+1", "<script>alert(1)</script>", "\u202ex", "a\\nb"]},
    "numbers": {"values": [1, 2, -3], "unknown": "other"},
    "truth": {"values": [False, True], "missing": "drop"},
    "plain list": ["x", "y"],
    "lines": {"values": ["a\nb", "c"]},
    "blank": {"values": ["", "c"]},
    "range": {"low": 0, "high": 9, "levels": {"band": [0, 5, 10]}},
    "far": {"low": 2**60, "high": 2**60 + 3},
    "named bands": {"low": 0, "high": 9, "levels": {"band": {"edges": [0, 5, 10], "labels": ["low", "high"]}}},
    "grouped numbers": {"low": 0, "high": 3, "levels": {"half": {"one": [0, 1], "two": [2, 3]}}},
    "bins": {"edges": [0, 1.5, 2.0, float("inf")], "labels": ["a", "b", "c"]},
    "intervals": {"intervals": [[0, 1], [1, 2.5]]},
    "days": {"first": date(2024, 1, 1), "last": date(2024, 3, 31), "levels": ["month", "quarter"]},
    "weeks": {"first": "2024-01-01", "last": "2024-03-31", "unit": "week"},
    "codes": {"size": 7},
    "county": {
        "values": ["Kern", "Napa", "Erie"],
        "levels": {"state": {"CA": ["Kern", "Napa"], "NY": ["Erie"]}, "nation": {"US": ["CA", "NY"]}},
    },
    "member to group": {"values": ["Kern", "Erie"], "levels": {"state": {"Kern": "CA", "Erie": "NY"}}},
    "said": {"values": ["F", "M"], "title": {"en": "Sex"}, "code": "SEX", "meanings": {"F": "Female"}},
}
ENTRIES = [
    {"ways": [0, 1, 2]},
    {"ways": [1], "max_cells": 50, "weight": 2.0},
    {"ways": [1], "weight": "1/cells", "stddev": 10},
    {"sets": [["text", "codes"], []], "margin": 50, "confidence": 0.9},
    {"max_cells": 20, "variance": 100.0},
    {"queries": ["codes >= 3", "codes"]},
    {"queries": {"many": "codes >= 3"}, "weight": 3},
    {"prefixes": "range", "by": ["truth"]},
    {"ranges": "range", "listed": [[1, 3], [2, 9]]},
    {"hierarchy": "county"},
    {"product": {"range": "prefixes", "county": "state"}, "stddev": 4.5},
    {"product": {"range": "ranges"}, "ways": [1, 2]},
    {"product": {"range": "prefixes"}, "sets": [["range", "codes"]], "weight": 2, "stddev": 3},
]
BUDGETS = [
    {"rho": 0.5},
    {"rho": 1},
    {"mu": 1.0, "records": 3},
    {"epsilon": 1.0, "delta": 1e-9, "replace": True},
    {"epsilon": 2.0},
    {"epsilon": "least"},
    {"records": 2, "one_per": "month", "left_out": 0.02, "left_out_most": 50},
]


def again(content):
    form = json.loads(json.dumps(form_of(content)))  # as the page sends it
    return content_of(form, kept_of(content))


def typed(value):
    """With types: 1 is not 1.0."""
    if isinstance(value, dict):
        return {key: typed(one) for key, one in value.items()}
    return [typed(one) for one in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_declaration_comes_back_as_it_was(name):
    content = {"domain": {name: ATTRIBUTES[name], "other": {"size": 2}}, "workload": [{"ways": [1]}]}
    found = again(content)
    declared = ATTRIBUTES[name]
    content["domain"][name] = {"values": declared} if isinstance(declared, list) else declared  # the same thing
    assert typed(found) == typed(content)
    assert list(found["domain"]) == list(content["domain"])
    shown = form_of(content)["attributes"][0]["kind"]
    assert (shown == "other") == (name in {"lines", "blank", "intervals"}), "fields where there are any"


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_every_entry_comes_back_as_it_was(entry):
    content = {"domain": {"a": {"size": 2}}, "workload": [entry, {"ways": [1]}]}
    assert typed(again(content)) == typed(content)
    assert (form_of(content)["tables"][0]["kind"] == "other") == ("product" in entry and "sets" in entry)


@pytest.mark.parametrize("privacy", BUDGETS, ids=str)
def test_every_budget_comes_back_as_it_was(privacy):
    content = {
        "source": {"path": "x.csv", **({"person": "id"} if "one_per" in privacy else {})},
        "privacy": privacy,
        "objective": {"minimise": "p-norm", "p": 3, "tolerance": 1e-5},
        "domain": {"a": {"size": 2}, "impossible": [{"a": 1, "b": [2, 3]}]},
        "workload": [{"ways": [1]}],
        "ledger": {"path": "x.ledger", "rho": 1.0},
        "plan": {"fine": {"workload": [{"ways": [1]}]}},
    }
    assert typed(again(content)) == typed(content)
    content["objective"] = {"minimise": "largest", "count": 3}
    assert typed(again(content)) == typed(content)
    assert typed(again(content | {"objective": {"minimise": "max"}}))["objective"] == typed({"minimise": "max"})


def test_every_specification_of_the_documentation_comes_back():
    texts = [(demo_folder() / "adult.toml").read_text()]
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]:
        texts += re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    assert len(texts) > 5
    for text in texts:
        content = tomllib.loads(text)
        if "colours" in content:  # a theme of reports
            continue
        assert typed(again(content)) == typed({key: value for key, value in content.items() if value})


def test_what_is_saved_is_what_the_command_reads(tmp_path):
    text = (demo_folder() / "adult.toml").read_text()
    (tmp_path / "spec.toml").write_text(text)
    before = read_spec(tmp_path / "spec.toml")
    desk = Desk(tmp_path / "spec.toml")
    document = desk[desk.first]
    form = document.shown()["form"]
    form["attributes"][0]["high"] = "95"
    desk.save(document.text_of(document.content_of(form)))
    after = read_spec(tmp_path / "spec.toml")
    assert after.domain["age"].high == 95
    assert [after.domain[name] == before.domain[name] for name in before.domain.names].count(False) == 1
    assert (after.source, after.ledger, after.guarantee) == (before.source, before.ledger, before.guarantee)
    assert (tmp_path / "spec.toml").read_text().startswith(text.splitlines()[0]), "the comment at the top stays"
    desk.save(document.text_of(document.content_of(form)))  # our own file may be written again
    (tmp_path / "spec.toml").write_text(text + "# changed by hand\n")
    with pytest.raises(ResiduaError, match="was changed since"):
        desk.save("")
    assert (tmp_path / "spec.toml").read_text().endswith("# changed by hand\n")


def test_a_new_file_is_made_where_there_was_none(tmp_path):
    desk = Desk(tmp_path / "new.toml")
    assert desk[desk.first].shown()["form"]["attributes"] == []
    desk.save("[privacy]\nrho = 1.0\n")
    assert (tmp_path / "new.toml").read_text() == "[privacy]\nrho = 1.0\n"
    with pytest.raises(ResiduaError, match="does not exist"):
        Desk(tmp_path / "no" / "new.toml")
    with pytest.raises(ResiduaError, match="download"):
        Desk().save("x = 1\n")


FROM_FILE = {"values": {"file": "codes.txt"}}


@pytest.mark.parametrize(
    "stray",
    [
        'values = { file = "/etc/passwd" }',
        'values = { file = "codes.txt", column = "other" }',
        'values = ["a"]\nexpression = "y"',
        'codes = { file = "/data/records.parquet", levels = ["name"] }',
        'codes = { file = "../records.csv", child = "id", parent = "name" }',
        'codes = { file = "blocks.csv", column = "name", levels = ["tract"] }',
    ],
)
def test_a_page_can_name_no_source_no_file_and_no_expression(tmp_path, stray):
    """Whatever a page sends: it sees and changes none of these, and can only repeat what the file names."""
    declared = {"codes": {"file": "blocks.csv", "levels": ["tract"]}} if "codes" in stray else FROM_FILE
    content = {"domain": {"x": declared}, "workload": [{"ways": [1]}], "source": {"path": "secret.csv"}}
    document = Document("spec.toml", tmp_path, content)
    shown = document.shown()
    assert "secret" not in json.dumps(shown)
    assert document.content_of(shown["form"]) == content
    form = copy.deepcopy(shown["form"])
    form["attributes"][0]["rest"] = stray
    with pytest.raises(SpecError, match="not on this page"):
        document.content_of(form)
    form = copy.deepcopy(shown["form"]) | {"source": {"path": "/etc/passwd"}, "ledger": {"path": "x"}}
    assert document.content_of(form)["source"] == {"path": "secret.csv"}
    form["privacy"]["rest"] = 'path = "/etc/passwd"'
    with pytest.raises(ResiduaError, match="unknown key"):
        spec_of(document.content_of(form), tmp_path / "spec.toml")
    if "file" in stray:
        with pytest.raises(SpecError, match="a page cannot read"):
            opened(f"[domain.x]\n{stray}\n".encode(), "sent.toml")


def test_an_error_of_the_page_quotes_no_record_of_a_file_that_the_page_names(tmp_path):
    """All the way to the process that plans, as `residua ui` answers: a file's lines never come back."""
    (tmp_path / "records.csv").write_text("name,town\nAlice Smith,Kern\nAlice Smith,Erie\n")
    kind = f"codes = {{ file = {json.dumps(str(tmp_path / 'records.csv'))}, column = 'name', levels = ['town'] }}"
    desk = Desk(tmp_path / "spec.toml")
    document = desk[desk.first]
    form = document.shown()["form"] | {"attributes": [{"name": "x", "kind": "other", "rest": kind}]}
    said = []
    with contextlib.suppress(ResiduaError):
        said = answer({"task": "check", "content": document.content_of(form), "folder": "/", "name": "spec.toml"})
    assert "Alice" not in str(said)
    with pytest.raises(SpecError) as refusal:
        document.content_of(form)
    assert "Alice" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attributes": [{"name": "", "kind": "values", "values": []}]}, "no name"),
        ({"attributes": [{"name": "a", "kind": "range", "low": "", "high": "3"}]}, "From: an empty field"),
        ({"attributes": [{"name": "a", "kind": "range", "low": "1e3", "high": "3"}]}, "not a whole number"),
        ({"attributes": [{"name": "a", "kind": "dates", "first": "soon", "last": "2024-01-01"}]}, "not a date"),
        ({"attributes": [{"name": "a", "kind": "what"}]}, "no kind"),
        ({"attributes": [{"name": "a", "kind": "codes", "size": "2"}] * 2}, "two attributes"),
        ({"attributes": [{"name": "a", "kind": "codes", "size": "2", "rest": "size = 3"}]}, "say it once"),
        ({"attributes": [{"name": "a", "kind": "other", "rest": "]"}]}, "not TOML"),
        ({"attributes": "x"}, "no list"),
        ({"attributes": [{}] * 2001}, "more than"),
        ({"tables": [{"kind": "sets", "sets": []}]}, "no table"),
        ({"tables": [{"kind": "ways", "ways": ["one"]}]}, "not a whole number"),
        ({"tables": [{"kind": "prefixes", "along": ""}]}, "choose the attribute"),
        ({"privacy": {"by": "budget", "currency": "rho", "value": ""}}, "not a number"),
        ({"privacy": {"by": "budget", "currency": "gold", "value": "1"}}, "no currency"),
    ],
)
def test_a_field_that_is_wrong_is_a_sentence(change, words):
    with pytest.raises(SpecError, match=words):
        demo().content_of(demo().shown()["form"] | change)


def test_whatever_a_page_sends_is_a_specification_or_a_sentence():
    """Parts of a form replaced at random by anything that JSON can say."""
    chance = random.Random(7)
    junk = [
        None,
        True,
        3,
        -1.5,
        "",
        "x",
        "\0",
        "[" * 3000,
        [],
        [[]],
        [None],
        {},
        {"a": {}},
        [1, "x"],
        ["x"] * 3,
        10**400,
    ]
    document = opened(DEEP.encode(), "deep.toml")
    whole = json.dumps(document.shown()["form"])
    for _ in range(1000):
        form = json.loads(whole)
        for _ in range(chance.randint(1, 3)):
            place = form
            while True:
                keys = list(place) if isinstance(place, dict) else range(len(place))
                if not keys:
                    break
                key = chance.choice(keys)
                if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.8:
                    place = place[key]
                    continue
                place[key] = copy.deepcopy(chance.choice(junk))
                break
        with contextlib.suppress(ResiduaError):
            document.content_of(form)


DEEP = """
[privacy]
rho = 0.5
[[workload]]
ways = [1]
stddev = 3.0
[[workload]]
sets = [["a"]]
margin = 3.0
[[workload]]
ranges = "a"
listed = [[1, 2]]
[[workload]]
queries = { x = "a > 1" }
[domain.a]
low = 0
high = 9
levels = { half = [0, 5, 10] }
[domain.b]
values = ["x", "y"]
levels = { all = { both = ["x", "y"] } }
[domain.c]
edges = [0, 1, 2]
labels = ["p", "q"]
[domain.d]
first = 2024-01-01
last = 2024-02-01
levels = ["month"]
[domain.e]
size = 3
"""


@pytest.mark.parametrize(("text", "value"), [("0,1", 0.1), (",5", 0.5), ("3", 3), ("-1,25", -1.25), ("1e-3", 1e-3)])
def test_a_comma_is_a_decimal_point(text, value):
    assert number("x", text) == value


@pytest.mark.parametrize("text", ["20,000", "1,234,567", "1,2,3", "x", "", "0,x"])
def test_what_could_be_two_numbers_is_none(text):
    with pytest.raises(SpecError):
        number("x", text)


def test_wishes_leave_another_objective_out():
    form = demo().shown()["form"]
    form["tables"][0] |= {"wish": "stddev", "amount": "10"}
    content = demo().content_of(form)
    assert "objective" not in content
    assert spec_of(content, demo_folder() / "adult.toml").targets is not None
