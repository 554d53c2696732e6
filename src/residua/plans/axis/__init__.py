"""Plans along one long ordered axis: values, prefixes and ranges, with noise correlated along it."""

from residua.plans.axis.plan import AxisPlan
from residua.plans.axis.strategy import Ordered

__all__ = ["AxisPlan", "Ordered"]
