"""The measuring step: the one door to data, and the ledger that is debited first."""

from residua.measurement.continual import Continual
from residua.measurement.ledger import Entry, Ledger
from residua.measurement.measure import measure
from residua.measurement.persons import RecordsPerPerson, records_per_person

__all__ = ["Continual", "Entry", "Ledger", "RecordsPerPerson", "measure", "records_per_person"]
