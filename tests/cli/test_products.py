"""Prefixes, ranges and hierarchies from the command line: plan, release, tables, and what is refused."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.cli.spec import read_spec
from tests.cli.command import inside

ROWS = [("F", 1, "Kern"), ("M", 3, "Erie"), ("F", 2, "Napa"), ("M", 1, "Kern")] * 300
DATA = "sex,age,county\n" + "".join(f"{sex},{age},{county}\n" for sex, age, county in ROWS)
SPEC = """
[source]
path = "people.csv"
[privacy]
rho = 0.5
[domain.sex]
values = ["F", "M"]
[domain.age]
low = 0
high = 3
[domain.county]
values = ["Kern", "Napa", "Erie"]
[domain.county.levels.state]
CA = ["Kern", "Napa"]
NY = ["Erie"]
[[workload]]
prefixes = "age"
by = ["sex"]
[[workload]]
hierarchy = "county"
weight = 2.0
[[workload]]
sets = [["sex"]]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("products")
    (path / "people.csv").write_text(DATA)
    (path / "spec.toml").write_text(SPEC)
    done = inside("release", "spec.toml", "--out", "out", cwd=path)
    assert done.code == 0, done.err
    assert "strategies of their own on" in done.out
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_plan_lists_every_term_and_says_what_the_gap_compares_with(folder: Path) -> None:
    shown = inside("plan", "spec.toml", cwd=folder).out
    for part in ("sex × age: prefixes", "county: hierarchy", "rms stddev", "block by block", "3 terms"):
        assert part in shown
    terms = json.loads(inside("plan", "spec.toml", "--json", cwd=folder).out)["terms"]
    assert {term["term"]: term["queries"] for term in terms} == {
        "sex × age: prefixes": 8,
        "county: hierarchy": 5,
        "sex": 2,
    }
    assert all(0 < term["rms_stddev"] <= term["largest_stddev"] for term in terms)


def test_tables_of_prefixes_and_levels(folder: Path) -> None:
    prefixes = rows_of(inside("table", "out", "age=prefixes", "sex", "--full", cwd=folder).out)
    assert [row["age"] for row in prefixes[::2]] == ["<=0", "<=1", "<=2", "<=3"]
    for row in prefixes:
        truth = sum(age <= int(row["age"][2:]) and sex == row["sex"] for sex, age, _ in ROWS)
        assert abs(float(row["estimate"]) - truth) < 8 * float(row["stddev"])
    state = rows_of(inside("table", "out", "county=state", "--full", cwd=folder).out)
    county = rows_of(inside("table", "out", "county", "--full", cwd=folder).out)
    assert [row["county"] for row in state] == ["CA", "NY"]
    within = rows_of(inside("table", "out", "county=identity within state=CA", "--full", cwd=folder).out)
    assert [row["county"] for row in within] == ["Kern", "Napa"]
    assert np.isclose(float(state[0]["estimate"]), sum(float(row["estimate"]) for row in county[:2]), atol=1e-9)


def test_all_tables_are_written(folder: Path) -> None:
    shown = inside("tables", "out", "--out", "csv", cwd=folder)
    assert shown.code == 0
    files = sorted(path.name for path in (folder / "csv").glob("*.csv"))
    assert len(files) == 4
    assert any("county-state" in name for name in files)
    again = inside("tables", "out", "--out", "csv", cwd=folder)
    assert again.refused
    assert "choose another folder" in again.err
    answers = rows_of(inside("answers", "out", "--full", cwd=folder).out)
    assert {row["query"] for row in answers} >= {"sex=F, age<=2", "county.state=CA", "county=Kern"}


def test_targets_reach_the_terms_they_were_written_for(folder: Path) -> None:
    """Terms that ask alike stand together whatever their order; each keeps its own target."""
    terms = """
[[workload]]
prefixes = "age"
stddev = 2.0
[[workload]]
sets = [["age"]]
stddev = 5.0
[[workload]]
hierarchy = "county"
stddev = 9.0
"""
    head = SPEC[: SPEC.index("[[workload]]")].replace("[privacy]\nrho = 0.5\n", "")
    (folder / "targets.toml").write_text(head + terms)
    found = json.loads(inside("plan", "targets.toml", "--json", cwd=folder).out)["terms"]
    largest = {term["term"]: term["largest_stddev"] for term in found}
    assert largest["age: prefixes"] <= 2.0 * (1 + 1e-9)
    assert largest["age"] <= 5.0 * (1 + 1e-9)
    assert 2.0 < largest["county: hierarchy"] <= 9.0 * (1 + 1e-9)


