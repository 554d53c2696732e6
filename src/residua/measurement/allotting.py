"""`rs.allot`: a part of a budget in a ledger of its own, for a team, a department or a year."""

from __future__ import annotations

import os
from pathlib import Path

from residua.errors import LedgerError, named
from residua.folders import require_free
from residua.measurement.ledger import Ledger
from residua.measurement.ledger_entries import allowance, exact_delta
from residua.measurement.witness import Witness
from residua.privacy import Guarantee


def allot(
    ledger: Ledger,
    path: str | os.PathLike[str],
    budget: Guarantee,
    *,
    purpose: str | None = None,
    discovery_delta: float | None = None,
    witness: str | os.PathLike[str] | None = None,
) -> Ledger:
    """Moves a part of a budget into a new ledger; what that spends is spent in the whole already.

    The new ledger has the same people and unit; a person is who has the columns that the whole knows persons by, once
    it does. What it leaves unspent is not given back. The debit comes first: whoever is interrupted between has spent
    the part, and has no ledger for it. A part that was set back to a copy would be spent twice, so where the whole has
    a witness, the part has one too, of its own.

    Args:
        ledger: the ledger that has the whole budget.
        path: the file of the new one.
        budget: its whole budget, of the kind of the other's.
        purpose: whom it is for, in words that may be public.
        discovery_delta: how much of the whole's delta for discovering values the part may spend.
        witness: as for `Ledger`; beside the whole's, `NAME.witness`, if left out.

    Raises:
        LedgerError: another kind of budget, or more than is left; nothing was spent.
        FileError: something is there already (the witness, too), or nothing can be written there; nothing was spent.

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
    place = Path(path).absolute()
    # A Laplace debit is dearer under GDP than under ZCDP: parts of another kind would not add up.
    if type(budget) is not type(ledger.budget):
        raise LedgerError(
            f"budget {named(budget)} is of another kind than {ledger.budget!r}, that of the ledger; give one of "
            "its kind, so that the parts add up."
        )
    require_free(place, "ledger", argument="path")
    beside = None if witness is None else os.fspath(witness)
    if beside is None and ledger.witness is not None:
        beside = str(ledger.witness.with_name(f"{place.name}.witness"))
    if beside is not None:
        second = Witness.beside(place, beside)
        second.require_new(place)
        # One of another ledger would no longer be that one's: seen before anything is spent.
        require_free(second.path, "witness", argument="witness", taken="is there already; name another file.")
    text = f"allotted to {place.name}" if purpose is None else purpose
    detail = {"allotted": place.name}
    delta = exact_delta(discovery_delta) or 0
    ledger.debit(allowance(budget), purpose=text, dataset=None, detail=detail, currency=ledger.currency, delta=delta)
    kept = {"unit": ledger.unit, "population": ledger.population, "whose": ledger.whose}
    return Ledger.create(place, budget, **kept, discovery_delta=discovery_delta, witness=beside)
