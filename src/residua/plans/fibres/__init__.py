"""Plans along one long axis that is crossed with short attributes, with noise of its own for each set of these."""

from residua.plans.fibres.plan import FibrePlan

__all__ = ["FibrePlan"]
