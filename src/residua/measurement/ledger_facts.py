"""What a ledger says of itself, to whoever reads it: what may be spent, what was, and what that means."""

from __future__ import annotations

import hmac
from fractions import Fraction
from pathlib import Path

from residua.measurement import ledger_entries as amounts
from residua.measurement.ledger_entries import Acceptance, Contents, Entry, Header
from residua.plans.noise import Currency
from residua.privacy import Guarantee, Unit
from residua.privacy.exact import round_up
from residua.privacy.guarantees import affordable
from residua.showing import Shown


class LedgerFacts(Shown):
    """The questions that a ledger answers; each reads the file again, and verifies all of it."""

    _path: Path
    _header: Header

    def _read(self) -> Contents:
        raise NotImplementedError

    @property
    def path(self) -> Path:
        """Where the ledger is."""
        return self._path

    @property
    def budget(self) -> Guarantee:
        """All that may ever be spent."""
        return self._header.budget

    @property
    def currency(self) -> Currency:
        """What the ledger counts in: epsilon where the budget is PureDP, else pcost."""
        return amounts.currency_of(self._header.budget)

    @property
    def unit(self) -> Unit:
        """Whom the budget protects."""
        return self._header.unit

    @property
    def population(self) -> str:
        """Who the people are."""
        return self._header.population

    @property
    def identity(self) -> str:
        """What tells this ledger from all others, copies of it excepted: the digest of its first line, salted."""
        return self._header.digest

    @property
    def spent(self) -> Guarantee:
        """All debits together, as a guarantee of the budget's type, rounded up; `Nothing()` before the first.

        It has `.rho` and `.epsilon_at(delta)`, as every guarantee where a theorem allows.
        """
        return amounts.stated(self._header.budget, self._read().spent)

    @property
    def remaining(self) -> Guarantee:
        """What is still allowed, as a guarantee of the budget's type, rounded down; `Nothing()` when nothing is.

        A plan may be made for it: `rs.plan(workload, ledger.remaining)`.
        """
        return affordable(self._header.budget, self._read().remaining)

    @property
    def spent_exactly(self) -> Fraction:
        """All debits, exactly: a pcost, or an epsilon where the budget is PureDP."""
        return self._read().spent

    @property
    def remaining_exactly(self) -> Fraction:
        """What is still allowed, exactly, in the same currency."""
        return self._read().remaining

    @property
    def discovery_delta(self) -> float:
        """How much delta may be spent on discovering values, in all; 0 where none was allowed at creation."""
        return float(self._header.discovery_delta)

    @property
    def discovery_delta_spent(self) -> float:
        """How much of it was spent, rounded up; deltas add up."""
        return round_up(self._read().spent_delta)

    @property
    def accepted(self) -> tuple[Acceptance, ...]:
        """The datasets that were declared to hold the same people, oldest first."""
        return self._read().accepted

    @property
    def meaning(self) -> str:
        """What the total stands for, in a sentence; it depends on the budget, and on whether noise was mixed."""
        laplace = any(entry.may_be_laplace for entry in self.entries)
        return amounts.meaning(self._header.budget, laplace=laplace, delta=self._read().spent_delta)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every debit, oldest first."""
        return self._read().entries

    @property
    def head(self) -> str:
        """The digest of the last line; it stands for all that the ledger says now."""
        return self._read().head

    def contains(self, head: str) -> bool:
        """Whether the ledger once had this head; if not, it was rolled back or is another ledger."""
        return self._read().contains(head)

    def keyed(self, text: str) -> str:
        """A digest of a text that nobody can compute without the ledger (HMAC-SHA256 with its salt)."""
        return hmac.new(self._header.salt.encode(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    @property
    def choosing_key(self) -> bytes:
        """The secret that decides which of a person's records are counted, 32 bytes: from the ledger's salt.

        It is as old as the ledger, so that all that is ever measured under it counts the same records; it is in the
        ledger's file alone, and lost with it.
        """
        return bytes.fromhex(self.keyed("which records of a person are counted"))
