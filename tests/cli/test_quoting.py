"""Quoted numbers from the command line: what is printed is what the library says; every mistake is one sentence."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from tests.cli.command import inside, released

WEIGHTS = "age,weight\n0,1\n1,1\n2,1\n3,3\n"


FACTS = {(): 2000, "sex": {"F": 900}, "age = 3": 400}


def _before(release: rs.Release) -> rs.Release:
    """Another release of the same plan."""
    return rs.Release(release.planned, release.measurements, np.flip(release.noisy).copy())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quoting")
    released(folder)
    (folder / "weights.csv").write_text(WEIGHTS)
    (folder / "facts.toml").write_text('[facts]\ntotal = 2000\nsex = { F = 900 }\n"age = 3" = 400\n')
    _before(rs.Release.load(folder / "out")).save(folder / "before")
    assert inside("project", "out", "--out", "projected", cwd=folder).code == 0
    return folder


QUESTIONS = {
    "share out sex --by age": lambda r: r.share(["sex"], by=["age"]),
    "share out sex=F --total 2000": lambda r: r.share({"sex": "F"}, total=2000),
    "share out age=1..2 --by sex": lambda r: r.share({"age": rs.between(1, 2)}, by=["sex"]),
    "ratio out --numerator sex=F --denominator sex=M --by age": lambda r: r.ratio(
        {"sex": "F"}, {"sex": "M"}, by=["age"]
    ),
    "mean out age --by sex": lambda r: r.mean("age", by=["sex"]),
    "mean out age --where sex=F --values 3=10": lambda r: r.mean("age", where={"sex": "F"}, values={3: 10}),
    "mean out age --by sex --confidence 0.9 --simultaneous": lambda r: r.mean(
        "age", by=["sex"], confidence=0.9, simultaneous="table"
    ),
    "sum out age": lambda r: r.sum("age"),
    "quantile out age 0.25 0.75 --by sex": lambda r: r.quantile("age", [0.25, 0.75], by=["sex"]),
    "median out age --where sex=M": lambda r: r.median("age", where={"sex": "M"}),
    "gini out age --by sex": lambda r: r.gini("age", by=["sex"]),
    "difference out sex --of age": lambda r: r.difference("sex", of="age"),
    "difference out age 0=1 1=-0.5 2=-0.5": lambda r: r.difference("age", {0: 1, 1: -0.5, 2: -0.5}),
    "difference out sex F=1 M=-1 --of age=3": lambda r: r.difference("sex", {"F": 1, "M": -1}, of={"age": 3}),
    "relative-difference out sex F M": lambda r: r.relative_difference("sex", "F", "M"),
    "standardised out --of sex=F --over age --weights weights.csv": lambda r: r.standardised(
        {"sex": "F"}, "age", {0: 1, 1: 1, 2: 1, 3: 3}
    ),
    "mean out age --by sex --known facts.toml": lambda r: r.given(FACTS).mean("age", by=["sex"]),
    "change out before --by sex --known facts.toml": lambda r: rs.change(r.given(FACTS), _before(r), by=["sex"]),
    "top out age --k 2": lambda r: r.top(["age"], 2),
}


@pytest.mark.parametrize("words", QUESTIONS)
def test_the_command_prints_what_the_library_says(place: Path, words: str) -> None:
    wanted = QUESTIONS[words](rs.Release.load(place / "out"))
    done = inside(*words.split(), "--json", cwd=place)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["quoted"] == wanted.what
    assert len(found["rows"]) == len(wanted)
    for name, values in wanted.columns.items():
        told = [row[name] for row in found["rows"]]
        plain = values if isinstance(values, list) else values.tolist()
        assert told == [None if value in (float("inf"), float("-inf")) else value for value in plain], name


def test_text_csv_and_flags(place: Path) -> None:
    shown = inside("mean", "out", "age", "--by", "sex", cwd=place)
    assert shown.code == 0
    assert "(mean of age by sex; 95 % intervals, each by itself)" in shown.out
    rows = list(csv.DictReader(io.StringIO(inside("mean", "out", "age", "--by", "sex", "--csv", cwd=place).out)))
    assert [row["sex"] for row in rows] == ["F", "M"]
    flagged = inside("table", "out", "age", "sex", "--suppress", "unreliable", "--csv", cwd=place)
    rows = list(csv.DictReader(io.StringIO(flagged.out)))
    assert {row["quality"] for row in rows} >= {"reliable", "unreliable"}  # of four empty cells not all look like more
    assert all((row["estimate"] in ("", "nan")) == (row["quality"] == "unreliable") for row in rows)
    assert "unreliable above 33.3 %" in inside("share", "out", "sex", "--quality", cwd=place).out


def test_quoted_numbers_of_projections_have_no_intervals(place: Path) -> None:
    shown = inside("mean", "projected", "age", "--by", "sex", cwd=place)
    assert shown.code == 0
    assert "stddev" not in shown.out
    assert "biased" in shown.out
    refused = inside("mean", "projected", "age", "--confidence", "0.9", cwd=place)
    assert (refused.code, "no intervals" in refused.err) == (2, True)
    assert "by width of interval" in inside("table", "projected", "age", "--quality", cwd=place).out


def test_before_any_data(place: Path) -> None:
    told = json.loads(inside("mean", "spec.toml", "age", "--by", "sex", "--people", "500", "--json", cwd=place).out)
    plan = rs.Release.load(place / "out").planned
    wanted = plan.assuming(500).mean("age", by=["sex"])
    assert [row["stddev"] for row in told["rows"]] == pytest.approx(wanted.stddev.tolist())
    plan.save(place / "plan.json")
    saved = inside("mean", "plan.json", "age", "--by", "sex", "--people", "500", "--json", cwd=place)
    assert json.loads(saved.out) == told
    printed = inside("mean", "spec.toml", "age", "--people", "500", cwd=place).out
    assert "500 records are assumed, spread evenly" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mean out agee", "did you mean 'age'"),
        ("mean out sex", "are not numbers"),
        ("mean out age --where sex", "not attribute=label"),
        ("mean out age --where sex=G", "is not a value of 'sex'; there are 'F', 'M'"),
        ("mean out age --values 3", "not label=number"),
        ("mean out age --people 5", "--people is for plans"),
        ("mean spec.toml age", "say how many to assume: --people"),
        ("mean nowhere age", "nowhere"),
        ("mean out height", "unknown attribute 'height'; there are"),
        ("difference out height F=1", "unknown attribute 'height'; there are"),
        ("table out height", "unknown attribute 'height'; there are"),
        ("change spec.toml out", "'spec.toml' is a file; a change is between two releases"),
        ("change out spec.toml", "'spec.toml' is a file; a change is between two releases"),
        ("change out out", "both are the same release"),
        ("count out sex=woman", "'woman' is neither a value of 'sex' nor an attribute; there are 'F', 'M'"),
        ("tables out --format xlsx --out tab.xlsx", "name a folder"),
        ("difference out sex F=x", "not label=number"),
        ("difference out sex --values 3=1", "--values are numbers for a mean"),
        ("standardised out --of sex=F --over age --weights spec.toml", "is not CSV"),
        ("top out age --k 0", "k=0"),
        ("quantile out age 2", "not a share between 0 and 1"),
        ("table out age --suppress reliable", "suppress='reliable'"),
    ],
)
def test_mistakes_are_one_sentence(place: Path, words: str, said: str) -> None:
    done = inside(*words.split(), cwd=place)
    assert done.refused
    assert said in done.err
    assert done.err.startswith("residua: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "words", ["table out sex age", "table out sex --quality", "answers out", "table projected sex"]
)
def test_tables_and_answers_as_json_are_every_row(place: Path, words: str) -> None:
    done = inside(*words.split(), "--json", cwd=place)
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]
    printed = list(csv.DictReader(io.StringIO(inside(*words.split(), "--csv", "--full", cwd=place).out)))
    assert [{name: str(value) for name, value in row.items()} for row in rows] == [
        {name: str(float(v)) if name in ("estimate", "stddev", "lower", "upper") else v for name, v in row.items()}
        for row in printed
    ]


def test_a_mean_of_bins_says_what_it_rests_on(tmp_path: Path) -> None:
    domain = rs.Domain({"pay": rs.Bins([0, 10, 30]), "sex": ["F", "M"]})
    rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(rho=0.5)).save(tmp_path / "plan.json")
    asked = ("mean", "plan.json", "pay", "--people", "20000")
    [row] = json.loads(inside(*asked, "--json", cwd=tmp_path).out)["rows"]
    assert (row["lower"] < 5.0, row["upper"] > 20.0) == (True, True)
    said = " ".join(inside(*asked, "--quality", cwd=tmp_path).out.split())
    for words in ("middle of their bins", "20,000 records are assumed, spread evenly", "unreliable"):
        assert words in said
    given = " ".join(inside(*asked, "--values", "[0, 10)=4", "--values", "[10, 30]=20", cwd=tmp_path).out.split())
    assert "assumes the given values of pay: [0, 10) = 4, [10, 30] = 20" in given


def test_populations_are_combined_and_read_like_any_release(place: Path, tmp_path: Path) -> None:
    south = rs.Release.load(place / "out")
    rs.Release(south.planned, south.measurements, south.noisy, {"ledger": "other"}).save(tmp_path / "south")
    (tmp_path / "out").symlink_to(place / "out")
    undeclared = inside("combine", "out", "south", "--out", "both", cwd=tmp_path)
    assert (undeclared.code, undeclared.err.count("--disjoint")) == (2, 1)
    assert not (tmp_path / "both").exists()
    made = inside("combine", "out", "south", "--out", "both", "--by", "region", "--disjoint", cwd=tmp_path)
    assert (made.code, made.err) == (0, "")
    assert "2 populations together" in made.out
    shown = json.loads(inside("table", "both", "region", "sex", "--json", cwd=tmp_path).out)
    assert sorted({row["region"] for row in shown["rows"]}) == ["out", "south"]
    alike = inside("combine", "out", "../" + tmp_path.name + "/out", "--out", "x", "--disjoint", cwd=tmp_path)
    assert (alike.code, "folders of one name" in alike.err) == (2, True)
