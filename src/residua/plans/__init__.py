"""Plans: the best noise, decided and proven before any data is seen."""

from residua.plans.algebra import common, residual, top_up
from residua.plans.compare import baselines, compare
from residua.plans.contract import Plan
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.matrix.plan import DensePlan
from residua.plans.objectives import ConvexLoss, MaxVariance, PNormVariance, Stakeholders, TotalVariance
from residua.plans.planners.factorisation import factorisation_norm
from residua.plans.planners.plan import independent, plan

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
