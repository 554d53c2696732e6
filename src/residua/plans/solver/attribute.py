"""The best strategy of one attribute: how to spread its total, and what to measure of the rest.

What the other attributes make an attribute worth is two Gram matrices: the loss is `vᵀ A v + tr(B K)`, with v the
spread vector and `K = F Fᵀ` the covariances of the rest (see `strategy.py`). With `N = K⁻¹` on what sums to 0, the
columns of the strategy have the squared norms `(e_j − v)ᵀ N (e_j − v)`: the values lie in an ellipsoid around v.
Weights q on them make it a saddle point, each part of which is closed:

    N   is the geometric mean of B and `(Σ_j q_j (e_j − v)(e_j − v)ᵀ)⁻¹`, and `T = tr N⁻¹ B` its value;
    v   solves `(I + K A / T) v = q`;
    q   grows where the norm is above average.

All three settle together, accelerated. With A and B proportional (one kind of rows) the problem is convex and this is
its optimum; otherwise a stationary point.

Reference: this departs from residual-planner, whose split is `v = 1/n` always.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats, contrasts
from residua.machine import linalg
from residua.plans.saddle import Acceleration, Answer, ascend, simplices

SETTLED = 1e-3  # relative: norms of columns, the spread and the problem itself; errors of the loss are its square
_SMALLEST = 1e-13  # of the trace: an eigenvalue of a Gram matrix below this is zero
_FAINT = 1e-20  # of the largest: an eigenvalue of a weighed Gram matrix counts as no less
_ROUNDS = 300
_EXPONENT, _PATIENCE = 1.5, 5
_FLOOR = 1e-7  # of the average: the least weight of a value
_NEARLY = 0.9  # of the largest norm: a column this heavy is made the heaviest, which costs in second order only
_UNSCALED = 100.0  # columns that cannot be scaled must be more even: their unevenness is an error of first order
_FARTHEST = 1.0  # an entry of the spread vector moves in one round
_METRIC = 0.1  # of the spread vector beside the weights' logarithms, for the acceleration


@dataclass(frozen=True, eq=False)
class RealStrategy:
    """A strategy of real numbers with its own certificate.

    Args:
        rows: R, (r, n), largest column norm 1.
        cells: q, weights on the values, summing to 1, that prove it optimal for its spread.
        spread: v, (n,).
        inverse: K, (n, n).
    """

    rows: Floats
    cells: Floats
    spread: Floats
    inverse: Floats


class Search:
    """One attribute's search for its strategy, a round at a time; its problem may change on the way.

    Args:
        gram: the Gram matrix of all rows asked, (n, n): where to begin.
        start: weights on the values and a spread vector to begin with; None for equal ones.
    """

    def __init__(self, gram: Floats, *, start: tuple[Floats, Floats] | None = None) -> None:
        n = len(gram)
        self.basis = contrasts(n)
        even: Floats = np.full(n, 1.0 / n)
        self.q, self.v = (even, even.copy()) if start is None else start
        self.memory, self.exponent = Acceleration(), _EXPONENT
        self.mark, self.waited = np.inf, 0
        self.problem = gram, gram
        self.gram = self._projected(gram)
        self.space = _row_space(self.gram, gram.trace())
        self.rank = int(self.space.shape[1])

    def strategy(self) -> RealStrategy:
        """The best for the present weights; its heaviest columns scaled to one norm, if that is better."""
        n = len(self.q)
        if not self.rank:  # every row is a multiple of the total
            return RealStrategy(np.empty((0, n)), self.q, self.v, np.zeros((n, n)))
        norms = np.sqrt((self._response[0] ** 2).sum(axis=0))
        plain = self._scaled(np.full(n, norms.max()))
        if not self._full:
            return plain
        even = self._scaled(np.where(norms >= _NEARLY * norms.max(), norms, norms.max()))
        return min(plain, even, key=self._loss)

    def _scaled(self, norms: Floats) -> RealStrategy:
        """The strategy with its columns divided by some numbers, whatever spread and inverse it then has."""
        R, F, T = self._response
        v = self.v * norms / float(self.v @ norms)
        F = F * (norms * np.sqrt(T))[:, None]
        F = F - np.outer(v, F.sum(axis=0))
        return RealStrategy(R / norms, self.q / self.q.sum(), v, np.asarray(F @ F.T))

    def _loss(self, strategy: RealStrategy) -> float:
        total, rest = self.problem
        return float(strategy.spread @ total @ strategy.spread) + float(np.einsum("ij,ij->", rest, strategy.inverse))

    def advance(self, total: Floats, rest: Floats) -> float:
        """One round for the loss `vᵀ A v + tr(B K)`; how far from settled the round before was.

        Args:
            total: A, (n, n).
            rest: B, (n, n), with the rows that the search began with.
        """
        gram, problem = self._projected(rest), (total, rest)
        if not self.rank or gram.trace() <= 0:
            return 0.0
        n = len(self.q)
        R, F, T = self._response
        norms = (R**2).sum(axis=0)
        total = total * float(self.gram.trace() / gram.trace())
        away = np.linalg.solve(np.eye(n) + F @ (F.T @ total) / T, self.q) - self.v
        changed = float(np.linalg.norm(gram / gram.trace() - self.gram / self.gram.trace()))
        uneven = (float(norms.max()) - 1.0) * (1.0 if self._full else _UNSCALED)
        unsettled = max(uneven, self._felt(away, total), changed)
        self._calm(unsettled)
        point = np.concatenate([np.log(self.q), self.v])
        residual = np.concatenate([np.log(np.maximum(norms, 1e-100)), away / _EXPONENT])
        metric = np.concatenate([self.q, np.full(n, _METRIC * n)])
        step = self.memory.step(point, residual, metric, self.exponent, logs=n)
        grown = self.q * np.exp(step[:n] - step[:n].max())
        self.q = np.maximum(grown / grown.sum(), _FLOOR / n)
        # The move adds up to 0, but for rounding: it is made shorter as a whole, so that the spread adds up to 1.
        self.v = self.v + step[n:] * (_FARTHEST / max(float(np.abs(step[n:]).max()), _FARTHEST))
        self.v = self.v / self.v.sum()
        self.gram, self.problem = gram, problem
        self.__dict__.pop("_response", None)
        return unsettled

    def _calm(self, unsettled: float) -> None:
        """Smaller steps and a clean memory when rounds bring nothing; in the end, plain steps only."""
        self.waited += 1
        if unsettled < 0.8 * self.mark:
            self.mark, self.waited = unsettled, 0
        if self.waited >= _PATIENCE:
            self.exponent, self.mark, self.waited = max(0.7 * self.exponent, 0.5), unsettled, 0
            self.memory.forget()
        if self.exponent <= 0.5:
            self.memory.forget()

    def _felt(self, move: Floats, total: Floats) -> float:
        """A move of the spread in the metric of the loss: its square is the error it makes, relative."""
        R, _, T = self._response
        energy = float(move @ total @ move) + T * T * float(((R @ move) ** 2).sum())
        return float(np.sqrt(max(energy, 0.0) / (float(self.v @ total @ self.v) + T * T)))

    @property
    def _full(self) -> bool:
        """Whether every value is told apart, so that columns may be scaled without leaving the row space."""
        return self.rank == len(self.q) - 1

    def _projected(self, gram: Floats) -> Floats:
        return np.asarray(self.basis @ gram @ self.basis.T)

    @cached_property
    def _response(self) -> tuple[Floats, Floats, float]:
        """R with columns of average norm 1, its inverse F up to a factor √T, and T, for the present q and v."""
        values = self.basis - (self.basis @ self.v)[:, None]  # e_j − v
        R, G, T = _best_rows(values, self.q, self.gram, self.space)
        return R, self.basis.T @ G, T


def _best_rows(values: Floats, q: Floats, gram: Floats, space: Floats) -> tuple[Floats, Floats, float]:
    """R with columns of average norm 1, its inverse up to a factor √T in the basis of the values, and T."""
    C = np.linalg.cholesky((values * q) @ values.T)
    # Inside the space of what is asked: what hardly matters there is not to be mistaken for what is not asked at all.
    Q = np.linalg.qr(C.T @ space)[0] if space.shape[1] < len(space) else np.eye(len(space))
    energies, U = np.linalg.eigh((C @ Q).T @ gram @ (C @ Q))
    energies, U = np.maximum(energies, _FAINT * energies[-1]), Q @ U
    T = float(np.sqrt(energies).sum())
    quarter = energies**0.25
    return (quarter[:, None] * U.T) @ linalg.solve_triangular(C, values, lower=True) / np.sqrt(T), C @ (U / quarter), T


def _row_space(gram: Floats, trace: float) -> Floats:
    """The eigenvectors of a Gram matrix that count beside the trace of the one it is part of, (n − 1, rank)."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors[:, values > _SMALLEST * trace])


