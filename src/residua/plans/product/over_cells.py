"""A product plan as a matrix over cells, to be combined with plans of any kind on small domains."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.cells import MOST_COLUMNS, Grouping


def rows_over_cells(plan: Any) -> tuple[Grouping, Floats]:
    """For each measured set, `√τ_T · ⊗_{i∈T} H_i ⊗_{i∉T} 1ᵀ ⊗ L_T` with `H_i = R_i/unit_i`, `L_TᵀL_T = A_T`.

    For the plain residual H is an orthonormal basis of what sums to 0: a plan for marginals has orthogonal rows.

    Raises:
        PlanError: too many cells for a matrix.
    """
    measured = np.flatnonzero(plan.precisions > 0)
    roots = np.sqrt(plan.precisions[measured]).tolist()
    sets = {plan.lattice.members(number): root for number, root in zip(measured.tolist(), roots, strict=True)}
    along = (plan.attribute,) if plan.attribute >= 0 else ()
    attributes = tuple(sorted({*along, *(i for members in sets for i in members)}))
    cells = math.prod(int(plan.domain.sizes[i]) for i in attributes)
    if cells > MOST_COLUMNS:
        raise PlanError(
            f"a plan that measures {cells:,} cells is too large for a matrix: it can be combined with other kinds of "
            "plans, or with plans that measure an attribute by another strategy, over at most "
            f"{MOST_COLUMNS:,}. Plan one like the other, with form=rs.Lattice(like=other) or form=rs.Tree(like=other): "
            "plans that share strategies combine over any number of cells. (Beside a plan of queries that tie "
            "attributes together, like that one.) Or plan over fewer attributes, or measure it by itself."
        )
    rows = [np.zeros((0, cells))]
    for members, root in sets.items():
        each = [
            plan.strategies[i].root if i in members else np.ones((1, int(plan.domain.sizes[i]))) for i in attributes
        ]
        if along:  # an operator has its own precision
            each[attributes.index(plan.attribute)] = plan.parts[members].root()
        rows.append(np.asarray(reduce(np.kron, each, np.full((1, 1), 1.0 if along else root))))
    return Grouping(attributes, np.arange(cells)), np.vstack(rows)
