"""The best strategy of one attribute, for any balance between its total and its rest.

With weights α on the total's spread and β on the rest, an attribute asked the rows of W should minimise
`α vᵀWᵀWv + β tr(WᵀW K)` over the spread vector v and the strategy of the rest, whose columns have norm at most 1. With
`X = c 11ᵀ + (1 − c) RᵀR` this is the dense problem of least total variance for the Gram matrix `WᵀW + ν 11ᵀ`: one
number ν, the extra weight of the total, moves along all best compromises (the frontier). `ν → ∞` hardly differs from
the plain centring of residual plans; a finite ν tilts v towards what makes `W v` small.

Reference: this departs from residual-planner, whose split is `v = 1/n` always.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.plan.dense.solver import least_total
from residua.workload import AttributeQueries, MatrixRows

Floats = NDArray[np.float64]
FINE, COARSE = 1e-6, 1e-4  # gaps: of a strategy that is kept, and of one that only shows which way to go
_SMALLEST = 1e-13  # of the largest: an eigenvalue of a Gram matrix below this is zero
TILTS = np.geomspace(0.001, 120.0, 9)  # extra weight of the total, times n / tr WᵀW, where frontiers are solved


@dataclass(frozen=True, eq=False)
class RealStrategy:
    """A strategy of real numbers with its own certificate.

    Args:
        rows: R, (r, n), largest column norm 1.
        cells: weights on the values, summing to 1, that prove it optimal for its spread.
    """

    rows: Floats
    cells: Floats

    @cached_property
    def _solved(self) -> Floats:
        return np.linalg.pinv(np.vstack([np.ones((1, self.rows.shape[1])), self.rows]))

    @cached_property
    def spread(self) -> Floats:
        """v, (n,)."""
        return self._solved[:, 0].copy()

    @cached_property
    def inverse(self) -> Floats:
        """K = F Fᵀ, (n, n)."""
        F = self._solved[:, 1:]
        return np.asarray(F @ F.T)


def best_strategy(V: Floats, extra: float, merged: NDArray[np.int64] | None = None, gap: float = FINE) -> RealStrategy:
    """The optimum for the Gram matrix `V + extra · 11ᵀ`, split into its total and its rest.

    Args:
        V: (n, n) Gram matrix of the rows asked.
        extra: ν > 0.
        merged: for every value the group of values that no row tells apart, (n,); None if all are told apart.
        gap: how far from the optimum it may be.
    """
    n = len(V)
    first = np.arange(n) if merged is None else np.unique(merged, return_index=True)[1]
    codes = np.arange(n) if merged is None else merged
    gram = V[np.ix_(first, first)] + extra
    energies, U = np.linalg.eigh(gram)
    kept = energies > _SMALLEST * energies[-1]
    factor = np.sqrt(energies[kept])[:, None] * U[:, kept].T
    solution = least_total(factor, tolerance=gap)
    S = np.asarray(solution.strategy)[:, solution.columns]
    # 1 = Sᵀh: the part of S along h measures the total, the rest measures R.
    h = np.linalg.lstsq(S.T, np.ones(S.shape[1]), rcond=None)[0]
    rest = np.linalg.svd(h[None, :] / np.linalg.norm(h))[2][1:]
    R = (rest @ S)[:, codes]
    weights = np.zeros(n)
    weights[first] = solution.certificate.cell_weights
    largest = float(np.sqrt((R**2).sum(axis=0).max(initial=0.0)))
    return RealStrategy(R / largest if largest else R, weights / weights.sum())


def indistinct(queries: list[AttributeQueries]) -> NDArray[np.int64] | None:
    """For every value the group of values that none of these rows tells apart, (n,); None if all are told apart."""
    if not all(isinstance(asked, MatrixRows) for asked in queries):
        return None
    W = np.vstack([asked.matrix() for asked in queries])
    codes = np.unique(W, axis=1, return_inverse=True)[1].ravel()
    return None if len(np.unique(codes)) == W.shape[1] else np.asarray(codes)


def block_value(V: Floats, spread: Floats, cells: Floats) -> float:
    """`T = tr (Q^½ V Q^½)^½` on the rest of the split by v: the least `√(max cost · tr(V K))` of any strategy for it.

    K lives on `1^⊥`, its cost is weighed by `P Q Pᵀ` with `P = I − v 1ᵀ`.
    """
    n = len(V)
    B = np.linalg.svd(np.ones((1, n)))[2][1:].T  # an orthonormal basis of 1^⊥
    P = np.eye(n) - np.outer(spread, np.ones(n))
    N = B.T @ P
    weight = (N * cells) @ N.T
    w, U = np.linalg.eigh(weight)
    root = (U * np.sqrt(np.maximum(w, 0.0))) @ U.T
    energies = np.linalg.eigvalsh(root @ (B.T @ V @ B) @ root)
    return float(np.sqrt(np.maximum(energies, 0.0)).sum())
