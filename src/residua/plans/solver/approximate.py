"""Approximate factorisation: a little bias, of known size, for less noise.

Definition 2.5 allows `RM = F + E` with every column of E of norm at most `β = α√k`. The best is found first
by a fast alternation and, where that stalls (directions of F vanish altogether), by a splitting method; both prove
their own quality. Small workloads are solved to the tolerance; large ones may stop earlier, and say how far they got.

Reference: factorization-and-projection, Definition 2.5 and Theorem 2.6.

The least noise for a workload each of whose columns may be moved by at most β.

With Σ = RRᵀ the problem is convex and falls apart by columns: `min_{tr Σ = 1} max_i h_i(Σ)`, where
`h_i(Σ) = min_{|e| ≤ β} (F_i + e)' Σ⁻¹ (F_i + e)` is a trust-region problem, `F_i + e = λ Σ (I + λ Σ)⁻¹ F_i` with λ ≥ 0
from one secular equation. Any Σ thus gives an upper bound. For every Z of spectral norm ≤ 1,
`Σ_i (⟨Z_i, F_i⟩ − β|Z_i|)₊²` is a lower bound. Two methods find good Σ and Z:

- alternation: Σ ∝ ((F+E) diag(y) (F+E)')^½, then E by columns, then cell weights y as in `fixed_point`; Z is
  Σ⁻¹(F+E)diag(√y). Fast, but a direction once lost returns too slowly.
- splitting (ADMM) of the semidefinite form `min ½ tr S + ½ max diag X, [[S, N], [N', X]] ⪰ 0, |N_i − F_i| ≤ β`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats
from residua.machine import linalg
from residua.plans.saddle import Answer, Solution, ascend, simplices
from residua.plans.solver.queries import MatrixQueries, Problem, prepare, to_matrix
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
        return float(
            max(self.achieved / self.bound - 1.0, 0.0) if self.bound > 0 else (np.inf if self.achieved else 0.0)
        )

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
    assert isinstance(problem.queries, MatrixQueries)
    W, beta = problem.queries.matrix, alpha * np.sqrt(len(F))
    Q, core = linalg.qr(W, mode="economic")  # E outside the column space only adds to its norm
    norms = np.linalg.norm(core, axis=0)
    if alpha and (norms <= beta).all():  # answering 0 is accurate enough
        return _assemble(F, problem, np.zeros((len(Q), 1)), np.zeros((1, core.shape[1])), 0.0, 0)
    beta -= 1e-14 * len(core) * float(norms.max())  # so that rounding cannot lift the bias above alpha
    if beta <= 0:
        exact = least_total(F, 1.0, tolerance)
        return _assemble(F, problem, W @ exact.recovery, exact.strategy, exact.bound, exact.iterations)
    best = least_noise(np.asarray(core, dtype=np.float64), beta, tolerance, limit)
    if best.gap > tolerance:
        warnings.warn(
            f"the approximate factorisation is proven within {best.gap:.2e} of optimal, not {tolerance:.2e}; "
            "its bias and variance hold as stated.",
            GapWarning,
            stacklevel=2,
        )
    return _assemble(F, problem, Q @ best.plan[0], best.plan[1], best.bound, best.rounds)


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


_ROUNDS, _PATIENCE = 1000, 40  # of the alternation: most, and those in which the gap must halve
_RELAXATION = 1.6
_LOOK = 5  # rounds of the splitting between two looks at its bounds


class Moved:
    """The best factorisation `left · right = F + E` (columns of `right` of norm ≤ 1) and the best bound so far."""

    def __init__(self, F: Floats, beta: float) -> None:
        self.F, self.beta = F, beta
        self.best = Solution()  # its plan is left and right

    def offer(self, vectors: Floats, energies: Floats) -> tuple[Floats, Floats]:
        """Takes in a Σ by its eigenvectors and eigenvalues (scaled to sum 1); returns the columns, turned, and h."""
        energies = energies / energies.sum()
        shrunk = nearest(vectors.T @ self.F, energies, self.beta)
        costs = (shrunk**2 / energies[:, None]).sum(axis=0)
        root, size = np.sqrt(energies), np.sqrt(float(costs.max()))
        self.best.offer(size**2, (vectors * (root * size), shrunk / root[:, None] / size))
        return shrunk, costs

    def bound(self, witness: Floats) -> None:
        """Takes in a Z; singular values above 1 are cut."""
        a, b, c = linalg.svd(witness, full_matrices=False, check_finite=False)
        Z = (a * np.minimum(b, 1.0)) @ c
        gains = (Z * self.F).sum(axis=0) - self.beta * np.linalg.norm(Z, axis=0)
        self.best.prove(float((np.maximum(gains, 0.0) ** 2).sum()) * (1.0 - 1e-11), Z)


def least_noise(F: Floats, beta: float, tolerance: float, limit: int) -> Solution:
    """Least `‖left‖²_F` with `left · right` within β of F, column by column, and columns of `right` of norm ≤ 1.

    Args:
        F: (r, d), with a column longer than beta.
        beta: how far a column may move, positive.
        tolerance: the gap at which to stop.
        limit: most rounds of the splitting.
    """
    unit = float(linalg.svdvals(F).sum()) / np.sqrt(F.shape[1])
    moved = Moved(F / unit, beta / unit)
    _alternate(moved, tolerance)
    if moved.best.gap > tolerance:
        _split(moved, tolerance, limit)
    best, (left, right) = moved.best, moved.best.plan
    return Solution((left * unit, right), best.loss * unit**2, best.bound * unit**2, None, best.rounds)


def nearest(columns: Floats, energies: Floats, beta: float) -> Floats:
    """For every column f the point within `beta` of it with the least `Σ_k g_k²/energies_k`, (r, d).

    It is `g_k = f_k · λe_k/(1 + λe_k)`; `|f − g| = β` fixes λ, by Newton on `1/|f − g|`, concave in λ.
    """
    far = np.linalg.norm(columns, axis=0) > beta
    shrunk = np.zeros_like(columns)
    f, e = columns[:, far], energies[:, None]
    lam = np.zeros(f.shape[1])
    for _ in range(60):
        left = f / (1.0 + lam * e)
        size = np.linalg.norm(left, axis=0)
        slope = (left**2 * e / (1.0 + lam * e)).sum(axis=0) / size**3
        step = np.maximum(1.0 / beta - 1.0 / size, 0.0) / slope
        lam = lam + step
        if (step <= 1e-14 * lam).all():
            break
    left = f / (1.0 + lam * e)
    left *= np.minimum(beta / np.linalg.norm(left, axis=0), 1.0)  # never outside, not even by rounding
    shrunk[:, far] = f - left
    return shrunk


def _alternate(moved: Moved, tolerance: float) -> None:
    F, d = moved.F, moved.F.shape[1]
    columns = F * np.maximum(1.0 - moved.beta / np.maximum(np.linalg.norm(F, axis=0), 1e-300), 0.0)

    def answer(y: Floats) -> Answer:
        nonlocal columns
        vectors, s, _ = linalg.svd(columns * np.sqrt(y), full_matrices=len(F) > d, check_finite=False)
        energies = np.full(len(F), 1e-9 * s[0])
        energies[: len(s)] = np.maximum(s, energies[: len(s)])
        shrunk, costs = moved.offer(vectors, energies)
        moved.bound(vectors @ (shrunk / (energies / energies.sum())[:, None]) * np.sqrt(y / costs.max()))
        columns = vectors @ shrunk
        return Answer(moved.best.bound, moved.best.loss, costs / costs.max(), moved.best.plan)

    start, normalised = np.full(d, 1.0 / d), simplices([d], 1e-9 / d)
    ascend(answer, start, normalised, tolerance, _ROUNDS, power=1.5, patience=_PATIENCE, best=moved.best)


def _split(moved: Moved, tolerance: float, limit: int) -> None:
    F, beta = moved.F, moved.beta
    r, d = F.shape
    cells, rho = np.arange(r, r + d), 1.0
    Z, s, Ut = linalg.svd(F, full_matrices=False, check_finite=False)
    P = np.block([[(Z * s) @ Z.T / np.sqrt(d), F], [F.T, (Ut.T * s) @ Ut * np.sqrt(d)]])
    U = np.zeros_like(P)
    for turn in range(1, limit + 1):
        Q = P - U
        Q[:r, :r] -= np.eye(r) / (2.0 * rho)
        E = Q[:r, r:] - F
        N = F + E * np.minimum(1.0, beta / np.maximum(np.linalg.norm(E, axis=0), 1e-300))
        Q[:r, r:], Q[r:, :r] = N, N.T
        Q[cells, cells] = _lowered(Q[cells, cells], 1.0 / (2.0 * rho))
        mixed = _RELAXATION * Q + (1.0 - _RELAXATION) * P + U
        energies, vectors = linalg.eigh((mixed + mixed.T) / 2.0, check_finite=False, driver="evd")
        up = vectors[:, energies > 0] * np.sqrt(energies[energies > 0])
        before, P = P, up @ up.T
        U = mixed - P
        if turn % _LOOK == 0:
            _look(moved, P, -rho * U, tolerance)
            if moved.best.gap <= tolerance:
                break
        primal, dual = float(np.linalg.norm(Q - P)), rho * float(np.linalg.norm(P - before))
        if turn % 10 == 0 and not 1 / 3 < primal / max(dual, 1e-300) < 3:
            factor = 1.6 if primal > dual else 1 / 1.6
            rho, U = rho * factor, U / factor
    moved.best.rounds += turn


def _look(moved: Moved, P: Floats, multiplier: Floats, tolerance: float) -> None:
    """Both bounds from the state of the splitting: Σ is its corner S, and Z follows from the multiplier."""
    r = len(moved.F)
    energies, vectors = linalg.eigh(P[:r, :r], check_finite=False)
    if energies[-1] <= 0:
        return
    moved.offer(vectors, np.maximum(energies, 0.05 * tolerance * energies.clip(0.0).sum() / r))
    y = np.diagonal(multiplier)[r:].clip(0.0)
    used = y > 1e-9 * y.max()
    witness = np.zeros_like(moved.F)
    witness[:, used] = -2.0 * multiplier[:r, r:][:, used] / np.sqrt(2.0 * y[used])
    moved.bound(witness)


def _lowered(values: Floats, mass: float) -> Floats:
    """`min(values, τ)` with τ such that exactly `mass` is taken away: the proximal step of mass · max."""
    ordered = np.sort(values)[::-1]
    level = (np.cumsum(ordered) - mass) / np.arange(1, len(values) + 1)
    return np.asarray(np.minimum(values, level[np.flatnonzero(ordered > level)[-1]]))
