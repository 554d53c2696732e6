"""A session on disk: a folder that says whose it is, holds every part that was measured, and the candidates of choices.

session.json          kind, version, who it belongs to: a dataset, a ledger, a budget; for the curator only (0600)
parts/0001            what was measured, a release folder each, whole or absent
choices/0001          the candidates of a choice: names.json and one plan per candidate; end.json once it is closed
lock                  held by the process that is measuring

The folder is its owner's alone (0700). Its digest of the data is keyed by a secret of the ledger, so that nobody can
test a guess of the data with `session.json` alone.

What was spent is in the ledger, not here: each debit of a session names the session, the part it pays for, and a digest
of what that part measures. A debit whose part is absent was lost in a crash; it stays spent.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from residua.disk import BINARY, NO_LINK, lock as hold, patiently, require_locks, sync_folder, unlock
from residua.errors import FileError, ResiduaError, SessionError
from residua.files import read_document, require_path, write_document
from residua.folders import DAMAGE, whole_folder
from residua.measurement import Ledger
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.privacy import Guarantee, PureDP
from residua.privacy.guarantees import guarantee_of_body, guarantee_to_body
from residua.release.base import Release
from residua.source.options import NO_OPTIONS, Options

KIND, VERSION = "residua session", 1
_NAMES, _END = "residua session choice", "residua session end"


@dataclass(frozen=True)
class SessionIdentity:
    """Whose session this is."""

    key: str
    salt: str
    dataset: str
    ledger: str
    budget: Guarantee | None
    counted: str  # what is said of the records, of which others would be counted otherwise

    def belongs_to(self, fingerprint: str) -> bool:
        """Whether this is the session of the dataset with this fingerprint."""
        return salted(self.salt, fingerprint) == self.dataset


@dataclass(frozen=True, eq=False)
class Stored:
    """A choice as the folder holds it.

    Args:
        number: its number.
        candidates: the candidates by name, in order.
        origins: what each was made from, in words or a digest, where that was noted.
        look: a digest of what its look measures; None if that was known already.
        end: how it ended, in words that follow "it"; None while it is open.
    """

    number: int
    candidates: dict[str, Plan]
    origins: dict[str, str]
    look: str | None
    end: str | None


@dataclass
class Folder:
    """The folder of a session, which exists and belongs to it."""

    path: Path
    identity: SessionIdentity
    _parts: dict[int, Release] = field(default_factory=dict, repr=False)
    _digests: dict[int, str] = field(default_factory=dict, repr=False)

    def digests(self) -> dict[int, str]:
        """What each part measured, as a digest, by number."""
        for number, part in self.parts().items():
            if number not in self._digests:
                self._digests[number] = digest_of_measured(part.planned, part.measurements)
        return self._digests

    def parts(self) -> dict[int, Release]:
        """What was measured so far, by number; what was read once is not read again."""
        for number in _numbers(self.path / "parts"):
            if number not in self._parts:
                self._parts[number] = Release.load(self.place(number))
        return dict(sorted(self._parts.items()))

    def place(self, number: int) -> Path:
        """Where a part is, or will be."""
        return self.path / "parts" / f"{number:04d}"

    def choices(self) -> dict[int, Stored]:
        """The choices that were begun, by number."""
        return {number: self._choice(number) for number in _numbers(self.path / "choices")}

    def begin_choice(self, candidates: Mapping[str, Plan], origins: Mapping[str, str], look: str | None) -> Stored:
        """Keeps the candidates of a choice, all or none."""
        number = max(_numbers(self.path / "choices"), default=0) + 1
        final = self.path / "choices" / f"{number:04d}"
        try:
            with whole_folder(final, "choice") as partial:
                for i, plan in enumerate(candidates.values()):
                    plan.save(partial / f"{i:02d}.json")
                body = {"names": list(candidates), "origins": dict(origins), "look": look}
                write_document(partial / "names.json", _NAMES, VERSION, body)
        except OSError as problem:
            raise FileError(f"cannot write to the session {str(self.path)!r}: {problem}; nothing was spent.") from None
        return Stored(number, dict(candidates), dict(origins), look, None)

    def drop_choice(self, number: int) -> None:
        """Forgets a choice whose look could not be taken."""
        shutil.rmtree(self.path / "choices" / f"{number:04d}", ignore_errors=True)

    def end_choice(self, number: int, end: str) -> None:
        """Notes how a choice ended, in words that follow "it"."""
        write_document(self._choice_file(number, "end.json"), _END, VERSION, {"end": end})

    def _choice(self, number: int) -> Stored:
        try:
            return self._read_choice(number)
        except DAMAGE as problem:
            raise SessionError(
                f"choice {number} of the session cannot be read ({str(problem).rstrip('.')}); restore its folder "
                f"{str(self.path / 'choices' / f'{number:04d}')!r} from a copy, or delete it: what was measured stays."
            ) from None

    def _read_choice(self, number: int) -> Stored:
        body = read_document(self._choice_file(number, "names.json"), _NAMES, VERSION)
        files = [self._choice_file(number, f"{i:02d}.json") for i in range(len(body["names"]))]
        plans = {name: Plan.load(file, follow=False) for name, file in zip(body["names"], files, strict=True)}
        ended = self._choice_file(number, "end.json")
        end = read_document(ended, _END, VERSION)["end"] if ended.exists() else None
        return Stored(number, plans, body.get("origins", {}), body.get("look"), end)

    def _choice_file(self, number: int, name: str) -> Path:
        return self.path / "choices" / f"{number:04d}" / name

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the session against every other process and thread, or refuses; clears up after a crash."""
        with lock(self.path):
            self._clear_up()
            yield

    def settle(self) -> None:
        """Clears up after a crash, unless what is unfinished is another process's that is at work."""
        if any((self.path / "parts").glob(".*.partial-*")):
            with contextlib.suppress(SessionError), self.locked():
                pass

    def _clear_up(self) -> None:
        """Names a part that was whole when its process died, and removes what was not."""
        for partial in (self.path / "parts").glob(".*.partial-*"):
            final = partial.with_name(partial.name[1:].partition(".")[0])
            try:
                Release.load(partial)  # refuses what is not whole
            except ResiduaError:
                shutil.rmtree(partial, ignore_errors=True)
            else:
                if not final.exists():
                    patiently(partial.rename, final)
                    sync_folder(final.parent)
        for partial in (self.path / "choices").glob(".*.partial-*"):
            shutil.rmtree(partial, ignore_errors=True)
        for pattern in ("choices/*/.end.json.*", "adaptations/.*.json.*"):
            for unfinished in self.path.glob(pattern):
                unfinished.unlink(missing_ok=True)


