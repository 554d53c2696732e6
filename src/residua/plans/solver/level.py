"""Newton's method on the dual, whose every step also levels the mechanism at hand: two to five rounds to a gap of 1e-3.

Weights θ = [y; p] settle long before their mechanism does: near the optimum the bound is off by ε² and the mechanism
by ε, because all that counts is its most expensive cell and its noisiest query. But the step e in log-weights that
Newton's method takes next says how the mechanism would follow: `X → Sᵀ(I + N)S` with (notation of `dense_response`)
`N_kl = −√(s_k s_l)/(s_k + s_l) · (Bᵀ diag(±e) B)_kl`. Made without another decomposition that mechanism has level costs
and variances up to ε² as well; it is a mechanism like any other, and its cost is computed, not predicted.

A weight may go to zero. As in an interior-point method its slack damps the system, and one parameter μ (a share of the
gap) says how far from zero it must stay.

Least cost of replacing one record: differences of cells are guarded, not cells.

Replacing a record of cell i by one of cell j moves the answers of S by `S_i − S_j`, so the cost is the largest
`‖S_i − S_j‖²` over pairs. Whatever is the same for all cells (the number of records) is free. With one cell as
reference and `x'` the counts of the others, `W x = W' x' + w · n` with `W' = W − w 1ᵀ`, and the guarded vectors are the
units (pairs with the reference) and their differences. Weights y on pairs make a Laplacian `L(y) = C Cᵀ`, which takes
the place of diag(y): `A = diag(√p) W' C = Z diag(s) Uᵀ`, `X = C^-ᵀ U diag(s) Uᵀ C⁻¹`, and all else is as in `level`.

All pairs are weighed in every round, which takes one decomposition; accelerated steps in log-weights (`saddle`) need
about twenty, whatever the number of cells.

A record may also vanish (a cell nobody asks about, a value that is dropped): then the reference is that empty cell, and
the number of records is not free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from residua.linalg.arrays import Floats
from residua.machine import linalg
from residua.plans.saddle import POWER, Acceleration, Answer, Solution, ascend, simplices
from residua.plans.solver.dense_response import CholeskySystem, Responder, Response, curvature
from residua.plans.solver.queries import MatrixQueries, Problem

_CENTRE, _SAFE_CENTRE = 0.01, 0.1  # μ as a share of the gap; larger where many weights go to zero
_COARSE, _FINE = 0.2, 0.05  # tolerance of the curvature: coarser costs a third and a round more, where many are taken
_MANY = 1e-4  # which is below this gap
_DOWN, _UP = 0.05, 4.5  # the least and the greatest factor on a weight in one round
_PATIENCE = 6  # rounds in which the gap must halve
_TURNS = 5  # most turns per round
_EVEN, _NEAR = 0.1, 10.0  # levels need not be evener than this share of the tolerance; those this near the top matter
_EARLY = 30.0  # a mechanism is not turned while the bound is expected to rise by this many times the tolerance


class Round:
    """One decomposition: levels of all cells and queries, relative to their average f, and what follows from them.

    Args:
        cells: rows whose squares are the costs over f, (guarded, r).
        queries: rows whose squares are the variances over f, (m, r).
        values: s, (r,).
        theta: weights, of which those of cells and those of queries sum to 1 each; of cells alone for a total.
        total: whether the sum of all variances counts instead of the largest; their weights are then fixed.
    """

    def __init__(self, cells: Floats, queries: Floats, values: Floats, theta: Floats, total: bool = False) -> None:
        self.cells, self.queries, self.values, self.theta, self.total = cells, queries, values, theta, total
        self.f = float(values.sum())
        self.rows = cells if total else np.concatenate([cells, queries])
        self.levels = np.einsum("ij,ij->i", self.rows, self.rows)

    def system(self, mu: float, coarseness: float) -> CholeskySystem:
        """Newton's equations at this point."""
        guarded, theta = len(self.cells), self.theta
        held = None if self.total else np.where(np.arange(len(theta)) < guarded, theta, 0.0)
        basis = self.rows * np.sqrt(theta)[:, None] / np.sqrt(self.values / self.f)  # [U; Z]
        K = curvature(basis, self.values, guarded, coarseness)
        return CholeskySystem(K, self.f * np.maximum(theta * (1.0 - self.levels), mu), held, self.f)

    def turn(self, step: Floats) -> Floats | None:
        """R with `R Rᵀ = I + N`, the mechanism's answer to a step to first order, (r, r); None if it has none."""
        signed = -self.f * self.theta * step
        signed[len(self.cells) :] *= -1.0
        N = (self.rows.T * signed) @ self.rows / np.add.outer(self.values, self.values)
        np.einsum("ii->i", N)[:] += 1.0
        root, failed = linalg.lapack.dpotrf(N, lower=1, clean=1)
        return None if failed else np.asarray(root)

    def turned(self, root: Floats | None) -> tuple[Floats, float]:
        """The levels of the turned mechanism, (n,), and its cost times its loss; computed from it."""
        costs = self.cells if root is None else self.cells @ root
        answers = self.queries.T if root is None else linalg.lapack.dtrtrs(root, self.queries.T, lower=1)[0]
        x, v = np.einsum("ij,ij->i", costs, costs), np.einsum("ij,ij->j", answers, answers)
        product = self.f**2 * float(x.max()) * float(v.sum() if self.total else v.max())
        return (x if self.total else np.concatenate([x, v])), product


