"""Chooses a method, runs it, and returns nothing that the independent check has not confirmed.

Our side of the planning game over single queries: the best matrix for weights on them, whatever is made of it.

With it any convex loss of the variances is solved by the loops of `saddle` and `losses`: a response is the least
weighted sum at privacy cost 1 (`solve.least_total`), and its bound is the lower bound of that.

What is chosen is the covariance matrix Σ of the answers: variances are linear in it, and costs, `diag Σ⁻¹`, convex.
So a loss may fall where one variance grows; weights are then of either sign, and prove something as soon as no
direction is wanted to have noise (residual-planner, Definition 4.1, for queries).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from residua.errors import GapWarning, PlanError, WorkloadError
from residua.linalg.arrays import Floats, Integers, keep_fixed
from residua.plans.saddle import POWER, Acceleration, Answer, Solution, ascend, simplices
from residua.plans.solver import interior, level
from residua.plans.solver.certificate import Certificate, examine
from residua.plans.solver.dense_response import Responder
from residua.plans.solver.queries import MatrixQueries, Problem, positive, prepare

_FINE = 1e-5  # below this tolerance Newton steps win at any size,
_MIDDLE = 1600  # and with no more weights than this at any tolerance
_LARGE = 6000  # most weights whose Newton system is still written out
_TALL = 8  # times as many queries as cells: few rounds of the fixed point are quicker,
_SMALL = 1000  # and no system of more weights is written out
_ROUNDS, _STEPS = 3000, 100
_PATIENCE = 20  # rounds of the fixed point in which the gap must halve, where another method may follow
_POWER_OF_CELLS = 2.0  # of a step in which cells alone are weighed, beside accelerated ones
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
        keep_fixed(self, "strategy", "recovery", "columns", "variances")

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
    best = _run_fit(problem, _MARGIN * tolerance, method)
    return finish(workload, problem, best, 1.0 / np.sqrt(c), None, tolerance)


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
    best = _run_total(problem, _MARGIN * tolerance, method)
    return finish(workload, problem, best, np.ones(len(w)), w, tolerance)


def _run_fit(problem: Problem, tolerance: float, method: str) -> Solution:
    """Runs the methods that suit the problem's size, one after the other until the gap is proven; or the one asked."""
    m, d = problem.queries.shape
    written = isinstance(problem.queries, MatrixQueries) and m + d <= (_SMALL if m > _TALL * d else _LARGE)
    matrix_free = not written or method.startswith("matrix-free")
    by_name: dict[str, Callable[[int | None], Solution]] = {
        "fixed point": lambda patience: _fixed_point(problem, tolerance, patience, total=False),
        "Newton": lambda _: level.fit(problem, tolerance, _STEPS),
        "interior point": lambda _: interior.fit(problem, tolerance, _STEPS, matrix_free=matrix_free),
    }
    by_name["matrix-free interior point"] = by_name["interior point"]
    methods = ["fixed point", "interior point"]
    if written and m <= _TALL * d:
        many = m + d > _MIDDLE and tolerance >= _MARGIN * _FINE
        methods = [*methods[:many], "Newton", "interior point"]
    return _run(by_name, methods if method == "auto" else [method], tolerance)


def _run_total(problem: Problem, tolerance: float, method: str) -> Solution:
    """The same for a total."""
    by_name: dict[str, Callable[[int | None], Solution]] = {
        "fixed point": lambda patience: _fixed_point(problem, tolerance, patience, total=True),
        "Newton": lambda _: level.total(problem, tolerance, _STEPS),
    }
    return _run(by_name, list(by_name) if method == "auto" else [method], tolerance)


def _run(by_name: Mapping[str, Callable[[int | None], Solution]], methods: list[str], tolerance: float) -> Solution:
    """One method after the other until the gap is proven; the last one does not give up early."""
    if methods[0] not in by_name:
        raise PlanError(f"there is no method {methods[0]!r} for this; give 'auto' or one of {', '.join(by_name)}.")
    best = Solution()
    for number, name in enumerate(methods, 1):
        answer = by_name[name](_PATIENCE if number < len(methods) else None)
        best.offer(answer.loss, answer.plan)
        best.prove(answer.bound, answer.proof)
        best.rounds += answer.rounds
        best.method = f"{best.method}, then {answer.method}" if best.method else answer.method
        if best.gap <= tolerance:
            break
    return best


