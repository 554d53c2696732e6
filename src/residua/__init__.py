"""residua publishes tables of counts under differential privacy.

Declare a domain, ask a workload, plan the best noise for a budget or for accuracy targets, measure once, publish.

    import residua as rs

Importing does nothing: each name is looked up in its package when it is first used, and so are the libraries behind it.
Where a system has no locks (Windows), it says so.
"""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from residua import showing as _showing

if TYPE_CHECKING:
    from residua import analysis as analysis
    from residua.domain import Anonymous as Anonymous
    from residua.domain import Bins as Bins
    from residua.domain import Categories as Categories
    from residua.domain import CodeList as CodeList
    from residua.domain import Dates as Dates
    from residua.domain import Domain as Domain
    from residua.domain import Integers as Integers
    from residua.domain import between as between
    from residua.errors import GapWarning as GapWarning
    from residua.errors import ResiduaError as ResiduaError
    from residua.estimation import Estimated as Estimated
    from residua.estimation import estimate as estimate
    from residua.estimation import plan_estimates as plan_estimates
    from residua.measurement import Continual as Continual
    from residua.measurement import Ledger as Ledger
    from residua.measurement import RecordsPerPerson as RecordsPerPerson
    from residua.measurement import measure as measure
    from residua.measurement import records_per_person as records_per_person
    from residua.measurement import score as score
    from residua.plans import Axis as Axis
    from residua.plans import Blockwise as Blockwise
    from residua.plans import ConvexLoss as ConvexLoss
    from residua.plans import LargestVariances as LargestVariances
    from residua.plans import Lattice as Lattice
    from residua.plans import Matrix as Matrix
    from residua.plans import MaxVariance as MaxVariance
    from residua.plans import Plan as Plan
    from residua.plans import PNormVariance as PNormVariance
    from residua.plans import Stakeholders as Stakeholders
    from residua.plans import TotalVariance as TotalVariance
    from residua.plans import Tree as Tree
    from residua.plans import by_group as by_group
    from residua.plans import common as common
    from residua.plans import independent as independent
    from residua.plans import plan as plan
    from residua.plans import residual as residual
    from residua.plans import top_up as top_up
    from residua.privacy import GDP as GDP
    from residua.privacy import ZCDP as ZCDP
    from residua.privacy import AddRemove as AddRemove
    from residua.privacy import ApproxDP as ApproxDP
    from residua.privacy import Person as Person
    from residua.privacy import PureDP as PureDP
    from residua.privacy import ReplaceOne as ReplaceOne
    from residua.projection import Projected as Projected
    from residua.projection import for_mbi as for_mbi
    from residua.projection import project as project
    from residua.release import Release as Release
    from residua.release import Table as Table
    from residua.release import pooled as pooled
    from residua.session import Session as Session
    from residua.source import Source as Source
    from residua.workload import explicit as explicit
    from residua.workload import hierarchy as hierarchy
    from residua.workload import marginals as marginals
    from residua.workload import prefixes as prefixes
    from residua.workload import product as product
    from residua.workload import queries as queries
    from residua.workload import ranges as ranges

__version__ = "0.1.0"

_NAMES_OF = {
    "domain": "Anonymous Bins Categories CodeList Dates Domain Integers between",
    "errors": "GapWarning ResiduaError",
    "estimation": "Estimated estimate plan_estimates",
    "measurement": "Continual Ledger RecordsPerPerson measure records_per_person score",
    "plans": "Axis Blockwise ConvexLoss LargestVariances Lattice Matrix MaxVariance"
    " PNormVariance Plan Stakeholders TotalVariance Tree by_group common"
    " independent plan residual top_up",
    "privacy": "GDP ZCDP AddRemove ApproxDP Person PureDP ReplaceOne",
    "projection": "Projected for_mbi project",
    "release": "Release Table pooled",
    "session": "Session",
    "source": "Source",
    "workload": "explicit hierarchy marginals prefixes product queries ranges",
}
_HOME = {name: package for package, names in _NAMES_OF.items() for name in names.split()}
# What plans, releases and tables are shown by: loaded when a report, a picture or a file is first asked for.
_showing.register("report", lambda: import_module("residua.report"))
_showing.register("formats", lambda: import_module("residua.formats"))
_MOVED = dict.fromkeys(("baselines", "compare", "factorisation_norm"), "analysis")  # until 0.2

__all__ = [
    "GDP",
    "ZCDP",
    "AddRemove",
    "Anonymous",
    "ApproxDP",
    "Axis",
    "Bins",
    "Blockwise",
    "Categories",
    "CodeList",
    "Continual",
    "ConvexLoss",
    "Dates",
    "Domain",
    "Estimated",
    "GapWarning",
    "Integers",
    "LargestVariances",
    "Lattice",
    "Ledger",
    "Matrix",
    "MaxVariance",
    "PNormVariance",
    "Person",
    "Plan",
    "Projected",
    "PureDP",
    "RecordsPerPerson",
    "Release",
    "ReplaceOne",
    "ResiduaError",
    "Session",
    "Source",
    "Stakeholders",
    "Table",
    "TotalVariance",
    "Tree",
    "analysis",
    "between",
    "by_group",
    "common",
    "estimate",
    "explicit",
    "for_mbi",
    "hierarchy",
    "independent",
    "marginals",
    "measure",
    "plan",
    "plan_estimates",
    "pooled",
    "prefixes",
    "product",
    "project",
    "queries",
    "ranges",
    "records_per_person",
    "residual",
    "score",
    "top_up",
]


def __getattr__(name: str) -> Any:
    if name == "analysis":
        return import_module("residua.analysis")
    if name in _MOVED:
        warnings.warn(
            f"rs.{name} is now rs.{_MOVED[name]}.{name}; the old name ends with version 0.2.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module(f"residua.{_MOVED[name]}"), name)
    if name not in _HOME:
        raise AttributeError(f"module 'residua' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"residua.{_HOME[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


if find_spec("fcntl") is None:
    warnings.warn(
        "this system has no lock that keeps two processes from spending one budget, so ledgers and sessions do not "
        "work here; planning, and reading releases, do.",
        stacklevel=2,
    )
