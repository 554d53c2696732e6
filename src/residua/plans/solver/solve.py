"""Chooses a method, runs it, and returns nothing that the independent check has not confirmed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import GapWarning, PlanError, WorkloadError
from residua.linalg.arrays import Floats, Integers
from residua.plans.solver import fixed_point, interior, level
from residua.plans.solver.certificate import Certificate, examine
from residua.plans.solver.fixed_point import Found
from residua.plans.solver.problem import Problem, positive, prepare
from residua.plans.solver.queries import MatrixQueries

_FINE = 1e-5  # below this tolerance Newton steps win at any size,
_MIDDLE = 1600  # and with no more weights than this at any tolerance
_LARGE = 6000  # most weights whose Newton system is still written out
_TALL = 1000  # the same when there are far more queries than cells
_ROUNDS, _PATIENCE, _STEPS = 150, 20, 100
_FINEST = 1e-9
_ROUNDING = 1e-12
_MARGIN = 0.999  # solvers aim a little lower, for the check may differ in the last digits


@dataclass(frozen=True, eq=False)
class DenseSolution:
    """A mechanism for a workload, with its facts and its proof.

    Guarantee: `achieved` is what the independent check recomputed from `strategy`, and no mechanism goes below `bound`.

    Args:
        strategy: S, (r, distinct cells): measure `S x + N(0, I)`, so that Γ = Sᵀ S on the distinct cells.
        recovery: F, (distinct cells, r): `W F` turns the measured answers into those of the workload, without bias.
        columns: which distinct cell each original cell is, −1 where nobody asks, (cells,).
        variances: variance of every original query, (m,).
        achieved: `max diag Γ` for the fit, weighted total variance at `max diag Γ = 1` for the total.
        bound: the least that anybody can achieve.
        certificate: the weights that prove the bound.
        iterations: rounds or Newton steps taken.
        rank: numerical rank of the workload (see `RANK_TOLERANCE`).
        method: what found it.
    """

    strategy: Floats
    recovery: Floats
    columns: Integers
    variances: Floats
    achieved: float
    bound: float
    certificate: Certificate
    iterations: int
    rank: int
    method: str

    def __post_init__(self) -> None:
        for name in ("strategy", "recovery", "columns", "variances"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def gap(self) -> float:
        """How far from optimal the mechanism can at most be, relative to the optimum."""
        return max(self.achieved / self.bound - 1.0, 0.0)

    @property
    def gamma(self) -> Floats:
        """Γ = Sᵀ S on the distinct cells, (distinct, distinct)."""
        return np.asarray(self.strategy.T @ self.strategy)

    @property
    def profile(self) -> Floats:
        """diag Γ for every original cell, (cells,); 0 where nobody asks."""
        return np.append((self.strategy**2).sum(axis=0), 0.0)[self.columns]

    @property
    def pcost(self) -> float:
        """The largest entry of the profile."""
        return float((self.strategy**2).sum(axis=0).max())


def least_privacy(workload: Any, targets: Any = 1.0, tolerance: float = 1e-3, method: str = "auto") -> DenseSolution:
    """Least privacy cost such that query j has variance at most `targets[j]` (fitness for use).

    Guarantee: every variance is at most its target, and no unbiased linear mechanism meets them with less than `bound`.

    Args:
        workload: a matrix (NumPy or SciPy sparse), (m, cells), or structured `Queries`.
        targets: positive, one number or (m,).
        tolerance: the gap to reach, down to 1e-9 where conditioning allows.
        method: "auto", "Newton", "fixed point", "interior point" or "matrix-free interior point".

    Raises:
        WorkloadError: an entry is not finite, or all queries are zero.
        PlanError: targets or tolerance that mean nothing.

    Reference: fitness-for-use, Problem 1. For a budget β instead of targets (Problem 2), multiply `strategy` by
    √(β/pcost): every variance is then pcost/β times its target.

    Example:
        >>> import numpy as np
        >>> round(least_privacy(np.array([[1, 1], [1, 0]]), tolerance=1e-6).pcost, 4)
        1.3333
    """
    _check_tolerance(tolerance)
    c = positive(targets, _count(workload), "the target")
    problem = prepare(workload, 1.0 / np.sqrt(c))
    found = _run_fit(problem, _MARGIN * tolerance, method)
    return _finish(workload, problem, found, 1.0 / np.sqrt(c), None, tolerance)


def least_total(workload: Any, weights: Any = 1.0, tolerance: float = 1e-3, method: str = "auto") -> DenseSolution:
    """Least weighted sum of variances at privacy cost 1.

    Guarantee: `pcost` is 1, and no unbiased linear mechanism of cost 1 has a weighted total below `bound`.

    Args and Raises: as for `least_privacy`, with positive `weights` in place of targets.

    Reference: matrix-mechanism, Problem 1; with all weights 1, `√(achieved/m)` is the factorisation norm γ of
    factorization-and-projection, Definition 2.2.

    Example:
        >>> import numpy as np
        >>> round(least_total(np.array([[1, 1], [1, 0]]), tolerance=1e-6).achieved, 4)
        2.618
    """
    _check_tolerance(tolerance)
    w = positive(weights, _count(workload), "the weight")
    problem = prepare(workload, np.sqrt(w))
    found = _run_total(problem, _MARGIN * tolerance, method)
    return _finish(workload, problem, found, np.ones(len(w)), w, tolerance)


def _run_fit(problem: Problem, tolerance: float, method: str) -> Found:
    """Runs the methods that suit the problem's size, one after the other until the gap is proven; or the one asked."""
    m, d = problem.queries.shape
    written = isinstance(problem.queries, MatrixQueries) and m <= 8 * d
    if method != "auto":
        methods = [method]
    elif not written or m + d > _LARGE:
        methods = ["fixed point"] * (written and tolerance >= _MARGIN * _FINE) + ["interior point"]
    elif m + d > _MIDDLE and tolerance >= _MARGIN * _FINE:
        methods = ["fixed point", "Newton", "interior point"]
    else:
        methods = ["Newton", "interior point"]
    found = _fit_by(methods[0], problem, tolerance, alone=len(methods) == 1)
    for other in methods[1:]:
        if found.gap <= tolerance:
            break
        found = _better(found, _fit_by(other, problem, tolerance, alone=True), tolerance)
    return found


