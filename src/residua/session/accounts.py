"""What a session has spent and for what: its own debits in the ledger beside the parts in its folder.

A session does not add up scalars: it keeps every part's exact measurements and pays, for a new one, only the increment
of what all of them cost together, `max diag (Γ_1 + … + Γ_k)`, in fractions. Other debits of the same ledger add to
that as scalars, which is never too little.

A debit without its part (the process died in between) counts with what its part costs alone: no less than what it adds.

Reference: docs/privacy.md, Adaptive use; Feldman and Zrnic (2021) for the per-cell filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import LedgerError, LedgerMovedError, SessionError
from residua.folders import DAMAGE
from residua.measurement.ledger import Entry, Ledger
from residua.measurement.ledger_amounts import shortage
from residua.plans.contract import Plan
from residua.privacy import Guarantee
from residua.release.base import Release
from residua.session.missing import Missing
from residua.session.state import Folder, digest_of_measured


@dataclass(frozen=True)
class Status:
    """Where a session stands, without any data: what was paid for, what was lost, and what is being chosen.

    Args:
        parts: what was measured and for what, a sentence each, by number.
        lost: the numbers of parts that were paid for and lost in a crash.
        spent: what the session has debited, as a guarantee of the ledger's type, rounded up.
        remaining: what may still be spent, as such a guarantee, rounded down.
        choices: the candidates of each choice, and what became of it: "open", how it ended, or that its look is lost.
        spent_exactly: what the session has debited, a pcost.
        remaining_exactly: what may still be spent, a pcost.
    """

    parts: Mapping[int, str]
    lost: tuple[int, ...]
    spent: Guarantee
    remaining: Guarantee
    choices: Mapping[int, tuple[tuple[str, ...], str]]
    spent_exactly: Fraction
    remaining_exactly: Fraction


@dataclass(frozen=True, eq=False)
class Standing:
    """Where a session stands at one head of its ledger.

    Args:
        head: the ledger's head.
        debits: the session's own debits, by the number of the part they paid for.
        parts: what was measured, by number.
    """

    head: str
    debits: Mapping[int, Entry]
    parts: Mapping[int, Release]

    @property
    def spent(self) -> Fraction:
        """What the session has debited, exactly."""
        return sum((entry.cost for entry in self.debits.values()), Fraction(0))

    @property
    def lost(self) -> Fraction:
        """What the debits whose part is absent cost alone; and parts of which plan and measurements differ.

        A part is priced by compiling its plan again. Should another version of residua compile it differently, what
        was paid for it alone is added, which is never too little.
        """
        absent = (n for n in self.debits if n not in self.parts or not _as_compiled(self.parts[n]))
        return sum((Fraction(self.debits[n].detail["alone"]) for n in absent), Fraction(0))

    @property
    def plans(self) -> list[Plan]:
        """What was measured."""
        return [part.planned for part in self.parts.values()]

    @property
    def next_part(self) -> int:
        """The number of the part that comes next."""
        return max((*self.debits, *self.parts), default=0) + 1


def standing(folder: Folder, ledger: Ledger) -> Standing:
    """Reads the session's debits and parts, which must belong together.

    Raises:
        SessionError: a part has no debit in this ledger: it was rolled back, or is not the session's.
    """
    head = ledger.head  # before the entries: a debit that comes in between is noticed by `after`
    own = [entry for entry in ledger.entries if entry.detail.get("session") == folder.identity.key]
    try:
        debits = {int(entry.detail["part"]): entry for entry in own}
        for entry in own:
            Fraction(entry.detail["alone"]), str(entry.detail["measures"])
    except DAMAGE:
        raise SessionError(
            f"the ledger {str(ledger.path)!r} has a debit of the session that does not say what it is for; {_RESTORE}."
        ) from None
    if len(debits) < len(own):
        raise SessionError(f"the ledger {str(ledger.path)!r} has two debits for one part of the session; {_RESTORE}.")
    parts = folder.parts()
    for number, part in parts.items():
        if number not in debits or part.receipt.get("digest") != debits[number].digest:
            raise SessionError(
                f"part {number} of the session {str(folder.path)!r} has no debit in {str(ledger.path)!r}; {_RESTORE}."
            )
        if folder.digests()[number] != debits[number].detail["measures"]:
            raise SessionError(
                f"part {number} of the session {str(folder.path)!r} is not what was paid for; restore the folder."
            )
    return Standing(head, debits, parts)


def _as_compiled(part: Release) -> bool:
    """Whether a part measured what compiling its plan gives now."""
    now, then = part.planned.blocks.arrays(), part.blocks.arrays()
    return now.keys() == then.keys() and all(np.array_equal(now[name], then[name]) for name in now)


_RESTORE = "the ledger was rolled back or is another's: restore it, and release nothing until then"


@dataclass(frozen=True, eq=False)
class Bill:
    """What one more measurement costs: alone, and all of the session's measurements together with it.

    Args:
        part: the number the measurement will have.
        digest: of what is measured, for the ledger.
        alone: what it costs alone.
        together: what it costs together with every part that is there.
    """

    part: int
    digest: str
    alone: Fraction
    together: Fraction

    def increment(self, at: Standing) -> Fraction:
        """What to debit so that the session has paid for everything it measures, never below 0."""
        return max(at.lost + self.together - at.spent, Fraction(0))


def require_budget(ledger: Ledger, allowed: Fraction | None, at: Standing, bill: Bill, what: str) -> None:
    """Refuses, before anything is spent, what the ledger or the session's own budget does not allow."""
    cost = bill.increment(at)
    left = ledger.remaining_exactly if allowed is None else min(ledger.remaining_exactly, allowed - at.spent)
    if cost > left:
        raise LedgerError(
            f"{what} costs more than the budget: {shortage(ledger.budget, max(left, Fraction(0)), cost)}; nothing was "
            "spent: plan for what is left."
        )


def paid(
    folder: Folder,
    ledger: Ledger,
    bill: Bill,
    *,
    purpose: str,
    allowed: Fraction | None,
    what: str,
    whose: Mapping[str, Any] | None,
) -> Callable[[str], tuple[Entry, Ledger]]:
    """A function that debits the bill for data with a given fingerprint; the door calls it before it counts."""

    def pay(fingerprint: str) -> tuple[Entry, Ledger]:
        if not folder.identity.belongs_to(fingerprint):
            raise SessionError("the data is not the session's dataset, or changed; nothing was spent.")
        while True:
            at = standing(folder, ledger)
            if at.next_part != bill.part:
                raise SessionError("another copy of the session is in use; nothing was spent: use the latest copy.")
            require_budget(ledger, allowed, at, bill, what)
            detail = {"session": folder.identity.key, "part": bill.part, "measures": bill.digest}
            detail["alone"] = str(bill.alone)
            try:
                entry = ledger.debit(
                    bill.increment(at),
                    purpose=purpose,
                    dataset=fingerprint,
                    detail=detail,
                    after=at.head,
                    whose=whose,
                )
                return entry, ledger
            except LedgerMovedError:  # another debit came first; what we owe does not depend on others' debits
                continue

    return pay


def bill_for(found: Missing, at: Standing) -> Bill:
    """What a measurement that is still to be made costs, as the session's next part."""
    assert found.blocks.currency == "pcost"  # the increment is one of Γ
    return Bill(at.next_part, digest_of_measured(found.plan, found.blocks), found.alone, found.together)
