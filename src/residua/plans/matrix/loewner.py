"""Mechanisms as matrices: standard form, who answers whom, and what is left of one once another is known.

A mechanism `B x + N(0, Σ)` is its privacy cost matrix `Γ = Bᵀ Σ⁻¹ B`; here it is handled by a root of it, the standard
rows `L = diag(s) Vᵀ` with `Γ = LᵀL`, because squares lose half the digits. Comparisons are made in the coordinates in
which the known mechanism is the identity, so that a tolerance means the same for its strong and its weak directions.

Tolerances, all relative: RANK_TOLERANCE on singular values decides what is measured at all; SINE_TOLERANCE on the
sine of an angle decides whether a row lies in a space (cosines are blind below 1e-8); MATRIX_ORDER_TOLERANCE on
precisions decides whether one mechanism is above another: below it, two precisions are one. It is what rounding to
integers of 32 bits may do: 1e-8 mostly, but up to 7e-7 was seen where the integer rows that span a space have entries
of a hundred.

Reference: common-mechanism, Lemma 3.2, Theorem 3.5, Algorithms 2 and 3.

Stacked with unit noise, all measurements are one mechanism `B = [B₁/σ₁; B₂/σ₂; …]`, and least squares on it has the
covariance `W Γ⁺ Wᵀ` with `Γ = Σ Γ_i` (Algorithm 4 and Theorem 5.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.tolerances import MATRIX_ORDER_TOLERANCE, RANK_TOLERANCE, SINE_TOLERANCE


@dataclass(frozen=True, eq=False)
class Standard:
    """A mechanism in standard form: independent rows, independent noise of variance 1.

    Args:
        singular: s, decreasing and positive, (rank,).
        space: Vᵀ, orthonormal rows that span what is measured, (rank, cells).
    """

    singular: Floats
    space: Floats

    @property
    def rank(self) -> int:
        """How many independent numbers are measured."""
        return len(self.singular)

    @property
    def rows(self) -> Floats:
        """`L = diag(s) Vᵀ`, (rank, cells)."""
        return self.singular[:, None] * self.space

    def expressed(self, rows: Floats) -> Floats:
        """`A` with `rows ≈ A L`, as far as the rows lie in the measured space, (rows, rank)."""
        return (rows @ self.space.T) / self.singular

    def sines(self, rows: Floats) -> Floats:
        """How far each row leaves the measured space, relative to the largest row, (rows,)."""
        outside = rows - (rows @ self.space.T) @ self.space
        size = float(np.linalg.norm(rows, axis=1).max(initial=0.0))
        return np.asarray(np.linalg.norm(outside, axis=1) / (size or 1.0))


def standardise(rows: Floats) -> Standard:
    """The standard form of `B x + N(0, I)`."""
    if not rows.size or not rows.any():
        return Standard(np.zeros(0), np.zeros((0, rows.shape[1])))
    _, s, Vt = np.linalg.svd(_square(rows), full_matrices=False)
    rank = int((s > s[0] * RANK_TOLERANCE).sum())
    return Standard(s[:rank], Vt[:rank])


def excess(known: Standard, wanted: Floats) -> float:
    """`max v` of `vᵀΓ_wanted v / vᵀΓ_known v`: at most 1 if and only if the known mechanism answers the wanted one.

    Infinite if the wanted one measures something outside the space of the known one.
    """
    if not wanted.any():
        return 0.0
    if not known.rank or float(known.sines(wanted).max()) > SINE_TOLERANCE:
        return float("inf")
    return gain(known, wanted)


def gain(known: Standard, wanted: Floats) -> float:
    """The same within the space of the known mechanism, whatever the wanted one measures outside it."""
    return float(np.linalg.norm(_square(known.expressed(wanted)), 2)) ** 2


def answers(known: Standard, wanted: Floats) -> bool:
    """Whether a mechanism with these rows and noise of variance 1 can be computed from the known one (Theorem 3.5)."""
    return excess(known, wanted) <= 1.0 + MATRIX_ORDER_TOLERANCE


def derivation(
    known: Floats, known_covariance: Floats, wanted: Floats, wanted_covariance: Floats
) -> tuple[Floats, Floats]:
    """`A` and `C` with `B_wanted = A B_known` and `Σ_wanted = A Σ_known Aᵀ + C Cᵀ` (Lemma 3.2).

    A is the one of least noise, so that C exists if it does for any A. C has one column per dimension of noise added.

    Raises:
        ValueError: the wanted mechanism is not answerable from the known one.
    """
    root = np.linalg.cholesky(known_covariance)
    A = np.linalg.lstsq(np.linalg.solve(root, known).T, wanted.T, rcond=RANK_TOLERANCE)[0].T
    A = np.linalg.solve(root.T, A.T).T
    missed = np.linalg.norm(A @ known - wanted) > SINE_TOLERANCE * np.linalg.norm(wanted)
    left = wanted_covariance - A @ known_covariance @ A.T
    values, vectors = np.linalg.eigh((left + left.T) / 2)
    largest = float(np.abs(np.linalg.eigvalsh(wanted_covariance)).max())
    if missed or values[0] < -MATRIX_ORDER_TOLERANCE * largest:
        raise ValueError("the wanted mechanism is not answerable from the known one")
    kept = values > MATRIX_ORDER_TOLERANCE * largest
    return np.asarray(A, dtype=np.float64), vectors[:, kept] * np.sqrt(values[kept])


def remainder(plan: Standard, given: Floats) -> Floats:
    """Rows S with `SᵀS = Γ_plan − Γ_given`: what is left of a plan that answers `given` (Algorithm 3).

    `Γ_plan − Γ_given = Lᵀ (I − AᵀA) L` with `given = A L`. Directions with less than MATRIX_ORDER_TOLERANCE of the
    plan's precision left are not measured again.
    """
    return _without(plan, plan.expressed(given))


def _without(plan: Standard, known: Floats) -> Floats:
    """Rows S with `SᵀS = Lᵀ max(I − AᵀA, 0) L`, A being what is known in the coordinates of the plan's own rows L."""
    values, Q = np.linalg.eigh(known.T @ known)
    left = 1.0 - values
    kept = left > MATRIX_ORDER_TOLERANCE
    return np.asarray((Q[:, kept] * np.sqrt(left[kept])).T @ plan.rows)