def best_cells(rest: Floats, spread: Floats, start: Floats) -> Floats:
    """The weights on values that prove the most about every strategy with this spread, (n,), beginning with some."""
    basis = contrasts(len(rest))
    gram, values = basis @ rest @ basis.T, basis - (basis @ spread)[:, None]
    space = _row_space(gram, rest.trace())
    if not space.size:
        return start

    def answer(q: Floats) -> Answer:
        R, _, T = _best_rows(values, q, gram, space)
        norms = (R**2).sum(axis=0)
        return Answer(T * T, T * T * float(norms.max()), norms)

    normalised = simplices([len(start)], _FLOOR / len(start))
    best = ascend(answer, start, normalised, SETTLED / _UNSCALED, _ROUNDS, power=_EXPONENT, memory=Acceleration())
    return np.asarray(best.proof)


def weighed_gram(V: Floats, spread: Floats, cells: Floats, *, replacing: bool = False) -> Floats:
    """`G = Cᵀ V C` on the rest of the split by v, with `C Cᵀ = Σ_j q_j (e_j − v)(e_j − v)ᵀ`, (n − 1, n − 1).

    `tr √G` is the least `√(max cost · tr(V K))` of any strategy with this spread. Where a value replaces another, both
    drawn by q, half the mean of `(e_j − e_k)(e_j − e_k)ᵀ` counts instead: the same less the square of its mean.
    """
    B = contrasts(len(V))
    values = B - (B @ spread)[:, None]
    mean = values @ cells if replacing else np.zeros(len(values))
    C = np.linalg.cholesky((values * cells) @ values.T - np.outer(mean, mean))
    return np.asarray(C.T @ (B @ V @ B.T) @ C)
