"""What the page is told of plans, and the notebook of a plan: the same figures as the command's, and it runs."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from residua import ui
from residua.cli.planning import make_plan
from residua.cli.spec import spec_of
from residua.demo_data import demo_folder
from residua.errors import PlanError, SpecError
from residua.published.quality import grades
from residua.report.accuracy import accuracy
from residua.ui.documents import Document
from residua.ui.facts import facts_of
from residua.ui.notebook import notebook
from residua.ui.planning import PlanningProcesses, SlowError, SupersededError
from residua.ui.preview import expected
from residua.ui.worker import answer

PLACE = demo_folder() / "adult.toml"
DOMAIN = {
    "age": {"low": 0, "high": 9, "levels": {"band": [0, 5, 10]}},
    "sex": {"values": ["F", "M"], "title": "Sex"},
    "income": {"edges": [0, 10, float("inf")], "labels": ["low", "high"], "missing": "other"},
    "day": {"first": "2024-01-01", "last": "2024-02-29", "unit": "month"},
    "<script>alert(1)</script>": {"values": ["'\"]", "it's", "{{ 7 }}"]},
    "code": {"size": 3},
    "impossible": [{"age": {"low": 0, "high": 2}, "income": "high"}],
}
SPECS = [
    {"privacy": {"rho": 0.5}, "workload": [{"ways": [0, 1, 2]}]},
    {
        "privacy": {"mu": 1.0, "records": 3},
        "workload": [{"sets": [["age", "sex"]]}, {"prefixes": "age", "by": ["sex"]}],
    },
    {"privacy": {"epsilon": 1.0, "delta": 1e-9, "replace": True}, "workload": [{"hierarchy": "age", "weight": 2.0}]},
    {"privacy": {"epsilon": 1.0}, "workload": [{"sets": [["sex"], ["code"]]}]},
    {"privacy": {"epsilon": "least"}, "workload": [{"sets": [["sex"], ["code"]], "stddev": 10}]},
    {"workload": [{"sets": [["sex"]], "stddev": 5}, {"ways": [2], "margin": 50}]},
    {"privacy": {"rho": 0.1}, "workload": [{"queries": {"grown": "age >= 5"}}, {"ranges": "age", "listed": [[1, 3]]}]},
    {"privacy": {"rho": 0.1}, "workload": [{"ways": [1]}], "objective": {"minimise": "p-norm", "p": 3}},
    {"privacy": {"rho": 0.1}, "workload": [{"ways": [1]}], "objective": {"minimise": "largest", "count": 2}},
    {
        "privacy": {"rho": 0.1},
        "workload": [{"sets": [["sex", "code"]]}],
        "objective": {"dense": True, "minimise": "max"},
    },
    {"privacy": {"rho": 0.1}, "workload": [{"prefixes": "age"}], "objective": {"axis": True}},
]


def spec_and_content(settings):
    content = {"domain": DOMAIN, **settings}
    return spec_of(content, PLACE), content


@pytest.mark.parametrize("settings", SPECS, ids=str)
def test_the_notebook_is_sound_and_its_plan_is_the_plan(settings, capsys):
    spec, content = spec_and_content(settings)
    book = json.loads(notebook(spec, content["workload"], "Plan: <b>spec</b>"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    assert "<" not in book["cells"][0]["source"]
    space: dict = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], space)
    plan = make_plan(spec)
    assert type(space["plan"]) is type(plan)
    assert space["plan"].domain == plan.domain
    assert (space["plan"].guarantee, space["plan"].unit) == (plan.guarantee, plan.unit)
    assert np.allclose(space["plan"].variances(space["workload"]), plan.variances(plan.workload), rtol=1e-6)
    assert "Guarantee" in capsys.readouterr().out


def test_figures_are_those_of_the_command():
    spec, _ = spec_and_content(SPECS[0])
    told, found = facts_of(spec, {"rows": 500}), accuracy(make_plan(spec), 10**6)
    assert [row["stddev"] for row in told["rows"]] == [one.stddev for one in found.listed]
    assert list(told["sizes"].values()) == [10, 2, 3, 2, 3, 3]
    assert told["guess"] == "69.2"
    sought = facts_of(spec, {"find": "AGE ×", "order": "worst", "rows": 3})
    assert len(sought["rows"]) == 3 < sought["matching"] == 5
    assert [row["stddev"] for row in sought["rows"]] == sorted((r["stddev"] for r in sought["rows"]), reverse=True)


@pytest.mark.parametrize("privacy", [{"rho": 0.02}, {"epsilon": 0.5}])
def test_what_wishes_cost_is_what_the_command_says_and_the_curve_leads_there(privacy):
    """At that cost, as the curve has it, the worst of the wishes is just met."""
    workload = [{"sets": [["sex"]], "stddev": 10}, {"sets": [["sex", "code"]], "stddev": 20}]
    spec, _ = spec_and_content({"privacy": privacy, "workload": workload})
    told = facts_of(spec, {})
    free = {"privacy": {"epsilon": "least"} if "epsilon" in privacy else {}, "workload": workload}
    least, wishes, curve = make_plan(spec_and_content(free)[0]), told["wishes"], told["curve"]
    assert wishes["guarantee"] == repr(least.guarantee)
    needed = wishes["amounts"]["rho" if "rho" in privacy else "pure"]
    assert math.isclose(wishes["factor"], (needed / curve["at"]) ** (0.5 if "rho" in privacy else 1), rel_tol=0.02)
    assert wishes["met"] == (wishes["factor"] <= 1)
    assert [row["wish"] for row in told["rows"]] == [10, 20]


def test_plans_stand_side_by_side():
    spec, _ = spec_and_content(SPECS[0])
    half, _ = spec_and_content({"privacy": {"rho": 0.25}, "workload": [{"ways": [1]}]})
    rows = facts_of(spec, {}, [half])["beside"]["rows"]
    first = next(row for row in rows if row["table"] == "age")
    assert all(first["stddevs"])
    pair = next(row for row in rows if row["table"] == "age × sex")
    assert pair["stddevs"][0] is not None or pair["stddevs"][1] is not None


def test_what_is_unfinished_is_named_and_the_rest_is_planned():
    """An attribute or an entry marks itself alone, whether its field or its meaning is wrong; no trace of ours."""
    document = Document("x.toml", None, {"domain": DOMAIN, **SPECS[0]})
    form = document.shown()["form"]
    form["attributes"] += [
        {"name": "half", "kind": "range", "low": "", "high": "3"},
        {"name": "no", "kind": "codes", "size": "0"},
    ]
    form["tables"] += [{"kind": "sets", "sets": [["half", "sex"]]}, {"kind": "sets", "sets": [["unheard"]]}]
    content, places, problems = document.sound(form)
    request = {"task": "plan", "folder": str(PLACE.parent), "name": "x.toml", "places": places, "problems": problems}
    told = answer(request | {"content": content, "unfinished": ["half"]})
    wrong = {(kind, i): words for kind, i, words in told["problems"]}
    assert set(wrong) == {("attributes", 6), ("attributes", 7), ("tables", 2)}
    assert "From: an empty field" in wrong["attributes", 6]
    assert "'no'" in wrong["attributes", 7]
    whole = answer(request | {"content": {"domain": DOMAIN, **SPECS[0]}, "problems": []})
    rules = DOMAIN["impossible"]
    assert told["count"] == whole["count"] == 22, rules
    nothing = answer(request | {"content": {"domain": {"no": {"size": 0}}, **SPECS[0]}, "places": None})
    assert nothing["nothing"]
    one = answer(request | {"content": {"domain": {"a": {"size": 2}, "no": {"size": 0}}, **SPECS[0]}, "places": None})
    assert one["count"] == 2, "tables of two attributes wait for the second"
    with pytest.raises(SpecError, match="not a number"):  # which is no attribute's
        document.sound(form | {"privacy": {"by": "budget", "currency": "rho", "value": "x"}})
    told = answer(request | {"task": "report", "content": {"domain": DOMAIN, **SPECS[0]}})  # no title: our own mistake
    assert "mistake of residua" in told["error"]


def test_a_table_is_shown_as_it_would_look():
    """Expected counts are those that the user types, errors the plan's; nothing else goes into them."""
    spec, _ = spec_and_content(SPECS[0])
    public = {"sex": [["F", "30"], ["M", "10"]]}
    told = facts_of(spec, {"people": "20,000", "public": public, "table": ["sex", "code"], "rows": 500})
    shown, plan = told["preview"], make_plan(spec)
    stddev = math.sqrt(plan.variance(["sex", "code"]).flat[0])
    assert shown["stddev"] == pytest.approx(stddev)
    texts, tags = [], set()

    def walk(tree):
        tags.add(tree[0])
        for each in tree[2:]:
            walk(each) if isinstance(each, list) else texts.append(each)

    walk(shown["picture"]["tree"])
    assert {"5,000", "1,667"} <= set(texts)
    walk(facts_of(spec, {"people": "200", "public": public, "table": ["sex", "code"]})["preview"]["picture"]["tree"])
    walk(facts_of(spec, {"people": "200", "table": ["age"]})["preview"]["picture"]["tree"])
    static = Path(ui.__file__).parent / "static"
    drawn = re.search(r'const DRAWN = new Set\("([^"]*)"', (static / "parts.js").read_text())
    assert tags <= set(drawn[1].split()), "what charts are made of, the page can draw"
    row = next(row for row in told["rows"] if row["names"] == ["sex", "code"])
    assert row["flags"] == shown["flags"] == [6, 0, 0]
    few = expected(spec.domain, {"people": 100, "public": public})
    for names in (["sex"], ["sex", "code"], ["code", "age"], []):
        counts = few.counts(spec.domain, names)
        assert counts.sum() == pytest.approx(100)
        for error in (0.5, 2.0, 7.0, 40.0):
            flags = np.bincount(grades(counts, error).ravel(), minlength=3).tolist()
            assert few.flags(spec.domain, names, error) == flags
    assert facts_of(spec, {})["preview"] is None, "nobody said how many people there are"
    advice = {people: facts_of(spec, {"people": people})["preview"]["advice"] for people in ("40", "20,000")}
    assert advice["20,000"] == ""
    assert "rs.estimate" in advice["40"], "tables of so few people would be mostly noise"
    for wrong in ({"people": "many"}, {"people": "-3"}, {"people": "9", "public": {"sex": [["X", "1"]]}}):
        with pytest.raises(SpecError):
            expected(spec.domain, wrong)


