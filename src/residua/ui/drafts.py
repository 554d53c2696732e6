"""The draft of a page: kept beside the server, in a file that its user alone may read, so that another port finds it.

A draft is what the page can save as a file: columns, tables, budget, and the public numbers that were typed. It holds
no data and does not say where data lies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from residua.errors import FileError
from residua.files import digest_of, read_regular, write_atomically

_MOST = 2**23  # bytes


def state_folder() -> Path:
    """Where programs of this user keep what they would like to find again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "residua"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "residua"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "residua"


def read_draft(path: Path | None) -> Mapping[str, Any] | None:
    """The draft of a file of the command line, or of none; None where there is no draft that can be read."""
    try:
        draft = msgspec.json.decode(read_regular(_place(path), most=_MOST))
    except (FileError, RuntimeError, OSError, msgspec.MsgspecError):
        return None
    return draft if isinstance(draft, dict) else None


def write_draft(path: Path | None, draft: Mapping[str, Any] | None) -> None:
    """Keeps a draft, or removes it if it is None.

    Raises:
        FileError: there is no place for it.
    """
    try:
        place = _place(path)
        if draft is None:
            place.unlink(missing_ok=True)
            return
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(place, msgspec.json.encode(draft), confidential=True, ours=lambda head: True)
    except (RuntimeError, OSError) as problem:  # no home, a disk that is full or cannot be written to
        raise FileError(f"the draft cannot be kept: {problem}; keep the page as a file.") from None


def _place(path: Path | None) -> Path:
    name = "none" if path is None else digest_of(str(path).encode())[:32]
    return state_folder() / "drafts" / f"{name}.json"
