"""`residua session` from the command line: open, look, step, finish, release, status, and what it refuses."""

import json
from pathlib import Path

import pytest

import residua as rs
from tests.cli.command import inside
from tests.cli.session_command import DATA, SPEC, rho, run, with_plans


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_plans(tmp_path)


def test_open_look_finish_and_status(folder: Path) -> None:
    assert "Left   rho 1" in run(folder, "open")
    assert rho(folder) == 0
    looked = run(folder, "look", "coarse", "fine", "--share", "0.5", "--snr", "20")
    assert "sex=F" in looked
    assert "SNR under fine" in looked
    assert "hold with 99.73%" in looked
    assert "Recommended: finish fine" in looked
    first = rho(folder)
    assert 0 < first < 0.5
    again = json.loads(run(folder, "look", "coarse", "fine", "--json"))
    assert rho(folder) == first  # seen again for nothing
    assert again["rho_to_finish"]["fine"] == pytest.approx(0.5 - first, rel=1e-6)
    assert "Choice 1 between coarse, fine: open" in run(folder, "status")
    assert "Wrote out" in run(folder, "finish", "fine", "--out", "out")
    assert rho(folder) == pytest.approx(0.5, rel=1e-9)
    status = json.loads(run(folder, "status", "--json"))
    assert status["choices"][0]["end"] == "finished 'fine'"
    assert list(status["parts"]) == ["1", "2"]
    shown = inside("table", "out", "sex", "age", cwd=folder)
    assert shown.code == 0
    assert len(shown.out.splitlines()) == 10
    release = rs.Release.load(folder / "out")
    truth = {("F", 0): 400, ("M", 1): 400, ("F", 2): 400, ("M", 3): 800}
    for (sex, age), records in truth.items():
        found = release.count({"sex": sex, "age": age})
        assert abs(found.estimate - records) < 8 * found.stddev
    assert "no choice is open" in run(folder, "finish", "fine", "--out", "out2", refused=True)


def test_a_chain_is_walked_with_step(folder: Path) -> None:
    run(folder, "open")
    assert "Recommended: step on" in run(folder, "look", "total", "coarse", "fine", "--share", "0.5", "--snr", "20")
    first = rho(folder)
    assert "SNR under coarse" in run(folder, "step")
    assert rho(folder) > first
    run(folder, "finish", "coarse", "--out", "out")
    assert rho(folder) == pytest.approx(0.5, rel=1e-6)
    assert "Choice 1 between total, coarse, fine: went on as choice 2" in run(folder, "status")


def test_release_tops_up_and_costs_nothing_the_second_time(folder: Path) -> None:
    run(folder, "open")
    run(folder, "release", "coarse", "--out", "one")
    spent = rho(folder)
    run(folder, "release", "coarse", "--out", "two")
    assert rho(folder) == spent
    first, second = (rs.Release.load(folder / name) for name in ("one", "two"))
    assert first.estimates(("sex",)) == pytest.approx(second.estimates(("sex",)))
    run(folder, "release", "young", "--out", "three")
    assert rs.Release.load(folder / "three").count({"age": [0, 1]}).stddev > 0


def test_products_among_the_plans(folder: Path) -> None:
    own = """
[[plan.upto.workload]]
prefixes = "age"
by = ["sex"]
[[plan.spans.workload]]
ranges = "age"
"""
    (folder / "spec.toml").write_text(SPEC + own)
    run(folder, "open")
    looked = run(folder, "look", "coarse", "upto", "--share", "0.5", "--snr", "20")
    assert "SNR under upto" in looked
    assert 0 < rho(folder) < 0.5
    run(folder, "finish", "upto", "--out", "out")
    assert rho(folder) == pytest.approx(0.5, rel=1e-6)
    shown = inside("table", "out", "age=prefixes", "sex", cwd=folder)
    assert shown.code == 0, shown.err
    release = rs.Release.load(folder / "out")
    found = release.count({"sex": "F", "age": [0, 1]})
    assert abs(found.estimate - 400) < 8 * found.stddev
    run(folder, "release", "spans", "--out", "spans")
    spent = rho(folder)
    run(folder, "release", "spans", "--out", "again")
    run(folder, "release", "upto", "--out", "upto")
    assert rho(folder) == spent


def test_a_session_of_pure_dp_counts_epsilons_and_does_not_look(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("rho = ", "epsilon = "))
    assert "Left   epsilon 1" in run(folder, "open")
    assert "cannot choose" in run(folder, "look", "coarse", "fine", refused=True)
    assert json.loads(run(folder, "status", "--json"))["spent"] == {"epsilon": 0.0}
    assert "Wrote out" in run(folder, "release", "coarse", "--out", "out")
    assert json.loads(run(folder, "status", "--json"))["spent"] == {"epsilon": pytest.approx(0.5, rel=1e-6)}


