"""The measuring step: the one door to data, and the ledger that is debited first."""

from residua.measurement.allotting import allot
from residua.measurement.continual import Continual
from residua.measurement.discover import Discovery, discover
from residua.measurement.ledger import Entry, Ledger
from residua.measurement.measure import measure
from residua.measurement.persons import RecordsPerPerson, records_per_person
from residua.measurement.score import Scores, score
from residua.measurement.survey import measure_survey

__all__ = [
    "Continual",
    "Discovery",
    "Entry",
    "Ledger",
    "RecordsPerPerson",
    "Scores",
    "allot",
    "discover",
    "measure",
    "measure_survey",
    "records_per_person",
    "score",
]