@dataclass(frozen=True, eq=False)
class Turned:
    """A mechanism: the round it is from, and the step and root by which it is turned, if it is."""

    at: Round
    step: Floats | None = None
    root: Floats | None = None


def _level(best: Solution, now: Round, system: CholeskySystem, step: Floats, tolerance: float) -> None:
    """Turns a mechanism by a step, and again by what its levels then lack, while that helps."""
    for _ in range(_TURNS):
        root = now.turn(step)
        if root is None:
            return
        levels, product = now.turned(root)
        if not best.offer(product, Turned(now, step, root)):
            return
        above = levels.max() - 1.0
        if best.gap <= tolerance or above <= _EVEN * tolerance:
            return
        step = step + system.solve(now.f * np.where(levels > 1.0 - _NEAR * above, now.theta * (levels - 1.0), 0.0))


def climb(
    at: Callable[[Floats], Round], theta: Floats, guarded: int, tolerance: float, limit: int, centre: float = _CENTRE
) -> Solution:
    """Follows Newton's steps from weights θ until the gap is proven, stalls, or the rounds are used up.

    Args:
        at: the round of given weights.
        theta: where to start, (n,).
        guarded: how many of them are of cells; the others are of queries.
        tolerance: the gap at which to stop.
        limit: most rounds; fewer are taken when the gap does not halve within _PATIENCE of them.
        centre: μ as a share of the gap.

    Returns:
        The best mechanism, `Turned`.
    """
    # Weight below the floor can only cost the bound a fraction of the tolerance.
    normalised = simplices([guarded, len(theta) - guarded], 1e-4 * tolerance / len(theta))
    theta = normalised(theta)
    best, gaps = Solution(method="Newton"), list[float]()
    coarseness = _COARSE if tolerance >= _MANY else _FINE
    for best.rounds in range(1, limit + 1):
        now = at(theta)
        best.prove(now.f**2, (theta[guarded:], theta[:guarded]))
        best.offer(now.turned(None)[1], Turned(now))
        gaps.append(best.gap)
        if best.gap <= tolerance or (len(gaps) > _PATIENCE and best.gap > 0.5 * gaps[-1 - _PATIENCE]):
            break
        mu = centre * min(best.gap, 1.0) / len(theta)
        above = theta * (now.levels - 1.0)
        system = now.system(mu, coarseness)
        step = system.solve(now.f * (mu + above))
        if above @ step / 2.0 < _EARLY * tolerance:
            _level(best, now, system, step, tolerance)
            if best.gap <= tolerance:
                break
        factors = np.where(step < 0, np.maximum(1.0 + step, _DOWN), np.exp(np.minimum(step, np.log(_UP))))
        theta = normalised(theta * factors)
    return best


