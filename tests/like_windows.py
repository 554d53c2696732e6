"""A system that lacks what Windows lacks and refuses what Windows refuses; on Windows itself, nothing is changed.

No fcntl, no pread, pwrite, fchmod or posix_fallocate; no folder is opened; only what may be written is flushed; a
rename replaces nothing; a file that this process has open, or mapped, is neither renamed, replaced nor removed, nor is
a folder with such a file in it. LockFileEx locks by openings and answers with the codes of Windows; it takes only the
byte that stands for a file, for any other would keep others from reading.

What it does not have: the time Windows takes, other processes' open files, names without case, access lists, a disk
that loses power. `scripts/windows` runs the same laws with the Python of Windows.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from residua import disk

_LACKING = ("pread", "pwrite", "preadv", "fchmod", "posix_fallocate", "O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "sync")
_VIOLATION = 33
_NAMES = Path("/proc/self/fd")


def become(patch: pytest.MonkeyPatch) -> None:
    """Makes this process one on such a system, until the patch is undone."""
    if sys.platform == "win32":
        return
    kernel = _Kernel()
    patch.setattr(disk, "fcntl", None)
    patch.setitem(sys.modules, "fcntl", None)
    patch.setitem(sys.modules, "msvcrt", SimpleNamespace(get_osfhandle=lambda handle: handle, __spec__=disk.__spec__))
    patch.setattr(ctypes, "WinDLL", lambda name, use_last_error: kernel, raising=False)
    patch.setattr(ctypes, "get_last_error", lambda: kernel.error, raising=False)
    patch.setattr(ctypes, "WinError", lambda code: OSError(errno.EINVAL, f"Windows says {code}"), raising=False)
    disk._kernel.cache_clear()
    patch.setattr(shutil, "_use_fd_functions", False)
    for name in _LACKING:
        if hasattr(os, name):
            patch.delattr(os, name)
    real = {name: getattr(os, name) for name in ("open", "fsync", "rename", "replace", "unlink", "rmdir")}
    patch.setattr(os, "open", lambda path, *rest, **more: real["open"](_file(path), *rest, **more))
    patch.setattr(os, "fsync", lambda handle: real["fsync"](_writable(handle)))
    patch.setattr(os, "rename", lambda old, new: real["rename"](_closed(old), _absent(new)))
    patch.setattr(os, "replace", lambda old, new: real["replace"](_closed(old), _closed(new)))
    patch.setattr(os, "unlink", lambda path, **more: real["unlink"](path if more else _closed(path), **more))
    patch.setattr(os, "rmdir", lambda path, **more: real["rmdir"](path if more else _closed(path), **more))


class _Kernel:
    """The two calls of kernel32, by the locks of this system, which belong to openings too."""

    def __init__(self) -> None:
        import fcntl

        self.flock, self.error = fcntl.flock, 0
        self.kinds = {1: fcntl.LOCK_SH | fcntl.LOCK_NB, 3: fcntl.LOCK_EX | fcntl.LOCK_NB}
        self.free = fcntl.LOCK_UN

    def LockFileEx(self, handle: Any, flags: Any, reserved: Any, low: Any, high: Any, where: Any) -> int:  # noqa: N802
        return self._asked(handle, self.kinds[flags.value], reserved, low, high, where)

    def UnlockFileEx(self, handle: Any, reserved: Any, low: Any, high: Any, where: Any) -> int:  # noqa: N802
        return self._asked(handle, self.free, reserved, low, high, where)

    def _asked(self, handle: Any, kind: int, reserved: Any, low: Any, high: Any, where: Any) -> int:
        start, upper = struct.unpack("PPIIP", where.raw)[2:4]
        assert (reserved.value, low.value, high.value, start, upper) == (0, 1, 0, 0, 2**30), "not the byte of a lock"
        try:
            self.flock(handle.value, kind)
        except BlockingIOError:
            self.error = _VIOLATION
            return 0
        return 1


def _refused(path: Any) -> PermissionError:
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _file(path: Any) -> Any:
    if isinstance(path, str | os.PathLike) and Path(path).is_dir():
        raise _refused(path)
    return path


def _writable(handle: int) -> int:
    flags = Path(f"/proc/self/fdinfo/{handle}").read_text().split("flags:")[1].split()[0]
    if int(flags, 8) & os.O_ACCMODE == os.O_RDONLY or stat.S_ISDIR(os.fstat(handle).st_mode):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return handle


def _absent(path: Any) -> Any:
    if Path(path).exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    return path


def _closed(path: Any) -> Any:
    """The path, unless this process has it, or a file in it, open or mapped."""
    mapped = {line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()}
    own = str(Path(path).resolve())
    for name in mapped | {str(each.readlink()) for each in _NAMES.iterdir() if each.is_symlink()}:
        if name == own or name.startswith(f"{own}/"):
            raise _refused(path)
    return path
