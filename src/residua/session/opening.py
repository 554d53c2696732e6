"""Opening a session: beside which ledger and with which budget it may be, and the folder that it is or becomes."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from residua.errors import FileError, SessionError
from residua.files import read_document, write_document
from residua.measurement import Ledger
from residua.plans.bodies import guarantee_of_body, guarantee_to_body
from residua.privacy import Guarantee, PureDP
from residua.session.state import KIND, VERSION, Folder, Identity, lock, salted


def beside(ledger: Path) -> Path:
    """The folder of a session that names none."""
    return ledger.with_name(f"{ledger.name}.session")


def require_gaussian(*promised: Guarantee | None) -> None:
    """Refuses pure DP before anything is made: what a session adds up are the matrices of Gaussian noise."""
    for given in promised:
        if isinstance(given, PureDP):
            raise SessionError(
                f"a session measures with Gaussian noise, which cannot keep {given!r} at any scale; nothing was spent: "
                "use rs.measure, or a ledger with a budget of ZCDP, GDP or ApproxDP."
            )


def budget_of(ledger: Ledger | str | Path) -> Guarantee | None:
    """What a ledger promises, None if it is yet to be made."""
    if isinstance(ledger, Ledger):
        return ledger.budget
    return Ledger(ledger).budget if Path(ledger).exists() else None


def require_its_ledger(ledger: Path, state: Path) -> None:
    """Refuses to make a new ledger for a session that has one: what was spent is in that one."""
    if (state / "session.json").exists() and not ledger.exists():
        raise SessionError(
            f"the session {str(state)!r} is there, but its ledger {str(ledger)!r} is not; restore the ledger, for what "
            "was spent is in it."
        )


def check_place(path: Path) -> None:
    """Refuses, before a ledger is made for it, a place where no session is and none can be made.

    Raises:
        SessionError: a session that lacks its first file.
        FileError: another kind of folder, or none around it.
    """
    if (path / "session.json").exists():
        return
    if not path.absolute().parent.is_dir():
        raise _no_room(path, "the folder around it does not exist")
    if path.exists() and not (path.is_dir() and all(map(_ours, path.iterdir()))):
        raise FileError(f"state={str(path)!r} exists and is not a session; name another folder.")
    if any((path / "parts").glob("*")):
        raise SessionError(f"the session {str(path)!r} lacks its 'session.json'; restore that file from a copy.")


def open_folder(path: Path, fingerprint: str, ledger: str, budget: Guarantee | None) -> Folder:
    """Makes the folder of a session, or opens the one that is there.

    Args:
        path: the folder.
        fingerprint: of the dataset, which must be the session's own.
        ledger: the head of the ledger, kept by a new session.
        budget: what the session may spend; a session keeps the one it was made with.

    Raises:
        SessionError: the session belongs to another dataset, has another budget, lacks a file, or is in use.
        FileError: the folder cannot be made, or holds something else.
    """
    check_place(path)
    document = path / "session.json"
    try:
        path.mkdir(exist_ok=True)
        (path / "parts").mkdir(exist_ok=True)
        (path / "choices").mkdir(exist_ok=True)
    except OSError as problem:
        raise _no_room(path, problem.strerror) from None
    if not document.exists():
        with lock(path):
            if not document.exists():  # another process may have been first
                for unfinished in path.glob(".session.json.*"):
                    unfinished.unlink()
                _write_identity(document, fingerprint, ledger, budget)
    identity = _read_identity(document)
    if not identity.belongs_to(fingerprint):
        raise SessionError(
            f"the session {str(path)!r} belongs to another dataset; nothing was spent: give its own data, or another "
            "folder as state."
        )
    if budget is not None and budget != identity.budget:
        raise SessionError(
            f"the session {str(path)!r} has the budget {identity.budget!r}, not {budget!r}; give that one, or none."
        )
    return Folder(path, identity)


def _no_room(path: Path, why: str | None) -> FileError:
    return FileError(
        f"state: cannot make the session folder {str(path)!r}: {why}; name a folder whose parent exists and can be "
        "written to."
    )


def _write_identity(document: Path, fingerprint: str, ledger: str, budget: Guarantee | None) -> None:
    salt = secrets.token_hex(16)
    body = {
        "key": secrets.token_hex(16),
        "salt": salt,
        "dataset": salted(salt, fingerprint),
        "ledger": ledger,
        "budget": guarantee_to_body(budget),
    }
    write_document(document, KIND, VERSION, body)


def _read_identity(document: Path) -> Identity:
    try:
        body: dict[str, Any] = read_document(document, KIND, VERSION)
        budget = guarantee_of_body(body["budget"])
        return Identity(body["key"], body["salt"], body["dataset"], body["ledger"], budget)
    except (FileError, KeyError, TypeError, ValueError) as problem:
        why = str(problem).rstrip(".")
        raise FileError(f"{str(document)!r} does not describe a session ({why}); restore it from a copy.") from None


def _ours(entry: Path) -> bool:
    """Whether this may be in the folder of a session that was being made when its process died."""
    return entry.name in ("parts", "choices", "lock") or entry.name.startswith(".session.json.")