def fit(problem: Problem, tolerance: float, limit: int) -> Solution:
    """Least `max cost · max variance` of the scaled problem, whose rows are written out and divided by √target."""
    queries = problem.queries
    assert isinstance(queries, MatrixQueries)
    _, d = queries.shape
    responder = Responder(queries, problem.rank, exact=False)
    best = climb(partial(round_of, queries, responder), norms(queries.matrix), d, tolerance, limit)
    if not responder.exact:  # once more, by a decomposition that cannot leave the row space
        step, now = best.plan.step, round_of(queries, Responder(queries, problem.rank), best.plan.at.theta)
        best.plan = Turned(now, step, None if step is None else now.turn(step))
    return _written(best)


def round_of(queries: MatrixQueries, responder: Responder, theta: Floats) -> Round:
    """The round of weights on cells and queries."""
    d = queries.shape[1]
    response = responder.respond(theta[d:], theta[:d])
    answers = queries.matrix @ response.recovery / np.sqrt(response.value)
    return Round(_costs(response), answers, response.values, theta)


def norms(W: Floats) -> Floats:
    """Norms of columns and rows: the weights to start from."""
    squares = W**2
    return np.asarray(np.sqrt(np.concatenate([squares.sum(axis=0), squares.sum(axis=1)])))


def total(problem: Problem, tolerance: float, limit: int) -> Solution:
    """Least `max cost · sum of variances` of the scaled problem."""
    m, d = problem.queries.shape
    responder, p = Responder(problem.queries, problem.rank), np.ones(m)

    def at(y: Floats) -> Round:
        response = responder.respond(p, y)
        # Only the sum of squares of the answers counts, and in these coordinates it is that of √(s/f).
        return Round(_costs(response), np.diag(np.sqrt(response.values / response.value)), response.values, y, True)

    return _written(climb(at, np.full(d, 1.0 / d), d, tolerance, limit, _SAFE_CENTRE))


def _costs(response: Response) -> Floats:
    """Rows whose squares are the costs over f, (d, r)."""
    return np.asarray(response.strategy.T / np.sqrt(response.value))


def _written(best: Solution) -> Solution:
    """The same with strategy and recovery, of `S = √s Uᵀ y^-½` turned by a root."""
    now, root = best.plan.at, best.plan.root
    strategy = now.cells.T * np.sqrt(now.f)
    recovery = strategy.T * (now.theta[: len(now.cells), None] / now.values)
    if root is not None:
        strategy = root.T @ strategy
        recovery = linalg.lapack.dtrtrs(root, recovery.T, lower=1)[0].T
    best.plan = strategy, recovery
    return best


# ---- records that are replaced


MOST_CELLS = 1024  # a minute
_TALL = 8  # times as many queries as cells: too many to weigh one by one
_FREE = 2.0**10  # how much stronger than the rest the number of records is measured, where that is free
_POWERS = {True: 5.0, False: POWER}  # of a step in which pairs alone are weighed, or queries too
_LEAST = 1e-9  # of an even share, so that no pair is lost
_ROUNDS = 1000
_SQUARABLE = 1e-11  # as in `response`


