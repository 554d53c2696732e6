"""The same Newton system without its matrix, for workloads with far more queries than cells.

K e is one symmetric d × d detour: `N = T ∘ (Uᵀ diag(ξ) U − Zᵀ diag(η) Z)`, then the diagonals of `U N Uᵀ` and
`−Z N Zᵀ`. Z (m × r) is never formed, because `Z = diag(√p) W diag(√y) U diag(1/s)` and the workload offers both
contractions. Conjugate gradients, preconditioned by the diagonal, solve to one part in a hundred.
"""

from __future__ import annotations

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.solver.dense_response import Response
from residua.plans.solver.hessian import kernel_root
from residua.plans.solver.queries import Queries

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
            if curve <= 0:  # rounding has the last word; what we have is the best there is
                break
            self.rounds += 1
            step = energy / curve
            e = e + step * direction
            residual = residual - step * image
            z = residual / self.diagonal
            previous, energy = energy, float(residual @ z)
            direction = z + (energy / previous) * direction
        return e
