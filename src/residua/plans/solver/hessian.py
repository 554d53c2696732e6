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
