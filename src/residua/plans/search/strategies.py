"""Known strategies for Laplace noise, the columns that may be added to them for free, and a bound on all of them.

A strategy of lower sensitivity with the same error profile: a rotation of its rows.

`A` and `QA`, Q orthogonal, have the same `AᵀA`, hence the same error profile; their sensitivities differ. The problem
is not convex. We try the three roots of `AᵀA` that are easy to name (by eigenvectors, triangular in several orders of
the cells, symmetric) and descend from the better ones along geodesics of the orthogonal group, on a smooth
stand-in for the largest column sum. Nothing is proven but that the result is no worse.

Reference: matrix-mechanism, Problem 2, Theorems 2 and 10, Figure 4.

What a Laplace strategy is judged by: the weighted total, or the largest, of the variances of some queries.

A strategy A with Laplace noise of scale `Δ/ε`, Δ its largest column sum of absolute values, answers w with variance
`2 Δ²/ε² · w (AᵀA)⁺ wᵀ`. Scaling A changes nothing, so everything here is for `Δ = 1` and without the factor `2/ε²`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.machine import linalg
from residua.plans.saddle import smooth_maximum
from residua.plans.solver.queries import Queries, ScaledQueries, squares

Slopes = Callable[[Floats], tuple[float, Floats]]  # a value and its slopes
Told = Callable[[float], None]
_RANK = 1e-12  # share of the largest eigenvalue of AᵀA below which a direction is not measured
_OUTSIDE = 1e-9  # share of a workload's energy that may lie outside what is measured


@dataclass(frozen=True, eq=False)
class Judged:
    """Queries on distinct cells, each row times the root of its weight (or over the root of its target).

    Args:
        queries: W, (m, n).
        worst: whether the largest variance counts instead of their sum.
        slopes: any other loss of the variances at sensitivity 1, and how it grows with each.
    """

    queries: Queries
    worst: bool
    slopes: Slopes | None = None

    @property
    def cells(self) -> int:
        """How many distinct cells there are."""
        return self.queries.shape[1]

    def totals(self, strategy: Floats) -> list[Judged]:
        """Sums of variances like this loss: itself, or what another one grows by at a strategy; none for a maximum."""
        if self.slopes is None:
            return [] if self.worst else [self]
        root: Floats = np.linalg.pinv(strategy).astype(np.float64)
        weights = np.maximum(self.slopes(squares(self.queries, root))[1], 0.0)
        return [Judged(ScaledQueries(self.queries, np.sqrt(weights)), False), Judged(self.queries, False)]

    @cached_property
    def gram(self) -> Floats:
        """`V = WᵀW`, (n, n)."""
        return self.queries.gram(np.ones(self.queries.shape[0]))

    def loss(self, strategy: Floats) -> float:
        """`Δ²` times the sum (or the maximum) of `diag W (AᵀA)⁺ Wᵀ`; infinite if the strategy does not support W.

        Reference: matrix-mechanism, Proposition 4.
        """
        square, gram = sensitivity(strategy) ** 2, strategy.T @ strategy
        return square * self.profile_loss(gram) if self.slopes is None else self.profile_loss(gram / square)

    def profile_loss(self, gram: Floats) -> float:
        """The same without `Δ²`, from `AᵀA`: it is the error profile's own, whatever the rotation."""
        s, U = linalg.eigh(gram, check_finite=False)
        kept = s > s[-1] * _RANK
        s, U = s[kept], U[:, kept]
        energy = np.einsum("ij,ij->j", U, self.gram @ U)
        if float(np.trace(self.gram)) - float(energy.sum()) > _OUTSIDE * float(np.trace(self.gram)):
            return float(np.inf)
        if self.worst or self.slopes is not None:
            variances = squares(self.queries, U / np.sqrt(s))
            return float(variances.max()) if self.slopes is None else self.slopes(variances)[0]
        return float((energy / s).sum())


def lowest(objective: Slopes, starts: Iterable[Any], bounds: Sequence[Any], **options: float) -> tuple[float, Floats]:
    """The least value of an objective after descents from some starts, and where."""
    from scipy.optimize import minimize  # takes long to load

    how: Any = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options}
    best = min((minimize(objective, start, **how) for start in starts), key=lambda each: each.fun)
    return float(best.fun), np.asarray(best.x, dtype=np.float64)