def test_targets_keep_their_order_beside_queries(folder: Path) -> None:
    terms = """
[[workload]]
prefixes = "age"
stddev = 2.0
[[workload]]
sets = [["age"]]
stddev = 5.0
[[workload]]
prefixes = "age"
by = ["sex"]
stddev = 3.0
[[workload]]
queries = { old = "age >= 2" }
stddev = 9.0
"""
    head = SPEC[: SPEC.index("[[workload]]")].replace("[privacy]\nrho = 0.5\n", "")
    (folder / "mixed.toml").write_text(head + terms)
    spec = read_spec(folder / "mixed.toml")
    assert spec.targets is not None
    found = dict(zip(spec.workload.query_labels(), np.sqrt(spec.targets), strict=True))
    wanted = {"age<=1": 2.0, "age=0": 5.0, "age=3": 5.0, "sex=F, age<=0": 3.0, "sex=M, age<=3": 3.0, "old": 9.0}
    assert {query: found[query] for query in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('hierarchy = "county"', 'hierarchy = "sex"', ("'sex'", "no levels")),
        ('prefixes = "age"', 'prefixes = "agee"', ("'agee'", "did you mean 'age'")),
        ('prefixes = "age"', 'ranges = "age"\nlisted = [[2, 9]]', ("9", "'age'", "leaves the attribute")),
        ('prefixes = "age"', 'product = { age = "halves" }', ("by", "product beside by")),
        ('hierarchy = "county"', 'product = { county = "province" }', ("'county'", "an unknown kind; use 'identity'")),
        ('hierarchy = "county"', "product = { county = [[1, 0]] }", ("2 columns", "3 values")),
        ('hierarchy = "county"', 'hierarchy = "county"\nprefixes = "age"', ("prefixes beside hierarchy",)),
        ('sets = [["sex"]]', 'sets = [["sex"]]\nby = ["age"]', ("by", "neither prefixes")),
        ('NY = ["Erie"]', 'NY = ["Erie", "Napa"]', ("'county'", "'state'", "'Napa'", "two groups")),
        ("NY = [", "NY = []\nTX = [", ("'state'", "group number 2 is empty")),
    ],
)
def test_mistakes_are_one_sentence(folder: Path, old: str, new: str, named: tuple[str, ...]) -> None:
    assert old in SPEC
    (folder / "wrong.toml").write_text(SPEC.replace(old, new, 1))
    done = inside("plan", "wrong.toml", cwd=folder)
    assert done.refused
    assert all(part in done.err for part in named), done.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("county=province",), ("'county'", "an unknown kind; use 'identity'")),
        (("sex=hierarchy",), ("'sex'", "no levels")),
        (("colour=prefixes",), ("unknown attribute 'colour'; there are",)),
        (("sex", "county"), ("does not answer", "on 'sex', 'county';")),
    ],
)
def test_tables_that_cannot_be_had_are_refused(
    folder: Path, arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    done = inside("table", "out", *arguments, cwd=folder)
    assert done.refused
    assert all(part in done.err for part in named), done.err


def test_a_saved_plan_comes_back_with_its_levels(folder: Path) -> None:
    assert inside("plan", "spec.toml", "--save", "plan.json", cwd=folder).code == 0
    plan = rs.Plan.load(folder / "plan.json")
    assert plan.domain["county"].level("state").labels == ("CA", "NY")
    assert plan.workload is not None
    np.testing.assert_allclose(
        plan.variances(plan.workload), rs.Release.load(folder / "out").planned.variances(plan.workload)
    )  # type: ignore[attr-defined]


def test_a_release_of_products_is_projected_and_its_prefixes_and_levels_shown(folder: Path) -> None:
    done = inside("project", "out", "--out", "projected", "--total", "1200", "--simulate", "1", cwd=folder)
    assert done.code == 0, done.err
    for part in ("small tables weighing more", "root mean square", "1 release simulated"):
        assert part in done.out
    cells = rows_of(inside("table", "projected", "sex", "age", "--full", cwd=folder).out)
    sums = np.array([float(row["estimate"]) for row in cells]).reshape(2, 4)
    assert sums.min() >= 0
    assert sums.sum() == pytest.approx(1200)
    prefixes = rows_of(inside("table", "projected", "age=prefixes", "sex", "--full", cwd=folder).out)
    assert [row["age"] for row in prefixes[::2]] == ["<=0", "<=1", "<=2", "<=3"]
    found = np.array([float(row["estimate"]) for row in prefixes]).reshape(4, 2)
    np.testing.assert_allclose(found, sums.cumsum(axis=1).T, atol=1e-6)
    states = rows_of(inside("table", "projected", "county=state", "--full", cwd=folder).out)
    assert sum(float(row["estimate"]) for row in states) == pytest.approx(1200)
    answers = rows_of(inside("answers", "projected", "--full", cwd=folder).out)
    assert len(answers) == rs.Projected.load(folder / "projected").plan.workload.queries
    whole = rows_of(inside("table", "projected", "age=prefixes", "--rounded", "--full", cwd=folder).out)
    assert [float(row["estimate"]) % 1 for row in whole] == [0.0] * 4
    done = inside("table", "projected", "age=prefix", cwd=folder)
    assert (done.code, "prefix" in done.err) == (2, True), done.err


def test_where_one_strategy_per_attribute_is_poor_each_block_has_its_own_or_the_plan_is_dense(tmp_path: Path) -> None:
    spec = SPEC.replace('sets = [["sex"]]', 'sets = [["sex", "age"]]').replace('by = ["sex"]', "")
    spec = spec.replace("high = 3", "high = 15")
    (tmp_path / "spec.toml").write_text(spec)
    shown = inside("plan", "spec.toml", cwd=tmp_path).out
    assert "measured by 5 strategies of their own" in shown  # with one per attribute it would be far from the best
    (tmp_path / "spec.toml").write_text(spec + "[objective]\ndense = true\n")
    dense = inside("plan", "spec.toml", cwd=tmp_path).out
    assert "Better?" not in dense
    assert "groups of cells" in dense
    (tmp_path / "spec.toml").write_text(spec + "[objective]\ndense = 1\n")
    assert "not true or false" in inside("plan", "spec.toml", cwd=tmp_path).err
