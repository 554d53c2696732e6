"""Choices of `residua session`: what is refused before it is paid, plans that changed, which choice is meant."""

import json
from pathlib import Path

import pytest

import residua as rs
from residua.cli import looking
from tests.cli.session_command import SPEC, rho, run, with_plans

SHARING_NOTHING_ASKED = """
[[plan.sexes.workload]]
sets = [["sex"]]
[[plan.ages.workload]]
sets = [["age"]]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_plans(tmp_path)


def begun(folder: Path, *names: str) -> float:
    """A session that has looked; returns what it spent."""
    if not (folder / "people.ledger").exists():
        run(folder, "open")
    run(folder, "look", *names)
    return rho(folder)


def edit(folder: Path, old: str, new: str) -> None:
    spec = (folder / "spec.toml").read_text()
    assert spec.count(old) == 1
    (folder / "spec.toml").write_text(spec.replace(old, new))


def test_a_look_that_would_tell_nothing_is_refused_before_it_is_paid(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC + SHARING_NOTHING_ASKED)
    run(folder, "open")
    assert "would answer no query of 'sexes'" in run(folder, "look", "sexes", "ages", refused=True)
    assert rho(folder) == 0
    assert json.loads(run(folder, "status", "--json"))["choices"] == []
    assert "1 of the" not in run(folder, "look", "total", "sexes", "ages")
    spent = rho(folder)
    assert "would answer no query of 'sexes'" in run(folder, "step", refused=True)
    assert rho(folder) == spent


def test_more_queries_than_can_be_listed_are_refused_before_the_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_MOST_LISTED", 5)
    run(folder, "open")
    assert "6 queries of 'coarse', too many to list" in run(folder, "look", "coarse", "fine", refused=True)
    assert rho(folder) == 0
    run(folder, "look", "total", "coarse", "fine")
    spent = rho(folder)
    assert "too many to list" in run(folder, "step", refused=True)
    assert rho(folder) == spent


def test_what_cannot_be_estimated_yet_is_said(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC + SHARING_NOTHING_ASKED)
    run(folder, "open")
    assert "2 of the 6 queries of coarse can be estimated so far" in run(folder, "look", "coarse", "sexes")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[[plan.fine.workload]]\nways = [2]", "[[plan.fine.workload]]\nways = [1, 2]"),
        ("[plan.fine]\nindependent = true", "[plan.fine]\nindependent = false"),
        ("high = 3", "high = 4"),
        ('values = ["F", "M"]', 'values = ["M", "F"]'),
        ("[privacy]\nrho = 0.5", "[privacy]\nrho = 0.4"),
        ("[[plan.fine.workload]]", "[plan.fine.objective]\nminimise = 'max'\n[[plan.fine.workload]]"),
    ],
)
def test_a_candidate_that_was_edited_since_the_look_is_not_finished(folder: Path, old: str, new: str) -> None:
    spent = begun(folder, "coarse", "fine")
    edit(folder, old, new)
    told = run(folder, "finish", "fine", "--out", "out", refused=True)
    assert "[plan.fine]" in told
    assert "was changed since the look; nothing was spent" in told
    assert rho(folder) == spent
    assert not (folder / "out").exists()
    edit(folder, new, old)
    run(folder, "finish", "fine", "--out", "out")


def test_edits_that_do_not_touch_the_candidate_do_not_matter(folder: Path) -> None:
    begun(folder, "coarse", "fine")
    edit(folder, "[plan.young.privacy]\nrho = 0.1", "# [plan.young.privacy]\n# rho = 0.1")
    edit(folder, "ways = [2]", "ways = [ 2 ]  # all pairs")
    run(folder, "finish", "fine", "--out", "out")


def test_a_candidate_that_is_gone_from_the_specification_is_not_finished(folder: Path) -> None:
    spent = begun(folder, "total", "coarse", "fine")
    edit(folder, "[[plan.fine.workload]]\nways = [2]\n[plan.fine]", "[[plan.finer.workload]]\nways = [2]\n[plan.finer]")
    assert "is gone from the specification" in run(folder, "finish", "fine", "--out", "out", refused=True)
    assert "is gone from the specification" in run(folder, "step", refused=True)
    assert rho(folder) == spent


def test_a_changed_specification_is_looked_at_anew(folder: Path) -> None:
    spent = begun(folder, "coarse", "fine")
    run(folder, "look", "coarse", "fine")
    assert rho(folder) == spent
    edit(folder, "[plan.fine]\nindependent = true", "[plan.fine.privacy]\nrho = 0.9")
    run(folder, "look", "coarse", "fine")
    assert "Choice 2 between coarse, fine: open" in run(folder, "status")
    run(folder, "finish", "fine", "--out", "out")
    assert rho(folder) == pytest.approx(0.9, rel=0.02)  # the first look lies within it, nearly
    assert "Choice 1 between coarse, fine: open" in run(folder, "status")


def test_finishing_twice_does_not_fall_back_on_an_older_choice(folder: Path) -> None:
    begun(folder, "coarse", "fine")
    begun(folder, "total", "coarse")
    run(folder, "finish", "total", "--out", "one")
    spent = rho(folder)
    told = run(folder, "finish", "coarse", "--out", "two", refused=True)
    assert "no choice is open: the latest, choice 2, finished 'total'" in told
    assert "Still open: choice 1 between coarse, fine" in told
    assert "this choice is closed" in run(folder, "finish", "coarse", "--out", "two", "--choice", "2", refused=True)
    assert "there is no choice 3" in run(folder, "finish", "coarse", "--out", "two", "--choice", "3", refused=True)
    assert rho(folder) == spent
    run(folder, "finish", "fine", "--out", "two", "--choice", "1")
    assert rho(folder) > spent


def test_a_choice_is_stopped(folder: Path) -> None:
    spent = begun(folder, "coarse", "fine")
    assert "Choice 1 between coarse, fine: stopped after the look" in run(folder, "stop")
    assert "stopped after the look" in run(folder, "finish", "fine", "--out", "out", refused=True)
    assert rho(folder) == spent


def test_a_choice_whose_look_was_lost_is_told_from_one_that_is_open(folder: Path) -> None:
    import shutil

    begun(folder, "coarse", "fine")
    shutil.rmtree(folder / "people.ledger.session" / "parts" / "0001")
    assert "Choice 1 between coarse, fine: lost its look in a crash" in run(folder, "status")
    assert "lost its look in a crash" in run(folder, "finish", "fine", "--out", "out", refused=True)
    assert "look at its candidates again" in run(
        folder, "finish", "fine", "--out", "out", "--choice", "1", refused=True
    )


def test_a_choice_begun_in_python_is_finished_from_the_command(folder: Path) -> None:
    run(folder, "open")
    domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 3)})
    plans = {
        name: rs.independent(rs.marginals(domain, ways=ways), rs.ZCDP(0.5))
        for name, ways in (("coarse", 1), ("fine", 2))
    }
    session = rs.Session(folder / "people.csv", ledger=folder / "people.ledger")
    session.choose(plans)
    run(folder, "finish", "fine", "--out", "out")
    assert rho(folder) == pytest.approx(0.5, rel=1e-9)


def test_json_has_no_infinity(folder: Path) -> None:
    """The young alone do not tell the total: its noise under that candidate is infinite."""
    run(folder, "open")
    run(folder, "release", "coarse", "--out", "one")
    printed = run(folder, "look", "coarse", "fine", "--json")
    assert json.loads(printed, parse_constant=pytest.fail)["candidates"]["fine"]["stddev"][0] > 0
    (folder / "spec.toml").write_text(SPEC + SHARING_NOTHING_ASKED)
    told = json.loads(run(folder, "look", "coarse", "sexes", "--json"), parse_constant=pytest.fail)
    assert None in told["candidates"]["sexes"]["stddev"]
