"""One decomposition answers everything: the best mechanism for given weights, its costs, and both bounds.

For weights p on queries and y on cells, `A = diag(√p) W diag(√y) = Z diag(s) Uᵀ` and `f = Σ s`. The mechanism
`X = diag(y)^-½ U diag(s) Uᵀ diag(y)^-½` has cell costs `x_i = X_ii = (U² s)_i / y_i` and query variances
`v_j = (W X⁻ Wᵀ)_jj`, with `y·x = p·v = f`. X is *defined* by U and s, so an inexact decomposition cannot fake its cost.

Reference: fitness-for-use, Problem 3; the dual is the fidelity, jointly concave in (p, y).

The curvature of the dual in log-weights, written out: a sum of a few elementwise squares of symmetric products.

With `B = [U; Z]`, `T_kl = s_k s_l / (s_k + s_l)` and weights growing by the factors 1 + e, costs and variances move by
`−K e / weights`, where `K_ab = ± Σ_kl T_kl B_ak B_al B_bk B_bl` (minus between a cell and a query) is positive
semidefinite. A pivoted Cholesky decomposition `T/√(s sᵀ) ≈ G Gᵀ` of rank R (five or so) gives
`K = Σ_R (B diag(G_R ∘ √s) Bᵀ)²`, elementwise: R matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats
from residua.machine import linalg
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
        self._known: Floats | None = None  # the query weights that Gram matrix and root are of
        self._gram: Floats | None = None
        self._root: Floats | None = None
        self.squared = True  # whether the Gram matrix still has digits enough; once lost, lost for good
        self.inner, self.rows = queries, None
        factors = queries.factors if isinstance(queries, MatrixQueries) else None
        if factors and (exact or rank < 0.7 * queries.shape[1]):
            self.inner, self.rows = MatrixQueries(factors[0]), factors[1]
        self.exact = factors is None or self.rows is not None

    def respond(self, query_weights: Floats, cell_weights: Floats) -> Response:
        """The best mechanism for these weights: from the Gram matrix while it has digits enough, else from its root."""
        y, QR, turn = cell_weights, None, np.sqrt(cell_weights)
        if query_weights is not self._known:
            self._known, self._gram, self._root = query_weights, None, None
        if self.rows is not None:
            QR = linalg.qr((self.rows * turn).T, mode="economic", overwrite_a=True, check_finite=False)
            turn = QR[1].T
        if self.squared:
            gram = self.gram(query_weights)
            inner = gram * turn * turn[:, None] if QR is None else turn.T @ gram @ turn
            energies, V, failed = linalg.lapack.dsyevd(inner.T, lower=1, overwrite_a=1)
            energies, V = energies[-self.rank :], V[:, -self.rank :]
            self.squared = not failed and bool(energies[0] >= _SQUARABLE * energies[-1])
            if self.squared:
                return Response(y, self._lifted(y, QR, V), np.sqrt(energies))
        if self._root is None:
            self._root = triangle(self.inner, query_weights)
        A = self._root * turn if QR is None else self._root @ turn
        _, s, Vt = linalg.svd(A, full_matrices=False, overwrite_a=True, check_finite=False)
        V = np.ascontiguousarray(Vt[: self.rank].T)
        return Response(y, self._lifted(y, QR, V), np.maximum(s[: self.rank], s[0] * 1e-15))

    def gram(self, query_weights: Floats) -> Floats:
        """`V = Wᵀ diag(p) W`, (d, d), or the same in the r coordinates of the row space; kept while weights stay."""
        if self._gram is None or query_weights is not self._known:
            self._known, self._gram, self._root = query_weights, self.inner.gram(query_weights), None
        return self._gram

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


_KERNEL_TOLERANCE = 1e-2  # an approximate Hessian costs no steps until it is five times coarser than this


def kernel_root(values: Floats, tolerance: float = _KERNEL_TOLERANCE) -> Floats:
    """G with `√(s_k s_l)/(s_k + s_l) ≈ (G Gᵀ)_kl`, (r, R), by pivoted Cholesky; the diagonal is met to `tolerance`."""
    residual = np.full(len(values), 0.5)
    columns: list[Floats] = []
    while (pivot := int(residual.argmax())) >= 0 and residual[pivot] > tolerance and len(columns) < len(values):
        column = np.sqrt(values * values[pivot]) / (values + values[pivot])
        for done in columns:
            column = column - done * done[pivot]
        column = column / np.sqrt(residual[pivot])
        columns.append(column)
        residual = residual - column**2
    return np.stack(columns, axis=1)


def curvature(rows: Floats, values: Floats, cells: int, tolerance: float = _KERNEL_TOLERANCE) -> Floats:
    """K, (n, n), for `rows` B = [U; Z] of shape (n, r) of which the first `cells` belong to cells; its lower triangle.

    `tolerance` is that of the kernel's root, which is scaled to meet the diagonal: what it leaves out would make steps
    too long.
    """
    K: Floats | None = None
    root = kernel_root(values, tolerance)
    root *= np.sqrt(0.5 / np.einsum("ij,ij->i", root, root))[:, None]
    for column in root.T:
        factor = column * np.sqrt(values)
        product = _symmetric(rows * np.sqrt(np.abs(factor)), factor > 0)
        product *= product
        if K is None:
            K = product
        else:
            K += product
    assert K is not None
    K[cells:, :cells] *= -1.0
    return K


def _symmetric(rows: Floats, positive: Booleans) -> Floats:
    """The lower triangle of `rows diag(±1) rowsᵀ`, a sign for each column, (n, n); half the work of a product."""
    if positive.all():
        return np.asarray(linalg.blas.dsyrk(1.0, rows.T, trans=1, lower=1))
    added = linalg.blas.dsyrk(1.0, rows.take(np.flatnonzero(positive), axis=1).T, trans=1, lower=1)
    taken = rows.take(np.flatnonzero(~positive), axis=1).T
    return np.asarray(linalg.blas.dsyrk(-1.0, taken, beta=1.0, c=added, trans=1, lower=1, overwrite_c=1))


class CholeskySystem:
    """Solves `(K + diag(damping) + f a aᵀ) e = rhs` by one Cholesky decomposition.

    Args:
        K: the lower triangle of the curvature, (n, n); overwritten.
        damping: weight times slack, positive, (n,).
        direction: a, the vector along which K is singular and must be held, or None, (n,).
        value: f.
    """

    def __init__(self, K: Floats, damping: Floats, direction: Floats | None, value: float) -> None:
        diagonal = np.einsum("ii->i", K)  # a view
        diagonal += damping
        if direction is not None:  # only cells are weighed by a
            used = int(np.flatnonzero(direction)[-1]) + 1
            K[:used, :used] += value * np.outer(direction[:used], direction[:used])
        self.scale = np.ones(len(K))
        self.factor, failed = linalg.lapack.dpotrf(K, lower=1, clean=0)
        if not failed:
            return
        self.scale = 1.0 / np.sqrt(diagonal)
        K *= self.scale
        K *= self.scale[:, None]
        lift = 1e-14
        while failed:
            if lift > 1.0:
                raise PlanError("the Newton system lost all its digits; ask for a larger tolerance.")
            diagonal[:] = 1.0 + lift
            self.factor, failed = linalg.lapack.dpotrf(K, lower=1, clean=0)
            lift *= 100.0

    def solve(self, right: Floats) -> Floats:
        """The step for this right-hand side, (n,)."""
        return np.asarray(self.scale * linalg.lapack.dpotrs(self.factor, self.scale * right, lower=1)[0])


_RESIDUAL = 1e-2
_MOST_ROUNDS = 500


class ConjugateGradientSystem:
    """Solves `(K + diag(damping) + f a aᵀ) e = rhs` by preconditioned conjugate gradients.

    Args:
        queries: the workload, (m, d).
        response: the decomposition at the current weights.
        query_weights: p, (m,).
        damping: weight times slack, cells first, (d + m,).
        direction: a, zero on the queries, (d + m,).
    """

    def __init__(
        self, queries: Queries, response: Response, query_weights: Floats, damping: Floats, direction: Floats
    ) -> None:
        self.queries, self.p, self.damping, self.direction = queries, query_weights, damping, direction
        self.U, self.s, self.f = response.basis, response.values, response.value
        self.d = len(self.U)
        self.T = np.multiply.outer(self.s, self.s) / np.add.outer(self.s, self.s)
        self.lift = response.cell_weights[:, None] ** 0.5 * self.U / self.s  # diag(√y) U diag(1/s)
        self.diagonal = self._diagonal()

    def apply(self, e: Floats) -> Floats:
        """The matrix of the system times `e`."""
        xi, eta = e[: self.d], e[self.d :]
        inner = (self.U * xi[:, None]).T @ self.U - self.lift.T @ (self.queries.gram(self.p * eta) @ self.lift)
        N = self.T * (inner + inner.T) / 2.0
        cells = np.einsum("ij,ij->i", self.U @ N, self.U)
        queries = self.p * self.queries.diagonal(self.lift @ N @ self.lift.T)
        held = self.direction * (self.f * float(self.direction @ e))
        return np.concatenate([cells, -queries]) + self.damping * e + held

    def _diagonal(self) -> Floats:
        total = self.damping + self.f * self.direction**2
        for column in kernel_root(self.s).T:
            middle = column * np.sqrt(self.s)
            cells = (self.U**2) @ middle
            queries = self.p * self.queries.diagonal((self.lift * middle) @ self.lift.T)
            total = total + np.concatenate([cells, queries]) ** 2
        return np.asarray(total)

    def solve(self, right: Floats) -> Floats:
        """The step for this right-hand side, (d + m,)."""
        from scipy.sparse.linalg import LinearOperator, cg

        n, scale = len(right), 1.0 / np.sqrt(self.diagonal)
        scaled = LinearOperator((n, n), matvec=lambda z: scale * self.apply(scale * z), dtype=np.float64)
        return np.asarray(scale * cg(scaled, scale * right, rtol=_RESIDUAL, maxiter=_MOST_ROUNDS)[0])
