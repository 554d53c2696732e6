"""Newton's method on the dual, whose every step also levels the mechanism at hand: two to five rounds to a gap of 1e-3.

Weights θ = [y; p] settle long before their mechanism does: near the optimum the bound is off by ε² and the mechanism
by ε, because all that counts of it is its dearest cell and its noisiest query. But the step e in log-weights that
Newton's method takes next says how the mechanism would follow: `X → Sᵀ(I + N)S` with, in the notation of `hessian`,
`N_kl = −√(s_k s_l)/(s_k + s_l) · (Bᵀ diag(±e) B)_kl`. Made without another decomposition that mechanism has level costs
and variances up to ε² as well; it is a mechanism like any other, and its cost is computed, not predicted.

A weight may go to zero. As in an interior-point method its slack damps the system, and one parameter μ (a share of the
gap) says how far from zero it must stay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from residua.plan.dense.solver.fixed_point import Found
from residua.plan.dense.solver.hessian import CholeskySystem, curvature
from residua.plan.dense.solver.problem import Problem
from residua.plan.dense.solver.queries import MatrixQueries
from residua.plan.dense.solver.response import Responder, Response

Floats = NDArray[np.float64]
_CENTRE = 0.01  # μ as a share of the gap
_COARSE, _FINE = 0.2, 0.05  # tolerance of the curvature: coarser costs a third and a round more, where many are taken
_MANY = 1e-4  # which is below this gap
_DOWN, _UP = 0.05, 4.5  # the least and the greatest factor on a weight in one round
_PATIENCE = 6  # rounds in which the gap must halve
_TURNS = 5  # most turns a round
_EVEN, _NEAR = 0.1, 10.0  # levels need not be evener than this share of the tolerance; those this near the top matter
_EARLY = 30.0  # a mechanism is not turned while the bound is expected to rise by this many times the tolerance


class _Round:
    """One decomposition: levels of all cells and queries, relative to their average f, and what follows from them."""

    def __init__(self, queries: MatrixQueries, response: Response, theta: Floats) -> None:
        self.response, self.theta, self.f = response, theta, response.value
        self.cells = d = len(response.cell_weights)
        unit = np.sqrt(response.values / self.f)
        self.rows = np.empty((len(theta), len(unit)))  # of S and W F over √f: their squares are the levels, (n, r)
        self.rows[:d] = response.basis * unit / np.sqrt(theta[:d, None])
        self.rows[d:] = queries.matrix @ (response.basis * np.sqrt(theta[:d, None])) / (self.f * unit)
        self.levels = np.einsum("ij,ij->i", self.rows, self.rows)
        self.basis = self.rows * np.sqrt(theta)[:, None] / unit  # [U; Z]

    def system(self, mu: float, coarseness: float) -> CholeskySystem:
        """Newton's equations at this point."""
        held = np.where(np.arange(len(self.theta)) < self.cells, self.theta, 0.0)
        K = curvature(self.basis, self.response.values, self.cells, coarseness)
        return CholeskySystem(K, self.f * np.maximum(self.theta * (1.0 - self.levels), mu), held, self.f)

    def turn(self, step: Floats) -> Floats | None:
        """R with `R Rᵀ = I + N`, the mechanism's answer to a step to first order, (r, r); None if it has none."""
        s, signed = self.response.values, -self.f * self.theta * step
        signed[self.cells :] *= -1.0
        N = (self.rows.T * signed) @ self.rows / np.add.outer(s, s)
        np.einsum("ii->i", N)[:] += 1.0
        root, failed = linalg.lapack.dpotrf(N, lower=1, clean=1)
        return None if failed else np.asarray(root)

    def turned(self, root: Floats) -> Floats:
        """The levels of the turned mechanism, computed from it, (n,)."""
        costs = self.rows[: self.cells] @ root
        answers, _ = linalg.lapack.dtrtrs(root, self.rows[self.cells :].T, lower=1)
        return np.concatenate([np.einsum("ij,ij->i", costs, costs), np.einsum("ij,ij->j", answers, answers)])

    def product(self, levels: Floats) -> float:
        """The largest cost times the largest variance."""
        return self.f**2 * float(levels[: self.cells].max() * levels[self.cells :].max())