def _fit_by(method: str, problem: Problem, tolerance: float, alone: bool) -> Found:
    """One method; without another to follow it does not give up early."""
    m, d = problem.queries.shape
    structured = not isinstance(problem.queries, MatrixQueries)
    if method == "fixed point":
        return fixed_point.fit(problem, tolerance, 200 * _ROUNDS if alone else _ROUNDS, None if alone else _PATIENCE)
    if method == "Newton" and not structured:
        return level.fit(problem, tolerance, _STEPS)
    if method not in ("interior point", "matrix-free interior point"):
        raise PlanError(
            f"there is no method {method!r} for this; give 'auto', 'Newton', 'fixed point' or 'interior point'."
        )
    tall = m > 8 * d and m + d > _TALL
    matrix_free = structured or method.startswith("matrix-free") or tall or m + d > _LARGE
    return interior.fit(problem, tolerance, _STEPS, matrix_free=matrix_free)


def _run_total(problem: Problem, tolerance: float, method: str) -> Found:
    if method == "interior point":
        return interior.total(problem, tolerance, _STEPS)
    if method not in ("auto", "fixed point"):
        raise PlanError(f"there is no method {method!r}; give 'auto', 'fixed point' or 'interior point'.")
    rounds = _ROUNDS if method == "auto" else 200 * _ROUNDS
    found = fixed_point.total(problem, tolerance, rounds, _PATIENCE if method == "auto" else None)
    if found.gap <= tolerance or method == "fixed point":
        return found
    return _better(found, interior.total(problem, tolerance, _STEPS), tolerance)


def _better(first: Found, second: Found, tolerance: float) -> Found:
    """The second, with whatever of the first is better when the second did not reach the tolerance."""
    second.iterations += first.iterations
    if second.gap > tolerance:
        second.bound(first.dual, first.query_weights, first.cell_weights)
        if first.primal < second.primal:
            second.primal, second.strategy, second.recovery = first.primal, first.strategy, first.recovery
    second.method = f"{first.method}, then {second.method}"
    return second


def _finish(
    workload: Any, problem: Problem, found: Found, scale: Floats, weights: Floats | None, tolerance: float
) -> DenseSolution:
    """Scales the mechanism to what was promised and replaces every claim of the solver by the check's own figure."""
    p = problem.on_queries(found.query_weights) if weights is None else weights
    y = problem.once_per_cell(found.cell_weights)
    claim = Certificate(p / p.max() if weights is None else p, y / y.max(), scale, weights is not None, found.dual)
    lower, cost, v = examine(workload, problem.on_cells(found.strategy), claim)
    loss = float(v.max()) if weights is None else float(p @ v)
    upper = cost * loss * (1.0 + _ROUNDING)  # against us, so that no variance lies above its target
    if not 0 < lower <= upper * (1.0 + 1e-6):
        raise PlanError(
            f"the independent check contradicts the solver (lower bound {lower}, upper bound {upper}); "
            "scale the workload better, or report this as a defect."
        )
    if upper > lower * (1.0 + tolerance + 10.0 * _ROUNDING):
        warnings.warn(
            f"the plan is proven within {upper / lower - 1.0:.2e} of optimal, not {tolerance:.2e}; "
            "it is valid, and its gap says so.",
            GapWarning,
            stacklevel=3,
        )
    certificate = Certificate(claim.query_weights, claim.cell_weights, scale, claim.total, lower)
    factor = upper / cost if weights is None else 1.0 / cost  # on Γ: up to the targets, or down to cost 1
    return DenseSolution(
        found.strategy * np.sqrt(factor),
        found.recovery / np.sqrt(factor),
        problem.columns,
        v / scale**2 / factor,
        upper,
        lower,
        certificate,
        found.iterations,
        problem.rank,
        found.method,
    )


def _count(workload: Any) -> int:
    shape = workload.shape if hasattr(workload, "shape") else np.shape(workload)
    if len(shape) != 2:
        raise WorkloadError(f"the workload has shape {shape}; give a matrix with a row for each query.")
    return int(shape[0])


def _check_tolerance(tolerance: float) -> None:
    if not _FINEST <= tolerance < 1.0:
        raise PlanError(f"the tolerance is {tolerance}; it must be from {_FINEST} to below 1.")
