"""Where the command may write: checked before any work, so that nothing is overwritten or spent in vain."""

from __future__ import annotations

import os
from pathlib import Path

from residua.errors import FileError

_PLAN = b'{"format":"residua plan"'  # how every saved plan begins


def require_free(folder: Path, what: str = "release") -> None:
    """Refuses a folder that exists already, or that cannot be made.

    Raises:
        FileError: the name is taken, or the folder around it is missing or closed to us.
    """
    if _taken("out", folder):
        raise FileError(f"out={str(folder)!r} exists already; choose another folder, a {what} is never overwritten.")
    _require_room("out", folder)


def require_plan_or_free(path: Path) -> None:
    """Refuses to write a plan over anything that is not a plan: the ledger, the data, the specification.

    Raises:
        FileError: the file is something else, or the folder around it is missing or closed to us.
    """
    if _taken("save", path):
        if path.is_symlink() or not path.is_file() or not is_plan(path):
            raise FileError(
                f"save={str(path)!r} exists and is not a plan of residua; choose another name, only a plan is replaced."
            )
        return
    _require_room("save", path)


def is_plan(path: Path) -> bool:
    """Whether a file is a saved plan, by how it begins."""
    try:
        with path.open("rb") as file:
            return file.read(len(_PLAN)) == _PLAN
    except OSError:
        return False


def _taken(argument: str, path: Path) -> bool:
    try:
        return path.is_symlink() or path.exists()
    except OSError as problem:  # a name that is too long, a folder that may not be looked into
        where = f"{path.name!r} in {str(path.parent)!r}"
        raise FileError(f"{argument}: cannot write {where}: {problem.strerror}; choose another folder.") from None


def _require_room(argument: str, path: Path) -> None:
    around = path.absolute().parent
    if not around.is_dir():
        raise FileError(f"{argument}: the folder {str(around)!r} does not exist; make it first.")
    if not os.access(around, os.W_OK | os.X_OK):
        raise FileError(
            f"{argument}: cannot write {path.name!r} in {str(around)!r}: Permission denied; choose another folder."
        )
