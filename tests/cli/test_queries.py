"""Explicit queries from the command line: plan, compare, release, answers."""

import csv
import io
import json
from pathlib import Path

import pytest

import residua as rs
from tests.cli.command import inside

DATA = "sex,age\n" + "F,20\nM,70\nF,10\n" * 300
SPEC = """
[source]
path = "people.csv"
[privacy]
rho = 0.5
[domain.sex]
values = ["F", "M"]
[domain.age]
low = 0
high = 99
[[workload]]
queries = { adults = "age >= 18", women = "sex = 'F' and age >= 18" }
weight = 2.0
[[workload]]
ways = [0]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(DATA)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def test_plan_lists_every_query(folder: Path) -> None:
    shown = inside("plan", "spec.toml", cwd=folder)
    assert shown.code == 0
    for part in ("adults", "women", "total", "3 queries", "rho 0.5", "proven within"):
        assert part in shown.out
    facts = json.loads(inside("plan", "spec.toml", "--json", cwd=folder).out)
    assert [query["query"] for query in facts["queries"]] == ["adults", "women", "total"]
    assert facts["gap"] <= 1e-3


def test_release_and_answers(folder: Path) -> None:
    done = inside("release", "spec.toml", "--out", "out", cwd=folder)
    assert done.code == 0
    assert "3 queries were asked" in done.out
    shown = inside("answers", "out", cwd=folder)
    assert "adults" in shown.out
    assert "estimate" in shown.out
    rows = list(csv.DictReader(io.StringIO(inside("answers", "out", "--full", cwd=folder).out)))
    assert [row["query"] for row in rows] == ["adults", "women", "total"]
    for row, truth in zip(rows, (600, 300, 900), strict=True):
        assert abs(float(row["estimate"]) - truth) < 8 * float(row["stddev"])
    release = rs.Release.load(folder / "out")
    assert float(rows[0]["estimate"]) == pytest.approx(release.answers(release.planned.workload).estimates[0])
    refused = inside("table", "out", "age", cwd=folder)
    assert refused.refused
    assert "does not answer the marginal on 'age'; plan for a workload that asks for it, or estimate" in refused.err


def test_targets_by_query(folder: Path) -> None:
    spec = (
        SPEC.replace("[privacy]\nrho = 0.5\n", "")
        .replace("weight = 2.0", "stddev = 10")
        .replace("ways = [0]", "ways = [0]\nstddev = 5")
    )
    (folder / "spec.toml").write_text(spec)
    facts = json.loads(inside("plan", "spec.toml", "--json", cwd=folder).out)
    for query, stddev in zip(facts["queries"], (10, 10, 5), strict=True):
        assert query["stddev"] <= stddev


def test_compare_prints_baselines_beside_the_best(folder: Path) -> None:
    shown = inside("compare", "spec.toml", cwd=folder)
    assert shown.code == 0
    for part in ("independent noise", "identity", "hierarchical", "least total variance", "fitness for use", "1.00×"):
        assert part in shown.out
    figures = {one["name"]: one for one in json.loads(inside("compare", "spec.toml", "--json", cwd=folder).out)}
    assert figures["fitness for use"]["max_ratio"] == min(one["max_ratio"] for one in figures.values())
    assert figures["least total variance"]["rmse"] <= figures["identity"]["rmse"]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('age >= 18"', 'aeg >= 18"', ("unknown attribute 'aeg'",)),
        ('age >= 18"', 'age >="', ("syntax error",)),
        ('age >= 18"', 'age >= 1000"', ("zero on every cell",)),
        ("weight = 2.0", "ways = [1]", ("queries beside ways",)),
        ("ways = [0]", 'queries = ["true"]\nstddev = 3', ("some [[workload]] entries have a target",)),
    ],
)
def test_mistakes(folder: Path, old: str, new: str, parts: tuple[str, ...]) -> None:
    assert old in SPEC
    (folder / "spec.toml").write_text(SPEC.replace(old, new, 1))
    done = inside("plan", "spec.toml", cwd=folder)
    assert done.refused
    assert done.err.startswith("residua: ")
    for part in parts:
        assert part in done.err
