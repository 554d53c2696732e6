"""A continual release from the command line alone: planned from a specification, begun, and appended by period."""

from pathlib import Path

import pytest

import residua as rs
from tests.cli.command import Ended, inside

SPEC = """
[privacy]
rho = 0.5
[domain.month]
first = 2024-01-01
last = 2033-12-31
unit = "month"
[[workload]]
prefixes = "month"
[objective]
axis = true
"""
BEGIN = ("continual", "visits", "--ledger", "visits.ledger")


def planned(folder: Path, text: str = SPEC) -> Ended:
    (folder / "spec.toml").write_text(text, encoding="utf-8")
    return inside("plan", "spec.toml", "--save", "plan.json", cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    done = planned(tmp_path)
    assert done.code == 0, done.err
    for month in ("2024-01", "2024-02"):
        (tmp_path / f"{month}.csv").write_text("month\n" + f"{month}-15\n" * 50)
    return tmp_path


def refused(ended: Ended, *words: str) -> None:
    assert ended.refused
    assert len(ended.err.strip().splitlines()) == 1
    assert all(word in ended.err for word in words), ended.err


def test_it_is_begun_from_a_specification_of_a_short_axis(folder: Path) -> None:
    assert rs.Plan.load(folder / "plan.json").correlated is not None
    begun = inside(*BEGIN, "--plan", "plan.json", cwd=folder)
    assert begun.code == 0, begun.err
    assert "0 of 120 periods" in begun.out
    for month, following in (("2024-01", "2024-02"), ("2024-02", "2024-03")):
        done = inside(*BEGIN, "--append", f"{month}.csv", "--period", month, cwd=folder)
        assert done.code == 0, done.err
        assert f"next: {following}" in done.out


def test_another_form_is_refused_with_the_key_that_asks_for_this_one(folder: Path) -> None:
    assert planned(folder, SPEC.replace("axis = true", "")).code == 0
    refused(inside(*BEGIN, "--plan", "plan.json", cwd=folder), "[objective] axis = true")
    assert not (folder / "visits").exists()


def test_a_period_that_is_not_the_next_is_refused_before_anything_is_read_or_spent(folder: Path) -> None:
    wrong = ("--append", "no such file.csv", "--period", "2024-02")
    refused(inside(*BEGIN, "--plan", "plan.json", *wrong, cwd=folder), "'2024-02'", "the next one, which is '2024-01'")
    assert not (folder / "visits").exists()
    assert inside(*BEGIN, "--plan", "plan.json", cwd=folder).code == 0
    before = {path: path.read_bytes() for path in (folder / "visits").iterdir()}
    ledger = (folder / "visits.ledger").read_bytes()
    for data in ("no such file.csv", "2024-02.csv"):
        refused(inside(*BEGIN, "--append", data, "--period", "2024-02", cwd=folder), "which is '2024-01'")
    assert {path: path.read_bytes() for path in (folder / "visits").iterdir()} == before
    assert (folder / "visits.ledger").read_bytes() == ledger
    refused(inside(*BEGIN, "--period", "2024-01", cwd=folder), "--append", "give both")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("axis = true", 'axis = "yes"', ("[objective] axis = 'yes'", "true or false")),
        ("axis = true", "axis = true\ndense = true", ("both dense and axis", "give one")),
        ("rho = 0.5", "epsilon = 1.0", ("[objective] axis is for normal noise", "remove it")),
        ('prefixes = "month"', 'sets = [["month"]]', ("[objective] axis = true", "prefixes and ranges")),
    ],
)
def test_what_an_axis_cannot_be_is_said(tmp_path: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    refused(planned(tmp_path, SPEC.replace(old, new)), *words)