def digest_of_measured(plan: Plan, measurements: Measurements) -> str:
    """A digest of what a part measures: its plan, and the integers and scales that it came down to."""
    digest = hashlib.sha256(msgspec.json.encode(plan.to_body()))
    for name, array in sorted(measurements.arrays().items()):
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds the folder of a session, or says that another process or thread does."""
    require_locks()
    try:
        handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT | BINARY | NO_LINK, 0o600)
    except OSError as problem:
        raise SessionError(
            f"the session {str(path)!r} cannot be locked ({problem.strerror}); give a folder that you may write to."
        ) from None
    try:
        try:
            hold(handle, wait=False)
        except OSError as problem:
            if problem.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise SessionError(
                f"the session {str(path)!r} is in use by another process or thread; wait until it has finished."
            ) from None
        yield
    finally:
        with contextlib.suppress(OSError):
            unlock(handle)
        os.close(handle)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isascii() and entry.name.isdecimal())


def salted(salt: str, fingerprint: str) -> str:
    """A dataset's fingerprint in a form that tells nothing to anyone who does not know it."""
    return hashlib.sha256(f"{salt}:{fingerprint}".encode("utf-8", "surrogatepass")).hexdigest()


PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def require_one_currency(budget: Guarantee | None, held: Guarantee | None) -> None:
    """Refuses, before anything is made, a session and a ledger of which one counts epsilons alone."""
    if budget is not None and held is not None and isinstance(budget, PureDP) != isinstance(held, PureDP):
        raise SessionError(
            f"the session's budget {budget!r} and the ledger's {held!r} are not counted alike; nothing was spent: give "
            "both as PureDP, or neither."
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


def open_folder(
    path: Path, fingerprint: str, ledger: Ledger, budget: Guarantee | None, options: Options = NO_OPTIONS
) -> Folder:
    """Makes the folder of a session, or opens the one that is there; only its owner may look into it.

    Args:
        path: the folder.
        fingerprint: of the dataset, which must be the session's own.
        ledger: the dataset's; a new session keeps its head, and a digest of the data that only the ledger can read.
        budget: what the session may spend; a session keeps the one it was made with.
        options: what is said of the records. A session pools prices because the same records are counted every time:
            other persons or counts would choose others.

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
    return f"counts={options.counts!r}, person={person!r}, no_person={options.no_person!r}"


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
        key, dataset, head, counted = (str(body[name]) for name in ("key", "dataset", "ledger", "counted"))
        return SessionIdentity(key, _salt(ledger, key), dataset, head, guarantee_of_body(body["budget"]), counted)
    except (FileError, LookupError, TypeError, ValueError, AttributeError) as problem:
        why = str(problem).rstrip(".")
        raise FileError(f"{str(document)!r} does not describe a session ({why}); restore it from a copy.") from None


def _salt(ledger: Ledger, key: str) -> str:
    """What hides the digest of a session's data: a secret of the ledger, which the session's folder does not hold."""
    return ledger.keyed(f"session:{key}")


def _ours(entry: Path) -> bool:
    """Whether this may be in the folder of a session that was being made when its process died."""
    return entry.name in ("parts", "choices", "adaptations", "lock") or entry.name.startswith(".session.json.")
