"""Beside the pipeline: what people use today, how far it is from the best, and the norm of a workload."""

from residua.plans.matrix.algebra import derivation
from residua.plans.planners.compare import Comparison, baselines, compare
from residua.plans.planners.factorisation import factorisation_norm

__all__ = ["Comparison", "baselines", "compare", "derivation", "factorisation_norm"]
