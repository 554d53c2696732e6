"""A part of a budget in a ledger of its own: teams together never spend more than the whole."""

import threading
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

import residua as rs
from residua.errors import FileError, LedgerError
from residua.measurement import ledger_file
from tests.cli.command import DATA, SPEC, inside

DATASET = "sha256:1"


def whole(folder: Path) -> rs.Ledger:
    return rs.Ledger(folder / "whole.ledger", rs.ZCDP(1.0), unit=rs.Person(records=3), population="adults")


def test_a_part_is_spent_in_the_whole_and_has_its_people(tmp_path: Path) -> None:
    parent = whole(tmp_path)
    child = rs.allot(parent, tmp_path / "team.ledger", rs.ZCDP(0.25), purpose="for health")
    assert (parent.remaining, child.remaining) == (rs.ZCDP(0.75), rs.ZCDP(0.25))
    assert (child.unit, child.population) == (parent.unit, "adults")
    [entry] = rs.Ledger(tmp_path / "whole.ledger").entries
    assert (entry.cost, entry.purpose) == (Fraction(1, 2), "for health")
    with pytest.raises(LedgerError, match="exhausted"):
        child.debit(Fraction(51, 100), purpose="too much", dataset=DATASET)
    child.debit(Fraction(1, 2), purpose="all", dataset=DATASET)
    parent.debit(Fraction(3, 2), purpose="the rest", dataset="sha256:2")  # what is allotted binds no dataset
    with pytest.raises(LedgerError, match="another dataset"):
        parent.debit(Fraction(1, 100), purpose="others", dataset=DATASET)


@pytest.mark.parametrize("budget", [rs.GDP(0.5), rs.PureDP(0.1), rs.ApproxDP(0.1, 1e-9)])
def test_parts_are_of_the_kind_of_the_whole(tmp_path: Path, budget: rs.GDP) -> None:
    """A Laplace debit costs less in a ledger of ZCDP than in one of GDP: parts of another kind would not add up."""
    with pytest.raises(LedgerError, match="of another kind"):
        rs.allot(whole(tmp_path), tmp_path / "team.ledger", budget)
    assert not (tmp_path / "team.ledger").exists()
    assert not whole(tmp_path).entries


def test_more_than_is_left_and_a_file_that_is_there_cost_nothing(tmp_path: Path) -> None:
    parent = whole(tmp_path)
    with pytest.raises(LedgerError, match="exhausted"):
        rs.allot(parent, tmp_path / "team.ledger", rs.ZCDP(1.5))
    (tmp_path / "taken.ledger").write_text("mine")
    for place in ("taken.ledger", "nowhere/team.ledger", "taken.ledger/team.ledger"):
        with pytest.raises(FileError):
            rs.allot(parent, tmp_path / place, rs.ZCDP(0.5))
    assert (tmp_path / "taken.ledger").read_text() == "mine"
    assert not parent.entries
    assert not (tmp_path / "team.ledger").exists()