def _fixed_point(problem: Problem, tolerance: float, patience: int | None, *, total: bool) -> Solution:
    """Least `max cost · max variance` of the scaled problem, or `max cost · sum of variances`.

    Where a sum counts and W has full column rank, columns of the strategy are then scaled to one cost: this leaves its
    error of second order, where the plain response has it of first. (With r < d it would move the row space.)

    Args:
        problem: rows scaled by 1/√target, or by the root of their weight.
        tolerance: the gap at which to stop.
        patience: give up when the gap does not halve in so many rounds.
        total: whether the sum counts.
    """
    queries = problem.queries
    m, d = queries.shape
    responder, ones = Responder(queries, problem.rank, exact=total), np.ones(m)

    def answer(theta: Floats) -> Answer:
        y, p = theta[:d], ones if total else theta[d:]
        response = responder.respond(p, y)
        x, f = response.costs, response.value
        if not total:
            v = response.variances(queries)
            return Answer(f * f, float(x.max() * v.max()), np.concatenate([x, v]) / f, (response, p, 1.0), (p, y))
        candidates = [(float(x.max()) * f, np.ones(d))]
        if problem.rank == d:
            scale = np.where(x >= 0.9 * x.max(), np.sqrt(x / x.max()), 1.0)
            image = response.recovery * scale[:, None]
            loss = float(np.einsum("ij,ij->", responder.gram(p) @ image, image))
            candidates.append((float((x / scale**2).max()) * loss, scale))
        loss, scale = min(candidates, key=lambda pair: pair[0])
        return Answer(f * f, loss, x / f, (response, p, scale[:, None]), (p, y))

    # Weight below the floor can only cost the bound a thousandth of the tolerance.
    parts = [d] if total else [d, m]
    start, normalised = np.repeat(1.0 / np.array(parts), parts), simplices(parts, 1e-3 * tolerance / sum(parts))
    power = _POWER_OF_CELLS if total else POWER
    best = ascend(answer, start, normalised, tolerance, _ROUNDS, power=power, patience=patience, memory=Acceleration())
    response, p, scale = best.plan
    if not responder.exact:
        response = Responder(queries, problem.rank).respond(p, response.cell_weights)
    best.plan, best.method = (response.strategy / np.transpose(scale), response.recovery * scale), "fixed point"
    return best


def finish(
    workload: Any, problem: Problem, best: Solution, scale: Floats, weights: Floats | None, tolerance: float
) -> DenseSolution:
    """Scales the mechanism to what was promised and replaces every claim of the solver by the check's own figure."""
    strategy, recovery = best.plan
    p = problem.on_queries(best.proof[0]) if weights is None else weights
    y = problem.once_per_cell(best.proof[1])
    claim = Certificate(p / p.max() if weights is None else p, y / y.max(), scale, weights is not None, best.bound)
    lower, cost, v = examine(workload, problem.on_cells(strategy), claim)
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
    factor = upper / cost if weights is None else 1.0 / cost  # on Γ: up to the targets, or down to cost 1
    return DenseSolution(
        strategy * np.sqrt(factor),
        recovery / np.sqrt(factor),
        problem.columns,
        v / scale**2 / factor,
        upper,
        lower,
        replace(claim, bound=lower),
        best.rounds,
        problem.rank,
        best.method,
    )


def _count(workload: Any) -> int:
    shape = workload.shape if hasattr(workload, "shape") else np.shape(workload)
    if len(shape) != 2:
        raise WorkloadError(f"the workload has shape {shape}; give a matrix with a row for each query.")
    return int(shape[0])


def _check_tolerance(tolerance: float) -> None:
    if not _FINEST <= tolerance < 1.0:
        raise PlanError(f"the tolerance is {tolerance}; it must be from {_FINEST} to below 1.")


