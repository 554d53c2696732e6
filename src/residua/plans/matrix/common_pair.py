"""What two mechanisms share: the maximal mechanism that either of them answers, in closed form.

With orthonormal rows B of the intersection of both spaces and `S_i = B Γ_i⁺ Bᵀ` the covariance with which mechanism i
answers them, the least covariance above both is `Σ = (S₁ + S₂)/2 + |S₂ − S₁|/2`.

When `S₂ − S₁` is indefinite there are many maximal common mechanisms; this one has the least trace of Σ *for an
orthonormal basis of the coordinates given*. Turning the basis changes nothing, scaling its coordinates does.

Reference: common-mechanism, Theorems 5.2 to 5.4 and Algorithm 1 (Stott).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.matrix.loewner import SINE_TOLERANCE, Standard


def intersection(first: Floats, second: Floats) -> Floats:
    """Orthonormal rows that span what two spaces, given by orthonormal rows, have in common, (k, cells).

    By sines: a direction of the first is common if it leaves the second by less than SINE_TOLERANCE.
    """
    if not len(first) or not len(second):
        return np.zeros((0, first.shape[1]))
    if len(second) == second.shape[1]:
        return first
    outside = first - (first @ second.T) @ second
    # (rows, cells): the combinations of rows of the first space, ordered by how far they leave the second
    combinations, sines, _ = np.linalg.svd(outside, full_matrices=False)
    return np.asarray(combinations[:, sines < SINE_TOLERANCE].T @ first)


def shared_space(mechanisms: Sequence[Standard]) -> Floats:
    """Orthonormal rows that span what all these mechanisms measure, (k, cells)."""
    # The smallest first: each step is then as cheap as it can be.
    ordered = sorted(mechanisms, key=lambda mechanism: mechanism.rank)
    space = ordered[0].space
    for mechanism in ordered[1:]:
        space = intersection(space, mechanism.space)
    return space


def covariances(mechanisms: Sequence[Standard], space: Floats) -> list[Floats]:
    """`S_i = B Γ_i⁺ Bᵀ`: the covariance with which each mechanism answers the rows of a space, (k, k) each."""
    expressed = [mechanism.expressed(space) for mechanism in mechanisms]
    return [A @ A.T for A in expressed]


def least_above_two(first: Floats, second: Floats) -> Floats:
    """The matrix of least trace above two symmetric ones in the Loewner order (Theorem 5.4)."""
    values, vectors = np.linalg.eigh(second - first)
    above = first + (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((above + above.T) / 2)


def rows_of(space: Floats, covariance: Floats) -> Floats:
    """Rows L with `LᵀL = Bᵀ Σ⁻¹ B`: measuring B with covariance Σ, in standard form, (k, cells)."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(values)).T @ space)
