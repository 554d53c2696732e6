"""Identity plus a few: every cell, and p more queries, with the best non-negative coefficients (p-identity).

`A = [I; Θ] D⁻¹`, Θ ≥ 0 of shape (p, n), `D = diag(1 + Σ_k Θ_k)`, has sensitivity 1 and full rank whatever Θ is, and
`(AᵀA)⁻¹ = D (I − Θᵀ(I + ΘΘᵀ)⁻¹Θ) D`: one evaluation of the loss and its gradient costs one product of (p, n) by
(n, n). The loss is not convex in Θ; several starts are tried, all of them fixed, so that plans repeat.

Reference: McKenna, Miklau, Hay and Machanavajjhala (2018), "Optimizing error of high-dimensional statistical queries",
§5 (OPT_0); the derivation here is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from residua.plan.pure.asked import Asked
from residua.plan.pure.strategies import levels

Floats = NDArray[np.float64]
Told = Callable[[float], None]
_SHARPNESS = (6.0, 40.0)  # orders of the norm that stands for a maximum, one after the other
_ROUGH, _FINE = 1e-6, 1e-8
_MOST_WORK = 4e10  # multiplications spent on starts; one more is made as long as this is not reached
_SHORT, _LONG = 150, 1200  # rounds from every start, and from the best of them
_FINALISTS = 4


def identity_plus(asked: Asked, told: Told | None = None) -> Floats:
    """The best strategy found of identity plus a few queries, (n + p, n), sensitivity 1.

    Every start is descended for a while, and the most promising to the end: the order changes on the way.
    """
    tried: list[tuple[float, Floats]] = []
    for start in _starts(asked):
        tried.append(_improved(asked, start, _ROUGH, _SHORT))
        if told:
            told(min(loss for loss, _ in tried))
    tried.sort(key=lambda each: each[0])
    done, lowest, best = 0.0, np.inf, tried[0][1]
    for loss, theta in tried[:_FINALISTS]:
        done += _work(theta, _LONG)
        if np.isfinite(lowest) and done > 2 * _MOST_WORK:
            break
        loss, theta = _improved(asked, theta, _FINE, _LONG)
        if loss < lowest:
            lowest, best = loss, theta
        if told:
            told(lowest)
    return strategy_of(best)


def strategy_of(theta: Floats) -> Floats:
    """`[I; Θ] D⁻¹`, without rows of Θ that are nothing."""
    theta = np.where(theta > 1e-9 * max(float(theta.max()), 1.0), theta, 0.0)
    theta = theta[theta.any(axis=1)]
    return np.asarray(np.vstack([np.eye(theta.shape[1]), theta]) / (1.0 + theta.sum(axis=0)))


def _starts(asked: Asked) -> Iterator[Floats]:
    """Random coefficients for several p, and the nodes of a coarse tree, as many as the work allows."""
    n = asked.cells
    done = 0.0
    tree = [part for part in levels(n, 4)[:-1] if len(part) <= max(n // 8, 1)]
    if tree:
        yield 0.5 * np.vstack(tree)
    shares = (16, 12, 10, 16, 8, 12, 16, 10, 8, 16, 16, 12)
    for seed, share in enumerate(shares):
        p = max(n // share, 1) if n > 16 else max(n // 4, 1) + seed % 3
        start = np.random.default_rng(seed).random((p, n))
        done += _work(start, _SHORT)
        if seed > 0 and done > _MOST_WORK:
            return
        yield start


def _work(theta: Floats, rounds: int) -> float:
    """Multiplications in so many rounds of descent from Θ."""
    p, n = theta.shape
    return 1.0 * rounds * int(p) * int(n) ** 2


def _improved(asked: Asked, theta: Floats, accuracy: float, rounds: int) -> tuple[float, Floats]:
    """Quasi-Newton descent from one start: the loss, and Θ."""
    shape = theta.shape
    unit = float(np.trace(asked.gram))

    for sharpness in _SHARPNESS if asked.worst else (1.0,):

        def objective(x: Floats, sharpness: float = sharpness) -> tuple[float, Floats]:
            value, slope = _loss(asked, x.reshape(shape), sharpness)
            return value / unit, slope.ravel() / unit

        found = minimize(
            objective,
            theta.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * theta.size,
            options={"maxiter": rounds, "maxfun": 2 * rounds, "ftol": accuracy, "gtol": 1e-10, "maxcor": 20},
        )
        theta = found.x.reshape(shape)
    return asked.loss(strategy_of(theta)) if asked.worst else float(found.fun) * unit, theta


def _loss(asked: Asked, theta: Floats, sharpness: float) -> tuple[float, Floats]:
    """The loss of Θ and its gradient, (p, n). O(p n²)."""
    d = 1.0 + theta.sum(axis=0)
    C: Floats = np.asarray(np.linalg.inv(np.eye(len(theta)) + theta @ theta.T), dtype=np.float64)
    if not asked.worst:
        return _total(asked.gram, theta, d, C)
    M = d[:, None] * (np.eye(len(d)) - theta.T @ (C @ theta)) * d
    v = np.maximum(asked.queries.diagonal(M), 0.0)
    top = float(v.max())
    powers = (v / top) ** (sharpness - 1)
    total = float((powers * v / top).sum())
    _, slope = _total(asked.weighted(powers * total ** (1 / sharpness - 1)), theta, d, C)
    return top * total ** (1 / sharpness), slope


def _total(V: Floats, theta: Floats, d: Floats, C: Floats) -> tuple[float, Floats]:
    """`tr V (AᵀA)⁻¹` and its gradient in Θ."""
    diagonal = np.diagonal(V)
    G = C @ (((theta * d) @ V) * d)
    inner = (theta * G).sum(axis=0)
    value = float((diagonal * d * d).sum() - inner.sum())
    slope = -2.0 * (G - (G @ theta.T) @ (C @ theta)) + 2.0 * (diagonal * d - inner / d)
    return value, slope
