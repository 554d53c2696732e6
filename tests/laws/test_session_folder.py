"""A session on disk: restarts, crashes, copies, other users, and folders or ledgers that are not its own."""

import shutil
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError, LedgerError, PlanError, SessionError
from residua.plans.verifier import priced
from residua.session.measuring import missing
from tests.laws.sessions import CELLS, DATA, DOMAIN, OLD, ONE, THREE, TWO, YOUNG, Open, table, within


def test_a_session_goes_on_after_a_restart(opened: Open) -> None:
    opened().choose({"one": ONE, "two": TWO})
    session = opened(budget=None)
    choice = session.choice
    assert choice is not None
    look = session.ledger.spent_exactly
    assert session.status.choices == {1: (("one", "two"), "open")}
    choice.finish(TWO)  # given as the plan: recognised by what it measures
    assert session.ledger.spent_exactly == priced(TWO)[1] > look
    assert opened().choice is None
    assert opened().price(TWO) == 0
    within(opened().release(TWO), ("sex", "smokes"))


def test_a_debit_whose_part_was_lost_stays_spent(opened: Open) -> None:
    session = opened(rs.ZCDP(1.5))
    session.release(YOUNG)
    session.release(OLD)  # free, since disjoint
    shutil.rmtree(session.path / "parts" / "0002")
    session = opened(budget=None)
    assert session.status.lost == (2,)
    # What was lost may have been seen: it now counts with what it costs alone.
    before = session.ledger.spent_exactly
    session.release(OLD)
    assert session.ledger.spent_exactly - before == Fraction(session.ledger.entries[1].detail["alone"])
    assert float(session.ledger.spent_exactly) == pytest.approx(float(before + priced(OLD)[1]), rel=1e-6)
    assert set(session.status.parts) == {1, 3}


def test_a_session_made_whole_from_a_part_that_lacked_only_its_name(opened: Open) -> None:
    session = opened()
    session.release(ONE)
    part = session.path / "parts" / "0001"
    part.rename(part.with_name(".0001.partial-0a1b2c3d"))
    (session.path / "parts" / ".0002.partial-00000000").mkdir()
    session = opened()
    session.release(ONE)
    assert len(session.ledger.entries) == 1
    assert [path.name for path in (session.path / "parts").iterdir()] == ["0001"]


@pytest.mark.parametrize("number", ["0002", "12345"])
def test_a_whole_part_gets_its_own_name_whatever_its_number(opened: Open, number: str) -> None:
    session = opened()
    session.release(ONE)
    parts = session.path / "parts"
    shutil.copytree(parts / "0001", parts / f".{number}.partial-0a1b2c3d")
    with session._folder.locked():
        assert {path.name for path in parts.iterdir()} == {"0001", number}