def test_a_session_that_cannot_be_made_leaves_no_ledger_behind(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("[source]", '[session]\nstate = "no/such"\n[source]'))
    assert "cannot make the session folder" in run(folder, "open", refused=True)
    assert not (folder / "people.ledger").exists()


def test_mistakes_are_one_sentence_and_cost_nothing(folder: Path) -> None:
    assert "there is no session" in run(folder, "look", refused=True)
    run(folder, "open")
    assert "there is no plan 'medium'" in run(folder, "look", "medium", "fine", refused=True)
    assert "'fine' is named twice" in run(folder, "look", "fine", "fine", refused=True)
    assert "'fine' alone leaves nothing to choose" in run(folder, "look", "fine", refused=True)
    assert "--share and --snr belong together" in run(folder, "look", "coarse", "fine", "--share", "0.5", refused=True)
    (folder / "taken").mkdir()
    assert "exists already" in run(folder, "release", "fine", "--out", "taken", refused=True)
    assert "no choice is open" in run(folder, "step", refused=True)
    (folder / "people.ledger").rename(folder / "kept.ledger")
    assert "restore the ledger" in run(folder, "open", refused=True)
    assert not (folder / "people.ledger").exists()
    (folder / "kept.ledger").rename(folder / "people.ledger")
    spent = rho(folder)
    (folder / "people.csv").write_text(DATA + "F,0\n")
    assert "another dataset" in run(folder, "release", "coarse", "--out", "out", refused=True)
    assert rho(folder) == spent


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("independent = true", "independent = 1", "independent = 1 is not true or false"),
        ("[plan.young.privacy]\nrho = 0.1", "[plan.young.privacy]\nrecords = 2", "unknown key 'records'"),
        ('young = "age <= 1"', 'young = "agee <= 1"', "[plan.young]"),
        ("[plan.fine]\n", "[plan.fine]\nweight = 2\n", "unknown key 'weight'"),
        ("[source]", "[session]\nstate = 3\n[source]", "state = 3 is not a path"),
    ],
)
def test_a_mistake_in_the_specification_is_named(folder: Path, old: str, new: str, told: str) -> None:
    (folder / "spec.toml").write_text(SPEC.replace(old, new))
    assert told in run(folder, "open", refused=True)


def test_other_commands_ask_for_a_workload(folder: Path) -> None:
    done = inside("plan", "spec.toml", cwd=folder)
    assert done.refused
    assert "named plans and no [[workload]]" in done.err
    with_own = SPEC + "\n[[workload]]\nways = [1]\n"
    (folder / "spec.toml").write_text(with_own)
    assert inside("plan", "spec.toml", cwd=folder).code == 0
    bare = SPEC[: SPEC.index("[[plan.total")]
    (folder / "spec.toml").write_text(bare)
    assert "has no named plans" in run(folder, "open", refused=True)


def test_a_plan_dearer_than_the_budget_is_refused_before_the_look(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("rho = 1.0", "rho = 0.3"))
    run(folder, "open")
    assert "costs more than the budget" in run(folder, "look", "coarse", "fine", refused=True)
    assert rho(folder) == 0


WIDE = """
[source]
path = "people.csv"
[privacy]
rho = 0.5
[ledger]
path = "people.ledger"
rho = 1.0
[domain.age]
low = 0
high = 79
[domain.income]
low = 0
high = 59

[[plan.prefixes.workload]]
product = { age = "prefixes", income = "identity" }
[[plan.ranges.workload]]
product = { age = "ranges", income = "prefixes" }
"""


def test_an_axis_of_its_own_is_refused_where_plans_share_noise(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,income\n" + "3,7\n71,50\n" * 500)
    (tmp_path / "spec.toml").write_text(WIDE + "\n[objective]\naxis = true\n")
    run(tmp_path, "open")
    assert "[objective] axis is for a plan by itself" in run(tmp_path, "look", refused=True)
    assert rho(tmp_path) == 0


def test_plans_of_products_share_strategies_over_many_cells(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,income\n" + "3,7\n71,50\n" * 500)
    (tmp_path / "spec.toml").write_text(WIDE)
    run(tmp_path, "open")
    run(tmp_path, "look")
    assert 0.01 < rho(tmp_path) < 0.5
    run(tmp_path, "finish", "prefixes", "--out", "out")
    assert rho(tmp_path) == pytest.approx(0.5, rel=1e-9)