@pytest.mark.parametrize("budget", [{"rho": 0.3}, {"epsilon": 0.7}])
def test_the_curve_is_that_of_plans_at_other_budgets(budget):
    """At each of its odds, a plan with that budget has those odds and errors larger by that factor."""
    settings = {"workload": [{"sets": [["sex"], ["code"]]}], "privacy": budget}
    told = facts_of(spec_and_content(settings)[0], {})
    key = "epsilon" if "epsilon" in budget else "rho"
    for odds, other, factor in told["curve"]["points"][5::12]:
        there = facts_of(spec_and_content(settings | {"privacy": {key: other}})[0], {})
        assert float(there["guess"]) == pytest.approx(odds, abs=0.11)
        assert there["rows"][0]["stddev"] == pytest.approx(told["rows"][0]["stddev"] * factor, rel=2e-3)


STUB = """
import pickle, sys, time
print("ready", flush=True)
while True:
    asked = pickle.load(sys.stdin.buffer)
    if asked["task"] == "die":
        sys.exit(1)
    time.sleep(asked["task"])
    print('{"seconds": %s}' % asked["task"], flush=True)
"""


def test_a_slow_plan_is_ended_and_a_newer_question_wins():
    """With processes that sleep in place of planning: nothing waits for them, and nothing is left running."""

    async def asked() -> None:
        planner = PlanningProcesses([sys.executable, "-S", "-c", STUB])
        await planner.start()
        assert await planner.ask({"task": 0}, page="p") == {"seconds": 0}
        with pytest.raises(SlowError):
            await planner.ask({"task": 99}, page="p", limit=0.2)
        with pytest.raises(PlanError, match="ended from outside"):
            await planner.ask({"task": "die"}, page="p")
        older = asyncio.create_task(planner.ask({"task": 99}, page="p"))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(planner.ask({"task": 98}, page="p"))
        await asyncio.sleep(0.05)
        assert await planner.ask({"task": 0.1}, page="p") == {"seconds": 0.1}
        for one in (older, waiting):
            with pytest.raises(SupersededError):
                await one
        stopped = asyncio.create_task(planner.ask({"task": 97}, page="q"))
        await asyncio.sleep(0.05)
        planner.supersede("q")
        with pytest.raises(SupersededError):
            await stopped
        running = list(planner._all)
        assert 1 <= len(running) <= 2
        await planner.stop()
        assert all(process.returncode is not None for process in running)

    started = time.monotonic()
    asyncio.run(asked())
    assert time.monotonic() - started < 90, "nobody waited for the sleepers"
