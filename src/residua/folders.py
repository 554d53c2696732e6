"""Folders that are either whole or absent, and notice when one of their files was changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from residua.errors import FileError
from residua.files import sync_folder


@contextlib.contextmanager
def partial_folder(path: Path, what: str) -> Iterator[Path]:
    """A folder beside `path` to write into; the caller renames it when it is whole, else it disappears.

    Raises:
        FileError: the name is taken, or the folder around it is missing or cannot be written to.
    """
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        _make(path, partial, what)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def whole_folder(path: Path, what: str) -> Iterator[Path]:
    """A folder to write into, which appears under its name when the block ends well.

    Raises:
        FileError: the name is taken, or the disk refuses; nothing is left behind.
    """
    path = path.absolute()
    with partial_folder(path, what) as partial:
        try:
            yield partial
            sync_folder(partial)
            partial.rename(path)
            sync_folder(path.parent)
        except FileError:
            raise
        except OSError as problem:
            raise FileError(f"cannot write the {what} {str(path)!r}: {reason(problem)}.") from None


def write_synced(path: Path, content: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def digests_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 digest of each of these files."""
    return {name: _digest(folder / name) for name in names}


def check_digests(folder: Path, digests: Mapping[str, Any], names: Iterable[str], what: str) -> None:
    """Refuses a folder that lacks one of these files, or in which one was changed.

    Raises:
        FileError: a file is missing, or its digest is another.
    """
    for name in names:
        try:
            found = _digest(folder / name)
        except OSError as problem:
            raise FileError(
                f"the {what} {str(folder)!r} lacks {name!r} ({reason(problem)}); copy the whole folder again."
            ) from None
        if found != digests.get(name):
            raise FileError(f"{name!r} in {str(folder)!r} was changed after it was written; do not trust the {what}.")


def reason(problem: OSError) -> str:
    """Why the system refused, without a full stop."""
    return problem.strerror or str(problem).rstrip(".")


def _make(path: Path, partial: Path, what: str) -> None:
    try:
        taken, somewhere = path.is_symlink() or path.exists(), path.parent.is_dir()
        if somewhere and not taken:
            partial.mkdir()
    except OSError as problem:
        raise FileError(
            f"out: cannot write {path.name!r} in {str(path.parent)!r}: {problem.strerror}; choose another folder."
        ) from None
    if taken:
        raise FileError(f"out={str(path)!r} exists already; choose another folder, a {what} is never overwritten.")
    if not somewhere:
        raise FileError(f"out: the folder {str(path.parent)!r} does not exist; make it first.")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
