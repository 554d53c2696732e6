"""From noisy answers to answers that could be true: projection onto what is known, without touching data."""

from residua.projection.accuracy import Bound, SimulatedError
from residua.projection.project import Projected, project
from residua.projection.synthetic import for_mbi
from residua.projection.tables import CountTable, ProjectedTable

__all__ = [
    "Bound",
    "CountTable",
    "Projected",
    "ProjectedTable",
    "SimulatedError",
    "for_mbi",
    "project",
]
