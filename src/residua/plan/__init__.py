"""Plans: the best noise, decided and proven before any data is seen."""

from residua.plan.algebra import common, residual, top_up
from residua.plan.base import Plan
from residua.plan.compare import baselines, compare
from residua.plan.dense.plan import DensePlan
from residua.plan.factorisation import factorisation_norm
from residua.plan.objectives import ConvexLoss, MaxVariance, PNormVariance, Stakeholders, TotalVariance
from residua.plan.planner import independent, plan
from residua.plan.residual.plan import ResidualPlan

__all__ = [
    "ConvexLoss",
    "DensePlan",
    "MaxVariance",
    "PNormVariance",
    "Plan",
    "ResidualPlan",
    "Stakeholders",
    "TotalVariance",
    "baselines",
    "common",
    "compare",
    "factorisation_norm",
    "independent",
    "plan",
    "residual",
    "top_up",
]
