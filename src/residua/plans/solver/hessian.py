"""The curvature of the dual in log-weights, written out: a sum of a few elementwise squares of symmetric products.

With `B = [U; Z]`, `T_kl = s_k s_l / (s_k + s_l)` and weights growing by the factors 1 + e, costs and variances move by
`−K e / weights`, where `K_ab = ± Σ_kl T_kl B_ak B_al B_bk B_bl` (minus between a cell and a query) is positive
semidefinite. A pivoted Cholesky decomposition `T/√(s sᵀ) ≈ G Gᵀ` of rank R (five or so) gives
`K = Σ_R (B diag(G_R ∘ √s) Bᵀ)²`, elementwise: R matrix products.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats
from residua.plans.solver.dense_response import Response
from residua.plans.solver.queries import Queries

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
        self.rounds = 0
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
        e = np.zeros_like(right)
        residual = right.copy()
        z = residual / self.diagonal
        direction, energy = z, float(residual @ z)
        goal = _RESIDUAL**2 * energy
        for _ in range(_MOST_ROUNDS):
            if energy <= goal:
                break
            image = self.apply(direction)
            curve = float(direction @ image)
            if curve <= 0:  # only rounding is left; this is the best that can be reached
                break
            self.rounds += 1
            step = energy / curve
            e = e + step * direction
            residual = residual - step * image
            z = residual / self.diagonal
            previous, energy = energy, float(residual @ z)
            direction = z + (energy / previous) * direction
        return e
