"""The measuring step: the one door to data, and the ledger that is debited first."""

from residua.measure.ledger import Entry, Ledger
from residua.measure.measure import measure

__all__ = ["Entry", "Ledger", "measure"]
