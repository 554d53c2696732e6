"""The file of a ledger and its lines: JSON, numbered, each holding the digest of the one before it.

The first line is the header, sequence 0; every other line is a debit, or a dataset that was declared to be of the same
people:

    {"format":"residua ledger","version":1,"sequence":0,"time":…,"budget":…,"unit":…,"pcost_allowed":"1/1",
     "salt":…,"dataset":null,"population":"adults","previous":"","sha256":…}
    {"sequence":1,"time":…,"cost":"1/4","purpose":…,"dataset":…,"detail":{},"previous":…,"sha256":…}
    {"sequence":2,"time":…,"accepted":…,"why":"corrected codes","previous":…,"sha256":…}

A part that is allotted to a ledger of its own is a debit without a dataset, whose detail says `"allotted"`.

A header may also have `"discovery_delta":"1/1000"`, how much delta may be spent on discovering values, `"witness"`,
the file that knows how far the ledger got, and `"whose"`, the columns that say who a person is where the ledger is a
part of one that knew; a debit that spent delta has it as `detail.delta`.

A ledger whose budget is PureDP counts in epsilon: it has `epsilon_allowed`, and its costs are epsilons. In the others a
debit of Laplace noise keeps its epsilon as `detail.pure_epsilon`, beside the pcost it counts as.

`sha256` is the digest of the bytes of the line that come before `,"sha256"`; `previous` is the `sha256` of the
line before.

There is one writer at a time; the file is created whole, and every append is on disk before it counts. An append is two
writes, each followed by fsync: the record, then its newline. So a newline on disk proves that the record before it is
on disk too, in whatever order the disk wrote its sectors; what follows the last newline is an append that did not
finish.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from residua.disk import BINARY, REGULAR, lock, name_once, read_at, require_locks, sync, sync_folder, unlock, write_at
from residua.errors import FileError, LedgerError
from residua.files import digest_of
from residua.measurement.ledger_entries import Acceptance, Contents, Entry, Header, fraction_of, text_of
from residua.plans.statements import unit_of_body, unit_to_body
from residua.privacy import Guarantee, PureDP
from residua.privacy.guarantees import guarantee_of_body, guarantee_to_body

FORMAT, VERSION = "residua ledger", 1
OPENING = b'{"format":"residua ledger","version":1,'  # how every ledger begins
_SEAL = ',"sha256":"{}"}}'
_SEAL_LENGTH = len(_SEAL.format("0" * 64))
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_RESTORE = "restore the ledger from a copy, and release nothing from this dataset until then"


def entry_of(line: bytes) -> Entry:
    """The debit that a line, already verified, records."""
    return _entry(json.loads(line), digest_of_line(line))


def acceptance_of(line: bytes) -> Acceptance:
    """The declaration that a line, already verified, records."""
    return _acceptance(json.loads(line), digest_of_line(line))


def read_contents(content: bytes, name: str) -> Contents:
    """Verifies every line of a ledger, and leaves out a last one that was never finished.

    What follows the last newline is an append that a crash interrupted. If it is a whole record it counts:
    that can only overstate what was spent. If it is not, its debit never returned to its caller. A line that
    has its newline and not its digest was changed: newlines are written only once their line is on disk.

    Raises:
        FileError: when this is no ledger, or one of another version.
        LedgerError: when a line was changed, removed, inserted or moved.
    """
    *lines, tail = content.split(b"\n")
    kept, ended = len(content) - len(tail), True
    record = tail[: tail.rfind(b'"}') + 2]
    if record and _intact(record):
        # After power loss, zeros may stand where bytes were not written yet; nothing else can.
        if tail[len(record) :].strip(b"\0"):
            raise LedgerError(
                f"{name} was changed after it was written (something follows line {len(lines) + 1}); {_RESTORE}."
            )
        lines, kept, ended = [*lines, record], kept + len(record), False
    if not lines:
        raise FileError(f"{name} is not a ledger, or its first line is damaged; {_RESTORE}.")
    for number, line in enumerate(lines, 1):
        if not _intact(line):
            raise LedgerError(
                f"line {number} of {name} was changed after it was written (its digest does not match); {_RESTORE}."
            )
    try:
        return _chained([json.loads(line) for line in lines], [digest_of_line(line) for line in lines], kept, ended)
    except _BrokenError as broken:
        raise LedgerError(f"{name} was changed after it was written ({broken}); {_RESTORE}.") from None
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as problem:
        raise LedgerError(
            f"{name} holds a line that no ledger has ({type(problem).__name__}: {problem}); {_RESTORE}."
        ) from None


class _BrokenError(Exception):
    """Where the chain breaks."""


def _chained(bodies: list[dict[str, Any]], digests: list[str], kept: int, ended: bool) -> Contents:
    header = _header(bodies[0], digests[0])
    delta, spent, datasets = Fraction(0), Fraction(0), [] if header.dataset is None else [header.dataset]
    entries, accepted = [], []
    for number, body in enumerate(bodies):
        if body["sequence"] != number or body["previous"] != (digests[number - 1] if number else ""):
            raise _BrokenError(f"line {number + 1} does not follow the one before it")
        if number and "accepted" in body:
            accepted.append(_acceptance(body, digests[number]))
            datasets.append(accepted[-1].dataset)
        elif number:
            entries.append(_entry(body, digests[number]))
            spent, delta = spent + entries[-1].cost, delta + entries[-1].delta
            bound = [] if body["dataset"] is None else [str(body["dataset"])]  # what is allotted reads no data
            datasets = datasets or bound
            if bound and bound[0] not in datasets:
                raise _BrokenError(f"line {number + 1} is about another dataset")
            if spent > header.allowed or delta > header.discovery_delta:
                raise _BrokenError(f"line {number + 1} spends more than the budget")
    return Contents(header, tuple(entries), tuple(accepted), tuple(digests), spent, tuple(datasets), kept, ended)


def _header_body(header: Header) -> dict[str, Any]:
    more: dict[str, Any] = {"discovery_delta": text_of(header.discovery_delta)} if header.discovery_delta else {}
    more |= {} if header.witness is None else {"witness": header.witness}
    more |= {} if header.whose is None else {"whose": dict(header.whose)}
    return {
        "budget": guarantee_to_body(header.budget),
        "unit": unit_to_body(header.unit),
        _allowance_key(header.budget): text_of(header.allowed),
        "salt": header.salt,
        "dataset": header.dataset,
        "population": header.population,
        **more,
    }


def _header(body: dict[str, Any], digest: str) -> Header:
    budget, bound = guarantee_of_body(body["budget"]), body["dataset"]
    if budget is None:
        raise ValueError("no budget")
    allowed, dataset = fraction_of(body[_allowance_key(budget)]), None if bound is None else str(bound)
    fixed = (budget, unit_of_body(body["unit"]), allowed, str(body["salt"]), dataset, str(body["population"]))
    delta, place = fraction_of(body.get("discovery_delta", "0/1")), body.get("witness")
    whose = dict(body["whose"]) if "whose" in body else None
    return Header(*fixed, delta, None if place is None else str(place), whose, digest)


def _allowance_key(budget: Guarantee) -> str:
    """A ledger of pure DP counts in epsilon; the key says so, so that no other version takes it for a pcost."""
    return "epsilon_allowed" if isinstance(budget, PureDP) else "pcost_allowed"


def _entry(body: dict[str, Any], digest: str) -> Entry:
    cost, detail = fraction_of(body["cost"]), MappingProxyType(dict(body["detail"]))
    return Entry(body["sequence"], body["time"], cost, body["purpose"], detail, digest)


def _acceptance(body: dict[str, Any], digest: str) -> Acceptance:
    return Acceptance(body["sequence"], body["time"], str(body["accepted"]), str(body["why"]), digest)


def _sealed(number: int, body: Mapping[str, Any], previous: str) -> bytes:
    """A line: its number and the time, what it says, and the digests of the line before and of itself."""
    opening = {"format": FORMAT, "version": VERSION} if not number else {}
    time = datetime.now(UTC).isoformat(timespec="seconds")
    whole = {**opening, "sequence": number, "time": time, **body, "previous": previous}
    try:
        opened = json.dumps(whole, separators=(",", ":"), allow_nan=False)[:-1].encode("ascii")
    except (TypeError, ValueError, RecursionError) as problem:
        raise LedgerError(f"detail must hold JSON values only ({problem}); leave out the rest.") from None
    return opened + _SEAL.format(digest_of(opened)).encode("ascii")


def _intact(line: bytes) -> bool:
    return line[-_SEAL_LENGTH:] == _SEAL.format(digest_of(line[:-_SEAL_LENGTH])).encode("ascii")


def digest_of_line(line: bytes) -> str:
    """The digest that a line ends with."""
    return line[-66:-2].decode("ascii")


def create_file(path: Path, header: Header, before: Callable[[str], None]) -> None:
    """Creates a ledger of one line, whole and durable; one that is there already is left alone.

    Guarantee: whatever happens, `path` is absent, or another's, or holds all of the line; and `before` was called with
    the line's digest.
    """
    require_locks()
    try:
        if path.exists():
            return
        temporary = path.with_name(f".ledger.{secrets.token_hex(8)}")
        with _alone(path.with_name(f".{path.name}.making")):
            if path.exists():
                return
            try:
                # It holds a digest of the data: for the curator only.
                handle = os.open(temporary, BINARY | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    line = _sealed(0, _header_body(header), "")
                    _write(handle, line + b"\n", 0)
                    sync(handle)
                finally:
                    os.close(handle)
                before(digest_of_line(line))
                name_once(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(path.parent)
    except FileExistsError:
        return
    except OSError as problem:
        raise FileError(
            f"cannot create the ledger {str(path)!r}: {problem.strerror}; "
            "give a path in a folder that exists, can be written to, has space, and allows hard links."
        ) from None


@contextlib.contextmanager
def _alone(guard: Path) -> Iterator[None]:
    """Whoever makes a ledger makes it alone, or its witness could be that of one that lost the race for the name."""
    held = False
    while not held:
        handle = os.open(guard, REGULAR | os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(handle)
            if held := _is_at(handle, guard):
                yield
        finally:
            left = held and not _removed(guard)  # while it is held, or it could be another's
            with contextlib.suppress(OSError):
                unlock(handle)
            os.close(handle)
            if left:  # on Windows, which removes no file that anybody has open
                _removed(guard)


def _removed(file: Path) -> bool:
    try:
        file.unlink()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, *, write: bool = False) -> Iterator[int]:
    """A handle on the ledger, locked against every other process and thread; waits for its turn.

    Readers share the lock. The file is opened afresh, because a lock belongs to an opening, not to a process:
    two threads exclude each other too.
    """
    require_locks()
    while True:
        handle = _open(path, write)
        try:
            lock(handle, shared=not write)
            if not _is_at(handle, path):
                continue  # the name was given to another file while we waited for this one
            yield handle
            return
        finally:
            # Unlocked by name: a child forked meanwhile would keep a lock that only closing ends.
            with contextlib.suppress(OSError):
                unlock(handle)
            os.close(handle)


def read_file(handle: int, path: Path) -> bytes:
    """All bytes of a ledger; refuses early what does not begin like one, for it may be huge."""
    content = bytearray()
    try:
        while part := read_at(handle, 1 << 20, len(content)):
            content += part
            if not content.startswith(OPENING):
                break
    except OSError as problem:
        raise FileError(f"cannot read the ledger {str(path)!r}: {problem.strerror}.") from None
    if not content.startswith(OPENING):
        raise FileError(
            f"{str(path)!r} is not a ledger, or one of another version than {VERSION}, or its first line is damaged; "
            "give the right path, or restore it."
        )
    return bytes(content)


def append(handle: int, path: Path, after: Contents, body: Mapping[str, Any]) -> bytes:
    """Makes one more line durable, and returns it; what an interrupted append left is removed.

    Guarantee: when it returns, the line is on disk; when it raises, the ledger is as it was before, unless the
    message says otherwise.

    Raises:
        LedgerError: the body holds what is no JSON, or the disk refuses.
    """
    line = _sealed(len(after.digests), body, after.head)
    kept, parts = after.kept, [line, b"\n"] if after.ended else [b"\n", line, b"\n"]
    try:
        sync_folder(path.parent)  # the process that named the file may have died before the name was on disk
        if os.fstat(handle).st_size != kept or not after.ended:
            os.ftruncate(handle, kept)
            sync(handle)
        start = kept
        for part in parts:  # each on disk before the next, or power loss could leave a mixture of both
            start += _write(handle, part, start)
            sync(handle)
    except OSError as problem:
        full = problem.errno in _FULL
        reason = "the disk is full" if full else problem.strerror
        remedy = "make space and try again" if full else "try again, or move the ledger to a disk that works"
        raise LedgerError(
            f"cannot write to the ledger {str(path)!r}: {reason}; {_undone(handle, kept)}; {remedy}."
        ) from None
    return line


def _undone(handle: int, kept: int) -> str:
    """Takes an append back, and says whether that worked."""
    try:
        os.ftruncate(handle, kept)
        sync(handle)
    except OSError:
        return "no data was read, but the debit may stand"
    return "nothing was spent"


def _open(path: Path, write: bool) -> int:
    no_file = f"{str(path)!r} is not a file, so no ledger; give the path of a file."
    try:
        handle = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | REGULAR)
    except FileNotFoundError:
        raise FileError(f"there is no ledger {str(path)!r}; give a budget to create it, or the right path.") from None
    except OSError as problem:
        if path.is_dir():  # which Windows does not open
            raise FileError(no_file) from None
        doing = "write to" if write else "open"
        raise FileError(
            f"cannot {doing} the ledger {str(path)!r}: {problem.strerror}; nothing was spent: "
            "give a file that you may read and write."
        ) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileError(no_file)
    return handle


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def _write(handle: int, content: bytes, start: int) -> int:
    """Writes all of it, for a nearly full disk takes a part; returns its length."""
    written = 0
    while written < len(content):
        written += write_at(handle, content[written:], start + written)
    return written