def least_replacement(W: Floats, tolerance: float, *, total: bool, removable: bool) -> Solution | None:
    """Least replacement cost times loss for scaled queries W, (m, cells), of distinct cells.

    Args:
        W: rows divided by √target (the largest variance counts) or times √weight (their sum does).
        tolerance: the gap to reach.
        total: whether the sum counts.
        removable: whether a record may be replaced by none.

    Returns:
        The strategy, (rows, cells); None where this method does not apply: too many cells, or a direction left out.
    """
    m, cells = W.shape
    relative = W if removable else W[:, 1:] - W[:, :1]
    if cells > MOST_CELLS or not relative.shape[1]:
        return None
    if total and m > cells:
        relative = np.asarray(np.linalg.qr(relative, mode="r"), dtype=np.float64)
    if len(relative) > _TALL * cells or np.linalg.matrix_rank(relative, rtol=1e-9) < relative.shape[1]:
        return None
    pairs = _Pairs(relative, total)
    weights, parts = np.sqrt(pairs.of(relative.T @ relative)), [len(pairs.i)]
    if not total:
        weights, parts = np.append(weights, np.linalg.norm(relative, axis=1)), [*parts, len(relative)]
    normalised = simplices(parts, _LEAST / parts[0])
    power, memory = _POWERS[total], Acceleration()
    best = ascend(pairs.respond, normalised(weights), normalised, tolerance, _ROUNDS, power=power, memory=memory)
    best.plan = pairs.strategy(best.plan)
    if not removable:
        free = np.full((1, cells), _FREE * float(np.abs(best.plan).max()))
        best.plan = np.vstack([np.hstack([np.zeros((len(best.plan), 1)), best.plan]), free])
    return best


class _Pairs:
    """All pairs (i, j) of n + 1 cells, the last being the reference, and the best mechanism for weights on them."""

    def __init__(self, W: Floats, total: bool) -> None:
        self.W, self.total, self.n = W, total, W.shape[1]
        self.gram = W.T @ W
        self.i, self.j = np.triu_indices(self.n + 1, 1)

    def respond(self, theta: Floats) -> Answer:
        """The best mechanism for weights on pairs and, where the largest variance counts, on queries."""
        s, C, U = self._decomposed(theta)
        f, worst = float(s.sum()), 1.0
        units = self._units(C, U) * np.sqrt(s / f)
        levels = self.of(units @ units.T)
        if not self.total:
            variances = np.square(self.W @ (C @ U) / np.sqrt(s * f)).sum(axis=1)
            worst, levels = float(variances.max()), np.append(levels, variances)
        return Answer(f * f, f * f * float(levels[: len(self.i)].max()) * worst, levels, theta)

    def strategy(self, theta: Floats) -> Floats:
        """The mechanism for these weights, (n, n), at some scale."""
        s, C, U = self._decomposed(theta)
        return np.asarray((self._units(C, U) * np.sqrt(s)).T)

    def of(self, gram: Floats) -> Floats:
        """`‖S_i − S_j‖²` for all pairs from Sᵀ S, the reference's column being zero, (pairs,)."""
        padded = np.pad(gram, (0, 1))
        diagonal = np.diagonal(padded)
        return np.maximum((diagonal[:, None] + diagonal - 2.0 * padded)[self.i, self.j], 0.0)

    def _decomposed(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        y, p = np.split(theta, [len(self.i)])
        A = np.zeros((self.n + 1, self.n + 1))
        A[self.i, self.j] = y
        A += A.T
        C = np.linalg.cholesky((np.diag(A.sum(axis=1)) - A)[: self.n, : self.n])
        image = (self.W if self.total else np.sqrt(p)[:, None] * self.W) @ C
        energies, U = linalg.eigh(image.T @ image, check_finite=False, driver="evd")
        if energies[0] < _SQUARABLE * energies[-1]:
            _, s, Ut = np.linalg.svd(image, full_matrices=False)
            return s, C, Ut.T
        return np.sqrt(energies), C, U

    def _units(self, C: Floats, U: Floats) -> Floats:
        """`C^-ᵀ U`, (n, n)."""
        return np.asarray(linalg.solve_triangular(C, U, trans=1, lower=True, check_finite=False))
