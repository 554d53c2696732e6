"""Files that are either whole or absent, and notice when they were changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from residua.errors import FileError


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file so that a reader, or a crash, sees the old content or the new, never a part."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as problem:
        raise FileError(f"cannot write {str(path)!r}: {problem.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        sync_folder(path.parent)
    except OSError as problem:
        Path(temporary).unlink(missing_ok=True)
        raise FileError(f"cannot write {str(path)!r}: {problem.strerror}; nothing was written.") from None


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(content: bytes) -> str:
    """The SHA-256 digest of some bytes, as text."""
    return hashlib.sha256(content).hexdigest()


def write_document(path: Path, kind: str, version: int, body: dict[str, Any]) -> None:
    """Writes a JSON document that states its kind, its version and the digest of its body."""
    encoded = msgspec.json.encode(body)
    header = {"format": kind, "version": version, "sha256": digest_of(encoded)}
    write_atomically(path, msgspec.json.encode({**header, "body": msgspec.Raw(encoded)}))


class _Document(msgspec.Struct):
    format: str
    version: int
    sha256: str
    body: msgspec.Raw


def read_document(path: Path, kind: str, version: int) -> Any:
    """Reads the body of a JSON document, refusing one of another kind, a newer version, or changed content."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except OSError as problem:
        raise FileError(f"cannot read {str(path)!r}: {problem.strerror}.") from None
    except msgspec.MsgspecError:
        raise FileError(f"{str(path)!r} is not a {kind} file, or it is damaged; write it again.") from None
    if document.format != kind:
        raise FileError(f"{str(path)!r} is a {document.format} file, not a {kind} file.")
    if document.version != version:
        raise FileError(f"{str(path)!r} has version {document.version}; this residua reads version {version}.")
    if digest_of(bytes(document.body)) != document.sha256:
        raise FileError(f"{str(path)!r} was changed after it was written (its digest does not match); do not trust it.")
    return msgspec.json.decode(document.body)
