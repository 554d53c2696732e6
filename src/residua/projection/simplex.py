"""The histogram whose answers are nearest to given ones: least squares over non-negative cells with equations.

Minimise `‖F h − t‖²` over `{h ≥ 0, E h = e}` by a primal-dual interior-point method (predictor and corrector, one
Cholesky factor of `2 FᵀF + diag(s/h)` per step), then on the support it found, so that zeros are exact. At every
feasible h, any ν with `s = ∇f(h) − Eᵀν ≥ 0` proves `f(h) − min f ≤ sᵀh`; with the total among the
equations there always is one.

Reference: factorization-and-projection, §2.3, Eq. 42. The paper's C has total 1; here it is any total, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.machine import linalg
from residua.projection.interior import central_path
from residua.projection.problem import Nearest, Progress


def nearest_histogram(
    queries: ArrayLike,
    target: ArrayLike,
    *,
    total: float | None = None,
    equalities: tuple[ArrayLike, ArrayLike] | None = None,
    nonnegative: bool = True,
    tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> Nearest:
    """The histogram, non-negative and subject to equations, whose answers are nearest to the target.

    Args:
        queries: F, (queries, cells). For another metric multiply F and t by its root.
        target: t, (queries,).
        total: what the cells must add up to; None leaves it free.
        equalities: E, (equations, cells), and e, (equations,).
        nonnegative: whether no cell may be negative.
        tolerance: the gap that is good enough, relative to the squared distance.
        progress: called with the step and the relative gap.

    Returns:
        The fit, with its certificate.

    Raises:
        PlanError: arguments that do not fit, or equations that no (non-negative) histogram meets.

    Example:
        >>> fit = nearest_histogram([[1.0, 0.0], [0.0, 1.0]], [5.0, -1.0], total=3.0)
        >>> fit.coordinates.tolist(), fit.distance
        ([3.0, 0.0], 5.0)
    """
    F, t = np.asarray(queries, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if F.ndim != 2 or t.shape != (len(F),) or F.shape[1] == 0:
        raise PlanError(f"queries has shape {F.shape} and target {t.shape}; give (queries, cells) and (queries,).")
    if not (np.isfinite(F).all() and np.isfinite(t).all()):
        raise PlanError("queries and target must be finite.")
    E, e = _equations(F.shape[1], total, equalities)
    if not nonnegative:
        return _fit(F, t, E, e, _equality_least_squares(F, t, E, e)[0], 0.0, 0)
    fit = _interior(F, t, E, e, tolerance, progress)
    if fit.infeasibility > 1e-8 * max(float(np.abs(e).max(initial=0.0)), 1e-300):
        _refuse_infeasible(E, e)
    return fit


def certificate(
    queries: Floats, target: Floats, equations: Floats, histogram: Floats, multipliers: Floats, total_row: bool
) -> tuple[float, Floats]:
    """The gap `sᵀh` that multipliers ν prove, after the least change that makes `s = ∇f − Eᵀν` non-negative.

    With q = F h − t + α y, `s = 2 Fᵀq − Eᵀν ≥ 0` proves `f(h) − min f ≤ sᵀh + νᵀ(E h − e) + α² ‖y‖²`. A total among the
    equations raises s by its multiplier alone; otherwise a y with Fᵀy > 0 is searched for. The distance
    itself is a bound, too.
    """
    F, h = queries, histogram
    residual = F @ h - target
    nothing = float(residual @ residual)  # what 0 ≤ min f alone proves
    s = 2.0 * (F.T @ residual) - equations.T @ multipliers
    short = max(-float(s.min()), 0.0)
    if total_row or short == 0.0:
        return min(float((s + short) @ h), nothing), s + short
    y = F.sum(axis=1)
    if not (F.T @ y > 0).all():
        y = np.linalg.lstsq(F.T, np.ones(F.shape[1]), rcond=None)[0]
    pull = F.T @ y
    if not (pull > 0).all():
        return nothing, s
    a = float((np.maximum(-s, 0.0) / (2.0 * pull)).max())
    s = s + 2.0 * a * pull
    return min(float(s @ h + a**2 * (y @ y)), nothing), s


def _equations(
    cells: int, total: float | None, equalities: tuple[ArrayLike, ArrayLike] | None
) -> tuple[Floats, Floats]:
    """Independent equations, the total first; refused if they contradict each other."""
    rows, values = [np.empty((0, cells))], [np.empty(0)]
    if total is not None:
        if not (np.isfinite(total) and total >= 0):
            raise PlanError(f"total={total} must be a finite number, not negative.")
        rows.append(np.ones((1, cells)))
        values.append(np.array([float(total)]))
    if equalities is not None:
        E, e = (np.asarray(part, dtype=np.float64) for part in equalities)
        if E.ndim != 2 or E.shape[1] != cells or e.shape != (len(E),) or not np.isfinite(E).all():
            raise PlanError(f"equalities must be a matrix with {cells} columns and one value per row, all finite.")
        rows.append(E)
        values.append(e)
    E, e = np.vstack(rows), np.concatenate(values)
    if len(E) <= 1:
        return E, e
    # Gram-Schmidt by pivoting keeps a largest set of independent equations; the others must follow from them.
    _, R, order = linalg.qr(E.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    kept = np.sort(order[: int((diagonal > 1e-10 * max(diagonal[0], 1e-300)).sum())])
    h, *_ = np.linalg.lstsq(E[kept], e[kept], rcond=None)
    off = np.abs(E @ h - e)
    if off.max() > 1e-8 * max(float(np.abs(e).max()), 1.0):
        raise PlanError(
            f"equation {int(off.argmax())} (value {e[int(off.argmax())]:g}) contradicts the others; leave one out."
        )
    return E[kept], e[kept]


def _interior(F: Floats, t: Floats, E: Floats, e: Floats, tolerance: float, progress: Progress | None) -> Nearest:
    """The interior-point method from a central start; the best point seen, polished on its support."""
    d, squares = F.shape[1], _Squares(F, t)
    if len(e) and not e.any() and (E >= 0).all() and (E.sum(axis=0) > 0).all():
        return _fit(F, t, E, e, np.zeros(d), 0.0, 0)  # nothing to distribute
    size = float(np.abs(e).max(initial=0.0)) or _free_scale(F, t)
    h = np.full(d, size / d)
    s = np.full(d, max(float(np.abs(squares.gradient(h)).max()), 2e-12 * float((F**2).sum()) * size / d, 1e-300))
    scale = max(float(t @ t), 1e-300)
    best, best_nu, best_score = h, np.zeros(len(e)), np.inf
    done = since = 0
    for done, point in central_path(squares, h, h, s, E, e):
        gap, _ = certificate(F, t, E, point.coordinates, point.prices, _has_total(E))
        distance, off = squares(point.coordinates), float(np.abs(point.off).max(initial=0.0)) / size
        if progress:
            progress(done, gap / max(distance, 1e-300))
        if gap / scale + off < best_score:
            best, best_nu, best_score, since = point.coordinates, point.prices, gap / scale + off, done
        if (off <= 1e-13 and gap <= max(0.1 * tolerance * distance, 1e-16 * scale)) or done - since > 8:
            break
    return _polished(F, t, E, e, best, best_nu, done)


@dataclass(frozen=True, eq=False)
class _Squares:
    """`‖F h − t‖²`; the cells are the coordinates themselves."""

    F: Floats
    t: Floats

    def __call__(self, r: Floats) -> float:
        return float(np.sum((self.F @ r - self.t) ** 2))

    @cached_property
    def _hessian(self) -> Floats:
        return 2.0 * (self.F.T @ self.F)

    def gradient(self, r: Floats) -> Floats:
        return np.asarray(2.0 * (self.F.T @ (self.F @ r - self.t)))

    def cells(self, r: Floats) -> Floats:
        return r

    def adjoint(self, values: Floats) -> Floats:
        return values

    def factored(self, weights: Floats) -> Callable[[Floats], Floats]:
        factor = linalg.cho_factor(self._hessian + np.diag(weights), lower=True, check_finite=False)
        return lambda right: np.asarray(linalg.cho_solve(factor, right, check_finite=False))


def _polished(F: Floats, t: Floats, E: Floats, e: Floats, h: Floats, nu: Floats, rounds: int) -> Nearest:
    """Least squares on the support, if it stays non-negative and is proven no worse; else the point itself."""
    candidates = [(h, nu)]
    s = certificate(F, t, E, h, nu, _has_total(E))[1]
    # Against what a gradient can be, not against its own largest entry: inside, all of s is rounding.
    scale_h, scale_s = max(float(h.max()), 1e-300), max(2.0 * float(np.abs(F.T @ t).max()), 1e-300)
    support = h / scale_h > np.abs(s) / scale_s
    for _ in range(20):
        if not support.any():
            candidates.append((np.zeros_like(h), nu))
            break
        # The least change of the point, not the least point: there may be many nearest ones.
        here = h[support]
        apart, missing = t - F[:, support] @ here, e - E[:, support] @ here
        change, multipliers = _equality_least_squares(F[:, support], apart, E[:, support], missing)
        change = here + change
        point = np.zeros_like(h)
        point[support] = change
        if change.min() >= 0:
            candidates.append((point, multipliers))
            break
        support = support & (point > 0)
    fits = []
    for point, multipliers in candidates:
        gap, _ = certificate(F, t, E, point, multipliers, _has_total(E))
        fits.append(_fit(F, t, E, e, point, gap, rounds))
    size = max(float(np.abs(e).max(initial=0.0)), float(h.max()))
    return min(fits, key=lambda fit: (fit.infeasibility > 1e-11 * size, fit.gap))


def _equality_least_squares(F: Floats, t: Floats, E: Floats, e: Floats) -> tuple[Floats, Floats]:
    """Least squares under equations alone: the point, and the multipliers ν of `∇f = Eᵀν`."""
    if not len(E):
        return np.asarray(np.linalg.lstsq(F, t, rcond=None)[0], dtype=np.float64), np.empty(0)
    U, sv, Vt = np.linalg.svd(E, full_matrices=True)
    rank = int((sv > 1e-12 * sv.max(initial=0.0)).sum())
    h = Vt[:rank].T @ ((U[:, :rank].T @ e) / sv[:rank])
    free = Vt[rank:].T
    if free.shape[1]:
        h = h + free @ np.linalg.lstsq(F @ free, t - F @ h, rcond=None)[0]
    return h, np.linalg.lstsq(E.T, 2.0 * (F.T @ (F @ h - t)), rcond=None)[0]


def _fit(F: Floats, t: Floats, E: Floats, e: Floats, h: Floats, gap: float, rounds: int) -> Nearest:
    return Nearest(h, gap, _Squares(F, t)(h), float(np.abs(E @ h - e).max(initial=0.0)), rounds)


def _refuse_infeasible(E: Floats, e: Floats) -> None:
    from scipy.optimize import linprog

    if linprog(np.zeros(E.shape[1]), A_eq=E, b_eq=e, method="highs").status == 2:
        raise PlanError("no non-negative histogram meets the equations (proven by linear programming); leave one out.")


def _has_total(E: Floats) -> bool:
    return bool(len(E)) and bool((E[0] == 1.0).all())


def _free_scale(F: Floats, t: Floats) -> float:
    """A guess at how many records there are: the multiple of one record per cell that answers best."""
    answers = F.sum(axis=1)
    square = float(answers @ answers)
    return max(
        abs(float(answers @ t)) / square if square else 0.0, 1e-3 * float(np.abs(t).max(initial=0.0)), 1e-6
    ) * len(F.T)
