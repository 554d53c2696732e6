"""What a continual release keeps in its folder, and who may go on with it: the ledger alone decides.

The folder holds the plan and the released sums, which are public, and the normals drawn so far, which are confidential.
Folders can be copied, put back and used by several processes at once; the ledger is one. So the ledger's lines say
which plan was paid for, with which normals each period was begun, of which data, and after which sums: as digests keyed
by a secret of the ledger and one of the folder. A period is begun by one line, which is written only where the ledger
is as it was read (`after=`); whoever comes later must hold the same normals and the same data, and then releases the
same number again, or is refused. Normals that no line names were never used: they are drawn anew.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from residua.disk import lock, sync_folder
from residua.errors import FileError, LedgerError, LedgerMovedError
from residua.files import digest_of, read_document, write_document
from residua.folders import DAMAGE
from residua.measurement.ledger import Entry, Ledger
from residua.noise.correlated import Drawn
from residua.plans.contract import Plan
from residua.plans.noise import Currency

_KIND, _SECRET, _VERSION = "residua continual release", "residua continual noise", 1
_MOST_SECRET = 2**30
_PLAN, _RELEASED, _NOISE = "plan.json", "released.json", "confidential-noise.json"
_OLD = "nothing was released now: use the newest copy of the folder"


@dataclass(frozen=True, eq=False, repr=False)
class ContinualStanding:
    """Where a continual release stands, by its ledger; the normals and the secret are confidential.

    Args:
        token: the release's name in the ledger.
        sums: what was released.
        secret: what the folder's digests are keyed by, beside the ledger's own secret.
        drawn: the normals that the ledger's last line names.
        line: the ledger's last line about the release.
        head: of the ledger.
    """

    token: str
    sums: tuple[int, ...]
    secret: str
    drawn: Drawn
    line: Entry
    head: str

    @property
    def is_begun(self) -> bool:
        """Whether the ledger says that the next period was begun."""
        return self.drawn.periods > len(self.sums)


class ContinualFolder:
    """The folder of a continual release."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether something was kept here."""
        return (self.path / _RELEASED).exists()

    def make(self) -> None:
        """Makes the folder, and closes it to all but its owner: beside what is released, the normals tell true counts.

        A folder that was there, or a copy, may be open to others.
        """
        try:
            self.path.mkdir(mode=0o700, parents=False, exist_ok=True)
            self.path.chmod(0o700)
            if (self.path / _NOISE).exists():
                (self.path / _NOISE).chmod(0o600)
        except OSError as problem:
            raise FileError(f"cannot make {str(self.path)!r} the owner's alone: {problem.strerror}.") from None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only one process at a time appends to one folder; to copies of it, the ledger sees."""
        try:
            handle = (self.path / "lock").open("a")
        except OSError as problem:
            raise FileError(f"cannot write to {str(self.path)!r}: {problem.strerror}.") from None
        with handle:
            lock(handle.fileno())
            yield

    def begin(self, plan: Plan, drawn: Drawn) -> None:
        """Keeps what there is before the first period."""
        plan.save(self.path / _PLAN)
        self.keep(secrets.token_hex(16), [drawn])
        self.release(secrets.token_hex(16), ())
        sync_folder(self.path.parent)

    def plan(self) -> Plan:
        """What was planned."""
        return Plan.load(self.path / _PLAN)

    def release(self, token: str, sums: Sequence[int]) -> None:
        """Keeps what was released."""
        write_document(self.path / _RELEASED, _KIND, _VERSION, {"token": token, "sums": list(sums)})

    def released(self) -> tuple[str, tuple[int, ...]]:
        """The release's name in the ledger, and what was released.

        Raises:
            FileError: the file is missing, damaged or of something else.
        """
        body = read_document(self.path / _RELEASED, _KIND, _VERSION)
        try:
            token, sums = body["token"], tuple(body["sums"])
            if not isinstance(token, str) or any(type(value) is not int or abs(value) >= 2**63 for value in sums):
                raise ValueError("it holds other things than sums")
        except DAMAGE:
            raise self._damaged(_RELEASED) from None
        return token, sums

    def keep(self, secret: str, drawn: Sequence[Drawn]) -> None:
        """Keeps normals: those that the ledger names, and those that it is about to name."""
        body = {"secret": secret, "drawn": [_body_of(each) for each in drawn]}
        write_document(self.path / _NOISE, _SECRET, _VERSION, body, confidential=True, most=_MOST_SECRET)

    def noise(self) -> tuple[str, list[Drawn]]:
        """The secret, and the normals that were kept.

        Raises:
            FileError: the file is missing, damaged or of something else.
        """
        body = read_document(self.path / _NOISE, _SECRET, _VERSION, most=_MOST_SECRET)
        try:
            return str(body["secret"]), [_drawn_of(each) for each in body["drawn"]]
        except DAMAGE:
            raise self._damaged(_NOISE) from None

    def _damaged(self, name: str) -> FileError:
        return FileError(f"{name!r} in {str(self.path)!r} is damaged; {_OLD}, or a backup of it.")


def paid(folder: ContinualFolder, ledger: Ledger, plan: Plan, cost: Fraction, currency: Currency) -> None:
    """Debits the whole horizon once, whoever of several copies comes first."""
    token, _ = folder.released()
    secret, drawn = folder.noise()
    detail = {"continual": token, "plan": plan_mark(plan), "noise": _mark(ledger, secret, _body_of(drawn[0]))}
    while True:
        head = ledger.head  # before the lines: one that comes in between is noticed by `after`
        if _lines(ledger, token):
            return
        with suppress(LedgerMovedError):
            dataset = _dataset_of(token)
            ledger.debit(
                cost, purpose="continual release", dataset=dataset, detail=detail, after=head, currency=currency
            )


def standing(folder: ContinualFolder, ledger: Ledger, planned: str) -> ContinualStanding:
    """Where the release of this plan (`plan_mark`) stands, if the ledger says that this folder may go on with it.

    Raises:
        LedgerError: not paid from this ledger, or an older copy, or one that another copy went past.
        FileError: the plan or the sums are not those that the ledger names, or a file is damaged.
    """
    head = ledger.head  # before the lines, as above
    token, sums = folder.released()
    secret, kept = folder.noise()
    lines = _lines(ledger, token)
    if not lines:
        raise LedgerError(
            "this ledger did not pay for the continual release; open it with its own ledger, or give the plan again "
            "to pay."
        )
    try:
        begun = [int(line.detail["period"]) for line in lines[1:]]
        noise, before = str(lines[-1].detail["noise"]), str(lines[-1].detail["sums"]) if begun else ""
        if begun != list(range(len(begun))):
            raise ValueError("periods out of order")
        if lines[0].detail["plan"] != planned:
            raise FileError(f"the plan in {str(folder.path)!r} is not the one that was paid for; {_OLD}.")
    except (LookupError, TypeError, ValueError):
        raise LedgerError("the ledger has a line about a continual release that does not say what it is for.") from None
    if len(sums) > len(begun):
        raise LedgerError(
            "the ledger is older than the folder, which holds periods that the ledger does not know; nothing was "
            "released now: restore the ledger."
        )
    drawn = next((each for each in kept if _mark(ledger, secret, _body_of(each)) == noise), None)
    if drawn is None or len(begun) > len(sums) + 1 or drawn.periods != len(begun):
        raise LedgerError(
            "the folder is older than its ledger, which says that later periods were released, or that another copy of "
            f"the folder began the next one; {_OLD}."
        )
    if begun and _mark(ledger, secret, list(sums[: len(begun) - 1])) != before:
        raise FileError(f"the sums in {str(folder.path)!r} are not those that were released; {_OLD}.")
    return ContinualStanding(token, sums, secret, drawn, lines[-1], head)


def claimed(
    folder: ContinualFolder, ledger: Ledger, drawn: Drawn, at: ContinualStanding, fingerprint: str
) -> ContinualStanding:
    """Writes the ledger's line that begins the next period with these normals, and of this data.

    Raises:
        LedgerMovedError: the ledger is not as it was read. Nothing was begun.
    """
    k = len(at.sums)
    folder.keep(at.secret, [at.drawn, drawn])  # before the line: once it is written, no other normals will do
    detail = {"continual": at.token, "period": k, "noise": _mark(ledger, at.secret, _body_of(drawn))}
    detail |= {"sums": _mark(ledger, at.secret, list(at.sums)), "data": _mark(ledger, at.secret, fingerprint)}
    purpose = f"continual release, period {k + 1}"
    line = ledger.debit(0, purpose=purpose, dataset=_dataset_of(at.token), detail=detail, after=at.head)
    return ContinualStanding(at.token, at.sums, at.secret, drawn, line, line.digest)


def require_same_data(ledger: Ledger, at: ContinualStanding, fingerprint: str) -> None:
    """Refuses to take up a period with other data than it was begun with: the difference would be seen.

    Raises:
        LedgerError: the data is another.
    """
    if at.line.detail.get("data") != _mark(ledger, at.secret, fingerprint):
        raise LedgerError(
            f"period {len(at.sums) + 1} was begun with other data, and interrupted; two releases of it with the same "
            "noise would tell how they differ. Nothing was released now: give the data that it was begun with."
        )


def _dataset_of(token: str) -> str:
    """What the ledger is bound to: the stream, whose data is another in every period."""
    return f"continual {token}"


def plan_mark(plan: Plan) -> str:
    """A digest of a plan, which is public."""
    return digest_of(msgspec.json.encode(plan.to_body()))


def _lines(ledger: Ledger, token: str) -> list[Entry]:
    return [entry for entry in ledger.entries if entry.detail.get("continual") == token]


def _mark(ledger: Ledger, secret: str, content: object) -> str:
    """A digest that tells nothing of its content to anybody without the ledger's secret and the folder's."""
    return ledger.keyed(f"continual {secret} {msgspec.json.encode(content, order='deterministic').decode()}")


def _body_of(drawn: Drawn) -> dict[str, Any]:
    words = base64.b64encode(np.ascontiguousarray(drawn.words, dtype="<u8").tobytes()).decode()
    more = [[part, column, str(bits), count] for (part, column), (bits, count) in sorted(drawn.more.items())]
    return {"parts": len(drawn.words), "words": words, "more": more}


def _drawn_of(body: Any) -> Drawn:
    words = np.frombuffer(base64.b64decode(body["words"], validate=True), dtype="<u8").reshape(body["parts"], -1)
    more = {(int(part), int(column)): (int(bits), int(count)) for part, column, bits, count in body["more"]}
    return Drawn(words.astype(np.uint64), more)
