"""Surveys from the command line: weights in a specification, totals of the population, what is refused."""

import json
from pathlib import Path

import pytest

import residua as rs
from tests.cli.command import inside

SPEC = """
[source]
path = "survey.csv"
weights = { column = "w", most = 40, step = 0.1 }

[privacy]
rho = 2.0

[ledger]
path = "survey.ledger"
rho = 2.0

[[workload]]
ways = [0, 1, 2]

[domain.region]
values = ["north", "south"]

[domain.age]
low = 0
high = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [(("north", "south")[i % 3 > 0], i % 7 % 3, 40 if i % 3 == 0 else 10) for i in range(3000)]
    (tmp_path / "survey.csv").write_text("region,age,w\n" + "".join(f"{r},{a},{w}\n" for r, a, w in rows))
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def test_a_survey_is_released_with_its_squares_and_read_with_sampling_error(folder: Path) -> None:
    assert inside("release", "spec.toml", "--out", "out", "--dry-run", cwd=folder).code == 0
    assert not (folder / "out").exists()
    done = inside("release", "spec.toml", "--out", "out", cwd=folder)
    assert done.code == 0, done.err
    assert "out-squares: squares of the weights, for 5 % of the cost" in done.out.replace("\n", " ")
    ledger = rs.Ledger(folder / "survey.ledger")
    assert ledger.remaining_exactly < ledger.spent_exactly / 1000  # all of it, and no more
    release = rs.Release.load(folder / "out")
    assert release.planned.unit == rs.AddRemove(400)
    shown = inside("weighted", "out", "region", "--json", cwd=folder)
    rows = {row["region"]: row for row in json.loads(shown.out)["rows"]}
    assert rows["north"]["sampling"] == pytest.approx(40 * 1000**0.5, rel=0.1)
    assert rows["south"]["sampling"] == pytest.approx(10 * 2000**0.5, rel=0.1)
    assert abs(rows["south"]["estimate"] - 20_000) < 6 * rows["south"]["noise"]
    strata = ("--strata", "region", "--drawn", "north=1000", "--drawn", "south=2000")
    told = inside("weighted", "out", "age", *strata, cwd=folder)
    assert "in strata of 'region'" in (told.out + told.err).replace("\n", " ")
    assert "privacy adds" in told.err
    assert inside("weighted", "out", "age", *strata[:-2], cwd=folder).code != 0
    assert inside("weighted", "out", "age", *strata[2:], cwd=folder).code != 0
    assert inside("weighted", "out-squares", cwd=folder).code != 0


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("rho = 2.0\n\n[ledger]", "rho = 2.0\nrecords = 3\n\n[ledger]", "what one respondent changes"),
        ("rho = 2.0\n\n[ledger]", "rho = 2.0\nsampling = 1\n\n[ledger]", "not a share"),
        ("most = 40, ", "", "lacks most"),
        ("most = 40", "mots = 40", "unknown key 'mots'"),
        ("step = 0.1", "step = 0.3", "whole steps"),
        ('path = "survey.csv"', 'path = "survey.csv"\nperson = "age"', "neither counts nor person"),
        ('column = "w", ', "", "lacks column"),
    ],
)
def test_what_no_survey_can_be_is_refused_before_anything_is_spent(folder: Path, was: str, now: str, said: str) -> None:
    (folder / "spec.toml").write_text(SPEC.replace(was, now))
    done = inside("release", "spec.toml", "--out", "out", cwd=folder)
    assert done.code != 0
    assert said in done.err.replace("\n", " ")
    assert not (folder / "survey.ledger").exists() or rs.Ledger(folder / "survey.ledger").spent_exactly == 0
