"""Plans for products and marginals as dense matrices, on domains small enough for them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.contrasts import contrasts as contrasts
from residua.plans.cells import MOST_COLUMNS, Grouping
from residua.plans.lattice.of_residual import as_product
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.strategy import Strategy

Floats = NDArray[np.float64]


def product_rows(plan: ProductPlan | ResidualPlan) -> tuple[Grouping, Floats]:
    """Rows L with `LᵀL = Γ` over the cells of the attributes that a plan of products measures, (rows, cells).

    For each measured set, `√τ_S · ⊗_{i∈S} H_i ⊗_{i∉S} 1ᵀ` with `H_i = R_i/unit_i`, and for the plain residual an
    orthonormal basis of what sums to 0; of a plan for marginals the rows are orthogonal.

    Raises:
        PlanError: too many cells for a matrix.
    """
    plan = as_product(plan)
    measured = np.flatnonzero(plan.precisions > 0)
    sets = list(plan.lattice)
    members = [sets[number] for number in measured.tolist()]
    attributes = tuple(sorted({i for row in members for i in row}))
    cells = math.prod(int(plan.domain.sizes[i]) for i in attributes)
    if cells > MOST_COLUMNS:
        raise PlanError(
            f"a plan for marginals or products measures {cells:,} cells; it can be combined with other kinds of plans, "
            f"or with plans that measure an attribute by another strategy, over at most {MOST_COLUMNS:,}. Plan one "
            "like the other, with rs.plan(…, like=other): plans that share strategies combine over any number of "
            "cells. Or plan over fewer attributes."
        )
    parts = {i: measured_rows(plan.strategies[i]) for i in attributes}

    def block(row: tuple[int, ...], tau: float) -> Floats:
        found = np.full((1, 1), math.sqrt(tau))
        for i in attributes:
            found = np.kron(found, parts[i] if i in row else np.ones((1, parts[i].shape[1])))
        return found

    blocks = [block(row, tau) for row, tau in zip(members, plan.precisions[measured].tolist(), strict=True)]
    return Grouping(attributes, np.arange(cells)), np.vstack([np.zeros((0, cells)), *blocks])


def measured_rows(strategy: Strategy) -> Floats:
    """Independent rows with the Gram matrix of an attribute's `R/unit`, (rank, values)."""
    return contrasts(strategy.size) if strategy.identity else np.asarray(strategy.matrix / strategy.unit)
