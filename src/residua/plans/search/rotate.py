"""A strategy of lower sensitivity with the same error profile: a rotation of its rows.

`A` and `QA`, Q orthogonal, have the same `AᵀA`, hence the same error profile; their sensitivities differ. The problem
is not convex. We try the three roots of `AᵀA` that are easy to name (by eigenvectors, triangular in several orders of
the cells, symmetric) and descend from the better ones along geodesics of the orthogonal group, on a smooth
stand-in for the largest column sum. Nothing is proven but that the result is no worse.

Reference: matrix-mechanism, Problem 2, Theorems 2 and 10, Figure 4.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from residua.linalg.arrays import Floats
from residua.plans.search.asked import sensitivity

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
            found = _descended(start, rounds)
            best = found if sensitivity(found) < sensitivity(best) * (1 - 1e-9) else best
    return best


def roots(gram: Floats) -> list[Floats]:
    """Strategies that have this `AᵀA`: by eigenvectors, symmetric, and triangular in some orders of the cells."""
    s, P = linalg.eigh(gram, check_finite=False)
    s = np.maximum(s, 0.0)
    kept = s > s[-1] * 1e-12
    found = [np.sqrt(s[kept])[:, None] * P[:, kept].T, (P * np.sqrt(s)) @ P.T]
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
            found.append(back)
    return found


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
    sums = soft.sum(axis=0)
    top = float(sums.max())
    powers = (sums / top) ** (order - 1)
    total = float((powers * sums / top).sum())
    return top * total ** (1 / order), (A / soft) * (powers * total ** (1 / order - 1))
