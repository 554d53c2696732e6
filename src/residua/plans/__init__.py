"""Plans: the best noise, decided and proven before any data is seen."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from residua.plans.algebra import common as common, residual as residual, top_up as top_up
from residua.plans.blockwise.plan import BlockwisePlan as BlockwisePlan
from residua.plans.clips import clips as clips
from residua.plans.contract import Plan as Plan
from residua.plans.matrix import algebra as _over_cells, laplace as _by_rows  # noqa: F401  # make themselves known
from residua.plans.matrix.plan import MatrixPlan as MatrixPlan
from residua.plans.objectives import (
    ConvexLoss as ConvexLoss,
    LargestVariances as LargestVariances,
    MaxVariance as MaxVariance,
    PNormVariance as PNormVariance,
    Stakeholders as Stakeholders,
    TotalVariance as TotalVariance,
)
from residua.plans.product import algebra as _by_operators  # noqa: F401  # makes itself known
from residua.plans.product.plan import ProductPlan as ProductPlan
from residua.plans.strata.making import by_group as by_group
from residua.plans.strata.plan import StrataPlan as StrataPlan

if TYPE_CHECKING:
    from residua.plans.planners.axis import Axis as Axis
    from residua.plans.planners.blockwise import Blockwise as Blockwise
    from residua.plans.planners.lattice import Lattice as Lattice
    from residua.plans.planners.matrix import Matrix as Matrix
    from residua.plans.planners.plan import independent as independent, plan as plan
    from residua.plans.planners.tree import Tree as Tree

_PLANNERS = {"Axis": "axis", "Blockwise": "blockwise", "Lattice": "lattice", "Matrix": "matrix", "Tree": "tree",
             "independent": "plan", "plan": "plan"}  # name → its module: loaded when asked for  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PLANNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"residua.plans.planners.{_PLANNERS[name]}"), name)
