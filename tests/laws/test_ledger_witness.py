"""The witness of a ledger: a ledger that was set back is refused, and one that crashed at any moment is not."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest

import residua.disk
from residua import files
from residua.errors import LedgerError
from residua.measurement import ledger_file
from residua.measurement.ledger import Ledger
from residua.privacy import ZCDP

COST = Fraction(1, 100)


def opened(folder: Path) -> Ledger:
    return Ledger(folder / "people.ledger", ZCDP(0.5), witness="elsewhere/people.witness")


def debit(ledger: Ledger) -> str:
    return ledger.debit(COST, purpose="tables", dataset="data").digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def test_every_older_copy_is_refused_and_the_latest_is_not(folder: Path) -> None:
    ledger, copies = opened(folder), []
    for number in range(5):
        copies.append(shutil.copy(ledger.path, folder / f"copy {number}"))
        debit(ledger) if number != 3 else ledger.accept(fingerprint="corrected", why="corrected codes")
    latest = shutil.copy(ledger.path, folder / "latest")
    for number, copy in enumerate(copies):
        shutil.copy(copy, ledger.path)
        lines = 5 - number
        words = f"lacks the last {lines} lines" if lines > 1 else "lacks its last line"
        with pytest.raises(LedgerError, match=f"older than its witness .*{words}.*set back.*restore"):
            Ledger(ledger.path)
    shutil.copy(latest, ledger.path)
    assert len(Ledger(ledger.path).entries) == 4
    debit(Ledger(ledger.path))


def dies_at(call: int, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a process of its own dies at that fsync, as by kill -9; False if there are fewer."""
    child = os.fork()
    if child == 0:
        left = iter(range(call))

        def fsync(handle: int) -> None:
            if next(left, None) is None:
                os._exit(9)

        for module, name in ((residua.disk, "sync"), (ledger_file, "sync"), (files.os, "fsync")):
            monkeypatch.setattr(module, name, fsync)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_crash_at_any_moment_blocks_nobody_and_hides_no_debit_that_returned(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = 0
    while dies_at(deaths, lambda: debit(opened(folder)), monkeypatch):
        deaths += 1
        before = len(opened(folder).entries)
        copy = shutil.copy(folder / "people.ledger", folder / "copy")
        digest = debit(opened(folder))
        now = folder / "people.ledger"
        assert Ledger(now).contains(digest)
        assert len(Ledger(now).entries) == before + 1
        kept = shutil.copy(now, folder / "kept")
        shutil.copy(copy, now)
        with pytest.raises(LedgerError, match="older than its witness"):
            Ledger(now)
        shutil.copy(kept, now)
        if deaths % 2 == 0:  # begin anew, so that creation dies at each of its moments too
            now.unlink()
            (folder / "elsewhere" / "people.witness").unlink()
    assert deaths >= 4


def test_a_debit_that_crashed_before_its_witness_reads_no_data_and_may_be_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy without it is as good: whoever asked for that debit never read anything."""
    debit(opened(folder))
    copy = shutil.copy(folder / "people.ledger", folder / "copy")
    monkeypatch.setattr("residua.measurement.witness.Witness.note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        debit(opened(folder))
    monkeypatch.undo()
    assert len(opened(folder).entries) == 2, "the debit stands"
    shutil.copy(copy, folder / "people.ledger")
    debit(opened(folder))


def test_a_lost_ledger_is_not_made_again_beside_its_witness(folder: Path) -> None:
    ledger = opened(folder)
    debit(ledger)
    ledger.path.unlink()
    with pytest.raises(LedgerError, match=r"a ledger that is not at .*not mounted.*name another witness"):
        opened(folder)
    assert not ledger.path.exists()


def test_a_witness_that_is_gone_or_anothers_is_refused(folder: Path) -> None:
    ledger, witness = opened(folder), folder / "elsewhere" / "people.witness"
    debit(ledger)
    kept = shutil.copy(witness, folder / "kept")
    witness.unlink()
    with pytest.raises(LedgerError, match="is not there; mount its disk"):
        debit(ledger)
    other = Ledger(folder / "other.ledger", ZCDP(0.5), witness="elsewhere/people.witness")
    debit(other)
    with pytest.raises(LedgerError, match="witness of another ledger"):
        Ledger(ledger.path)
    shutil.copy(kept, witness)
    debit(ledger)
    with pytest.raises(LedgerError, match=r"has the witness 'elsewhere/people.witness', fixed at creation"):
        Ledger(ledger.path, witness="there")
    with pytest.raises(LedgerError, match="is the ledger itself"):
        Ledger(folder / "a.ledger", ZCDP(0.5), witness="a.ledger")


def test_a_witness_that_cannot_be_written_costs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = opened(folder)
    before = ledger.remaining_exactly

    def refuse(*_: object, **__: object) -> None:
        raise files.FileError("cannot write: no space.")

    monkeypatch.setattr("residua.measurement.witness.write_document", refuse)
    with pytest.raises(LedgerError, match=r"witness of the ledger cannot be written.*nothing was spent"):
        debit(ledger)
    monkeypatch.undo()
    assert ledger.remaining_exactly == before
    debit(ledger)


def test_the_first_copy_is_refused_where_the_witness_is_not_mounted(folder: Path) -> None:
    ledger = opened(folder)
    first = shutil.copy(ledger.path, folder / "first")
    debit(ledger)
    (folder / "elsewhere" / "people.witness").unlink()
    shutil.copy(first, ledger.path)
    for open_again in (lambda: Ledger(ledger.path), lambda: opened(folder)):
        with pytest.raises(LedgerError, match="is not there; mount its disk"):
            open_again()


def test_a_line_that_is_taken_up_again_is_known_to_the_witness_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy(opened(folder).path, folder / "copy")
    monkeypatch.setattr("residua.measurement.witness.Witness.note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        debit(opened(folder))
    monkeypatch.undo()
    opened(folder).confirm()
    shutil.copy(copy, folder / "people.ledger")
    with pytest.raises(LedgerError, match="older than its witness"):
        opened(folder)


@pytest.mark.parametrize("creators", [2, 6])
def test_whoever_makes_a_ledger_at_once_with_others_leaves_it_its_own_witness(tmp_path: Path, creators: int) -> None:
    """The witness is written before the ledger has its name: a loser of the race must not write it afterwards."""
    (tmp_path / "elsewhere").mkdir()
    name_once, ready = ledger_file.name_once, threading.Barrier(creators, timeout=0.5)

    def slowly(source: Path, path: Path) -> None:
        with suppress(threading.BrokenBarrierError):  # all that may be here at once are here
            ready.wait()
        name_once(source, path)

    def make() -> None:
        debits.append(debit(opened(tmp_path)))

    debits: list[str] = []
    with patch.object(ledger_file, "name_once", slowly):
        threads = [threading.Thread(target=make) for _ in range(creators)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(debits) == creators
    assert len(opened(tmp_path).entries) == creators
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "people.ledger"]


def test_two_new_ledgers_share_no_witness(folder: Path) -> None:
    """The second is refused before the first would be, which would look as if it had been set back."""
    first = opened(folder)
    with pytest.raises(files.FileError, match=r"is there already, the witness of '.*people\.ledger'; name another"):
        Ledger(folder / "second.ledger", ZCDP(0.5), witness="elsewhere/people.witness")
    assert not (folder / "second.ledger").exists()
    debit(first)
    assert opened(folder).spent == first.spent
