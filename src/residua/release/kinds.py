"""How a release is made of each kind of plan, registered once: from fresh measurements, and from a saved folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.plans.contract import Blocks, Plan
from residua.plans.kinds import kind_of
from residua.plans.lattice.blocks import ProductBlocks
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.residual_blocks import ResidualBlocks
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.matrix.dense_blocks import compile_dense
from residua.plans.matrix.plan import DensePlan
from residua.plans.matrix.pure_blocks import compile_pure
from residua.plans.matrix.pure_plan import PurePlan
from residua.plans.tables.blocks import compile_pure_marginals
from residua.plans.tables.plan import PureMarginalPlan
from residua.release.base import Release
from residua.release.dense import DenseRelease
from residua.release.product import ProductRelease
from residua.release.pure import PureRelease
from residua.release.pure_marginals import PureMarginalRelease
from residua.release.residual import ResidualRelease

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ReleaseKind:
    """How a release of one kind of plan is made.

    Args:
        make: the release of a plan, its blocks, its measurements and the ledger's receipt.
        blocks: what was measured, from the plan and the arrays that a saved release keeps (`Blocks.arrays`).
    """

    make: Callable[[Any, Any, NDArray[np.int64], Mapping[str, Any]], Release]
    blocks: Callable[[Any, Arrays], Blocks]


def _residual_blocks(plan: ResidualPlan, arrays: Arrays) -> ResidualBlocks:
    measured, grids, scales = arrays["measured"], arrays["grids"], arrays["scales"]
    return ResidualBlocks(plan.lattice, plan.domain.sizes, measured, grids, scales, plan.domain.drops)


def _product_blocks(plan: ProductPlan, arrays: Arrays) -> ProductBlocks:
    measured, grids, scales = arrays["measured"], arrays["grids"], arrays["scales"]
    return ProductBlocks(plan.lattice, plan.domain.sizes, measured, grids, scales, plan.domain.drops, plan.strategies)


def _dense_blocks(plan: DensePlan, arrays: Arrays) -> Blocks:
    return compile_dense(plan)


def _pure_blocks(plan: PurePlan, arrays: Arrays) -> Blocks:
    return compile_pure(plan)


def _pure_marginal_blocks(plan: PureMarginalPlan, arrays: Arrays) -> Blocks:
    return compile_pure_marginals(plan)


_KINDS = {
    "residual": ReleaseKind(ResidualRelease, _residual_blocks),
    "dense": ReleaseKind(DenseRelease, _dense_blocks),
    "product": ReleaseKind(ProductRelease, _product_blocks),
    "pure": ReleaseKind(PureRelease, _pure_blocks),
    "pure marginals": ReleaseKind(PureMarginalRelease, _pure_marginal_blocks),
}


def release_of(plan: Plan, blocks: Blocks, measurements: NDArray[np.int64], receipt: Mapping[str, Any]) -> Release:
    """The release of freshly measured blocks."""
    return _KINDS[kind_of(plan).name].make(plan, blocks, measurements, receipt)


def saved_release(plan: Plan, arrays: Arrays, measurements: NDArray[np.int64], receipt: Mapping[str, Any]) -> Release:
    """The release that a folder holds."""
    return release_of(plan, _KINDS[kind_of(plan).name].blocks(plan, arrays), measurements, receipt)
