"""residua publishes tables of counts under differential privacy.

Declare a domain, ask a workload, plan the best noise for a budget or for accuracy targets, measure once, publish.

    import residua as rs
"""

from residua.domain import Anonymous, Bins, Categories, Domain, Integers, between
from residua.errors import GapWarning, ResiduaError
from residua.measurement import Ledger, measure
from residua.plans import (
    ConvexLoss,
    MaxVariance,
    Plan,
    PNormVariance,
    Stakeholders,
    TotalVariance,
    baselines,
    common,
    compare,
    factorisation_norm,
    independent,
    plan,
    residual,
    top_up,
)
from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, PureDP, ReplaceOne
from residua.projection import Projected, project
from residua.release import Release, Table
from residua.session import Session
from residua.source import Source
from residua.workload import explicit, hierarchy, marginals, prefixes, product, queries, ranges

__version__ = "0.1.0"

__all__ = [
    "GDP",
    "ZCDP",
    "AddRemove",
    "Anonymous",
    "ApproxDP",
    "Bins",
    "Categories",
    "ConvexLoss",
    "Domain",
    "GapWarning",
    "Integers",
    "Ledger",
    "MaxVariance",
    "PNormVariance",
    "Plan",
    "Projected",
    "PureDP",
    "Release",
    "ReplaceOne",
    "ResiduaError",
    "Session",
    "Source",
    "Stakeholders",
    "Table",
    "TotalVariance",
    "baselines",
    "between",
    "common",
    "compare",
    "explicit",
    "factorisation_norm",
    "hierarchy",
    "independent",
    "marginals",
    "measure",
    "plan",
    "prefixes",
    "product",
    "project",
    "queries",
    "ranges",
    "residual",
    "top_up",
]
