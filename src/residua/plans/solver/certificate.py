"""The proof that comes with a plan, and a check of it that trusts nothing but the workload.

For any weights p on queries and y on cells, both ≥ 0, `(Σ singular values of diag(√p) W diag(√y))²` divided by
`Σp·Σy` is a lower bound on `max_i Γ_ii · max_j v_j/c_j` for every mechanism Γ (rows of W divided by √c_j); divided by
`Σy` alone it bounds `max_i Γ_ii · Σ_j p_j v_j`. The check recomputes it by singular values of the matrix itself, and
the upper bound by a QR decomposition of the strategy: neither the solver's Gram matrices nor its eigenvectors are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, keep_fixed
from residua.machine import linalg
from residua.plans.solver.queries import MatrixQueries, Queries, ScaledQueries, row_blocks, to_matrix, triangle

_UNSUPPORTED = 1e-7  # share of a query's norm outside the row space of the strategy that is still rounding, or
_BIAS = 1e-9  # share of its largest coefficient: where cells differ in cost by many decades, only this is visible


@dataclass(frozen=True, eq=False)
class Certificate:
    """Weights that prove a lower bound.

    Args:
        query_weights: p, one for each query, (m,).
        cell_weights: y, one for each cell, (cells,).
        scale: what the rows of W are multiplied by first, (m,): 1/√targets, or all 1 for a total.
        total: whether the bound is on the weighted total variance (p are its weights) instead of the largest ratio.
        bound: the lower bound proven, on `max diag Γ` times the loss.
    """

    query_weights: Floats
    cell_weights: Floats
    scale: Floats
    total: bool
    bound: float

    def __post_init__(self) -> None:
        keep_fixed(self, "query_weights", "cell_weights", "scale", dtype=np.float64)


def examine(workload: Any, strategy: Floats, certificate: Certificate) -> tuple[float, float, Floats]:
    """Recomputes both bounds on `max diag Γ` times the loss, from scratch.

    Guarantee: no mechanism has a product below the first number; the mechanism `strategy` has the second times its
    loss, the largest of the variances or their sum by the certificate's weights.

    Args:
        workload: the original matrix (NumPy or SciPy sparse) or structured queries, (m, cells).
        strategy: S, (r, cells), measured with noise N(0, I).
        certificate: what is to be checked.

    Returns:
        The lower bound, the largest cost of a cell, and the variance of each scaled query, (m,).

    Raises:
        PlanError: a negative weight, or a query that the strategy cannot answer.
    """
    p, y = certificate.query_weights, certificate.cell_weights
    if not (
        np.isfinite(p).all() and np.isfinite(y).all() and (p >= 0).all() and (y >= 0).all() and p.any() and y.any()
    ):
        raise PlanError("the weights of a certificate must be finite, not negative, and not all zero.")
    raw = workload if isinstance(workload, Queries) else MatrixQueries(to_matrix(workload))
    queries = ScaledQueries(raw, certificate.scale)
    f = _nuclear_norm(queries, p, y)
    lower = f * f / float(y.sum()) / (1.0 if certificate.total else float(p.sum()))
    return lower, float((strategy**2).sum(axis=0).max()), strategy_variances(queries, strategy)


def strategy_variances(queries: Queries, strategy: Floats) -> Floats:
    """Variance of each query answered from `strategy` by least squares, (m,).

    Raises:
        PlanError: a query that is not in the row space of the strategy.
    """
    costs = np.sqrt(np.einsum("ij,ij->j", strategy, strategy))
    asked = np.flatnonzero(costs)
    unasked = np.flatnonzero(costs == 0)
    norms = costs[asked]
    even = strategy[:, asked] / norms  # columns of one size, so that badly scaled cells lose no digits
    Q, R = linalg.qr(even.T, mode="economic", check_finite=False)
    if np.abs(np.diagonal(R)).min() <= 1e-14 * np.abs(np.diagonal(R)).max():
        raise PlanError("the strategy measures the same thing twice; give one with independent rows.")
    variances = np.empty(queries.shape[0])
    for start, stop in row_blocks(queries):
        rows = queries.block(start, stop)
        inside = rows[:, asked] / norms
        coordinates = inside @ Q
        outside = inside - coordinates @ Q.T
        lost, size = (np.einsum("ij,ij->i", part, part) for part in (outside, inside))
        costly = np.flatnonzero(lost > _UNSUPPORTED**2 * size)
        visible = np.abs(outside[costly] * norms).max(axis=1) > _BIAS * np.abs(rows[costly]).max(axis=1)
        if rows[:, unasked].any() or visible.any():
            raise PlanError("a query is not in the row space of the strategy and cannot be answered without bias.")
        answers = linalg.solve_triangular(R, coordinates.T, check_finite=False)
        variances[start:stop] = np.einsum("ij,ij->j", answers, answers)
    return variances


def _nuclear_norm(queries: Queries, p: Floats, y: Floats) -> float:
    used = np.flatnonzero(y)
    m, _ = queries.shape
    if m > 2 * len(used):
        A = triangle(queries, p)[:, used] * np.sqrt(y[used])
    else:
        A = np.sqrt(p)[:, None] * queries.block(0, m)[:, used] * np.sqrt(y[used])
    return float(linalg.svdvals(A, check_finite=False).sum())
