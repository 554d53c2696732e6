"""The refined privacy order: among all optima, the one whose sorted privacy profile is lexicographically smallest.

If the queries that carry weight (the active ones) span the row space, the optimum is unique and there is nothing to
choose. If not, let E be a basis of the active queries, M their covariance, F the cells that carry weight and N the
others. Every optimum is `X = Eᵀ M⁻¹ E + R` with R ≥ 0 on N alone, and with `E_Fᵀ u = w_F` the variance of a query
splits: `w' X⁻ w = u' M u + h' R⁻ h`, `h = w_N − E_Nᵀ u`. What remains for R is the same problem again, with targets
reduced by the first term and cells that start from an offset. Repeat until nothing is left to choose.

Which weights are positive is decided by two tests, neither of which is always right: whether a weight stays when the
tolerance falls a hundredfold, and whether it outweighs its own slack. The split itself tells whether a guess was
consistent: every query must leave no residual on F and a positive rest of its target. ("Fix the last bound times 1 + ε"
would err like √ε, and is not used.)

Reference: fitness-for-use, Definition 5 and Theorem 10.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.machine import linalg
from residua.plans.saddle import Solution
from residua.plans.solver import interior
from residua.plans.solver.certificate import strategy_variances
from residua.plans.solver.queries import MatrixQueries, Problem, positive, prepare, to_matrix, with_rank
from residua.plans.solver.solve import DenseSolution, finish

_STEPS = 100
_STAYS = 0.3, 0.1, 0.03  # share of a weight left when the tolerance falls a hundredfold: to 1 if active, else to 0.01
_CONSISTENT = 1e-6  # largest residual of a split that is still rounding
_FINEST = 1e-12  # the last tolerance at which to look for a consistent split
_NOTHING = 1e-7  # what is left of a query, relative to its norm, that counts as nothing


@dataclass(frozen=True, eq=False)
class _Stage:
    """One solved subproblem over W: `max(offset + diag X)` is least; weights are nature's, at two tolerances."""

    asked: MatrixQueries
    rank: int
    offset: Floats
    X: Floats
    recovery: Floats
    weights: tuple[Floats, Floats]  # of queries and of cells
    before: tuple[Floats, Floats]  # the same at a hundred times the tolerance
    dual: float

    @property
    def W(self) -> Floats:  # noqa: N802
        """The queries as a matrix."""
        return self.asked.matrix

    def guesses(self) -> list[tuple[Booleans, Booleans]]:
        """Which cells and which queries carry weight, by each test, the most trusted first."""
        m, d = self.W.shape
        cost = self.offset + np.diagonal(self.X)
        v = ((self.W @ self.recovery) ** 2).sum(axis=1)
        (p, y), (old_p, old_y) = self.weights, self.before
        stays = [(y > share * old_y, p > share * old_p) for share in _STAYS]
        outweighs = y * d > 1.0 - cost / cost.max(), p * m > 1.0 - v / v.max()
        return [stays[0], outweighs, *stays[1:]]


@dataclass(frozen=True, eq=False)
class _Split:
    """What every optimum shares, and what is left to choose."""

    shared: Floats  # Eᵀ M⁻¹ E, on the cells of the stage
    free: Integers  # N
    W: Floats  # h, scaled so that what is left of the targets is 1
    used: Integers  # which of N have a query left
    residual: float  # how inconsistent the guess is
    complete: bool  # whether the active queries span the row space


def refine(workload: Any, targets: Any = 1.0, tolerance: float = 1e-9) -> DenseSolution:
    """Least privacy cost for these targets and, among all ways to have it, the least profile in the refined order.

    Guarantee: as `least_privacy`. The profile is the least one as far as stages solved to `tolerance` can tell the
    queries and cells that bind from those that do not; where they cannot, a `GapWarning` says so, and the plan is still
    optimal. (With targets over six decades, profiles at 1e-8 and 1e-9 agreed to 1e-3 or better in all cases tried.)

    Args:
        workload: a matrix (NumPy or SciPy sparse), (m, cells).
        targets: positive, one number or (m,).
        tolerance: the gap to which every stage is solved, from 1e-9 to 1e-3.

    Returns:
        The solution; `iterations` counts stages.

    Example:
        >>> import numpy as np
        >>> refine(np.eye(2), [1.0, 4.0]).profile.round(4).tolist()
        [1.0, 0.25]
    """
    if not 1e-9 <= tolerance <= 1e-3:
        raise PlanError(f"the tolerance is {tolerance}; the refined order needs one from 1e-9 to 1e-3.")
    W = to_matrix(workload)
    scale = 1.0 / np.sqrt(positive(targets, len(W), "the target"))
    problem = prepare(W, scale)
    queries = problem.queries
    assert isinstance(queries, MatrixQueries)
    first = _solve(queries, problem.rank, np.zeros(queries.shape[1]), tolerance)
    X, stages = _stages(first, tolerance)
    if (np.diagonal(X) > np.diagonal(first.X).max() * (1.0 + 10.0 * tolerance)).any():
        _give_up(1)
        X = first.X
    strategy = _root(X, problem.rank)
    factors = strategy, linalg.pinv(strategy)
    best = Solution(factors, np.inf, first.dual, first.weights, stages, "refined interior point")
    return finish(W, problem, best, scale, None, 10 * tolerance)


