"""Files that are written once, whole, by whoever is first; what others would have written is never seen by anybody.

Spark may run a task twice: after an executor is lost, or when a task seems slow. Each attempt draws noise of its own,
and two noisy copies of one measurement would cost privacy twice. So an attempt writes into a file without a name
(O_TMPFILE), which the system forgets with the process, and gives it its name at the end by a call that fails if the
name is taken. On file systems without such files (NFS) it has a name that only its owner may read, until then.

A folder that is put back to an earlier state lacks what was written since, and a second attempt would write it again.
So attempts write into the folder that was made for them and no other of its name (`same_folder`).

Guarantee: under one name there is at most one content, whole, and it never changes. A process that is killed at any
moment leaves no other copy where files without a name exist; elsewhere, one that `swept` removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_UNNAMED = getattr(os, "O_TMPFILE", None)
_NO_SUCH_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
_PREFIX = ".attempt-"
_TRIES = 100


def write_once(path: Path, content: Any) -> bool:
    """Writes a file unless there is one of that name; says whether it did.

    Args:
        path: its name; the folder exists.
        content: bytes, or a buffer.

    Raises:
        OSError: no room, or not allowed; nothing is left behind.
    """
    if path.exists():
        return False
    handle = _unnamed(path.parent)
    if handle is None:
        return _write_named(path, content)
    try:
        _fill(handle, content)
        return _named(f"/proc/self/fd/{handle}", path, handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def same_folder(folder: Path, identity: int | None) -> Iterator[Path]:
    """A path of a folder that stays its own whatever is put in its place, where the system has such paths.

    Args:
        folder: its name.
        identity: its inode; None if that is not known.

    Raises:
        OSError: another folder has its name now.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if identity is not None and os.fstat(handle).st_ino != identity:
            raise OSError(errno.ESTALE, "the folder was replaced or put back to an earlier state while it was written")
        held = Path(f"/proc/self/fd/{handle}")
        yield held if held.is_dir() else folder
    finally:
        os.close(handle)


def closed(folder: Path, name: Path) -> None:
    """Gives a folder its last name, so that attempts that are still running can write nothing more, and sweeps it."""
    folder.rename(name)
    swept(name)


def swept(folder: Path) -> None:
    """Removes what attempts that were killed left under names of their own."""
    for left in folder.glob(f"{_PREFIX}*"):
        left.unlink(missing_ok=True)


def _unnamed(folder: Path) -> int | None:
    if _UNNAMED is None or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, _UNNAMED | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as problem:
        if problem.errno in _NO_SUCH_FILES and folder.is_dir():
            return None
        raise


def _write_named(path: Path, content: Any) -> bool:
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):  # another attempt took it for what a killed one left
            return _named_once(path, content)
        if path.exists() or not path.parent.is_dir() or not path.parent.stat().st_nlink:  # removed while it was open
            return False
        time.sleep(secrets.randbelow(200) / 1000)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def _named_once(path: Path, content: Any) -> bool:
    for left in path.parent.glob(f"{_PREFIX}{path.name}-*"):  # what an attempt that was killed left goes first
        left.unlink(missing_ok=True)
    own = path.with_name(f"{_PREFIX}{path.name}-{secrets.token_hex(8)}")
    handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _fill(handle, content)
        written = _named(str(own), path, handle)
        if written:
            os.fchmod(handle, 0o666 & ~_umask())
        return written
    finally:
        os.close(handle)
        with contextlib.suppress(FileNotFoundError):
            own.unlink()


def _fill(handle: int, content: Any) -> None:
    rest = memoryview(content).cast("B")
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)


def _named(source: str, path: Path, handle: int) -> bool:
    try:
        # Python follows the link below /proc only where a folder is given, which an absolute path leaves unused.
        os.link(source, path, src_dir_fd=handle, follow_symlinks=True)
    except FileExistsError:
        return False
    return True


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
