"""From noisy answers to tables of any attributes that borrow strength from each other, without touching data."""

from residua.estimation.estimate import Estimated, EstimatedTable, estimate
from residua.estimation.planning import plan_estimates
from residua.estimation.rows import SyntheticRows
from residua.estimation.tables import TableAccuracy

__all__ = ["Estimated", "EstimatedTable", "SyntheticRows", "TableAccuracy", "estimate", "plan_estimates"]
