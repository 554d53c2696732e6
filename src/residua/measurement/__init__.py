"""The measuring step: the one door to data, and the ledger that is debited first."""

from residua.measurement.allotting import allot as allot
from residua.measurement.continual import Continual as Continual
from residua.measurement.discover import Discovery as Discovery, discover as discover
from residua.measurement.ledger import Entry as Entry, Ledger as Ledger
from residua.measurement.measure import measure as measure
from residua.measurement.persons import RecordsPerPerson as RecordsPerPerson, records_per_person as records_per_person
from residua.measurement.score import Scores as Scores, score as score
from residua.measurement.survey import measure_survey as measure_survey
