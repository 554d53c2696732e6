"""Approximate factorisation: a little bias, of known size, for less noise.

Definition 2.5 allows `RM = F + E` with every column of E of norm at most `β = α√k`. The best is found by `bias`, first
by a fast alternation and, where that stalls (directions of F vanish altogether), by a splitting method; both prove
their own quality. Small workloads are solved to the tolerance; large ones may stop earlier, and say how far they got.

Reference: factorization-and-projection, Definition 2.5 and Theorem 2.6.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats
from residua.plans.solver.dense_bias import least_noise
from residua.plans.solver.problem import Problem, prepare, to_matrix
from residua.plans.solver.queries import MatrixQueries
from residua.plans.solver.solve import least_total


@dataclass(frozen=True, eq=False)
class ApproximateFactorisation:
    """A biased mechanism at privacy cost 1: measure `strategy x + N(0, I)`, multiply by `recovery`.

    Guarantee: the answer to query j has variance `variances[j]`, and its bias on a table of n records is at most n
    times the largest entry of row j of `error` in absolute value; its root mean square over all queries is at most
    `n · bias`.

    Args:
        strategy: M, (r, cells), columns of norm at most 1.
        recovery: R, (m, r).
        error: E = RM − F, (m, cells).
        variances: variance of every query, (m,).
        bias: `‖E‖_{1→2}/√k`, at most the α asked for.
        achieved: total variance, `k · γ²` of this factorisation.
        bound: the least total variance of any factorisation with bias at most α.
        iterations: rounds taken.
    """

    strategy: Floats
    recovery: Floats
    error: Floats
    variances: Floats
    bias: float
    achieved: float
    bound: float
    iterations: int

    @property
    def gap(self) -> float:
        """How far from optimal the total variance can at most be, relative to the optimum."""
        return max(self.achieved / self.bound - 1.0, 0.0) if self.bound > 0 else (np.inf if self.achieved else 0.0)

    @property
    def factorisation_norm(self) -> float:
        """`‖R‖_F ‖M‖_{1→2} / √k`, an upper bound on γ_α and, within the gap, equal to it."""
        return float(np.sqrt(self.achieved / len(self.variances)))


def approximate(workload: Any, alpha: float, tolerance: float = 1e-3, limit: int = 5000) -> ApproximateFactorisation:
    """The best factorisation `RM = F + E` with `‖E‖_{1→2} ≤ α√k`.

    Guarantee: `bias` is at most α, and no factorisation with bias at most α has a total variance below `bound`.

    Args:
        workload: F, a matrix (NumPy or SciPy sparse), (k, cells).
        alpha: the bias allowed, ≥ 0, as a root mean square over queries for one record; 0 gives `least_total`.
        tolerance: the gap at which to stop.
        limit: most rounds.

    Example:
        >>> import numpy as np
        >>> F = np.ones((3, 4)) + 0.01 * np.eye(3, 4)
        >>> approximate(F, 0.02).factorisation_norm < 1.0 < approximate(F, 0.0).factorisation_norm
        True
    """
    if not (np.isfinite(alpha) and alpha >= 0):
        raise PlanError(f"the bias allowed is {alpha}; it must be finite and not negative.")
    F = to_matrix(workload)
    problem = prepare(F, np.ones(len(F)))
    if alpha == 0:
        return _exact(F, tolerance)
    assert isinstance(problem.queries, MatrixQueries)
    beta = alpha * np.sqrt(len(F))
    Q, core = linalg.qr(problem.queries.matrix, mode="economic")  # E outside the column space only adds to its norm
    norms = np.linalg.norm(core, axis=0)
    if (norms <= beta).all():  # answering 0 is accurate enough
        return _assemble(F, problem, np.zeros((len(Q), 1)), np.zeros((1, core.shape[1])), 0.0, 0)
    beta -= 1e-14 * len(core) * float(norms.max())  # so that rounding cannot lift the bias above alpha
    if beta <= 0:
        return _exact(F, tolerance)
    found = least_noise(np.asarray(core, dtype=np.float64), beta, tolerance, limit)
    if found.gap > tolerance:
        warnings.warn(
            f"the approximate factorisation is proven within {found.gap:.2e} of optimal, not {tolerance:.2e}; "
            "its bias and variance hold as stated.",
            GapWarning,
            stacklevel=2,
        )
    return _assemble(F, problem, Q @ found.left, found.right, float(found.dual), found.rounds)


def _assemble(
    F: Floats, problem: Problem, recovery: Floats, strategy: Floats, bound: float, rounds: int
) -> ApproximateFactorisation:
    """In the original coordinates; bias and variances are recomputed from the two factors."""
    R = np.zeros((len(F), recovery.shape[1]))
    R[problem.rows] = recovery
    M = problem.on_cells(strategy)
    E = R @ M - F
    cost = float((M**2).sum(axis=0).max())
    variances = (R**2).sum(axis=1) * cost
    M = M / np.sqrt(cost) if cost else M
    R = R * np.sqrt(cost) if cost else R
    bias = float(linalg.norm(E, axis=0).max() / np.sqrt(len(F)))
    return ApproximateFactorisation(M, R, E, variances, bias, float(variances.sum()), bound, rounds)


def _exact(F: Floats, tolerance: float) -> ApproximateFactorisation:
    found = least_total(F, 1.0, tolerance)
    M = np.append(found.strategy, np.zeros((len(found.strategy), 1)), axis=1)[:, found.columns]
    first = np.zeros((len(found.recovery), F.shape[1]))
    distinct, where = np.unique(found.columns, return_index=True)
    first[distinct[distinct >= 0], where[distinct >= 0]] = 1.0
    R = F @ first.T @ found.recovery
    E = R @ M - F
    bias = float(linalg.norm(E, axis=0).max() / np.sqrt(len(F)))
    return ApproximateFactorisation(M, R, E, found.variances, bias, found.achieved, found.bound, found.iterations)