def lacking(wanted: Standard, have: Floats) -> list[Floats]:
    """Ways to make up for what is missing: rows S with `Γ_have + SᵀS ⪰ Γ_wanted`, each least in its own sense.

    The first measures within the space that is wanted: with G the precision that `have` gives there on its own (its
    Schur complement, in the coordinates in which Γ_wanted is the identity) it is the positive part of `I − G`. The
    second is the positive part of `Γ_wanted − Γ_have` itself, the least trace. When both commute they are the same.
    """
    if not wanted.rank:
        return [np.zeros((0, have.shape[1]))]
    inside = have @ wanted.space.T
    U, sines, _ = np.linalg.svd(have - inside @ wanted.space, full_matrices=False)
    mixed = U[:, sines > SINE_TOLERANCE * float(np.linalg.norm(have, axis=1).max(initial=0.0))]
    alone = (inside - mixed @ (mixed.T @ inside)) / wanted.singular  # without the measurements that mix in others
    values, vectors = np.linalg.eigh(wanted.rows.T @ wanted.rows - have.T @ have)
    # Nothing that the weakest direction would miss may be left out; below the second limit it is rounding.
    kept = values > max(MATRIX_ORDER_TOLERANCE * wanted.singular[-1] ** 2, 1e-14 * wanted.singular[0] ** 2)
    return [_without(wanted, alone), (vectors[:, kept] * np.sqrt(values[kept])).T]


def _square(rows: Floats) -> Floats:
    """Rows with the same Gram matrix, no more of them than columns."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > rows.shape[1] else rows


@dataclass(frozen=True, eq=False)
class Stacked(Standard):
    """Several mechanisms as one, and how its standard form follows from what they measured.

    Args:
        left: (measurements, rank), to be applied to measurements divided by their noise's standard deviation.
        Others as for `Standard`.
    """

    left: Floats

    def coordinates(self, noisy: Floats) -> Floats:
        """What was measured in the orthonormal basis of the space, (…, rank), from whitened measurements, (…, rows)."""
        return np.asarray((noisy @ self.left) / self.singular)


def stack(rows: Sequence[Floats]) -> Stacked:
    """Stacks mechanisms whose rows were divided by the standard deviation of their noise, (measurements_i, cells)."""
    U, s, Vt = np.linalg.svd(np.vstack(rows), full_matrices=False)
    rank = int((s > s.max(initial=0.0) * RANK_TOLERANCE).sum())
    return Stacked(s[:rank], Vt[:rank], U[:, :rank])
