"""What two mechanisms share: the maximal mechanism that either of them answers, in closed form.

With orthonormal rows B of the intersection of both spaces and `S_i = B Γ_i⁺ Bᵀ` the covariance with which mechanism i
answers them, the least covariance above both is `Σ = (S₁ + S₂)/2 + |S₂ − S₁|/2`.

When `S₂ − S₁` is indefinite there are many maximal common mechanisms; this one has the least trace of Σ *for an
orthonormal basis of the coordinates given*. Turning the basis changes nothing, scaling its coordinates does.

Reference: common-mechanism, Theorems 5.2 to 5.4 and Algorithm 1 (Stott).

Three or more: the least covariance above all, by alternating directions with a certificate of its own.

    minimise tr S   subject to   S ⪰ S_i  for all i          (common-mechanism, Eq. 1)
    maximise Σ tr(S_i L_i)   subject to   L_i ⪰ 0, Σ L_i = I  (its dual)

Any iterate is made feasible for both problems, so that the gap at which it stops is proven, whatever came before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.matrix.loewner import Standard
from residua.plans.tolerances import COMMON_TOLERANCE, SINE_TOLERANCE


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


Progress = Callable[[int, float], None]
_LIMIT = 20_000
_CHECK = 10
_RATIO, _STEP = 5.0, 1.6  # the step size follows when one residual is this many times the other
_RELAXED = 1.5  # over-relaxation: a fifth fewer rounds
_SETTLED = 500  # rounds after which the step size stays, so that it cannot go back and forth forever
_EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class Above:
    """A matrix above all given ones, with the proof of how far from the least trace it is.

    Args:
        covariance: S, feasible, (k, k).
        bound: no feasible matrix has a smaller trace.
        iterations: how many rounds it took; 0 for a closed form.
    """

    covariance: Floats
    bound: float
    iterations: int

    @property
    def gap(self) -> float:
        """How far the trace is above the bound, relative; not below 0, where rounding may take it."""
        return max(float(np.trace(self.covariance)) / self.bound - 1.0, 0.0) if self.bound > 0 else 0.0


def least_above(
    matrices: Sequence[Floats],
    tolerance: float = COMMON_TOLERANCE,
    progress: Progress | None = None,
    limit: int = _LIMIT,
) -> Above:
    """The matrix of least trace above all these positive definite ones, to a certified relative gap.

    Those below another are left out first: nested mechanisms and pairs need no iteration.

    Guarantee: `covariance ⪰ S_i` for every i up to rounding, and `gap` is proven; it exceeds the tolerance only if the
    limit of rounds was reached.
    """
    kept = _undominated(matrices)
    if len(kept) <= 2:
        least = kept[0] if len(kept) == 1 else least_above_two(*kept)
        return Above(least, float(np.trace(least)), 0)
    scale = max(float(np.trace(S)) for S in kept) / len(kept[0])
    least, bound, rounds = _alternate(np.array(kept) / scale, tolerance, progress, limit)
    return Above(least * scale, bound * scale, rounds)


def _alternate(targets: Floats, tolerance: float, progress: Progress | None, limit: int) -> tuple[Floats, float, int]:
    """Alternating directions on `min tr S, S − S_i = Y_i ⪰ 0`; targets is (mechanisms, k, k)."""
    count, size = len(targets), targets.shape[1]
    rho, eye = 1.0, np.eye(size)
    U, Y = np.zeros_like(targets), np.zeros_like(targets)
    best, bound = _feasible(targets.mean(axis=0), targets), 0.0
    for iteration in range(1, limit + 1):
        S = (Y + targets - U).mean(axis=0) - eye / (count * rho)
        before = Y
        ahead = _RELAXED * (S - targets) + (1.0 - _RELAXED) * before
        Y = _positive(ahead + U)
        U = U + (ahead - Y)
        primal, dual = np.linalg.norm(S - targets - Y), rho * np.linalg.norm((Y - before).sum(axis=0))
        if iteration % _CHECK == 0:
            feasible = _feasible(S, targets)
            best = feasible if np.trace(feasible) < np.trace(best) else best
            bound = max(bound, _dual_bound(-rho * U, targets))
            gap = float(np.trace(best)) / bound - 1.0 if bound > 0 else np.inf
            if progress:
                progress(iteration, gap)
            if gap <= tolerance:
                break
        if iteration > _SETTLED:
            continue
        if primal > _RATIO * dual:
            rho, U = rho * _STEP, U / _STEP
        elif dual > _RATIO * primal:
            rho, U = rho / _STEP, U * _STEP
    return best, bound, iteration


def _feasible(S: Floats, targets: Floats) -> Floats:
    """The matrix raised, in turn, above every target."""
    for target in targets:
        S = S + _positive((target - S)[None])[0]
    return (S + S.T) / 2


def _dual_bound(multipliers: Floats, targets: Floats) -> float:
    """`Σ tr(S_i L_i)` for multipliers made positive and to sum to the identity: a bound on every feasible trace."""
    L = _positive(multipliers)
    values, vectors = np.linalg.eigh(L.sum(axis=0))
    if values[0] <= values[-1] * 1e-12:
        return 0.0
    root = (vectors / np.sqrt(values)) @ vectors.T
    # tr(S R L R) for each, R symmetric
    return float(np.einsum("iab,iba->", root @ targets @ root, L))


def _positive(matrices: Floats) -> Floats:
    """The positive part of each symmetric matrix."""
    values, vectors = np.linalg.eigh((matrices + matrices.swapaxes(-1, -2)) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)[..., None, :]) @ vectors.swapaxes(-1, -2))


def _undominated(matrices: Sequence[Floats]) -> list[Floats]:
    """Those that are below no other; of equal ones, the first."""
    kept: list[Floats] = []
    for S in matrices:
        if any(_below(S, other) for other in kept):
            continue
        kept = [*(other for other in kept if not _below(other, S)), S]
    return kept


def _below(S: Floats, other: Floats) -> bool:
    return float(np.linalg.eigvalsh(other - S)[0]) >= -_EQUAL * float(np.trace(other))
