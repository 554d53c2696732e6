"""Where a session may be opened: beside which ledger, and with which budget."""

from __future__ import annotations

from pathlib import Path

from residua.errors import SessionError
from residua.measure import Ledger
from residua.privacy import Guarantee, PureDP


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
