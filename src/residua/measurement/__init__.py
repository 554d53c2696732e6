"""The measuring step: the one door to data, and the ledger that is debited first."""

from residua.measurement.ledger import Entry, Ledger
from residua.measurement.measure import measure

__all__ = ["Entry", "Ledger", "measure"]
