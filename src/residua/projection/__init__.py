"""From noisy answers to answers that agree and meet what is known: projection, without touching data."""

from residua.projection.accuracy import Bound, SimulatedError
from residua.projection.project import Projected, project
from residua.projection.realisable import Realisable
from residua.projection.synthetic import for_mbi

__all__ = ["Bound", "Projected", "Realisable", "SimulatedError", "for_mbi", "project"]
