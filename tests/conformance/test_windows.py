"""The laws of ledgers, sessions and folders as Windows has files: locks, kills, full disks, files that are open.

Here they run on a system that is made to be like it (`tests/like_windows.py`); scripts/windows runs this file with the
Python of Windows, under Wine.
"""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import residua as rs
from residua import disk, files
from residua.errors import FileError, LedgerError, SessionError
from residua.formats.cube import plain
from residua.measurement import ledger_file
from tests.like_windows import become

DOMAIN = rs.Domain({"sex": ["F", "M"], "größe": ["klein", "groß"]})
DATA = pa.table({"sex": ["F", "M", "F"] * 20, "größe": ["klein", "groß", "groß"] * 20})
WORKER = """
import json, os, sys
from fractions import Fraction
import pytest
from tests.like_windows import become
become(pytest.MonkeyPatch())
from residua.errors import LedgerError
from residua.measurement.ledger import Ledger
from residua.privacy import ZCDP

job, path, rho, cost = sys.argv[1:]
os.write(1, b"ready\\n")
sys.stdin.readline()
try:
    ledger = Ledger(path, ZCDP(float(rho)))
    while job == "debit":
        os.write(1, ledger.debit(Fraction(cost), purpose="tables", dataset="data").digest.encode() + b"\\n")
    os.write(1, b"created\\n")
except LedgerError as refused:
    os.write(1, b"refused\\n")
"""


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:  # pytest opens folders to make one
    become(monkeypatch)
    yield
    monkeypatch.undo()
    disk._kernel.cache_clear()


def _begun(job: str, path: Path, rho: float, cost: str = "0") -> "subprocess.Popen[bytes]":
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    here = Path(__file__).parents[2]
    worker = subprocess.Popen([sys.executable, "-c", WORKER, job, str(path), str(rho), cost], cwd=here, **pipes)
    assert worker.stdout is not None
    first = worker.stdout.readline()
    assert first.strip() == b"ready", first + worker.stdout.read()
    return worker


def _raced(workers: "list[subprocess.Popen[bytes]]") -> list[list[str]]:
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    return [worker.communicate(timeout=300)[0].decode().split() for worker in workers]


def test_processes_racing_for_the_last_budget_win_exactly_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with_budget = rs.Ledger(path, rs.ZCDP(rho=0.5))
    said = _raced([_begun("debit", path, 0.5, "1/20") for _ in range(3)])
    assert [each[-1] for each in said] == ["refused"] * 3
    digests = [digest for each in said for digest in each[:-1]]
    assert sorted(digests) == sorted(entry.digest for entry in with_budget.entries)
    assert len(digests) == 20
    assert with_budget.remaining_exactly == 0


def test_one_of_many_processes_makes_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    said = _raced([_begun("create", path, 0.5 * (number + 1)) for number in range(3)])
    assert sorted(each[-1] for each in said) == ["created", "refused", "refused"]
    assert rs.Ledger(path).budget == rs.ZCDP(rho=0.5 * (said.index(["created"]) + 1))
    assert [each.name for each in tmp_path.iterdir()] == ["a.ledger"]


def test_a_debit_that_returned_survives_a_kill_and_the_lock_does_not(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5))
    for returned in (1, 7):
        worker = _begun("debit", ledger.path, 0.5, "1/100000")
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
        digests = [worker.stdout.readline().decode().strip() for _ in range(returned)]
        worker.kill()
        worker.communicate(timeout=600)
        assert all(ledger.contains(digest) for digest in digests)
        ledger.debit(Fraction(1, 10), purpose="after it", dataset="data")


def test_a_lock_holds_openings_and_keeps_nobody_from_reading(tmp_path: Path) -> None:
    path = tmp_path / "held"
    path.write_bytes(b"whole")
    with path.open("r+b") as one, path.open("r+b") as other:
        disk.lock(one.fileno())
        for shared in (True, False):
            with pytest.raises(BlockingIOError):
                disk.lock(other.fileno(), shared=shared, wait=False)
        assert other.read() == b"whole"
        waiting = threading.Thread(target=disk.lock, args=(other.fileno(),))
        waiting.start()
        disk.unlock(one.fileno())
        waiting.join(60)
        assert not waiting.is_alive()
        disk.unlock(other.fileno())
        disk.lock(one.fileno(), shared=True)
        disk.lock(other.fileno(), shared=True, wait=False)


