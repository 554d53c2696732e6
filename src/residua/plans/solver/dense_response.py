"""One decomposition answers everything: the best mechanism for given weights, its costs, and both bounds.

For weights p on queries and y on cells, `A = diag(√p) W diag(√y) = Z diag(s) Uᵀ` and `f = Σ s`. The mechanism
`X = diag(y)^-½ U diag(s) Uᵀ diag(y)^-½` has cell costs `x_i = X_ii = (U² s)_i / y_i` and query variances
`v_j = (W X⁻ Wᵀ)_jj`, with `y·x = p·v = f`. X is *defined* by U and s, so an inexact decomposition cannot fake its cost.

Reference: fitness-for-use, Problem 3; the dual is the fidelity, jointly concave in (p, y).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from residua.linalg.arrays import Floats
from residua.plans.solver.queries import MatrixQueries, Queries, squares, triangle

_SMALL_ROW = 1e-10  # square of a row of U below which it is computed by itself
_SQUARABLE = 1e-11  # below this ratio of eigenvalues of the Gram matrix, its square roots are rounding error


@dataclass(frozen=True, eq=False)
class Response:
    """The best mechanism for given weights.

    Args:
        cell_weights: y, (d,).
        basis: U, (d, r), orthonormal columns.
        values: s, (r,), positive.
    """

    cell_weights: Floats
    basis: Floats
    values: Floats

    @property
    def value(self) -> float:
        """`f = Σ s`, the sum of singular values."""
        return float(self.values.sum())

    @property
    def costs(self) -> Floats:
        """`x_i = X_ii`, the privacy cost of each cell, (d,)."""
        return np.asarray((self.basis**2) @ self.values / self.cell_weights)

    @property
    def strategy(self) -> Floats:
        """S with `X = Sᵀ S`, (r, d)."""
        return np.asarray((self.basis * np.sqrt(self.values)).T / np.sqrt(self.cell_weights))

    @property
    def recovery(self) -> Floats:
        """F with `X⁻ = F Fᵀ` on the row space, (d, r): `W F` turns answers of S into answers of W."""
        return np.asarray((self.basis / np.sqrt(self.values)) * np.sqrt(self.cell_weights)[:, None])

    def variances(self, queries: Queries) -> Floats:
        """`v_j`, the variance of each query, (m,); from W itself, so that no small weight is divided by."""
        return squares(queries, self.recovery)


class Responder:
    """Decomposes one workload for many weights; goes over from the Gram matrix to the matrix itself when it must.

    When the rank r is below d, W = L B with B (r, d), and `diag(√y) Bᵀ = Q R` puts the whole decomposition into r
    coordinates: U = Q V cannot leave the row space, however small the last singular values are.

    Args:
        queries: the workload, (m, d).
        rank: its rank, to which every decomposition is cut.
        exact: False saves that detour where r is not far below d; U may then leave the row space by rounding error,
            which is harmless on the way but not in an answer.
    """

    def __init__(self, queries: Queries, rank: int, exact: bool = True) -> None:
        self.rank = rank
        self.squared = True  # whether the Gram matrix still has digits enough; once lost, lost for good
        self.inner, self.rows = queries, None
        factors = queries.factors if isinstance(queries, MatrixQueries) else None
        if factors and (exact or rank < 0.7 * queries.shape[1]):
            self.inner, self.rows = MatrixQueries(factors[0]), factors[1]
        self.exact = factors is None or self.rows is not None

    def respond(self, query_weights: Floats, cell_weights: Floats) -> Response:
        """The best mechanism for these weights."""
        gram = self.inner.gram(query_weights) if self.squared else None
        return self.decompose(cell_weights, gram, lambda: triangle(self.inner, query_weights))

    def decompose(self, y: Floats, gram: Floats | None, root: Callable[[], Floats]) -> Response:
        """From `gram` while it has digits enough, else from its root."""
        QR, turn = None, np.sqrt(y)
        if self.rows is not None:
            QR = linalg.qr((self.rows * turn).T, mode="economic", overwrite_a=True, check_finite=False)
            turn = QR[1].T
        if self.squared and gram is not None:
            inner = gram * turn * turn[:, None] if QR is None else turn.T @ gram @ turn
            energies, V, failed = linalg.lapack.dsyevd(inner.T, lower=1, overwrite_a=1)
            energies, V = energies[-self.rank :], V[:, -self.rank :]
            self.squared = not failed and bool(energies[0] >= _SQUARABLE * energies[-1])
            if self.squared:
                return Response(y, self._lifted(y, QR, V), np.sqrt(energies))
        A = root() * turn if QR is None else root() @ turn
        _, s, Vt = linalg.svd(A, full_matrices=False, overwrite_a=True, check_finite=False)
        V = np.ascontiguousarray(Vt[: self.rank].T)
        return Response(y, self._lifted(y, QR, V), np.maximum(s[: self.rank], s[0] * 1e-15))

    def _lifted(self, y: Floats, QR: Any, V: Floats) -> Floats:
        """U = Q V; rows too small to be right in Q are computed as `diag(√y) Bᵀ R⁻¹ V`, which keeps their digits."""
        if QR is None or self.rows is None:
            return V
        Q, R = QR
        U = np.asarray(Q @ V, dtype=np.float64)
        small = np.flatnonzero((U**2).sum(axis=1) < _SMALL_ROW)
        if len(small):
            turned = linalg.solve_triangular(R, V, check_finite=False)
            U[small] = np.sqrt(y[small, None]) * (self.rows[:, small].T @ turned)
        return U


class FixedResponder:
    """The same for fixed query weights, of which only `V = Wᵀ diag(p) W` matters."""

    def __init__(self, queries: Queries, rank: int, query_weights: Floats) -> None:
        self.responder, self.query_weights = Responder(queries, rank), query_weights

    @cached_property
    def gram(self) -> Floats:
        """V, (d, d), or the same in the r coordinates of the row space where r < d."""
        return self.responder.inner.gram(self.query_weights)

    @cached_property
    def _root(self) -> Floats:
        return triangle(self.responder.inner, self.query_weights)

    def respond(self, cell_weights: Floats) -> Response:
        """The best mechanism for these cell weights."""
        return self.responder.decompose(cell_weights, self.gram, lambda: self._root)
