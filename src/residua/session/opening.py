"""Opening a session: its ledger, its budget, and its folder, which is made or opened."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Any

from residua.errors import FileError, SessionError
from residua.files import read_document, require_path, write_document
from residua.measurement import Ledger
from residua.plans.bodies import guarantee_of_body, guarantee_to_body
from residua.privacy import Guarantee, PureDP, Unit
from residua.session.state import KIND, VERSION, Folder, SessionIdentity, lock, salted
from residua.source.options import NO_OPTIONS, Options

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def beside(ledger: Path) -> Path:
    """The folder of a session that names none."""
    return ledger.with_name(f"{ledger.name}.session")


def require_gaussian(*promised: Guarantee | None) -> None:
    """Refuses pure DP before anything is made: a session adds up the matrices of Gaussian noise."""
    for given in promised:
        if isinstance(given, PureDP):
            raise SessionError(
                f"a session measures with Gaussian noise, which cannot keep {given!r} at any scale; nothing was spent: "
                "use rs.measure, or a ledger with a budget of ZCDP, GDP or ApproxDP."
            )


def existing_ledger(ledger: Ledger | str | Path) -> Ledger | None:
    """The ledger that is given or is at a path, None if it is yet to be made."""
    if isinstance(ledger, Ledger):
        return ledger
    require_path(Path(ledger))
    return Ledger(ledger) if Path(ledger).exists() else None


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
    require_path(path)
    if (path / "session.json").exists():
        return
    if not path.absolute().parent.is_dir():
        raise _no_room(path, "the folder around it does not exist")
    if path.exists() and not (path.is_dir() and all(map(_ours, path.iterdir()))):
        raise FileError(f"state={str(path)!r} exists and is not a session; name another folder.")
    if any((path / "parts").glob("*")):
        raise SessionError(f"the session {str(path)!r} lacks its 'session.json'; restore that file from a copy.")


def ledger_for(ledger: Ledger | str | Path, budget: Guarantee | None, unit: Unit | None, fingerprint: str) -> Ledger:
    """The ledger of a dataset, made if it does not exist, once it is known to be the dataset's."""
    if not isinstance(ledger, Ledger):
        ledger = Ledger(ledger, budget, unit=unit, dataset=fingerprint)
    elif unit is not None and unit != ledger.unit:
        raise SessionError(f"the ledger protects against {ledger.unit}, not {unit}; leave unit out.")
    return ledger


def open_folder(
    path: Path,
    fingerprint: str,
    ledger: Ledger,
    budget: Guarantee | None,
    options: Options = NO_OPTIONS,
) -> Folder:
    """Makes the folder of a session, or opens the one that is there; only its owner may look into it.

    Args:
        path: the folder.
        fingerprint: of the dataset, which must be the session's own.
        ledger: the dataset's; a new session keeps its head, and a digest of the data that only the ledger can read.
        budget: what the session may spend; a session keeps the one it was made with.
        options: what is said of the records. A session pools prices because the same records are counted every time:
            other persons or weights would choose others.

    Raises:
        SessionError: the session belongs to another dataset or ledger, has another budget, lacks a file, or is in use.
        FileError: the folder cannot be made, or holds something else.
    """
    check_place(path)
    document = path / "session.json"
    try:
        for folder in (path, path / "parts", path / "choices"):
            if folder != path and folder.is_symlink():
                raise FileError(f"{str(folder)!r} is a symbolic link, which no session has; give the session's folder.")
            folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            with contextlib.suppress(PermissionError):  # the folder belongs to something else, and is left alone
                folder.chmod(PRIVATE_FOLDER)  # a copy may be open to others
    except FileError:
        raise
    except OSError as problem:
        raise _no_room(path, problem.strerror) from None
    if not document.exists():
        with lock(path):
            if not document.exists():  # another process may have been first
                for unfinished in path.glob(".session.json.*"):
                    unfinished.unlink()
                _write_identity(document, fingerprint, ledger, budget, options)
    identity = _read_identity(document, ledger)
    if not ledger.contains(identity.ledger):
        raise SessionError(
            f"the session {str(path)!r} belongs to another ledger than {str(ledger.path)!r}, or that was rolled "
            "back; nothing was spent: give its own."
        )
    if not identity.belongs_to(fingerprint):
        raise SessionError(
            f"the session {str(path)!r} belongs to another dataset; nothing was spent: give its own data, or begin "
            "another session on the same ledger with another folder as state (what was measured is not pooled across "
            "versions of the data)."
        )
    if identity.counted != _counted(options):
        raise SessionError(
            f"the session {str(path)!r} counts other records of this dataset: it was made with {identity.counted}; "
            "nothing was spent: say the same of the data, or begin another session on the same ledger with another "
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


def _counted(options: Options) -> str:
    """What decides, beside the data and the ledger's key, which records are counted: as it is written in Python."""
    person = sorted(options.person) or None  # in whichever order they were named
    return f"weight={options.weight!r}, person={person!r}, no_person={options.no_person!r}"


def _write_identity(
    document: Path, fingerprint: str, ledger: Ledger, budget: Guarantee | None, options: Options
) -> None:
    key = secrets.token_hex(16)
    body = {
        "key": key,
        "dataset": salted(_salt(ledger, key), fingerprint),
        "ledger": ledger.head,
        "budget": guarantee_to_body(budget),
        "counted": _counted(options),
    }
    write_document(document, KIND, VERSION, body, confidential=True)


def _read_identity(document: Path, ledger: Ledger) -> SessionIdentity:
    try:
        body: dict[str, Any] = read_document(document, KIND, VERSION)
        with contextlib.suppress(OSError):
            document.chmod(PRIVATE_FILE)  # a copy may be open to others
        key = str(body["key"])
        budget = guarantee_of_body(body["budget"])
        return SessionIdentity(
            key, _salt(ledger, key), str(body["dataset"]), str(body["ledger"]), budget, str(body["counted"])
        )
    except (FileError, LookupError, TypeError, ValueError, AttributeError) as problem:
        why = str(problem).rstrip(".")
        raise FileError(f"{str(document)!r} does not describe a session ({why}); restore it from a copy.") from None


def _salt(ledger: Ledger, key: str) -> str:
    """What hides the digest of a session's data: a secret of the ledger, which the session's folder does not hold."""
    return ledger.keyed(f"session:{key}")


def _ours(entry: Path) -> bool:
    """Whether this may be in the folder of a session that was being made when its process died."""
    return entry.name in ("parts", "choices", "adaptations", "lock") or entry.name.startswith(".session.json.")