def test_a_full_disk_spends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5))
    ledger.debit(Fraction(1, 10), purpose="first", dataset="data")
    before, real = ledger.path.read_bytes(), disk.write_at

    def full(handle: int, content: bytes, start: int) -> int:
        real(handle, content[: len(content) // 2], start)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ledger_file, "write_at", full)
    with pytest.raises(LedgerError, match="the disk is full; nothing was spent"):
        ledger.debit(Fraction(1, 10), purpose="second", dataset="data")
    monkeypatch.setattr(ledger_file, "write_at", real)
    assert ledger.path.read_bytes() == before
    ledger.debit(Fraction(1, 10), purpose="second", dataset="data")


def test_a_disk_without_room_for_the_release_spends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, plan = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5)), _plan(0.25)
    real = os.write

    def full(handle: int, content: Any) -> int:
        if bytes(content[:4096]).strip(b"\0"):
            return real(handle, content)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FileError, match=r"no room for the release .* nothing was spent"):
        rs.measure(plan, DATA, ledger=ledger, out=tmp_path / "release")
    monkeypatch.setattr(os, "write", real)
    assert ledger.spent_exactly == 0
    assert [each.name for each in tmp_path.iterdir()] == ["a.ledger"]
    rs.measure(plan, DATA, ledger=ledger, out=tmp_path / "release")


def test_a_document_that_somebody_reads_is_replaced_when_they_are_done(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    files.write_document(path, "kept", 1, {"number": 1})
    reading = path.open("rb")
    done = threading.Timer(0.1, reading.close)
    done.start()
    files.write_document(path, "kept", 1, {"number": 2})
    done.join()
    assert files.read_document(path, "kept", 1) == {"number": 2}


def test_a_document_that_stays_open_stays_whole_and_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_TRIES", 3)
    path = tmp_path / "kept.json"
    files.write_document(path, "kept", 1, {"number": 1})
    with path.open("rb"), pytest.raises(FileError, match=r"cannot write .*; nothing was written"):
        files.write_document(path, "kept", 1, {"number": 2})
    assert files.read_document(path, "kept", 1) == {"number": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


def _plan(rho: float) -> Any:
    return rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(rho=rho))


def _parts(ledger: rs.Ledger, folder: Path) -> int:
    again = rs.Session(DATA, ledger=ledger, state=folder / "session")
    assert again.known is not None
    return len([each for each in (folder / "session" / "parts").iterdir() if each.name.isdecimal()])


def test_releases_sessions_and_files_for_others_are_written_and_come_back(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    release = rs.measure(_plan(0.25), DATA, ledger=ledger, out=tmp_path / "release")
    again = rs.Release.load(tmp_path / "release")
    assert again.table(("größe",)).estimates.tolist() == release.table(("größe",)).estimates.tolist()
    release.save(tmp_path / "copy")
    release.export(tmp_path / "tables", "csv")
    session = rs.Session(DATA, rs.ZCDP(rho=0.5), ledger=ledger, state=tmp_path / "session")
    session.release(_plan(0.125))
    session.release(_plan(0.25))
    assert _parts(ledger, tmp_path) == 2
    rs.project(release).save(tmp_path / "projection")
    rs.Projected.load(tmp_path / "projection")


def test_a_session_that_was_killed_before_its_part_had_a_name_finds_it(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    session = rs.Session(DATA, rs.ZCDP(rho=0.5), ledger=ledger, state=tmp_path / "session")
    session.release(_plan(0.125))
    parts = tmp_path / "session" / "parts"
    del session
    os.rename(parts / "0001", parts / ".0001.partial-00000000")  # noqa: PTH104 (this system's own)
    assert _parts(ledger, tmp_path) == 1


def test_a_session_in_use_is_refused_and_a_folder_is_no_ledger(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    session = rs.Session(DATA, rs.ZCDP(rho=0.5), ledger=ledger, state=tmp_path / "session")
    with (tmp_path / "session" / "lock").open("r+b") as other:
        disk.lock(other.fileno())
        with pytest.raises(SessionError, match="is in use by another process or thread"):
            session.release(_plan(0.125))
    with pytest.raises(FileError, match="is not a file, so no ledger"):
        rs.Ledger(tmp_path)


@pytest.mark.parametrize("title", ["CON", "a:b?", "nul.txt", "ends. ", "COM1 × sex", 'a\\b/c"|*<>'])
def test_names_of_files_are_names_on_windows(title: str) -> None:
    assert not set(plain(title)) & set('<>:"/\\|?*. ')  # and each begins with a number, which no device does


def test_what_is_written_is_utf_8_with_the_same_bytes_everywhere(tmp_path: Path) -> None:
    plan = _plan(0.25)
    plan.save(tmp_path / "plan.json")
    content = (tmp_path / "plan.json").read_bytes()
    assert "größe".encode() in content
    assert b"\r" not in content
    assert json.loads(content)["format"] == "residua plan"


def test_the_command_prints_every_letter_into_a_pipe(tmp_path: Path) -> None:
    domain = rs.Domain({"πόλη": ["Αθήνα", "Łódź"]})
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(rho=0.5))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5))
    rs.measure(plan, pa.table({"πόλη": ["Αθήνα"] * 9}), out=tmp_path / "release", ledger=ledger)
    asked = [sys.executable, "-m", "residua", "table", str(tmp_path / "release"), "πόλη", "--csv"]
    done = subprocess.run(asked, input=b"", capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    header, first, _ = done.stdout.decode("utf-8").splitlines()
    assert (header.split(",")[0], first.split(",")[0]) == ('"πόλη"', '"Αθήνα"')
    assert b"\r" not in done.stdout
