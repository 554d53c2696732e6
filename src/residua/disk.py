"""What a disk does for a ledger, on Linux, macOS and Windows: locks, bytes that stay, names, room that is kept.

Windows has no fcntl. Its lock is LockFileEx: it too belongs to an opening and ends with the process, but it forbids
others to read what is locked. So what is locked is one byte that no file reaches.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from residua.errors import FileError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


def _flag(name: str) -> int:
    """A flag of `os.open`, nothing where the system has none of that name."""
    return int(getattr(os, name, 0))


BINARY = _flag("O_CLOEXEC") | _flag("O_BINARY")  # how every file is opened
REGULAR = BINARY | _flag("O_NONBLOCK")  # one that may turn out to be a pipe, for which opening would wait forever
NO_LINK = _flag("O_NOFOLLOW")
_ROOM = b"\0" * 2**20
_PAUSE = 0.01  # seconds
_TRIES = 200
_SHARED, _AT_ONCE, _EXCLUSIVE = 0, 1, 2  # flags of LockFileEx
_NOWHERE = struct.pack("PPIIP", 0, 0, 0, 2**30, 0)  # OVERLAPPED: the byte at 2**62
_HELD = 33  # ERROR_LOCK_VIOLATION


def require_locks() -> None:
    """Refuses a system on which two processes could spend one budget.

    Raises:
        FileError: there are no locks here.
    """
    if fcntl is None and find_spec("msvcrt") is None:
        raise FileError(
            f"this system ({sys.platform}) has no lock that keeps two processes from spending one budget, so ledgers "
            "and sessions do not work here; nothing was spent: measure on Linux, macOS or Windows."
        )


def lock(handle: int, *, shared: bool = False, wait: bool = True) -> None:
    """Holds an open file against all other openings of it, in this process or another.

    Raises:
        BlockingIOError: somebody else holds it, and we are not to wait.
        FileError: there are no locks here.
    """
    require_locks()
    if fcntl is not None:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        return
    kind = _AT_ONCE | (_SHARED if shared else _EXCLUSIVE)
    while not _windows("LockFileEx", handle, kind):
        if not wait:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        time.sleep(_PAUSE)  # Ctrl-C would not end a wait inside of Windows


def unlock(handle: int) -> None:
    """Gives it back, also for a child that was forked meanwhile and would keep what only closing ends."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)
    else:
        _windows("UnlockFileEx", handle)


@cache
def _kernel() -> tuple[Any, Any]:
    ctypes: Any = import_module("ctypes")
    return ctypes, ctypes.WinDLL("kernel32", use_last_error=True)


def _windows(call: str, handle: int, *flags: int) -> bool:
    """Asks Windows for the byte that stands for a file; False if another opening has it."""
    ctypes, kernel = _kernel()
    held = ctypes.c_void_p(import_module("msvcrt").get_osfhandle(handle))
    amounts = (ctypes.c_uint32(each) for each in (*flags, 0, 1, 0))  # the byte: reserved, and its length in two halves
    if getattr(kernel, call)(held, *amounts, ctypes.create_string_buffer(_NOWHERE, len(_NOWHERE))):
        return True
    if (code := ctypes.get_last_error()) == _HELD:
        return False
    raise ctypes.WinError(code)


def sync(handle: int) -> None:
    """Returns when the disk has the bytes; fsync on macOS would return when the disk's own memory has them.

    On Windows fsync is FlushFileBuffers, which needs a file that was opened to be written.
    """
    whole = getattr(fcntl, "F_FULLFSYNC", None)
    if whole is None:
        os.fsync(handle)
        return
    try:
        fcntl.fcntl(handle, whole)
    except OSError:  # a file system that does not know it
        os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a crash; Windows opens no folder, and keeps names in its journal."""
    if fcntl is None:
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_at(handle: int, size: int, start: int) -> bytes:
    """At most so many bytes of a file from a place on; of a handle that no other thread uses."""
    if hasattr(os, "pread"):
        return os.pread(handle, size, start)
    os.lseek(handle, start, os.SEEK_SET)
    return os.read(handle, size)


def write_at(handle: int, content: bytes | memoryview, start: int) -> int:
    """Writes from a place on, and returns how many bytes the disk took; to a handle that no other thread uses."""
    if hasattr(os, "pwrite"):
        return os.pwrite(handle, content, start)
    os.lseek(handle, start, os.SEEK_SET)
    return os.write(handle, content)


def name_once(source: Path, path: Path) -> None:
    """Gives a whole file its name; the caller removes the source.

    Raises:
        FileExistsError: the name is taken: it is never replaced, as a rename outside of Windows would.
    """
    if fcntl is not None:
        os.link(source, path)
    else:
        patiently(os.rename, source, path)


def patiently(call: Callable[..., Any], *names: Path) -> None:
    """Renames; on Windows waits, up to two seconds, while a reader or a virus scanner has the file open."""
    for _ in range(_TRIES if fcntl is None else 0):
        try:
            call(*names)
        except PermissionError:
            time.sleep(_PAUSE)
        else:
            return
    call(*names)


def keep_room(handle: int, size: int) -> None:
    """Makes sure that a new file can hold so many bytes, by writing them where the system cannot promise them.

    Raises:
        OSError: there is no room.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    for start in range(0, size, len(_ROOM)):  # macOS, Windows
        os.write(handle, _ROOM[: size - start])
    os.fsync(handle)
