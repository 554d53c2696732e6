"""What no mechanism goes below, and how little a strategy of a given error profile needs to cost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError, WorkloadError, named
from residua.linalg.arrays import Floats
from residua.plans.estimator import require_workload
from residua.plans.search.strategies import Judged, rotated, sensitivity, singular_value_bound as bound_of
from residua.plans.solver.closed_form import MarginalGame
from residua.plans.solver.queries import MatrixQueries
from residua.workload import Workload


def factorisation_norm(workload: Workload, *, alpha: float = 0.0, tolerance: float = 1e-3) -> float:
    """`γ_α(F)`: the root mean square error of the best mechanism at privacy cost 1 that is off by at most α per record.

    `γ(F) = √(least total variance at privacy cost 1 / number of queries)` where α is 0; weights are not used. Of
    marginals, α lowers every singular value of F by as much, and γ_α is closed; of one product it is the product of
    those of its attributes.

    Guarantee: never below the true norm, and above it by at most half the tolerance, relative.

    Args:
        workload: what is asked: marginals, one product, or queries of at most some thousand cells.
        alpha: what answers may be off by systematically for one record, as a root mean square over the queries.
        tolerance: how close to the optimal total variance; exact for marginals.

    Raises:
        PlanError: no such alpha, or several products of too many queries together.

    Reference: factorization-and-projection, Definitions 2.2 and 2.5, Theorem 2.3.

    Example:
        >>> import residua as rs
        >>> asked = rs.marginals(rs.Domain.of_sizes({"a": 4}), ways=1)
        >>> factorisation_norm(asked), round(factorisation_norm(asked, alpha=0.25), 6)
        (1.0, 0.5)
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha < math.inf:
        raise PlanError(f"alpha={named(alpha)} is not a number from 0 up; leave it out for answers without bias.")
    if require_workload(workload).plain:
        if not alpha:
            game = MarginalGame(workload.lattice, workload.domain.sizes, workload.numbers)
            return math.sqrt(game.value(workload.cells.copy()) / workload.queries)
        energies, multiplicities = _spectrum(workload)
        return _lowered(np.sqrt(energies), multiplicities, alpha**2 * workload.queries) / math.sqrt(workload.queries)
    from residua.plans.solver.approximate import approximate
    from residua.plans.solver.solve import least_total

    if not alpha and workload.tabular and len(workload) == 1:
        grams = [rows.gram() for _, rows in next(iter(workload.terms()))]
        totals = [least_total(_root(gram), 1.0, tolerance / len(grams)).achieved for gram in grams]
        return math.sqrt(math.prod(totals) / workload.queries)
    try:
        matrix = workload.matrix
    except WorkloadError as problem:
        raise PlanError(
            f"γ of several products together is known of few queries only ({problem}) The total variance of "
            "rs.plan(workload, rs.GDP(mu=1)) over the number of queries is at least γ², and plan.gap says by how much."
        ) from None
    if alpha:
        return approximate(matrix, alpha, tolerance).factorisation_norm
    return math.sqrt(least_total(matrix, 1.0, tolerance).achieved / workload.queries)


def _root(gram: Floats) -> Floats:
    """Rows with this Gram matrix."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * 1e-12
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)


def _lowered(values: Floats, multiplicities: Floats, allowed: float) -> float:
    """`Σ d (s − θ)₊` with the θ at which `Σ d min(s, θ)²` is what is allowed; 0 where all of it is allowed."""
    low, high = 0.0, float(values.max())
    if multiplicities @ values**2 <= allowed:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        within = multiplicities @ np.minimum(values, middle) ** 2 <= allowed
        low, high = (middle, high) if within else (low, middle)
    return float(multiplicities @ np.maximum(values - low, 0.0))


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
    energies, multiplicities = _spectrum(workload)
    return float(multiplicities @ np.sqrt(energies)) ** 2


def _spectrum(workload: Workload) -> tuple[Floats, Floats]:
    """`σ²_S/n` of marginals for every set S of the family, and how often it occurs, (sets,).

    All cells are alike: residual S is an eigenspace of WᵀW of dimension Π_{i∈S} (n_i − 1).
    """
    lattice, sizes = workload.lattice, workload.domain.sizes.astype(np.float64)
    asked = np.zeros(len(lattice))
    asked[workload.numbers] = 1.0
    # σ²_S/n = Σ_{A⊇S} Π_{i∉A} n_i / n.
    energies = lattice.sum_over_supersets(asked * lattice.products(1.0 / sizes), np.ones(len(sizes)))
    return energies, lattice.products(sizes - 1.0)


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
