"""Strategies to compare with, each scaled to privacy cost 1, and the two figures they are compared by.

Reference: fitness-for-use, §7 (Gaussian, hierarchical, optimal total error); matrix-mechanism, §5.2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.solver.certificate import strategy_variances
from residua.plans.solver.problem import positive, to_matrix
from residua.plans.solver.queries import MatrixQueries
from residua.plans.solver.solve import least_total

BRANCHINGS = range(2, 17)


@dataclass(frozen=True, eq=False)
class Baseline:
    """A mechanism at privacy cost 1: measure `strategy x + N(0, I)` and answer by least squares, or row by row.

    Args:
        name: what it is.
        strategy: S, (rows, cells), with max diag Sᵀ S = 1.
        variances: variance of each query of the workload it is compared on, (m,).
    """

    name: str
    strategy: Floats
    variances: Floats

    def max_ratio(self, targets: Any, pcost: float = 1.0) -> float:
        """Largest variance over target when `pcost` is spent."""
        return float((self.variances / positive(targets, len(self.variances), "the target")).max() / pcost)

    def rmse(self, pcost: float = 1.0) -> float:
        """Root mean square error over the queries when `pcost` is spent."""
        return float(np.sqrt(self.variances.mean() / pcost))

    def pcost(self, targets: Any) -> float:
        """Privacy cost at which every query meets its target."""
        return self.max_ratio(targets)


def gaussian(workload: Any) -> Baseline:
    """Independent noise of one size on every query, each answered as it is measured (the Gaussian mechanism)."""
    W = to_matrix(workload)
    cost = float((W**2).sum(axis=0).max())
    variances = np.where(W.any(axis=1), cost, 0.0)
    return Baseline("gaussian", W / np.sqrt(cost), variances)


def gaussian_least_squares(workload: Any) -> Baseline:
    """The same noise, but queries are then estimated from all measurements together."""
    W = to_matrix(workload)
    return _baseline("gaussian, least squares", W, W)


def identity(workload: Any) -> Baseline:
    """Noise on every cell."""
    W = to_matrix(workload)
    return _baseline("identity", W, np.eye(W.shape[1]))


def hierarchical(workload: Any, targets: Any = None, weighted: bool = False) -> Baseline:
    """A tree over the cells in their order, with the branching from 2 to 16 that serves this workload best.

    Args:
        workload: (m, cells).
        targets: judge a tree by its largest ratio to these; without them, by its total variance.
        weighted: let each level have a weight of its own, found by coordinate search, instead of all the same.
    """
    W = to_matrix(workload)
    c = None if targets is None else positive(targets, len(W), "the target")

    def loss(S: Floats) -> float:
        v = strategy_variances(MatrixQueries(W), _compact(_unit(S)))
        return float(v.sum() if c is None else (v / c).max())

    best: tuple[float, int, Floats] | None = None
    for branching in BRANCHINGS:
        levels = _tree(W.shape[1], branching)
        weights = _search(levels, loss) if weighted else np.ones(len(levels))
        S = np.vstack([w * level for w, level in zip(weights, levels, strict=True)])
        if best is None or loss(S) < best[0] * (1.0 - 1e-12):
            best = loss(S), branching, S
        if branching >= W.shape[1]:
            break
    if best is None:
        raise PlanError("there is no branching to try; the workload has no cells.")
    return _baseline(f"{'weighted ' if weighted else ''}hierarchical, branching {best[1]}", W, best[2])


def least_total_error(workload: Any, tolerance: float = 1e-3) -> Baseline:
    """The optimal matrix mechanism: least total variance over all queries."""
    W = to_matrix(workload)
    found = least_total(W, 1.0, tolerance)
    S = np.append(found.strategy, np.zeros((len(found.strategy), 1)), axis=1)[:, found.columns]
    return Baseline("least total error", S, found.variances)


def _tree(cells: int, branching: int) -> list[Floats]:
    """Levels of the tree from the leaves up, each a 0/1 matrix of disjoint ranges that cover all cells."""
    levels, width = [np.eye(cells)], branching
    while len(levels[-1]) > 1:
        group = np.arange(cells) // width
        levels.append((np.arange(group[-1] + 1)[:, None] == group).astype(np.float64))
        width *= branching
    return levels


def _search(levels: list[Floats], loss: Callable[[Floats], float]) -> Floats:
    """Level weights by coordinate search over ever smaller factors."""

    def at(weights: Floats) -> float:
        return loss(np.vstack([w * level for w, level in zip(weights, levels, strict=True)]))

    weights = np.ones(len(levels))
    best = at(weights)
    for factor in (2.0, 1.3, 1.1):
        for _ in range(3):
            before = best
            for k in range(len(levels)):
                for step in (factor, 1.0 / factor):
                    trial = weights.copy()
                    trial[k] *= step
                    if (value := at(trial)) < best:
                        weights, best = trial, value
            if best > before * (1.0 - 1e-3):
                break
    return weights


def _baseline(name: str, W: Floats, S: Floats) -> Baseline:
    S = _unit(S)
    return Baseline(name, S, strategy_variances(MatrixQueries(W), _compact(S)))


def _unit(S: Floats) -> Floats:
    return np.asarray(S / np.sqrt((S**2).sum(axis=0).max()))


def _compact(S: Floats) -> Floats:
    """A strategy with the same Γ and independent rows, (rank, cells)."""
    norms = np.maximum(linalg.norm(S, axis=0), 1e-300)
    _, s, Vt = linalg.svd(S / norms, full_matrices=False, check_finite=False)
    rank = int((s > 1e-10 * s[0]).sum())
    return np.asarray((s[:rank, None] * Vt[:rank]) * norms)