def test_whoever_dies_between_has_spent_it_and_has_no_ledger(tmp_path: Path) -> None:
    parent = whole(tmp_path)
    with patch.object(ledger_file, "create_file", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        rs.allot(parent, tmp_path / "team.ledger", rs.ZCDP(0.25))
    assert not (tmp_path / "team.ledger").exists()
    assert rs.Ledger(tmp_path / "whole.ledger").remaining == rs.ZCDP(0.75)


def test_teams_that_race_never_get_more_than_the_whole(tmp_path: Path) -> None:
    whole(tmp_path)

    def ask(number: int) -> None:
        try:
            rs.allot(rs.Ledger(tmp_path / "whole.ledger"), tmp_path / f"{number}.ledger", rs.ZCDP(0.3))
        except LedgerError:
            refused.append(number)

    refused: list[int] = []
    teams = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for team in teams:
        team.start()
    for team in teams:
        team.join()
    assert len(refused) == 3
    assert sorted(path.name for path in tmp_path.glob("[0-9].ledger")) == sorted(
        f"{number}.ledger" for number in range(6) if number not in refused
    )


def test_what_is_allotted_may_become_laplace_noise(tmp_path: Path) -> None:
    """So the whole is a rho, and no mu is said of it."""
    parent = rs.Ledger(tmp_path / "whole.ledger", rs.ZCDP(1.0))
    before = parent.meaning
    rs.allot(parent, tmp_path / "team.ledger", rs.ZCDP(0.5))
    assert parent.meaning != before
    said = inside("ledger", "whole.ledger", "--json", cwd=tmp_path).out
    assert '"mu"' not in said
    assert '"allotted"' in said


def test_a_team_releases_from_its_part(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(DATA)
    (tmp_path / "spec.toml").write_text(SPEC.replace("people.ledger", "team.ledger").replace("rho = 1.0", "rho = 0.5"))
    assert inside("ledger", "create", "spec.toml", cwd=tmp_path).code == 0
    (tmp_path / "team.ledger").rename(tmp_path / "whole.ledger")
    done = inside("ledger", "allot", "whole.ledger", "team.ledger", "--rho", "0.5", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path, ledger=False).code == 0
    again = inside("release", "spec.toml", "--out", "more", cwd=tmp_path, ledger=False)
    assert again.code == 4
    assert inside("ledger", "allot", "whole.ledger", "other.ledger", cwd=tmp_path).code == 2
    assert inside("ledger", "allot", "whole.ledger", "other.ledger", "--rho", "0.01", cwd=tmp_path).code == 4
    shown = inside("ledger", "whole.ledger", cwd=tmp_path).out
    assert "allotted to team.ledger" in shown


def test_a_release_does_not_mind_where_its_budget_came_from(tmp_path: Path) -> None:
    domain = rs.Domain({"a": ["x", "y"]})
    plan = rs.plan(rs.marginals(domain, ways=1), rs.PureDP(0.2))
    child = rs.allot(rs.Ledger(tmp_path / "w.ledger", rs.PureDP(1.0)), tmp_path / "c.ledger", rs.PureDP(0.2))
    rs.measure(plan, pa.table({"a": ["x"] * 50}), ledger=child)
    assert child.remaining_exactly < Fraction(1, 10**9)


def test_a_part_of_a_whole_with_a_witness_has_one_and_cannot_be_set_back(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    parent = rs.Ledger(tmp_path / "w.ledger", rs.ZCDP(1.0), witness="far/w.witness", discovery_delta=1e-8)
    child = rs.allot(parent, tmp_path / "team.ledger", rs.ZCDP(0.5), discovery_delta=1e-9)
    assert child.witness == tmp_path / "far" / "team.ledger.witness"
    backup = (tmp_path / "team.ledger").read_bytes()
    jobs = pa.table({"job": ["nurse"] * 400})
    assert rs.discover(jobs, "job", rs.ZCDP(0.1), delta=1e-9, ledger=child).attribute.declared == 1
    assert (child.discovery_delta_spent, parent.discovery_delta_spent) == (1e-9, 1e-9)
    (tmp_path / "team.ledger").write_bytes(backup)
    with pytest.raises(LedgerError, match="older than its witness"):
        rs.Ledger(tmp_path / "team.ledger")
    with pytest.raises(LedgerError, match="delta"):
        rs.allot(parent, tmp_path / "more.ledger", rs.ZCDP(0.1), discovery_delta=1e-8)
    (tmp_path / "team.ledger").unlink()
    with pytest.raises(LedgerError, match="not mounted"):  # before anything of the whole is spent
        rs.allot(parent, tmp_path / "team.ledger", rs.ZCDP(0.1))
    assert len(parent.entries) == 1
    own = rs.allot(parent, tmp_path / "own.ledger", rs.ZCDP(0.1), witness="own.witness")
    assert own.witness == tmp_path / "own.witness"


@pytest.mark.parametrize("place", ["b/2024.ledger", "b/whole.ledger"])
def test_no_part_takes_the_witness_of_another_ledger(tmp_path: Path, place: str) -> None:
    """Named by the part's file alone, it could be that of a part in another folder, or of the whole."""
    for folder in ("a", "b", "far"):
        (tmp_path / folder).mkdir()
    parent = rs.Ledger(tmp_path / "whole.ledger", rs.ZCDP(1.0), witness="far/whole.ledger.witness")
    first = rs.allot(parent, tmp_path / "a/2024.ledger", rs.ZCDP(0.25))
    with pytest.raises((FileError, LedgerError), match="witness"):
        rs.allot(parent, tmp_path / place, rs.ZCDP(0.25))
    assert (first.remaining, parent.remaining) == (rs.ZCDP(0.25), rs.ZCDP(0.75))
    assert not (tmp_path / place).exists()
    with pytest.raises(FileError, match="witness: the folder"):
        rs.allot(parent, tmp_path / place, rs.ZCDP(0.25), witness="nowhere/part.witness")
    second = rs.allot(parent, tmp_path / place, rs.ZCDP(0.25), witness=tmp_path / "far/second.witness")
    assert {each.remaining for each in (first, second)} == {rs.ZCDP(0.25)}
    assert parent.remaining == rs.ZCDP(0.5)


def test_the_witness_of_a_whole_that_spent_nothing_is_not_taken_either(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    parent = rs.Ledger(tmp_path / "whole.ledger", rs.ZCDP(1.0), witness="whole.ledger.witness")
    with pytest.raises(FileError, match="is there already"):
        rs.allot(parent, tmp_path / "a/whole.ledger", rs.ZCDP(0.25))
    assert parent.remaining == rs.ZCDP(1.0)


def test_a_person_of_a_part_is_a_person_of_the_whole(tmp_path: Path) -> None:
    parent, cost = whole(tmp_path), Fraction(1, 100)
    ids = {"person": ["id"], "no_person": "refuse", "counts": None}
    rows = {**ids, "person": ["row"]}
    parent.debit(cost, purpose="one", dataset=DATASET, whose=ids)
    child = rs.allot(parent, tmp_path / "team.ledger", rs.ZCDP(0.25))
    grandchild = rs.allot(child, tmp_path / "desk.ledger", rs.ZCDP(0.1))
    for part in (child, grandchild, rs.Ledger(tmp_path / "team.ledger")):
        assert part.whose == ids
        with pytest.raises(LedgerError, match="who has one 'id'"):
            part.debit(cost, purpose="rows", dataset=DATASET, whose=rows)
        part.debit(cost, purpose="persons", dataset=DATASET, whose=ids)
    with pytest.raises(LedgerError, match="knows persons by"):
        rs.Ledger(tmp_path / "team.ledger", rs.ZCDP(0.25), unit=rs.Person(records=3), whose=rows)
    with pytest.raises(LedgerError, match="whose does not say"):
        rs.Ledger(tmp_path / "new.ledger", rs.ZCDP(0.25), whose="id")
