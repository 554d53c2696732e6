"""What a session has spent and for what: its own debits in the ledger beside the parts in its folder.

A session does not add up scalars: it keeps every part's exact measurements and pays, for a new one, only the increment
of what all of them cost together, `max diag (Γ_1 + … + Γ_k)`, or the sum of epsilons, in fractions. Other debits of the
same ledger add to that as scalars, which is never too little.

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
from residua.measurement.ledger_entries import shortage
from residua.plans.contract import Plan
from residua.privacy import Guarantee
from residua.release.base import Release
from residua.session.state import Folder


@dataclass(frozen=True)
class Status:
    """Where a session stands, without any data: what was paid for, what was lost, and what is being chosen.

    Args:
        parts: what was measured and for what, a sentence each, by number.
        lost: the numbers of parts that were paid for and lost in a crash.
        spent: what the session has debited, as a guarantee of the ledger's type, rounded up.
        remaining: what may still be spent, as such a guarantee, rounded down.
        choices: the candidates of each choice, and what became of it: "open", how it ended, or that its look is lost.
        spent_exactly: what the session has debited, as its ledger counts: a pcost, or an epsilon.
        remaining_exactly: what may still be spent, in the same currency.
    """

    parts: Mapping[int, str]
    lost: tuple[int, ...]
    spent: Guarantee
    remaining: Guarantee
    choices: Mapping[int, tuple[tuple[str, ...], str]]
    spent_exactly: Fraction
    remaining_exactly: Fraction


@dataclass(frozen=True, eq=False)
class SessionStanding:
    """Where a session stands at one head of its ledger.

    Args:
        head: the ledger's head.
        debits: the session's own debits, by the number of the part they paid for.
        parts: what was measured, by number.
        aside: what the session has debited for numbers that are no tables (scores), which add up by themselves.
    """

    head: str
    debits: Mapping[int, Entry]
    parts: Mapping[int, Release]
    aside: Fraction = Fraction(0)

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

    def increment(self, together: Fraction) -> Fraction:
        """What to debit so that the session has paid for everything it measures, never below 0.

        Args:
            together: what a measurement costs together with every part that is there.
        """
        return max(self.lost + together - self.spent, Fraction(0))

    @property
    def plans(self) -> list[Plan]:
        """What was measured."""
        return [part.planned for part in self.parts.values()]

    @property
    def next_part(self) -> int:
        """The number of the part that comes next."""
        return max((*self.debits, *self.parts), default=0) + 1


@dataclass(frozen=True, eq=False)
class Account:
    """What a session may spend, and all that it has spent.

    Args:
        folder: the session's.
        ledger: the dataset's.
        allowed: the session's own budget within the ledger's, as the ledger counts; None if it has none.
    """

    folder: Folder
    ledger: Ledger
    allowed: Fraction | None

    def standing(self) -> SessionStanding:
        """Reads the session's debits and parts, which must belong together.

        Raises:
            SessionError: a part has no debit in this ledger: it was rolled back, or is not the session's.
        """
        folder, ledger = self.folder, self.ledger
        head = ledger.head  # before the entries: a debit that comes in between is noticed by `after`
        own = [entry for entry in ledger.entries if entry.detail.get("session") == folder.identity.key]
        try:
            debits = {int(entry.detail["part"]): entry for entry in own}
            for entry in own:
                Fraction(entry.detail["alone"]), str(entry.detail["measures"])
        except DAMAGE:
            raise SessionError(
                f"the ledger {str(ledger.path)!r} has a debit of the session that does not say what it is for; "
                f"{_RESTORE}."
            ) from None
        if len(debits) < len(own):
            raise SessionError(
                f"the ledger {str(ledger.path)!r} has two debits for one part of the session; {_RESTORE}."
            )
        parts = folder.parts()
        for number, part in parts.items():
            what = f"part {number} of the session {str(folder.path)!r}"
            if number not in debits or part.receipt.get("digest") != debits[number].digest:
                raise SessionError(f"{what} has no debit in {str(ledger.path)!r}; {_RESTORE}.")
            if folder.digests()[number] != debits[number].detail["measures"]:
                raise SessionError(f"{what} is not what was paid for; restore the folder.")
        aside = (entry.cost for entry in ledger.entries if entry.detail.get("scores_of") == folder.identity.key)
        return SessionStanding(head, debits, parts, sum(aside, Fraction(0)))

    def left(self, at: SessionStanding) -> Fraction:
        """What may still be spent: of the ledger's budget, and of the session's own."""
        left = self.ledger.remaining_exactly
        return max(left if self.allowed is None else min(left, self.allowed - at.spent - at.aside), Fraction(0))

    def require(self, at: SessionStanding, cost: Fraction, what: str) -> None:
        """Refuses, before anything is spent, a cost that the ledger or the session's own budget does not allow."""
        left = self.left(at)
        if cost > left:
            raise LedgerError(
                f"{what} costs more than the budget: {shortage(self.ledger.budget, left, cost)}; nothing was spent: "
                "plan for what is left."
            )

    def paying(
        self,
        cost: Callable[[SessionStanding], Fraction],
        purpose: str,
        what: str,
        detail: Mapping[str, Any],
        whose: Mapping[str, Any] | None,
    ) -> Callable[[str], tuple[Entry, Ledger]]:
        """A function that debits a cost for data with a given fingerprint; the door calls it before it counts.

        Args:
            cost: what is to be debited, from where the session then stands; raises if that is no longer possible.
            purpose: what the ledger notes.
            what: what is paid for, in words that begin an error.
            detail: what the debit says of itself.
            whose: whose records are counted, as the ledger notes it.
        """

        def pay(fingerprint: str) -> tuple[Entry, Ledger]:
            if not self.folder.identity.belongs_to(fingerprint):
                raise SessionError("the data is not the session's dataset, or changed; nothing was spent.")
            while True:
                at = self.standing()
                owed = cost(at)
                self.require(at, owed, what)
                try:
                    entry = self.ledger.debit(
                        owed, purpose=purpose, dataset=fingerprint, detail=dict(detail), after=at.head, whose=whose,
                        currency=self.ledger.currency,
                    )  # fmt: skip
                except LedgerMovedError:  # another debit came first; what we owe does not depend on others' debits
                    continue
                return entry, self.ledger

        return pay


def _as_compiled(part: Release) -> bool:
    """Whether a part measured what compiling its plan gives now."""
    now, then = part.planned.measurements.arrays(), part.measurements.arrays()
    return now.keys() == then.keys() and all(np.array_equal(now[name], then[name]) for name in now)


_RESTORE = "the ledger was rolled back or is another's: restore it, and release nothing until then"