class _Best:
    """The best mechanism so far: the round it is from, and the step by which it is turned, if it is."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.at: _Round | None = None
        self.step: Floats | None = None
        self.root: Floats | None = None

    def offer(self, now: _Round, levels: Floats, step: Floats | None = None, root: Floats | None = None) -> bool:
        """Takes a mechanism in if it is the best."""
        primal = now.product(levels)
        if primal >= self.found.primal:
            return False
        self.found.primal, self.at, self.step, self.root = primal, now, step, root
        return True

    def level(self, now: _Round, system: CholeskySystem, step: Floats, tolerance: float) -> None:
        """Turns a mechanism by a step, and again by what its levels then lack, while that helps."""
        for _ in range(_TURNS):
            root = now.turn(step)
            if root is None or not self.offer(now, levels := now.turned(root), step, root):
                return
            above = levels.max() - 1.0
            if self.found.gap <= tolerance or above <= _EVEN * tolerance:
                return
            lacking = np.where(levels > 1.0 - _NEAR * above, now.theta * (levels - 1.0), 0.0)
            step = step + system.solve(now.f * lacking)

    def deliver(self, queries: MatrixQueries, responder: Responder | None) -> None:
        """Writes it down; with a responder, from a decomposition that cannot leave the row space."""
        assert self.at is not None
        now, root = self.at, self.root
        if responder is not None:
            now = _Round(queries, responder.respond(now.theta[now.cells :], now.theta[: now.cells]), now.theta)
            root = None if self.step is None else now.turn(self.step)
        self.found.strategy, self.found.recovery = now.response.strategy, now.response.recovery
        if root is not None:
            self.found.strategy = root.T @ self.found.strategy
            self.found.recovery = linalg.lapack.dtrtrs(root, self.found.recovery.T, lower=1)[0].T


def fit(problem: Problem, tolerance: float, limit: int) -> Found:
    """Least `max cost · max variance` of the scaled problem.

    Args:
        problem: rows scaled by 1/√target, written out.
        tolerance: the gap at which to stop.
        limit: most rounds; fewer are taken when the gap does not halve within _PATIENCE of them.
    """
    queries = problem.queries
    assert isinstance(queries, MatrixQueries)
    m, d = queries.shape
    found, responder = Found(method="Newton"), Responder(queries, problem.rank, exact=False)
    floor = 1e-4 * tolerance / (m + d)  # weight that can only cost the bound a fraction of the tolerance
    theta = _shares(_norms(queries.matrix), d, floor)
    best, gaps = _Best(found), list[float]()
    coarseness = _COARSE if tolerance >= _MANY else _FINE
    for found.iterations in range(1, limit + 1):
        now = _Round(queries, responder.respond(theta[d:], theta[:d]), theta)
        found.bound(now.f**2, theta[d:], theta[:d])
        best.offer(now, now.levels)
        gaps.append(found.gap)
        if found.gap <= tolerance or _stalled(gaps):
            break
        mu = _CENTRE * min(found.gap, 1.0) / (m + d)
        above = theta * (now.levels - 1.0)
        system = now.system(mu, coarseness)
        step = system.solve(now.f * (mu + above))
        if above @ step / 2.0 < _EARLY * tolerance:
            best.level(now, system, step, tolerance)
            if found.gap <= tolerance:
                break
        factors = np.where(step < 0, np.maximum(1.0 + step, _DOWN), np.exp(np.minimum(step, np.log(_UP))))
        theta = _shares(theta * factors, d, floor)
    best.deliver(queries, None if responder.exact else Responder(queries, problem.rank))
    return found


def _norms(W: Floats) -> Floats:
    """Norms of columns and rows: the weights to start from."""
    squares = W**2
    return np.asarray(np.sqrt(np.concatenate([squares.sum(axis=0), squares.sum(axis=1)])))


def _shares(theta: Floats, cells: int, floor: float) -> Floats:
    """Weights of which those of cells and those of queries sum to 1 each, none of them below the floor."""
    shares = np.empty_like(theta)
    for part in (slice(None, cells), slice(cells, None)):
        raised = np.maximum(theta[part] / theta[part].sum(), floor)
        shares[part] = raised / raised.sum()
    return shares


def _stalled(gaps: list[float]) -> bool:
    """Whether the gap did not halve in the last rounds."""
    return len(gaps) > _PATIENCE and gaps[-1] > 0.5 * gaps[-1 - _PATIENCE]
