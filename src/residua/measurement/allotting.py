"""A part of a budget in a ledger of its own: for a team, which can spend so much and no more."""

from __future__ import annotations

import os
from pathlib import Path

from residua.errors import LedgerError
from residua.folders import require_free
from residua.measurement.ledger import Ledger
from residua.measurement.ledger_entries import allowance
from residua.privacy import Guarantee


def allot(ledger: Ledger, path: str | os.PathLike[str], budget: Guarantee, *, purpose: str | None = None) -> Ledger:
    """Moves a part of a budget into a new ledger; what that spends is spent in the whole already.

    The new ledger has the same people and unit. What it leaves unspent is not given back. The debit comes first:
    whoever is interrupted between has spent the part, and has no ledger for it.

    Args:
        ledger: the ledger that has the whole budget.
        path: the file of the new one.
        budget: its whole budget, of the kind of the other's.
        purpose: whom it is for, in words that may be public.

    Raises:
        LedgerError: another kind of budget, or more than is left; nothing was spent.
        FileError: something is there already, or nothing can be written there; nothing was spent.

    Example:
        >>> import tempfile
        >>> from residua.privacy import ZCDP
        >>> folder = tempfile.TemporaryDirectory()
        >>> whole = Ledger(f"{folder.name}/people.ledger", ZCDP(rho=1.0))
        >>> health = allot(whole, f"{folder.name}/health.ledger", ZCDP(rho=0.25))
        >>> whole.remaining, health.remaining, health.population
        (ZCDP(rho=0.75), ZCDP(rho=0.25), 'people')
        >>> folder.cleanup()
    """
    file = Path(path).absolute()
    # A Laplace debit is dearer under GDP than under ZCDP: parts of another kind would not add up.
    if type(budget) is not type(ledger.budget):
        raise LedgerError(
            f"budget {budget!r} is of another kind than {ledger.budget!r}, that of {str(ledger.path)!r}; give one of "
            "its kind, so that the parts add up."
        )
    require_free(file, "ledger", argument="path")
    text = f"allotted to {file.name}" if purpose is None else purpose
    detail = {"allotted": file.name}
    ledger.debit(allowance(budget), purpose=text, dataset=None, detail=detail, currency=ledger.currency)
    return Ledger.create(file, budget, unit=ledger.unit, population=ledger.population)
