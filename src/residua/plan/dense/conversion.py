"""Residual plans as dense matrices, on domains small enough for them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.plan.dense.cells import MOST_COLUMNS, Grouping
from residua.plan.residual.plan import ResidualPlan

Floats = NDArray[np.float64]


def residual_rows(plan: ResidualPlan) -> tuple[Grouping, Floats]:
    """Orthogonal rows L with `LᵀL = Γ` over the cells of the attributes that a residual plan measures, (rank, cells).

    For each measured set, `√τ_S · ⊗_{i∈S} H_i ⊗_{i∉S} 1ᵀ` with H_i an orthonormal basis of what sums to 0.

    Raises:
        PlanError: too many cells for a matrix.
    """
    measured = np.flatnonzero(plan.precisions > 0)
    sets = list(plan.lattice)
    members = [sets[number] for number in measured.tolist()]
    attributes = tuple(sorted({i for row in members for i in row}))
    sizes = [int(plan.domain.sizes[i]) for i in attributes]
    cells = math.prod(sizes)
    if cells > MOST_COLUMNS:
        raise PlanError(
            f"the plan for marginals measures {cells:,} cells; it can be combined with other kinds of plans over at "
            f"most {MOST_COLUMNS:,}. Combine it with plans for marginals, or plan over fewer attributes."
        )
    parts = [np.vstack([np.ones((1, n)), contrasts(n)]) for n in sizes]

    def block(row: tuple[int, ...], tau: float) -> Floats:
        found = np.full((1, 1), math.sqrt(tau))
        for i, part in zip(attributes, parts, strict=True):
            found = np.kron(found, part[1:] if i in row else part[:1])
        return found

    blocks = [block(row, tau) for row, tau in zip(members, plan.precisions[measured].tolist(), strict=True)]
    return Grouping(attributes, np.arange(cells)), np.vstack([np.zeros((0, cells)), *blocks])


def contrasts(n: int) -> Floats:
    """Orthonormal rows that sum to 0 (Helmert's), (n − 1, n)."""
    rows = np.tril(np.ones((n, n)), -1)[1:]
    k = np.arange(1, n)
    rows[np.arange(n - 1), k] = -k
    return np.asarray(rows / np.sqrt(k * (k + 1.0))[:, None])