def shares_of(logits: Floats) -> Floats:
    """Positive numbers with these logarithms up to a constant, that add up to 1 along the first axis."""
    omega = np.exp(logits - logits.max(axis=0))
    return np.asarray(omega / omega.sum(axis=0))


def best_shares(loss: Slopes, starts: Iterable[Any], steepest: float, rounds: int) -> Floats:
    """The weights ω of levels, which add up to 1, after descents of a loss of their squares.

    Args:
        loss: ω² ↦ (value, slopes).
        starts: logarithms of ω.
        steepest: bound on these logarithms.
        rounds: most rounds of each descent.
    """

    def objective(logits: Floats) -> tuple[float, Floats]:
        omega = shares_of(logits)
        value, slope = loss(omega**2)
        slope = 2 * omega * slope / value
        return math.log(value), omega * (slope - omega @ slope)

    first = [np.clip(start - start.mean(), -steepest, steepest) for start in starts]
    return shares_of(lowest(objective, first, [(-steepest, steepest)] * len(first[0]), maxiter=rounds)[1])


def sensitivity(strategy: Floats) -> float:
    """`Δ`: the largest column sum of absolute values.

    Reference: matrix-mechanism, Proposition 1.

    Example:
        >>> sensitivity(np.array([[1.0, 1.0], [1.0, -1.0]]))
        2.0
    """
    return float(np.abs(strategy).sum(axis=0).max())


def haar(cells: int) -> Floats:
    """The Haar wavelet over ordered cells, `Y_n`: the total, then half minus half, down to cells, (n, n).

    A part of odd length is split as evenly as it goes, so any number of cells will do.
    """
    rows = [np.ones(cells)]
    parts = [(0, cells)]
    while parts:
        below = []
        for start, stop in parts:
            if stop - start > 1:
                middle = (start + stop + 1) // 2
                row = np.zeros(cells)
                row[start:middle], row[middle:stop] = 1.0, -1.0
                rows.append(row)
                below += [(start, middle), (middle, stop)]
        parts = below
    return np.array(rows)


def level_counts(cells: int, branching: int) -> list[int]:
    """How many nodes each level of a tree over ordered cells has: 1, b, b², … and the cells.

    Example:
        >>> level_counts(10, 3)
        [1, 3, 9, 10]
    """
    counts, nodes = [], 1
    while nodes < cells:
        counts.append(nodes)
        nodes *= branching
    return [*counts, cells]


