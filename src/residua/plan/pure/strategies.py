"""Named strategies for Laplace noise: identity, hierarchies with weighted levels, Haar wavelet, singular values.

Reference: matrix-mechanism, Figure 1, §6 and Theorem 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.optimize import minimize

from residua.plan.pure.asked import Asked

Floats = NDArray[np.float64]
_SHARPNESS = 24.0  # order of the norm that stands for a maximum while weights are optimised
_ROUNDS = 60


def levels(cells: int, branching: int) -> list[Floats]:
    """The levels of a tree over ordered cells, root first: each a 0/1 matrix (nodes, cells) that partitions them.

    Example:
        >>> [len(level) for level in levels(4, 2)]
        [1, 2, 4]
    """
    found = []
    for nodes in _node_counts(cells, branching):
        owner = np.minimum(np.arange(cells) * nodes // cells, nodes - 1)
        found.append((owner == np.arange(nodes)[:, None]).astype(np.float64))
    return found


def _node_counts(cells: int, branching: int) -> list[int]:
    """1, b, b², … and the cells themselves."""
    counts, nodes = [], 1
    while nodes < cells:
        counts.append(nodes)
        nodes *= branching
    return [*counts, cells]


def hierarchy(cells: int, branching: int = 2) -> Floats:
    """All nodes of a tree over ordered cells, `H_n` of the paper for branching 2, (nodes, cells)."""
    return np.vstack(levels(cells, branching))


def branchings(cells: int) -> Iterator[int]:
    """Every branching that gives a tree of its own: up to √n, and n itself (the total and the cells)."""
    yield from range(2, math.isqrt(max(cells - 1, 1)) + 2)
    if cells > 3:
        yield cells


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


def singular_values(asked: Asked) -> Floats:
    """The strategy `diag(√σ) Pᵀ` of a workload `Q diag(σ) Pᵀ`, (rank, n).

    Reference: matrix-mechanism, Theorem 7.
    """
    energies, P = linalg.eigh(asked.gram, check_finite=False)
    kept = energies > energies[-1] * 1e-12
    return np.asarray(energies[kept, None] ** 0.25 * P[:, kept].T)


def weighted_levels(asked: Asked, parts: list[Floats]) -> Floats:
    """A hierarchy whose levels have the weights that serve a workload best, (nodes, cells).

    Every cell is in one node of each level, so with weights ω ≥ 0, `Σ ω = 1`, the sensitivity is 1 and the loss
    `tr V (Σ_l ω_l² H_lᵀH_l)⁻¹` is smooth in ω. A level whose weight falls to 0 is left out.
    """
    n = asked.cells
    grams = np.array([(part.T @ part).ravel() for part in parts])  # (levels, n²)
    last = len(parts) - 1

    def objective(logits: Floats) -> tuple[float, Floats]:
        omega = np.exp(logits - logits.max())
        omega /= omega.sum()
        M = np.asarray(linalg.inv((omega**2 @ grams).reshape(n, n), check_finite=False), dtype=np.float64)
        value, V = _norm(asked, M)
        slope = -2 * omega * (grams @ (M @ V @ M).ravel())
        slope = omega * (slope - omega @ slope)
        return math.log(value), slope / value

    found = minimize(objective, np.zeros(last + 1), jac=True, method="L-BFGS-B", options={"maxiter": _ROUNDS})
    omega = np.exp(found.x - found.x.max())
    omega /= omega.sum()
    kept = [(o, part) for o, part in zip(omega, parts, strict=True) if o > 1e-6 or part is parts[last]]
    return np.vstack([o * part for o, part in kept])


def _norm(asked: Asked, M: Floats) -> tuple[float, Floats]:
    """The loss of an error profile M, a maximum made smooth, and its gradient in M."""
    if not asked.worst:
        return float((asked.gram * M).sum()), asked.gram
    v = np.maximum(asked.queries.diagonal(M), 0.0)
    top = float(v.max())
    powers = (v / top) ** (_SHARPNESS - 1)
    total = float((powers * v / top).sum())
    return top * total ** (1 / _SHARPNESS), asked.weighted(powers * total ** (1 / _SHARPNESS - 1))