def _solve(queries: MatrixQueries, rank: int, offset: Floats, tolerance: float) -> _Stage:
    m, d = queries.shape
    problem = Problem(queries, np.arange(m), np.arange(d), np.ones(m), rank, m)
    best = interior.fit(problem, tolerance, _STEPS, offset)
    coarse = tolerance
    while True:  # a solve may end far below what it was asked for, and then tells nothing about what stays
        coarse *= 100.0
        before = interior.fit(problem, coarse, _STEPS, offset)
        if before.gap >= 30.0 * best.gap or coarse >= 1e-2:
            break
    strategy, recovery = best.plan
    v = float(strategy_variances(problem.queries, strategy).max())
    now, old = (tuple(each / each.sum() for each in proof) for proof in (best.proof, before.proof))
    return _Stage(queries, rank, offset, v * (strategy.T @ strategy), recovery / np.sqrt(v), now, old, best.bound)


def _stages(stage: _Stage, tolerance: float) -> tuple[Floats, int]:
    """The whole X, stage by stage: what every optimum shares is fixed, the rest is solved again."""
    d = len(stage.offset)
    answer, alive = np.zeros((d, d)), np.arange(d)  # fixed so far; cells still free
    for count in range(1, d + 1):
        split, finer = _consistent(stage), tolerance
        while split is None and finer > _FINEST:
            finer = max(finer / 10.0, _FINEST)
            stage = _solve(stage.asked, stage.rank, stage.offset, finer)
            split = _consistent(stage)
        if split is None:
            _give_up(count)
            break
        if split.complete:
            break
        answer[np.ix_(alive, alive)] += split.shared
        alive = alive[split.free]
        if not len(split.W):
            return answer, count
        offset = (stage.offset + np.diagonal(split.shared))[split.free]
        alive, offset = alive[split.used], offset[split.used]
        rank, queries = with_rank(split.W, _NOTHING)
        stage = _solve(queries, rank, offset, tolerance)
    answer[np.ix_(alive, alive)] += stage.X
    return answer, count


def _consistent(stage: _Stage) -> _Split | None:
    """The split by the most trusted test that is consistent, if any is."""
    splits = (split for guess in stage.guesses() if (split := _split(stage, *guess)) is not None)
    return next((one for one in splits if one.residual <= _CONSISTENT), None)


def _give_up(count: int) -> None:
    warnings.warn(
        f"the refined order stopped at stage {count}, whose active queries cannot be told from the others. The plan is "
        "optimal, but its profile beyond the cells settled so far may not be the least.",
        GapWarning,
        stacklevel=4,
    )


def _split(stage: _Stage, binding: Booleans, active: Booleans) -> _Split | None:
    """The split that a guess amounts to, or None where it cannot be right."""
    W, F, N = stage.W, np.flatnonzero(binding), np.flatnonzero(~binding)
    if not len(F) or not active.any():
        return None
    size = np.abs(W).max(axis=0)
    even = W / size
    even = even / np.linalg.norm(even, axis=1, keepdims=True)
    _, R, pivots = linalg.qr(even[active].T, mode="economic", pivoting=True)
    rank = int((np.abs(np.diagonal(R)) > _NOTHING * abs(R[0, 0])).sum())
    E = W[np.flatnonzero(active)[pivots[:rank]]]
    if rank == stage.rank or not len(N):  # with every cell binding there is no room for R
        return _Split(stage.X, N, np.empty((0, 0)), N, 0.0, True)
    u, _, spanned, _ = linalg.lstsq((E / size)[:, F].T, (W / size)[:, F].T)
    if spanned < rank:
        return None
    u = u.T  # (m, rank)
    norms = np.linalg.norm(W / size, axis=1)
    residual = float((np.linalg.norm((W / size)[:, F] - u @ (E / size)[:, F], axis=1) / norms).max())
    root = E @ stage.recovery  # M = root rootᵀ
    shared = E.T @ linalg.solve(root @ root.T, E, assume_a="pos")
    rest = (W[:, N] - u @ E[:, N]) / size[N]
    rest = np.where(np.abs(rest) > _NOTHING * norms[:, None], rest, 0.0) * size[N]
    rest[active] = 0.0
    left, used = np.flatnonzero(rest.any(axis=1)), np.flatnonzero(rest.any(axis=0))
    target = 1.0 - ((u[left] @ root) ** 2).sum(axis=1)
    if (target <= 0).any():
        return None
    return _Split(shared, N, rest[np.ix_(left, used)] / np.sqrt(target)[:, None], used, residual, False)


def _root(X: Floats, rank: int) -> Floats:
    """S, (rank, d), with `X ≈ Sᵀ S`; cells are first scaled alike, so that small ones keep their digits."""
    size = np.sqrt(np.diagonal(X))
    energies, vectors = linalg.eigh(X / np.outer(size, size))
    keep = energies.argsort()[-rank:]
    return np.asarray((vectors[:, keep] * np.sqrt(np.maximum(energies[keep], 0.0))).T * size)