# ---- the planning game over single queries

_LEAST_WEIGHT = 1e-6  # of the largest: directions that weigh less are answered as if they weighed this much
_NONE = 1e-12
_LEAST_VALUE = 1e-12
_ROUNDED = 1e-14  # of the largest: a direction that weighs this much less than nothing weighs nothing


@dataclass(frozen=True, eq=False)
class DenseGame:
    """The game over queries on distinct cells; noise is Σ in the row space of the queries, (r, r), at privacy cost 1.

    Args:
        queries: W, (m, cells).
        tolerance: how near to the best a response is.
        budget: at what privacy cost it is played.
    """

    signed: ClassVar[bool] = True

    queries: Floats
    tolerance: float
    budget: float = 1.0
    _known: list[tuple[Floats, tuple[Floats, Floats, float], float]] = field(default_factory=list, init=False)

    @cached_property
    def _basis(self) -> tuple[Floats, Floats]:
        """The queries in coordinates of their row space, (m, r), and its orthonormal rows, (r, cells)."""
        left, values, rows = np.linalg.svd(self.queries, full_matrices=False)
        rank = int((values > _LEAST_VALUE * values[0]).sum())
        return left[:, :rank] * values[:rank], rows[:rank]

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Σ of the least weighted sum, (r, r), the variances it gives, and what no weighted sum is below.

        Where noise is wanted in some direction, no sum is the least: it is that of a Σ with a small cost there.
        """
        return self._answered(weights)[0]

    def value(self, weights: Floats) -> float:
        """What no weighted sum of variances is below."""
        return self._answered(weights)[1]

    def variances(self, noise: Floats) -> Floats:
        """The variance of every query, (m,)."""
        asked = self._basis[0]
        return np.asarray(np.einsum("ij,jk,ik->i", asked, noise, asked, optimize=True) / self.budget)

    def mixed(self, one: Floats, other: Floats, share: float) -> Floats:
        """So much of one Σ and the rest of another, scaled to cost 1: it costs no more before that."""
        return self._scaled(share * one + (1.0 - share) * other)

    def strategy(self, noise: Floats) -> Floats:
        """What is measured, with noise of variance 1, (r, cells)."""
        values, vectors = np.linalg.eigh(noise)
        return np.asarray((vectors / np.sqrt(values)).T @ self._basis[1])

    def _scaled(self, noise: Floats) -> Floats:
        return np.asarray(noise * float(np.square(self.strategy(noise)).sum(axis=0).max()))

    def _answered(self, weights: Floats) -> tuple[tuple[Floats, Floats, float], float]:
        for seen, answer, bound in self._known:
            if np.array_equal(seen, weights):
                return answer, bound
        asked, rows = self._basis
        values, vectors = np.linalg.eigh((asked.T * weights) @ asked)
        unit = float(np.abs(values).max())
        values = values / unit
        lifted, kept = np.maximum(values, _LEAST_WEIGHT), values > _NONE
        turned = vectors.T @ rows
        best = self._solved(turned * np.sqrt(lifted)[:, None])
        measured = (best.strategy[:, best.columns] * (best.columns >= 0)) @ rows.T
        noise = self._scaled(np.asarray(np.linalg.inv(measured.T @ measured), dtype=np.float64))
        variances, bound = self.variances(noise), -np.inf
        if values[0] >= -_ROUNDED:  # what is proven must be so for the weights themselves: directions are left out
            proof = best
            if (lifted > values).any():
                proof = self._solved(turned[kept] * np.sqrt(values[kept])[:, None])
            bound = proof.bound * unit / self.budget
        answer = noise, variances, float(weights @ variances) if math.isinf(bound) else bound
        self._known[:] = [*self._known[-3:], (weights.copy(), answer, bound)]
        return answer, bound

    def _solved(self, queries: Floats) -> DenseSolution:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # the bound counts, and it is true however far the solver got
            return least_total(queries, 1.0, self.tolerance)
