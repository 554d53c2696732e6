"""From noisy answers to answers that could be true: projection onto what is known, without touching data."""

from residua.project.accuracy import Bound, SimulatedError
from residua.project.project import project
from residua.project.projected import Projected
from residua.project.synthetic import for_mbi
from residua.project.tables import CountTable, ProjectedAnswers, ProjectedTable

__all__ = [
    "Bound",
    "CountTable",
    "Projected",
    "ProjectedAnswers",
    "ProjectedTable",
    "SimulatedError",
    "for_mbi",
    "project",
]