def partition(cells: int, nodes: int) -> Floats:
    """Ordered cells in so many neighbouring parts, as a 0/1 matrix, (nodes, cells)."""
    return np.asarray(np.arange(cells) * nodes // cells == np.arange(nodes)[:, None], dtype=np.float64)


def hierarchy(cells: int, branching: int = 2) -> Floats:
    """All nodes of a tree over ordered cells, `H_n` of the paper for branching 2, (nodes, cells).

    Reference: matrix-mechanism, Figure 1 and §6.
    """
    return np.vstack([partition(cells, nodes) for nodes in level_counts(cells, branching)])


def singular_values(asked: Judged) -> Floats:
    """The strategy `diag(√σ) Pᵀ` of a workload `Q diag(σ) Pᵀ`, (rank, n).

    Reference: matrix-mechanism, Theorem 7.
    """
    energies, P = linalg.eigh(asked.gram, check_finite=False)
    kept = energies > energies[-1] * 1e-12
    return np.asarray(energies[kept, None] ** 0.25 * P[:, kept].T)


_SMALL = 1e-3  # of the sensitivity: what is missing less than this is not worth a measurement


def augmented(strategy: Floats) -> Floats:
    """The strategy with one more row for every column whose sum falls short: that cell alone, by what is missing.

    Guarantee: the same sensitivity, and no query has a larger error.

    Example:
        >>> augmented(np.array([[1.0, 1.0], [1.0, 0.0]]))[-1]
        array([0., 1.])
    """
    sums = np.abs(strategy).sum(axis=0)
    missing = sums.max() - sums
    deficient = np.flatnonzero(missing > _SMALL * sums.max())
    rows = np.zeros((len(deficient), strategy.shape[1]))
    rows[np.arange(len(deficient)), deficient] = missing[deficient]
    return np.vstack([strategy, rows]) if len(deficient) else strategy


def singular_value_bound(asked: Judged) -> float:
    """`(Σ σ)²/n` with σ the workload's singular values: no strategy of sensitivity 1 has a smaller total loss.

    For the largest variance it is divided by the number of queries: a maximum is at least the mean.
    """
    energies = linalg.eigvalsh(asked.gram, check_finite=False)
    # Eigenvalues within rounding of 0 would only raise the bound.
    energies = energies[energies > energies[-1] * asked.cells * 1e-15]
    total = float(np.sqrt(energies).sum()) ** 2 / asked.cells * (1 - 1e-12)
    return total / asked.queries.shape[0] if asked.worst else total


_ORDERS = (8.0, 32.0, 128.0)  # of the norm over columns, one stage each


def rotated(strategy: Floats, rounds: int = 100, starts: int = 3) -> Floats:
    """A profile-equivalent strategy of the least sensitivity found, the strategy itself if none is lower.

    Args:
        strategy: A, (m, n).
        rounds: steps of descent for each stage; 0 for the named roots only.
        starts: from how many of them to descend.

    Guarantee: `RᵀR = AᵀA` up to rounding, and the sensitivity is at most that of A.
    """
    named = sorted([strategy, *roots(strategy.T @ strategy)], key=sensitivity)
    best = named[0]
    if rounds:
        for start in named[:starts]:
            turned = _descended(start, rounds)
            best = turned if sensitivity(turned) < sensitivity(best) * (1 - 1e-9) else best
    return best


def roots(gram: Floats) -> list[Floats]:
    """Strategies that have this `AᵀA`: by eigenvectors, symmetric, and triangular in some orders of the cells."""
    s, P = linalg.eigh(gram, check_finite=False)
    s = np.maximum(s, 0.0)
    kept = s > s[-1] * 1e-12
    strategies = [np.sqrt(s[kept])[:, None] * P[:, kept].T, (P * np.sqrt(s)) @ P.T]
    n = len(gram)
    if kept.all():
        rng = np.random.default_rng(0)
        orders = [np.arange(n), np.arange(n)[::-1], np.argsort(np.diag(gram)), np.r_[0:n:2, 1:n:2]]
        for order in [*orders, *(rng.permutation(n) for _ in range(4))]:
            try:
                R = linalg.cholesky(gram[np.ix_(order, order)], check_finite=False)
            except linalg.LinAlgError:
                continue
            back = np.empty_like(R)
            back[:, order] = R
            strategies.append(back)
    return strategies


def _descended(A: Floats, rounds: int) -> Floats:
    """Gradient descent over rotations of the rows, from rough to sharp."""
    best = A
    scale = sensitivity(A)
    for order in _ORDERS:
        smooth = scale / (4 * order)
        value, G = _smooth(A, order, smooth)
        step = 1.0 / order
        for _ in range(rounds):
            turn = G @ A.T
            turn = turn - turn.T
            size = float(np.abs(turn).max())
            if size <= 1e-12 * value:
                break
            while step > 1e-9:
                trial = _turned(A, turn * (step / size))
                lower, slope = _smooth(trial, order, smooth)
                if lower < value:
                    break
                step /= 3
            else:
                break
            A, value, G, step = trial, lower, slope, step * 1.5
            best = A if sensitivity(A) < sensitivity(best) else best
    return best


def _turned(A: Floats, turn: Floats) -> Floats:
    """`Q A` with Q the Cayley transform of a skew matrix: orthogonal to rounding."""
    half = turn / 2
    eye = np.eye(len(A))
    return np.asarray(linalg.solve(eye + half, (eye - half) @ A, check_finite=False))


def _smooth(A: Floats, order: float, width: float) -> tuple[float, Floats]:
    """A norm of the columns' sums of `√(a² + width²)`, and its gradient, (m, n)."""
    soft = np.sqrt(A * A + width * width)
    value, slope = smooth_maximum(soft.sum(axis=0), order)
    return value, (A / soft) * slope
