"""The file of a ledger: one writer at a time, created whole, and every append on disk before it counts.

An append is two writes, each followed by fsync: the record, then its newline. So a newline on disk proves that
the record before it is on disk too, in whatever order the disk wrote its sectors; what follows the last newline
is an append that did not finish.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from residua.errors import FileError, LedgerError
from residua.files import sync_folder
from residua.machine import lock, require_locks, sync, unlock
from residua.measurement.ledger_lines import OPENING

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def create_file(path: Path, line: bytes) -> bool:
    """Creates a ledger of one line, whole and durable; False when another is there, which is left alone.

    Guarantee: whatever happens, `path` is absent, or another's, or holds all of `line`.
    """
    require_locks()
    temporary = None
    try:
        if path.exists():
            return False
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".ledger.")
        try:
            _write(handle, line + b"\n", 0)
            os.fchmod(handle, 0o600)  # it holds a digest of the data: for the curator only
            sync(handle)
        finally:
            os.close(handle)
        os.link(temporary, path)  # never replaces a file, as a rename would
        sync_folder(path.parent)
    except FileExistsError:
        return False
    except OSError as problem:
        raise FileError(
            f"cannot create the ledger {str(path)!r}: {problem.strerror}; "
            "give a path in a folder that exists, can be written to, has space, and allows hard links."
        ) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def locked(path: Path, *, write: bool = False) -> Iterator[int]:
    """A handle on the ledger, locked against every other process and thread; waits for its turn.

    Readers share the lock. The file is opened afresh, because flock belongs to an opening, not to a process:
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
        while part := os.pread(handle, 1 << 20, len(content)):
            content += part
            if not content.startswith(OPENING):
                break
    except OSError as problem:
        raise FileError(f"cannot read the ledger {str(path)!r}: {problem.strerror}.") from None
    if not content.startswith(OPENING):
        raise FileError(
            f"{str(path)!r} is not a ledger, or its first line is damaged; give the right path, or restore it."
        )
    return bytes(content)


def append(handle: int, path: Path, line: bytes, *, kept: int, ended: bool) -> None:
    """Makes one more line durable, after the first `kept` bytes; what an interrupted append left is removed.

    Guarantee: when it returns, the line is on disk; when it raises, the ledger is as it was before, unless the
    message says otherwise.
    """
    try:
        sync_folder(path.parent)  # the process that named the file may have died before the name was on disk
        start = kept
        # Each repair is on disk before the next write, or power loss could leave a mixture of both.
        if os.fstat(handle).st_size != kept or not ended:
            os.ftruncate(handle, kept)
            sync(handle)
        if not ended:
            start += _write(handle, b"\n", start)
            sync(handle)
        start += _write(handle, line, start)
        sync(handle)
        _write(handle, b"\n", start)
        sync(handle)
    except OSError as problem:
        full = problem.errno in _FULL
        reason = "the disk is full" if full else problem.strerror
        remedy = "make space and try again" if full else "try again, or move the ledger to a disk that works"
        raise LedgerError(
            f"cannot write to the ledger {str(path)!r}: {reason}; {_undone(handle, kept)}; {remedy}."
        ) from None


def _undone(handle: int, kept: int) -> str:
    """Takes an append back, and says whether that worked."""
    try:
        os.ftruncate(handle, kept)
        sync(handle)
    except OSError:
        return "no data was read, but the debit may stand"
    return "nothing was spent"


def _open(path: Path, write: bool) -> int:
    try:
        # Without O_NONBLOCK, opening a pipe would wait forever.
        handle = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FileError(f"there is no ledger {str(path)!r}; give a budget to create it, or the right path.") from None
    except OSError as problem:
        doing = "write to" if write else "open"
        raise FileError(
            f"cannot {doing} the ledger {str(path)!r}: {problem.strerror}; nothing was spent: "
            "give a file that you may read and write."
        ) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileError(f"{str(path)!r} is not a file, so no ledger; give the path of a file.")
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
        written += os.pwrite(handle, content[written:], start + written)
    return written