def test_a_part_that_was_compiled_differently_counts_with_its_own_price_as_well(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from residua.session import accounts

    session = opened(rs.ZCDP(2.0))
    session.release(ONE)
    assert session.price(TWO) < priced(TWO)[1]
    before = session.price(TWO)
    monkeypatch.setattr(accounts, "_as_compiled", lambda part: False)
    assert session.price(TWO) == before + priced(ONE)[1]


def test_a_release_names_the_latest_debit(opened: Open, tmp_path: Path) -> None:
    session = opened()
    release = session.choose([ONE, TWO]).finish(TWO)
    assert release.receipt["digest"] == session.ledger.entries[-1].digest
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    assert session.ledger.contains(again.receipt["digest"])
    assert again.estimates(("sex", "age")) == pytest.approx(release.estimates(("sex", "age")))
    assert again.receipt["pcost"] == pytest.approx(float(session.ledger.spent_exactly), rel=1e-9)


def test_a_session_that_died_while_it_was_made_is_made_again(opened: Open, tmp_path: Path) -> None:
    folder = tmp_path / "a.ledger.session"
    (folder / "parts").mkdir(parents=True)
    (folder / ".session.json.x1y2").write_text("{")
    opened().release(ONE)
    assert {path.name for path in folder.iterdir()} == {"parts", "choices", "lock", "session.json"}


def test_a_session_of_another_dataset_is_refused(opened: Open, tmp_path: Path) -> None:
    opened().release(ONE)
    other = table(CELLS + 1)
    with pytest.raises(LedgerError, match="another dataset"):
        opened(data=other)
    fresh = rs.Ledger(tmp_path / "b.ledger", rs.ZCDP(0.5))
    with pytest.raises(SessionError, match="belongs to another ledger"):
        rs.Session(other, ledger=fresh, state=tmp_path / "a.ledger.session")
    with pytest.raises(SessionError, match="belongs to another ledger"):
        rs.Session(DATA, ledger=fresh, state=tmp_path / "a.ledger.session")
    assert fresh.entries == ()


def test_a_session_whose_ledger_is_gone_makes_no_new_one(opened: Open, tmp_path: Path) -> None:
    opened().release(ONE)
    (tmp_path / "a.ledger").unlink()
    with pytest.raises(SessionError, match="restore the ledger"):
        opened()
    assert not (tmp_path / "a.ledger").exists()


def test_a_part_that_is_not_what_was_paid_for_is_noticed(opened: Open, tmp_path: Path) -> None:
    from residua.release import Release

    session = opened()
    session.release(ONE)
    part = session.path / "parts" / "0001"
    receipt = rs.Release.load(part).receipt
    shutil.rmtree(part)
    measurements, _ = priced(YOUNG)
    Release(YOUNG, measurements, np.zeros(measurements.cells, dtype=np.int64), receipt).save(part)
    with pytest.raises(SessionError, match="is not what was paid for"):
        opened()


def test_a_ledger_that_was_rolled_back_is_noticed(opened: Open) -> None:
    session = opened()
    before = session.ledger.path.read_bytes()
    session.release(ONE)
    session.ledger.path.write_bytes(before)
    with pytest.raises(SessionError, match="has no debit"):
        opened()


def test_an_older_copy_of_the_folder_counts_the_later_parts_as_lost(opened: Open, tmp_path: Path) -> None:
    session = opened(rs.ZCDP(1.5))
    session.release(YOUNG)
    shutil.copytree(session.path, tmp_path / "copy")
    session.release(OLD)
    copy = opened(None, state=tmp_path / "copy")
    assert copy.status.lost == (2,)
    copy.release(OLD)
    assert float(session.ledger.spent_exactly) == pytest.approx(float(priced(YOUNG)[1] + priced(OLD)[1]), rel=1e-6)


def test_a_session_in_use_refuses_a_second_user(opened: Open) -> None:
    session = opened()
    with session._folder.locked(), pytest.raises(SessionError, match="in use by another process or thread"):
        session.release(ONE)
    session.release(ONE)


def test_a_debit_that_comes_in_between_is_waited_out(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    session, debit, moved = opened(rs.ZCDP(1.0)), rs.Ledger.debit, []

    def raced(ledger: rs.Ledger, cost: Fraction, **options: object) -> object:
        if not moved:
            moved.append(debit(ledger, Fraction(1, 8), purpose="another", dataset=DATA_PRINT))
        return debit(ledger, cost, **options)

    DATA_PRINT = rs.Source.frame(DATA).fingerprint()
    monkeypatch.setattr(rs.Ledger, "debit", raced)
    session.release(ONE)
    assert [entry.purpose for entry in session.ledger.entries] == ["another", "release"]
    assert session.status.spent_exactly == priced(ONE)[1]


def test_a_folder_that_is_something_else_is_refused(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(FileError, match="is not a session"):
        opened(state=tmp_path / "mine")
    with pytest.raises(FileError, match="cannot make the session folder"):
        opened(state=tmp_path / "no" / "such")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is not a session"):
        opened(state=tmp_path / "file")
    assert not (tmp_path / "a.ledger").exists()  # whose budget would be fixed already
    with pytest.raises(FileError, match="no ledger"):
        rs.Session(DATA, ledger=tmp_path / "missing.ledger")


def test_threads_that_release_at_once_pay_once(opened: Open) -> None:
    session = opened()
    problems: list[Exception] = []

    def work() -> None:
        while True:
            try:
                opened(None).release(ONE)
                return
            except SessionError as problem:
                if "in use" not in str(problem):
                    problems.append(problem)
                    return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(session.ledger.entries) == 1


def test_no_true_count_is_kept_anywhere(opened: Open) -> None:
    session = opened()
    session.choose([ONE, TWO]).finish(TWO)
    for path in session.path.rglob("*.npy"):
        held = np.load(path)
        assert not np.isin(held, CELLS.sum(axis=2)).all()
    fingerprint = rs.Source.frame(DATA).fingerprint()
    for path in session.path.rglob("*"):
        if path.is_file():
            assert fingerprint.encode() not in path.read_bytes()


def test_a_candidate_exchanged_on_disk_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    session = rs.Session(DATA, rs.ZCDP(50.0), ledger=tmp_path / "ledger")
    choice = session.choose([ONE, TWO])
    spent = session.ledger.spent_exactly
    for part in (session.path / "parts").iterdir():
        shutil.rmtree(part)
    rs.plan(rs.marginals(DOMAIN, ways=1), rs.PureDP(9.0)).save(session.path / "choices" / "0001" / "00.json")
    session = rs.Session(DATA, ledger=session.ledger)
    exchanged = session._folder.choices()[1].candidates[next(iter(choice.candidates))]
    with pytest.raises(PlanError, match="cannot be pooled"):
        session.finish_choice(1, exchanged, "finished", "the candidate")
    assert session.ledger.spent_exactly == spent


def test_a_folder_that_lacks_a_file_says_which_and_is_not_made_anew(opened: Open) -> None:
    session = opened()
    session.choose([ONE, TWO])
    names = session.path / "choices" / "0001" / "names.json"
    kept = names.read_bytes()
    names.write_text("{")
    with pytest.raises(SessionError, match=r"choice 1 of the session cannot be read .*0001' from a copy, or delete it"):
        _ = opened().status
    names.write_bytes(kept)
    (session.path / "choices" / "0001" / "01.json").unlink()
    with pytest.raises(SessionError, match=r"cannot be read .*01\.json"):
        _ = opened().choice
    (session.path / "session.json").unlink()
    with pytest.raises(SessionError, match=r"lacks its 'session\.json'"):
        opened()
    assert not (session.path / "session.json").exists()


def test_a_look_that_lacked_only_its_name_is_found_when_the_session_is_opened(opened: Open) -> None:
    session = opened()
    session.choose([ONE, TWO])
    part = session.path / "parts" / "0001"
    part.rename(part.with_name(".0001.partial-0a1b2c3d"))
    again = opened()
    assert again.status.lost == ()
    assert again.choice is not None
    part.rename(part.with_name(".0001.partial-0a1b2c3d"))
    with session._folder.locked():  # which clears up; and a second user leaves alone what is another's
        part.rename(part.with_name(".0001.partial-0a1b2c3d"))
        assert opened().status.lost == (1,)
    assert opened().status.lost == ()


def test_a_choice_is_resumed_by_its_number(opened: Open) -> None:
    session = opened(rs.ZCDP(2.0))
    session.choose({"one": ONE, "two": TWO})
    session.choose({"two": TWO, "three": THREE})
    again = opened(None)
    assert again.choice is not None
    assert again.choice.number == 2
    assert list(again.resume(1).candidates) == ["one", "two"]
    again.resume(1).finish("one")
    with pytest.raises(SessionError, match="closed"):
        again.resume(1)
    with pytest.raises(SessionError, match="there is no choice 3; there are 1, 2"):
        again.resume(3)


def test_origins_are_kept_with_the_choice(opened: Open) -> None:
    plans = {"one": ONE, "two": TWO, "three": THREE}
    choice = opened().choose(plans, origins={"one": "a", "three": "c"})
    assert choice.origins == {"one": "a", "three": "c"}
    choice.step()
    found = opened().choice
    assert found is not None
    assert found.origins == {"three": "c"}


def test_what_is_missing_is_worked_out_once_and_checked_before_it_is_paid(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[rs.Plan] = []
    session = opened(rs.ZCDP(2.0))
    choice = session.choose([ONE, TWO])
    recorded = lambda plan, held: asked.append(plan) or missing(plan, held)  # noqa: E731
    monkeypatch.setattr("residua.session.measuring.missing", recorded)
    assert session.price(TWO) + session.ledger.spent_exactly == priced(TWO)[1]
    assert session.price(ONE) + session.ledger.spent_exactly == priced(ONE)[1]
    choice.finish(TWO)
    assert asked == []
    assert session.price(THREE) == session.price(THREE)
    assert asked == [THREE]
    # What was found beside other parts would cost too little here.
    spent, stale = session.ledger.spent_exactly, missing(THREE, [])
    session._memory.note(tuple(session.status.parts), {THREE: stale})
    with pytest.raises(SessionError, match="costs more than was worked out"):
        session.release(THREE)
    assert session.ledger.spent_exactly == spent
    session._memory.note((1,), {THREE: stale})
    session.release(THREE)
    assert session.ledger.spent_exactly > spent
