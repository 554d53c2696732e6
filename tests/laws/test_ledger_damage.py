"""What a ledger promises when its file is cut short, changed, out of space, or loses power."""

import hashlib
import json
import os
import random
import resource
import stat
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from residua.errors import FileError, LedgerError
from residua.measurement.ledger import Ledger
from residua.measurement.ledger_file import read_contents
from residua.privacy import ZCDP

DATA = "sha256:1f3c"
COST = Fraction(1, 10)


def debit(ledger: Ledger, purpose: str = "tables") -> str:
    return ledger.debit(COST, purpose=purpose, dataset=DATA, detail={"blocks": [1, "x"]}).digest


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "a.ledger", ZCDP(rho=0.5))
    for number in range(4):
        debit(ledger, f"tables {number}")
    return ledger


def lines_of(ledger: Ledger) -> list[bytes]:
    return ledger.path.read_bytes().splitlines(keepends=True)


def test_a_ledger_cut_at_any_byte_of_its_last_line_is_readable_and_takes_the_next_debit(ledger: Ledger) -> None:
    whole, last, entries = ledger.path.read_bytes(), lines_of(ledger)[-1], ledger.entries
    for cut in range(1, len(last) + 1):
        ledger.path.write_bytes(whole[:-cut])
        again = Ledger(ledger.path)
        # Without its newline only, the record is whole: it counts, which can only overstate what was spent.
        kept = entries if cut == 1 else entries[:-1]
        assert again.entries == kept
        digest = debit(again)
        assert Ledger(ledger.path).entries[:-1] == kept
        assert again.head == digest
        assert ledger.path.read_bytes().endswith(b'"}\n')


def test_the_next_debit_removes_all_of_a_longer_one_that_was_cut_short(ledger: Ledger) -> None:
    entries = ledger.entries
    debit(ledger, "tables " * 100)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-2])
    again = Ledger(ledger.path)
    debit(again)
    assert [json.loads(line)["sequence"] for line in lines_of(ledger)] == [0, 1, 2, 3, 4, 5]
    assert Ledger(ledger.path).entries[:-1] == entries


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_zeros_that_power_loss_leaves_at_the_end_are_no_damage(ledger: Ledger, cut: int) -> None:
    whole, entries = ledger.path.read_bytes(), ledger.entries
    ledger.path.write_bytes(whole[:-cut] + bytes(cut))
    assert Ledger(ledger.path).entries == (entries if cut == 1 else entries[:-1])
    debit(Ledger(ledger.path))


def test_whatever_byte_is_changed_is_noticed_or_changes_nothing(ledger: Ledger) -> None:
    whole, entries = ledger.path.read_bytes(), ledger.entries
    rng, noticed = random.Random(3), 0
    for place in range(len(whole)):
        for value in {whole[place] ^ 1, whole[place] ^ 32, rng.randrange(256), 0, 10} - {whole[place]}:
            changed = whole[:place] + bytes([value]) + whole[place + 1 :]
            try:
                assert read_contents(changed, "it").entries == entries
            except (LedgerError, FileError):
                noticed += 1
            else:
                assert (place, value) == (len(whole) - 1, 0)  # as after power loss: all records are there
    assert noticed > 3 * len(whole)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines[:2], lines[1], *lines[2:]],
        lambda lines: [*lines, lines[1]],
        lambda lines: [*lines, b"\n"],
        lambda lines: [*lines, b"{}\n"],
        lambda lines: [*lines[:-1], lines[-1][:-1] + b" \n"],
        lambda lines: [*lines[:-1], lines[-1][:-1] + b" "],
        lambda lines: [*lines[:-1], lines[-1].replace(b'"1/10"', b'"1/90"')],
        lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
        lambda lines: lines[1:],
        lambda lines: [lines[0][:-1], *lines[1:]],
    ],
)
def test_an_edited_removed_inserted_or_moved_line_is_noticed(
    ledger: Ledger, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    changed = b"".join(change(lines_of(ledger)))
    ledger.path.write_bytes(changed)
    with pytest.raises((LedgerError, FileError), match=r"was changed|is not a ledger"):
        Ledger(ledger.path)
    with pytest.raises((LedgerError, FileError), match=r"was changed|is not a ledger"):
        debit(ledger)
    assert ledger.path.read_bytes() == changed


def test_a_line_of_another_ledger_is_noticed(ledger: Ledger) -> None:
    other = Ledger(ledger.path.with_name("b.ledger"), ZCDP(rho=0.5))
    debit(other, "tables 0")
    ledger.path.write_bytes(lines_of(ledger)[0] + lines_of(other)[1])
    with pytest.raises(LedgerError, match="line 2 does not follow the one before it"):
        Ledger(ledger.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": "3/1"}, "spends more than the budget"),
        ({"cost": "-1/2"}, "a negative cost"),
        ({"cost": "1/0"}, "that no ledger has"),
        ({"cost": 0.5}, "that no ledger has"),
        ({"detail": 3}, "that no ledger has"),
        ({"dataset": "0" * 64}, "about another dataset"),
        ({"sequence": 9}, "does not follow"),
    ],
)
def test_a_line_sealed_by_hand_is_still_checked(ledger: Ledger, change: dict[str, object], message: str) -> None:
    body = {**json.loads(lines_of(ledger)[-1]), **change}
    del body["sha256"]
    opened = json.dumps(body, separators=(",", ":"))[:-1].encode()
    seal = f',"sha256":"{hashlib.sha256(opened).hexdigest()}"}}\n'.encode()
    ledger.path.write_bytes(b"".join(lines_of(ledger)[:-1]) + opened + seal)
    with pytest.raises(LedgerError, match=message):
        Ledger(ledger.path)


