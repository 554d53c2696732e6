"""What a newcomer tries in the first hour: what-ifs, saved plans, comparisons, conditions, projections, help."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist

import pytest

import residua as rs
from tests.cli.command import COMMAND, SPEC, inside, released
from tests.cli.mistakes import refused
from tests.cli.session_command import rho, run, with_plans


def plan_of(folder: Path, *words: str) -> rs.Plan:
    done = inside("plan", "spec.toml", *words, "--save", "what-if.plan", cwd=folder)
    assert done.code == 0, done.err
    return rs.Plan.load(folder / "what-if.plan")


@pytest.mark.parametrize(
    ("words", "guarantee"),
    [
        (["--rho", "0.1"], rs.ZCDP(0.1)),
        (["--mu", "0.5"], rs.GDP(0.5)),
        (["--epsilon", "1", "--delta", "1e-6"], rs.ApproxDP(1.0, 1e-6)),
        (["--epsilon", "1"], rs.PureDP(1.0)),
    ],
)
def test_what_if_another_budget(folder: Path, words: list[str], guarantee: rs.Plan) -> None:
    before = (folder / "spec.toml").read_bytes()
    assert plan_of(folder, *words).guarantee == guarantee
    assert (folder / "spec.toml").read_bytes() == before


def test_what_if_keeps_the_other_half_of_an_approximate_budget(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("[privacy]\nrho = 0.5", "[privacy]\nepsilon = 1\ndelta = 1e-6"))
    assert plan_of(folder, "--epsilon", "2").guarantee == rs.ApproxDP(2.0, 1e-6)
    assert plan_of(folder, "--delta", "1e-9").guarantee == rs.ApproxDP(1.0, 1e-9)


def test_what_if_other_targets_objective_or_records(folder: Path) -> None:
    z = NormalDist().inv_cdf(0.95)
    for words, stddev in ((["--stddev", "3"], 3.0), (["--margin", "5", "--confidence", "0.9"], 5 / z)):
        tables = json.loads(inside("plan", "spec.toml", *words, "--json", cwd=folder).out)["marginals"]
        assert [table["stddev"] for table in tables] == pytest.approx([stddev] * 4, rel=1e-3)
    assert plan_of(folder, "--minimise", "max").objective.startswith("MaxVariance")
    assert plan_of(folder, "--records", "3").unit == rs.AddRemove(3)
    refused(folder, "--confidence belongs to --margin", args=("plan", "spec.toml", "--confidence", "0.9"))
    refused(folder, "rho", "mu", args=("plan", "spec.toml", "--rho", "1", "--mu", "1"))


def test_a_margin_in_a_specification_is_a_variance(folder: Path) -> None:
    aimed = SPEC.replace("rho = 0.5\n", "").replace("ways = [0, 1, 2]", "ways = [0, 1, 2]\nmargin = 5")
    (folder / "spec.toml").write_text(aimed)
    tables = json.loads(inside("plan", "spec.toml", "--json", cwd=folder).out)["marginals"]
    assert max(table["stddev"] for table in tables) * NormalDist().inv_cdf(0.975) == pytest.approx(5, rel=1e-3)
    for old, new, said in (
        ("margin = 5", "margin = 5\nstddev = 2", "both stddev and margin"),
        ("margin = 5", "confidence = 0.9", "belongs to a margin"),
        ("margin = 5", "margin = 5\nconfidence = 95", "not a probability"),
        ("margin = 5", "margin = 0", "not a positive number"),
        ("[privacy]\n", '[privacy]\nepsilon = "least"\n', "heavier"),
    ):
        (folder / "spec.toml").write_text(aimed.replace(old, new))
        refused(folder, said, args=("plan", "spec.toml"))


def test_a_saved_plan_is_measured_as_it_is(folder: Path) -> None:
    saved = plan_of(folder, "--rho", "0.1")
    done = inside("release", "spec.toml", "--plan", "what-if.plan", "--out", "out", cwd=folder)
    assert done.code == 0, done.err
    assert rs.Release.load(folder / "out").planned.guarantee == saved.guarantee == rs.ZCDP(0.1)
    assert rho(folder) == pytest.approx(0.1)
    for spec, said in (
        (SPEC.replace("high = 3", "high = 4"), "another domain"),
        (SPEC.replace("rho = 0.5", "rho = 0.5\nrecords = 2"), ""),
    ):
        (folder / "spec.toml").write_text(spec)
        refused(folder, said, args=("release", "spec.toml", "--plan", "what-if.plan", "--out", "second"))
    args = ("release", "spec.toml", "--plan", "people.csv", "--out", "second")
    (folder / "spec.toml").write_text(SPEC)
    refused(folder, "people.csv", "residua plan", args=args)


def test_two_plans_side_by_side(folder: Path) -> None:
    plan_of(folder, "--rho", "0.125")
    (folder / "other.toml").write_text(SPEC.replace("ways = [0, 1, 2]", "ways = [1]"))
    done = inside("compare", "what-if.plan", "spec.toml", cwd=folder)
    assert done.code == 0, done.err
    assert re.search(r"^guarantee +ZCDP\(rho=0.125\) +ZCDP\(rho=0.5\)", done.out, flags=re.MULTILINE)
    assert len(re.findall(r" 0\.500$", done.out, flags=re.MULTILINE)) == 4  # half the error at four times the budget
    facts = json.loads(inside("compare", "other.toml", "spec.toml", "--json", cwd=folder).out)
    tables = {row["table"]: row for row in facts["tables"]}
    assert list(tables) == ["sex", "age", "(total)", "sex × age"]
    assert tables["sex × age"]["A"] is None
    assert tables["sex"]["A"] < tables["sex"]["B"]
    (folder / "other.toml").write_text(SPEC.replace("domain.age", "domain.years"))
    assert "only in A: age; only in B: years" in inside("compare", "spec.toml", "other.toml", cwd=folder).out


def test_a_condition_is_counted_from_a_release_and_a_projection(tmp_path: Path) -> None:
    release = released(tmp_path)
    asked = "age <= 1 and sex = 'F'"
    found = json.loads(inside("count", "out", asked, "--confidence", "0.9", "--json", cwd=tmp_path).out)
    expected = release.count({"age": [0, 1], "sex": "F"}, confidence=0.9)
    assert (found["estimate"], found["lower"]) == pytest.approx((expected.estimate, expected.lower))
    shown = inside("count", "out", asked, cwd=tmp_path).out
    assert re.fullmatch(
        r"age <= 1 and sex = 'F': [\d.]+ \(standard deviation [\d.]+; 95 % interval: .* to .*\)\n", shown
    )
    assert inside("project", "out", "--out", "projected", cwd=tmp_path).code == 0
    done = inside("count", "projected", asked, cwd=tmp_path)
    assert re.fullmatch(r"age <= 1 and sex = 'F': [\d.]+ \(95 % interval: [\d.]+ to [\d.]+\)\n", done.out)
    assert "biased" in done.err
    assert "(90 % interval:" in inside("count", "projected", asked, "--confidence", "0.9", cwd=tmp_path).out
    refused(tmp_path, "unknown attribute", args=("count", "out", "years > 3"))


def test_all_tables_of_a_projection(tmp_path: Path) -> None:
    released(tmp_path)
    inside("project", "out", "--out", "projected", cwd=tmp_path)
    done = inside("tables", "projected", "--out", "csv", cwd=tmp_path)
    assert done.code == 0, done.err
    files = sorted((tmp_path / "csv").glob("*.csv"))
    assert len(files) == 4
    assert files[1].read_text().startswith('"sex","estimate","lower","upper"\n"F",')
    refused(tmp_path, "exists already", args=("tables", "projected", "--out", "csv"))
    assert inside("tables", "projected", "--confidence", "0.9", cwd=tmp_path).code == 0


def test_a_look_says_its_price_and_spends_nothing(tmp_path: Path) -> None:
    with_plans(tmp_path)
    run(tmp_path, "open")
    assert "nothing was spent" in run(tmp_path, "look", "coarse", "fine", "--price")
    told = json.loads(run(tmp_path, "look", "coarse", "fine", "--price", "--json"))
    assert rho(tmp_path) == 0
    assert json.loads(run(tmp_path, "status", "--json"))["choices"] == []
    run(tmp_path, "look", "coarse", "fine")
    assert rho(tmp_path) == pytest.approx(told["look_rho"], rel=1e-12)
    run(tmp_path, "finish", "fine", "--out", "out")
    assert rho(tmp_path) == pytest.approx(told["rho_in_all"]["fine"], rel=1e-12)


def test_the_hints_of_a_draft_work_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("sex,age\nF,1\n")
    assert inside("init", "people.csv", cwd=tmp_path).code == 0
    draft = (tmp_path / "spec.toml").read_text()
    declared = re.sub(r"values = \[\].*", "values = [0, 1]", draft)
    aimed = declared.replace("# [[workload]]\n", "").replace("# stddev = 10 ", "stddev = 10 ")
    assert aimed != declared
    for spec in (
        declared,
        aimed,
        aimed.replace("rho = 0.5", ""),
        declared.replace("# [obj", "[obj").replace("# minim", "minim"),
    ):
        (tmp_path / "spec.toml").write_text(spec)
        done = inside("plan", "spec.toml", cwd=tmp_path)
        assert done.code == 0, done.err


def test_version_module_completion_and_flags(tmp_path: Path) -> None:
    shown = subprocess.run([sys.executable, "-m", "residua", "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert shown.stdout.startswith(f"residua {rs.__version__}")
    env = {**os.environ, "_RESIDUA_COMPLETE": "complete_bash", "COMP_WORDS": "residua le", "COMP_CWORD": "1"}
    completed = subprocess.run([COMMAND], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert completed.stdout.split() == ["ledger"]
    for words in (["table"], ["session", "look"]):
        text = inside(*words, "--help", cwd=tmp_path).out
        assert "<bool>" not in text
        assert "..." not in inside("--help", cwd=tmp_path).out.split("Commands:")[1]
    assert "[default: 0.95]" in inside("table", "--help", cwd=tmp_path).out
