"""Plans: the best noise, decided and proven before any data is seen."""

from residua.plans.algebra import common, residual, top_up
from residua.plans.base import Plan
from residua.plans.compare import baselines, compare
from residua.plans.dense.plan import DensePlan
from residua.plans.factorisation import factorisation_norm
from residua.plans.objectives import ConvexLoss, MaxVariance, PNormVariance, Stakeholders, TotalVariance
from residua.plans.planner import independent, plan
from residua.plans.product.plan import ProductPlan
from residua.plans.residual.plan import ResidualPlan

__all__ = [
    "ConvexLoss",
    "DensePlan",
    "MaxVariance",
    "PNormVariance",
    "Plan",
    "ProductPlan",
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
