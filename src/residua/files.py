"""Files that are either whole or absent, notice when they were changed, and never replace what is not ours."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from residua.disk import BINARY, NO_LINK, REGULAR, patiently, sync_folder
from residua.errors import FileError

MOST_DOCUMENT = 2**24  # bytes of a document
MOST_PLAN = 2**29  # of a plan, which may hold a matrix; more would not fit into memory once decoded
_HEAD = 2**16


def is_uri(path: object) -> bool:
    """Whether a path is a URI rather than the name of a file."""
    return isinstance(path, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", path) is not None


def require_path(path: Path) -> None:
    """Refuses what no file system takes as a path: a name with a NUL, one that is too long, or out of our reach.

    Raises:
        FileError: it cannot be a path. Whether a file is there does not matter.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as problem:
        if problem.errno != errno.ELOOP:  # a loop of links is no file, but a name
            raise FileError(f"{str(path)!r} cannot be used as a path: {problem.strerror}; choose another.") from None
    except (TypeError, ValueError):
        why = "holds a NUL character and " if "\0" in str(path) else ""
        raise FileError(f"{str(path)!r} {why}cannot be the path of a file; correct it.") from None


def open_regular(path: Path, *, follow: bool = False) -> io.BufferedReader:
    """Opens a file to read, if it is one: no device, no pipe, and no symbolic link unless the user named it.

    Args:
        path: the file.
        follow: whether a symbolic link may lead to it, as where the path is the user's own.

    Raises:
        FileError: missing, not a regular file, or not for us to read.
    """
    require_path(path)
    flags = os.O_RDONLY | REGULAR | (0 if follow else NO_LINK)
    try:
        handle = os.open(path, flags)
    except OSError as problem:
        link = problem.errno == errno.ELOOP and not follow
        why = "it is a symbolic link, give the file itself" if link else problem.strerror
        raise FileError(f"cannot read {str(path)!r}: {why}.") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = "Is a directory" if stat.S_ISDIR(mode) else "it is a device or a pipe"
        raise FileError(f"cannot read {str(path)!r}: {what}, not a regular file.")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, *, most: int = MOST_DOCUMENT, follow: bool = False) -> bytes:
    """All bytes of a regular file, refusing one that is longer than it can be.

    Raises:
        FileError: as for `open_regular`, or too long.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise FileError(
                f"{str(path)!r} is longer than {most:,} bytes, too long for what it should be; do not trust it."
            )
        try:
            return file.read(size)
        except OSError as problem:
            raise FileError(f"cannot read {str(path)!r}: {problem.strerror}.") from None


def write_atomically(
    path: Path, content: bytes, *, confidential: bool = False, ours: Callable[[bytes], bool] | None = None
) -> None:
    """Writes a file so that a reader, or a crash, sees the old content or the new, never a part; see `whole_file`."""
    with whole_file(path, confidential=confidential, ours=ours) as file:
        file.write(content)


@contextlib.contextmanager
def whole_file(
    path: Path, *, confidential: bool = False, ours: Callable[[bytes], bool] | None = None
) -> Iterator[IO[bytes]]:
    """A file to write into part by part, which appears under its name when the block ends well.

    Args:
        path: the file.
        confidential: whether only its owner may read it; else the umask decides.
        ours: whether a file that begins with these bytes is an older one of the same kind, which may be replaced;
            if left out, nothing is replaced.

    Raises:
        FileError: something else is there, or the disk refuses. Nothing is left behind.
    """
    check_replaceable(path, ours)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    mode = 0o600 if confidential else 0o666  # less the umask, which mkstemp ignores
    try:
        handle = os.open(temporary, BINARY | os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            patiently(temporary.replace, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    except FileError:
        raise
    except OSError as problem:
        why = problem.strerror or problem
        raise FileError(f"cannot write {str(path)!r}: {why}; nothing was written.") from None


def check_replaceable(path: Path, ours: Callable[[bytes], bool] | None) -> None:
    """Refuses to write over a file that is not an older one of the same kind: a ledger, data, anything else.

    Raises:
        FileError: such a file is there, or the path cannot be one.
    """
    require_path(path)
    try:
        if not (path.is_symlink() or path.exists()):
            return
        if path.is_dir():
            raise FileError(f"{str(path)!r} is a folder; give the name of a file.")
    except OSError as problem:
        raise FileError(f"cannot write {str(path)!r}: {problem.strerror}.") from None
    head = b""
    if path.exists():
        with open_regular(path, follow=True) as file:
            head = file.read(_HEAD)
    if head and (ours is None or not ours(head)):
        raise FileError(
            f"{str(path)!r} exists and is something else, which would be lost; choose another name, or remove it "
            "yourself. Nothing was written."
        )


def digest_of(content: bytes) -> str:
    """The SHA-256 digest of some bytes, as text."""
    return hashlib.sha256(content).hexdigest()


def write_document(
    path: Path, kind: str, version: int, body: dict[str, Any], *, confidential: bool = False, most: int = MOST_DOCUMENT
) -> None:
    """Writes a JSON document that states its kind, its version and the digest of its body, over one of its kind.

    Raises:
        FileError: longer than `read_document` would read, something else is there, or the disk refuses.
    """
    encoded = msgspec.json.encode(body)
    if len(encoded) > most - _HEAD:
        raise FileError(f"the {kind} is longer than {most:,} bytes, too long to be read again; ask for less.")
    header = {"format": kind, "version": version, "sha256": digest_of(encoded)}
    content = msgspec.json.encode({**header, "body": msgspec.Raw(encoded)})
    write_atomically(path, content, confidential=confidential, ours=lambda head: _begins(head, kind))


def _begins(head: bytes, kind: str) -> bool:
    return head.startswith(msgspec.json.encode({"format": kind})[:-1])


class _Document(msgspec.Struct):
    format: str
    version: int
    sha256: str
    body: msgspec.Raw


def read_document(path: Path, kind: str, version: int, *, most: int = MOST_DOCUMENT, follow: bool = False) -> Any:
    """Reads the body of a JSON document.

    Raises:
        FileError: another kind, another version, or changed content.
    """
    damaged = f"{str(path)!r} is not a {kind} file, or it is damaged; write it again."
    try:
        document = msgspec.json.decode(read_regular(path, most=most, follow=follow), type=_Document)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise FileError(damaged) from None
    if document.format != kind:
        other = document.format if document.format.isprintable() and len(document.format) < 80 else "different kind of"
        raise FileError(f"{str(path)!r} is a {other} file, not a {kind} file.")
    if document.version != version:
        raise FileError(f"{str(path)!r} has version {document.version}; this residua reads version {version}.")
    if digest_of(bytes(document.body)) != document.sha256:
        raise FileError(f"{str(path)!r} was changed after it was written (its digest does not match); do not trust it.")
    try:
        return msgspec.json.decode(document.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise FileError(damaged) from None
