"""Datasets that version 0.1.0 knew by another fingerprint: files are recognised by their bytes."""

from __future__ import annotations

from residua.measurement.ledger import Ledger
from residua.source import Source

_WHY = "the same files, byte for byte; this version of residua computes fingerprints from records"


def recognise(ledger: Ledger, data: Source, fingerprint: str) -> None:
    """Tells a ledger the fingerprint of a dataset that it knows by its earlier one; costs nothing.

    Args:
        ledger: the dataset's ledger.
        data: the dataset, read again only if the ledger does not know it.
        fingerprint: what it is known by now.
    """
    if ledger.knows(fingerprint):
        return
    earlier = data.earlier_fingerprint()
    if earlier is not None and ledger.knows(earlier):
        ledger.accept(fingerprint=fingerprint, why=_WHY)
