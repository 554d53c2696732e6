"""A second file that knows how far a ledger got, so that a ledger that was set back to a copy is noticed.

A witness states the ledger's identity and the number and digest of a line. The ledger must contain that line. An append
is first a line of the ledger, on disk, then the witness, whole and on disk; only then does the debit return, and only
then is data read. So a crash leaves a witness that is one line behind, by a debit whose data nobody read: whoever
restores a copy without that line spends nothing twice, and honest use goes on. Before the next line, and before what
the last one paid for is taken up again, the witness is written again, so that it is never two lines behind, and a disk
that refuses is noticed first. A new ledger's witness is there before the ledger: a missing one is never made up for.

What it cannot notice: ledger and witness set back together. Keep it where backups of the ledger do not reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from residua.errors import FileError, LedgerError
from residua.files import read_document, require_path, write_document
from residua.measurement.ledger_entries import Contents

_KIND, _VERSION = "residua witness", 1
_RESTORE = (
    "restore the latest copy of the ledger; if it is lost, make a new one, with a new witness, whose budget is what is "
    "really left. Nothing was spent."
)


@dataclass(frozen=True)
class Witness:
    """The witness of one ledger.

    Guarantee: a ledger without the line that its witness states is refused; one that is interrupted at any moment is
    not.
    """

    path: Path
    ledger: Path

    @classmethod
    def beside(cls, ledger: Path, place: str) -> Witness:
        """The one that a ledger names."""
        path = (ledger.parent / place).resolve()
        require_path(path)
        if path == ledger.resolve():
            raise LedgerError(f"witness={place!r} is the ledger itself; name another file, best on another disk.")
        return cls(path, ledger)

    def require_new(self, ledger: Path) -> None:
        """Refuses to make a ledger where an earlier one was: it is lost, or not mounted.

        A witness of a first line alone is no such sign: nothing was spent, or the making was interrupted.
        """
        if not self.path.exists():
            return
        place = read_document(self.path, _KIND, _VERSION).get("place", str(ledger))
        if place != str(ledger):
            raise FileError(f"{str(self.path)!r} is there already, the witness of {place!r}; name another file.")
        if not ledger.exists() and self._stated()[1] > 0:
            raise LedgerError(
                f"there is a witness {str(self.path)!r} of a ledger that is not at {str(ledger)!r}: it was deleted, or "
                f"is not mounted; {_RESTORE} For other people, name another witness."
            )

    def check(self, contents: Contents, name: str) -> None:
        """Refuses a ledger that is older than its witness.

        Raises:
            LedgerError: it is older, or the witness is another ledger's or not there.
        """
        if not self.path.exists():
            raise LedgerError(
                f"the witness {str(self.path)!r} of the ledger {name} is not there; mount its disk, or restore it. "
                "Nothing was spent."
            )
        identity, number, head = self._stated()
        if identity != contents.header.digest:
            raise LedgerError(f"{str(self.path)!r} is the witness of another ledger than {name}; {_RESTORE}")
        if not contents.contains(head):
            missing = number + 1 - len(contents.digests)
            why = f"it lacks the last {missing} lines" if missing > 1 else "it lacks its last line"
            raise LedgerError(
                f"the ledger {name} is older than its witness {str(self.path)!r} ({why}): it was set back to a copy; "
                f"{_RESTORE}"
            )

    def begin(self, digest: str) -> None:
        """States the first line of a ledger that is about to be there.

        Raises:
            LedgerError: the disk refuses.
        """
        self._state(digest, 0, digest, "no ledger was made")

    def advance(self, contents: Contents) -> None:
        """States the ledger's last line.

        Raises:
            LedgerError: the disk refuses. Nothing was spent.
        """
        self._state(contents.header.digest, len(contents.digests) - 1, contents.head, "nothing was spent")

    def note(self, contents: Contents, head: str) -> None:
        """States the line that was just appended and is on disk.

        Raises:
            LedgerError: the disk refuses.
        """
        self._state(contents.header.digest, len(contents.digests), head, "no data was read, but the debit stands")

    def _state(self, identity: str, number: int, head: str, outcome: str) -> None:
        try:
            body = {"ledger": identity, "sequence": number, "head": head, "place": str(self.ledger)}
            write_document(self.path, _KIND, _VERSION, body, confidential=True)
        except FileError as problem:
            raise LedgerError(
                f"the witness of the ledger cannot be written: {problem} Make it writable; {outcome}."
            ) from None

    def _stated(self) -> tuple[str, int, str]:
        body = read_document(self.path, _KIND, _VERSION)
        try:
            return str(body["ledger"]), int(body["sequence"]), str(body["head"])
        except (LookupError, TypeError, ValueError):
            raise FileError(f"{str(self.path)!r} is no witness; restore it.") from None
