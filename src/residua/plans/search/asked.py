"""What a Laplace strategy is judged by: the weighted total, or the largest, of the variances of some queries.

A strategy A with Laplace noise of scale `Δ/ε`, Δ its largest column sum of absolute values, answers w with variance
`2 Δ²/ε² · w (AᵀA)⁺ wᵀ`. Scaling A changes nothing, so everything here is for `Δ = 1` and without the factor `2/ε²`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from residua.linalg.arrays import Floats
from residua.plans.solver.queries import Queries, squares

_RANK = 1e-12  # share of the largest eigenvalue of AᵀA below which a direction is not measured
_OUTSIDE = 1e-9  # share of a workload's energy that may lie outside what is measured


@dataclass(frozen=True, eq=False)
class Asked:
    """Queries on distinct cells, each row times the root of its weight (or over the root of its target).

    Args:
        queries: W, (m, n).
        worst: whether the largest variance counts instead of their sum.
    """

    queries: Queries
    worst: bool

    @property
    def cells(self) -> int:
        """How many distinct cells there are."""
        return self.queries.shape[1]

    @cached_property
    def gram(self) -> Floats:
        """`V = WᵀW`, (n, n)."""
        return self.queries.gram(np.ones(self.queries.shape[0]))

    def loss(self, strategy: Floats) -> float:
        """`Δ²` times the sum (or the maximum) of `diag W (AᵀA)⁺ Wᵀ`; infinite if the strategy does not support W.

        Reference: matrix-mechanism, Proposition 4.
        """
        return sensitivity(strategy) ** 2 * self.profile_loss(strategy.T @ strategy)

    def profile_loss(self, gram: Floats) -> float:
        """The same without `Δ²`, from `AᵀA`: it is the error profile's own, whatever the rotation."""
        s, U = linalg.eigh(gram, check_finite=False)
        kept = s > s[-1] * _RANK
        s, U = s[kept], U[:, kept]
        energy = np.einsum("ij,ij->j", U, self.gram @ U)
        if float(np.trace(self.gram)) - float(energy.sum()) > _OUTSIDE * float(np.trace(self.gram)):
            return float(np.inf)
        if self.worst:
            return float(squares(self.queries, U / np.sqrt(s)).max())
        return float((energy / s).sum())

    def weighted(self, weights: Floats) -> Floats:
        """`Wᵀ diag(weights) W`, (n, n)."""
        return self.queries.gram(weights)


def sensitivity(strategy: Floats) -> float:
    """`Δ`: the largest column sum of absolute values.

    Reference: matrix-mechanism, Proposition 1.

    Example:
        >>> sensitivity(np.array([[1.0, 1.0], [1.0, -1.0]]))
        2.0
    """
    return float(np.abs(strategy).sum(axis=0).max())


def error_profile(strategy: Floats) -> Floats:
    """`(AᵀA)⁻¹`, (n, n); the pseudo-inverse where the strategy does not measure everything.

    Reference: matrix-mechanism, Definition 4.2.
    """
    return np.asarray(np.linalg.pinv(strategy.T @ strategy, rcond=_RANK, hermitian=True))
