"""A ledger belongs to people, not to bytes: one budget, whatever version of their data is read."""

import shutil
from fractions import Fraction
from pathlib import Path

import pytest

import residua as rs
from residua.errors import LedgerError, SessionError
from residua.measurement import Ledger
from tests.cli.command import DATA as PEOPLE, SPEC, inside
from tests.laws.sessions import CELLS, DATA, ONE, table
from tests.saved import saved


def pay(ledger: Ledger, dataset: str) -> None:
    ledger.debit(Fraction(1, 4), purpose="tables", dataset=dataset)


def test_datasets_of_the_same_people_share_one_budget(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "adults.ledger", rs.ZCDP(0.5))
    assert ledger.population == "adults"
    pay(ledger, "first")
    with pytest.raises(LedgerError, match=r"'adults'.*ledger.accept\(data, why=…\).*second budget"):
        pay(ledger, "second")
    line = ledger.accept(fingerprint="second", why="corrected codes")
    assert ledger.accept(fingerprint="second", why="again") == line  # on record once
    pay(ledger, "second")
    pay(ledger, "first")
    assert ledger.spent_exactly == Fraction(3, 4)
    assert (line.sequence, line.why, ledger.accepted) == (2, "corrected codes", (line,))
    assert [entry.sequence for entry in ledger.entries] == [1, 3, 4]
    assert ledger.contains(line.digest)
    again = Ledger(ledger.path, population="adults")
    assert again.spent_exactly == Fraction(3, 4)
    with pytest.raises(LedgerError, match="another dataset"):
        pay(again, "third")
    with pytest.raises(LedgerError, match="the population 'adults', fixed at creation"):
        Ledger(ledger.path, population="children")


def test_a_declaration_needs_a_reason_and_data_and_cannot_be_forged(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger", rs.ZCDP(0.5), population="adults of 2026", dataset="first")
    for wrong in ({"why": " "}, {"why": "same", "fingerprint": None}):
        with pytest.raises(LedgerError):
            ledger.accept(**({"fingerprint": "second"} | wrong))  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="population must be a text"):
        Ledger(tmp_path / "b.ledger", rs.ZCDP(0.5), population=" ")
    assert ledger.accepted == ()
    ledger.accept(DATA, why="converted")
    rs.measure(ONE, DATA, ledger=ledger)
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content.replace(b"converted", b"corrected"))
    with pytest.raises(LedgerError, match="was changed"):
        Ledger(ledger.path)
    lines = content.splitlines(keepends=True)
    ledger.path.write_bytes(lines[0] + lines[2])
    with pytest.raises(LedgerError, match="does not follow"):
        Ledger(ledger.path)


def test_a_ledger_that_paid_for_a_release_opens_accepts_and_is_debited_to_its_end(tmp_path: Path) -> None:
    path = Path(shutil.copy(saved() / "residual.ledger", tmp_path / "residual.ledger"))
    ledger = Ledger(path)
    spent = ledger.spent_exactly
    assert (ledger.population, ledger.accepted, len(ledger.entries)) == ("residual", (), 1)
    corrected = tmp_path / "corrected.csv"
    corrected.write_text((saved() / "data.csv").read_text() + "\n")
    ledger.accept(corrected, why="a blank line at the end")
    left = ledger.remaining_exactly
    ledger.debit(left, purpose="the rest", dataset=rs.Source.csv(corrected).fingerprint())
    assert Ledger(path).spent_exactly == spent + left


def test_a_session_does_not_pool_versions_of_the_data_but_another_one_shares_the_budget(tmp_path: Path) -> None:
    first = rs.Session(DATA, rs.ZCDP(1.0), ledger=tmp_path / "a.ledger")
    first.release(ONE)
    corrected = table(CELLS + 1)
    first.ledger.accept(corrected, why="corrected codes")
    with pytest.raises(SessionError, match=r"belongs to another dataset.*another session on the same ledger"):
        rs.Session(corrected, ledger=tmp_path / "a.ledger")
    second = rs.Session(corrected, ledger=tmp_path / "a.ledger", state=tmp_path / "corrected")
    second.release(ONE)
    assert second.ledger.spent_exactly == 2 * second.ledger.entries[0].cost


def test_the_command_accepts_corrected_data(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "people.csv").write_text(PEOPLE)
    assert inside("release", "spec.toml", "--out", "one", cwd=tmp_path).code == 0
    (tmp_path / "people.csv").write_text(PEOPLE + "F,1\n")
    refused = inside("release", "spec.toml", "--out", "two", cwd=tmp_path)
    assert "second budget" in refused.err
    assert inside("ledger", "people.ledger", "--accept", "spec.toml", cwd=tmp_path).refused
    done = inside("ledger", "people.ledger", "--accept", "spec.toml", "--why", "one was missing", cwd=tmp_path)
    assert "one was missing" in done.out
    assert inside("release", "spec.toml", "--out", "two", cwd=tmp_path).code == 0
    assert rs.Ledger(tmp_path / "people.ledger").remaining_exactly < Fraction(1, 10**6)