def test_the_chain_is_what_the_format_says(ledger: Ledger) -> None:
    lines = [(line, json.loads(line)) for line in lines_of(ledger)]
    for number, (line, body) in enumerate(lines):
        assert body["sequence"] == number
        assert body["sha256"] == hashlib.sha256(line[: line.rindex(b',"sha256"')]).hexdigest()
    assert all(after["previous"] == before["sha256"] for (_, before), (_, after) in pairwise(lines))
    assert lines[-1][1]["sha256"] == ledger.head


def test_a_disk_that_fills_up_at_any_byte_spends_nothing_and_leaves_the_file_as_it_was(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for space in range(len(lines_of(ledger)[-1])):  # the next line is as long as the last one
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + space, hard))
        try:
            with pytest.raises(LedgerError, match=r"disk is full; nothing was spent; make space"):
                debit(ledger, "tables 4")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert ledger.path.read_bytes() == before
    debit(ledger, "tables 4")
    assert ledger.spent_exactly == 5 * COST


def test_a_disk_without_space_creates_no_ledger(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(FileError, match="cannot create the ledger"):
            Ledger(tmp_path / "a.ledger", ZCDP(0.5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", [1, 2])
def test_a_disk_that_fails_at_fsync_spends_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    before, real, calls = ledger.path.read_bytes(), os.fsync, []

    def fsync(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            calls.append(handle)
            if len(calls) == failing:
                raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(LedgerError, match=r"disk is full; nothing was spent"):
        debit(ledger)
    assert ledger.path.read_bytes() == before


def test_a_debit_that_could_not_be_taken_back_is_said_to_stand(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fsync(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            calls.append(handle)
            if len(calls) >= 2:
                raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(LedgerError, match=r"Input/output error; no data was read, but the debit may stand"):
        debit(ledger)


class Disk:
    """Watches one file, and can say what power loss may leave of it.

    Since the last fsync each sector may be as it was at any moment, and so may the size, independently.
    """

    SECTOR = 64

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.history: list[tuple[list[bytes], int]] = []  # possible versions, and debits that had returned
        self.versions = [path.read_bytes()]
        self.returned = 0
        for name in ("pwrite", "ftruncate", "fsync"):
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, real: Callable[..., int | None]) -> Callable[..., int | None]:
        def call(handle: int, *args: object) -> int | None:
            result = real(handle, *args)
            if os.path.samestat(os.fstat(handle), self.path.stat()):
                current = self.path.read_bytes()
                self.versions = [current] if name == "fsync" else [*self.versions, current]
                self.history.append((self.versions, self.returned))
            return result

        return call

    def after_power_loss(self, versions: list[bytes], rng: random.Random) -> bytes:
        size = len(rng.choice(versions))
        mostly, share = rng.choice(versions), rng.choice([0.0, 0.8, 1.0])  # wild mixtures, and nearly clean ones
        pieces = []
        for start in range(0, size, self.SECTOR):
            version = mostly if rng.random() < share else rng.choice(versions)
            pieces.append(version[start : start + self.SECTOR].ljust(self.SECTOR, b"\0"))
        return b"".join(pieces)[:size]


@pytest.mark.parametrize("cut", [0, 1, 100, 400])
def test_a_debit_that_returned_survives_power_loss_at_any_moment(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    debit(ledger, "tables " * 100)  # cut short, it is still longer than the debits to come
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content[: len(content) - cut])
    ledger = Ledger(ledger.path)
    receipts = [entry.digest for entry in ledger.entries]
    start = len(receipts)
    with monkeypatch.context() as patched:
        disk = Disk(ledger.path, patched)
        for _ in range(3):
            receipts.append(debit(ledger))
            disk.returned += 1
    rng = random.Random(cut)
    for versions, returned in disk.history:
        for _ in range(400):
            left = disk.after_power_loss(versions, rng)
            digests = [entry.digest for entry in read_contents(left, "it").entries]
            assert receipts[: start + returned] == digests[: start + returned]
            assert len(digests) <= start + returned + 1
    ledger.path.write_bytes(left)
    debit(Ledger(ledger.path))
