"""What several mechanisms say together: the best linear unbiased answers, and the target recreated from its parts.

Stacked with unit noise, all measurements are one mechanism `B = [B₁/σ₁; B₂/σ₂; …]`, and least squares on it has the
covariance `W Γ⁺ Wᵀ` with `Γ = Σ Γ_i`. If Γ is the target's, the answers have exactly the target's distribution: no
noise is added or taken away.

Reference: common-mechanism, Algorithm 4 and Theorem 5.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.tolerances import RANK_TOLERANCE


@dataclass(frozen=True, eq=False)
class Stacked:
    """Several mechanisms as one: singular values and vectors of the stacked rows within their numerical rank.

    Args:
        left: (measurements, rank), to be applied to measurements divided by their noise's standard deviation.
        singular: (rank,).
        space: orthonormal rows that span what is measured, (rank, cells).
    """

    left: Floats
    singular: Floats
    space: Floats

    def coordinates(self, measurements: Floats) -> Floats:
        """What was measured in the orthonormal basis of the space, from whitened measurements, (rank,)."""
        return np.asarray((self.left.T @ measurements) / self.singular)


def stack(rows: Sequence[Floats], rank_tolerance: float = RANK_TOLERANCE) -> Stacked:
    """Stacks mechanisms whose rows were divided by the standard deviation of their noise, (measurements_i, cells)."""
    U, s, Vt = np.linalg.svd(np.vstack(rows), full_matrices=False)
    rank = int((s > s.max(initial=0.0) * rank_tolerance).sum())
    return Stacked(U[:, :rank], s[:rank], Vt[:rank])


def recreate(
    target: Floats,
    target_covariance: Floats,
    parts: Sequence[tuple[Floats, Floats]],
) -> list[Floats]:
    """The matrices A_i with which `Σ A_i M_i(x)` is the target's answer: `A_i = Σ^½ (BᵀΣ^-½)⁺ B_iᵀ Σ_i⁻¹`.

    Args:
        target: B, (rows, cells).
        target_covariance: Σ, (rows, rows).
        parts: query matrix and covariance of each part; their privacy cost matrices sum to the target's.

    Returns:
        One matrix per part, (rows, measurements of the part). The sum is equivalent to the target; where the target's
        rows are dependent it is made consistent, its noise smaller by what consistency removes.
    """
    values, vectors = np.linalg.eigh(target_covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    back = root @ np.linalg.pinv((inverse @ target).T, rcond=RANK_TOLERANCE)
    return [back @ np.linalg.solve(covariance, rows).T for rows, covariance in parts]
