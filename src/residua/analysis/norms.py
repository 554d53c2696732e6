"""What no mechanism goes below, and how little a strategy of a given error profile needs to cost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.estimator import require_workload
from residua.plans.search.strategies import Judged, rotated, sensitivity, singular_value_bound as bound_of
from residua.plans.solver.closed_form import MarginalGame
from residua.plans.solver.queries import MatrixQueries
from residua.workload import Workload


def factorisation_norm(workload: Workload, *, tolerance: float = 1e-3) -> float:
    """`γ(F) = √(least total variance at privacy cost 1 / number of queries)`.

    The root mean square error of the best unbiased mechanism is `γ(F) · √(1/pcost)`; weights are not used.

    Guarantee: never below the true norm, and above it by at most half the tolerance, relative.

    Args:
        workload: what is asked.
        tolerance: how close to the optimal total variance; exact for marginals.

    Reference: factorization-and-projection, Definition 2.2 and Theorem 2.3.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 4})
        >>> factorisation_norm(rs.marginals(domain, ways=1))
        1.0
    """
    if require_workload(workload).plain:
        game = MarginalGame(workload.lattice, workload.domain.sizes, workload.numbers)
        return math.sqrt(game.value(workload.cells.copy()) / workload.queries)
    from residua.plans.solver.solve import least_total

    return math.sqrt(least_total(workload.matrix, 1.0, tolerance).achieved / workload.queries)


def singular_value_bound(workload: Workload) -> float:
    """`(Σ σ)²/n`, σ the singular values of the queries on n cells: the total variance of no mechanism is below it.

    At privacy cost 1; weights are not used. With Laplace noise of epsilon 1 it is twice that. For marginals it is the
    least total variance itself.

    Args:
        workload: what is asked; marginals of any number of attributes, else over at most some thousand cells.

    Reference: residual-planner, §5.3 and appendix I ("SVDB"); matrix-mechanism, Theorem 7.

    Example:
        >>> import residua as rs, numpy as np
        >>> domain = rs.Domain.of_sizes({"x": 8})
        >>> queries = rs.explicit(domain, np.tril(np.ones((8, 8))))
        >>> round(singular_value_bound(queries), 2), round(8 * factorisation_norm(queries) ** 2, 2)
        (16.55, 17.87)
    """
    if not require_workload(workload).plain:
        return bound_of(Judged(MatrixQueries(np.asarray(workload.matrix.toarray())), False))
    # All cells are alike: residual S is an eigenspace of WᵀW of dimension Π_{i∈S} (n_i − 1).
    lattice, sizes = workload.lattice, workload.domain.sizes.astype(np.float64)
    asked = np.zeros(len(lattice))
    asked[workload.numbers] = 1.0
    # σ²_S/n = Σ_{A⊇S} Π_{i∉A} n_i / n.
    share = asked * lattice.products(1.0 / sizes)
    energies = lattice.sum_over_supersets(share, np.ones(len(sizes)))
    return float(lattice.products(sizes - 1.0) @ np.sqrt(energies)) ** 2


def least_sensitivity(profile: ArrayLike) -> Floats:
    """A strategy with this error profile `(AᵀA)⁻¹` and the least largest column sum found, (n, n).

    What it costs under pure DP is that sum; the error profile fixes everything else. The problem is not convex: many
    rotations are descended from, and nothing is proven of the one that is best.

    Args:
        profile: a symmetric positive definite matrix, (n, n), such as `plan.error_profile`.

    Reference: matrix-mechanism, Problem 2, Program 5.3 and Example 7.

    Example:
        >>> import numpy as np
        >>> haar = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]])
        >>> strategy = least_sensitivity(np.linalg.inv(haar.T @ haar))
        >>> bool(np.abs(strategy).sum(axis=0).max() <= 2.21)
        True
    """
    M = np.asarray(profile, dtype=np.float64)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not np.isfinite(M).all() or not np.allclose(M, M.T, rtol=1e-9):
        raise PlanError("profile must be a symmetric matrix, such as plan.error_profile.")
    try:
        root = np.linalg.inv(np.linalg.cholesky(M))
    except np.linalg.LinAlgError:
        raise PlanError("profile must be positive definite: every cell must be measured.") from None
    first = rotated(root, rounds=300, starts=8)
    best = min((_turned(first, seed) for seed in range(_STARTS)), key=sensitivity, default=first)
    return best if sensitivity(best) < sensitivity(first) else first


_STARTS, _SMALL = 8, 16


def _turned(strategy: Floats, seed: int) -> Floats:
    """A random rotation of the rows, descended from; the strategy itself on many cells."""
    if len(strategy) > _SMALL:
        return strategy
    turn, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(strategy), len(strategy))))
    return rotated(turn @ strategy, rounds=300, starts=1)
