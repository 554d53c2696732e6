"""A primal-dual interior-point method on the same dual: six to ten Newton steps to a gap of 1e-6 on any workload.

Weights θ = [y; p] and slacks of the constraints x_i ≤ t (cells) and v_j ≤ 1 (queries) are kept on a central path
`θ · slack = μ`, where the gap is exactly `(m + d) μ`. Predictor-corrector steps in log-weights; the curvature is that
of `hessian` (or `matrix_free`).

Three safeguards, each found by a failure: the null vector (1, 1) of K is held by `f a aᵀ`; μ has a floor, because a gap
claimed below it is rounding; slacks that disagree with the constraints by more than a factor of 3 call for centring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.solver.dense_response import FixedResponder, Responder, Response
from residua.plans.solver.fixed_point import Found
from residua.plans.solver.hessian import CholeskySystem, ConjugateGradientSystem, curvature
from residua.plans.solver.problem import Problem
from residua.plans.solver.queries import MatrixQueries

_TO_BOUNDARY = 0.99


class _System(Protocol):
    def solve(self, right: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class _Point:
    """What one decomposition tells about a point."""

    response: Response
    levels: Floats  # [offset + x; v], to stay below the limits
    merit: float  # 2f + offset·y − Σp, the dual without its barrier
    image: Floats  # W F, (m, r), where it is needed


class _Fit:
    """min t such that offset_i + X_ii ≤ t and v_j ≤ 1."""

    def __init__(self, problem: Problem, offset: Floats, found: Found, matrix_free: bool) -> None:
        self.queries, self.offset, self.found, self.matrix_free = problem.queries, offset, found, matrix_free
        self.m, self.d = self.queries.shape
        self.responder = Responder(self.queries, problem.rank)

    def start(self) -> tuple[Floats, float]:
        y, p = np.full(self.d, 1.0 / self.d), np.full(self.m, 1.0 / self.m)
        response = self.responder.respond(p, y)
        y = y * response.costs
        p = p * response.variances(self.queries)
        y, p = y / y.sum(), p / p.sum()
        point = self.evaluate(np.concatenate([y, p]))
        lift = 1.1 * float(point.levels[self.d :].max())  # p·c² divides every v by c and multiplies every x by it
        x = lift * (point.levels[: self.d] - self.offset)
        return np.concatenate([y, p * lift**2]), 1.1 * float((x + self.offset).max())

    def evaluate(self, theta: Floats) -> _Point:
        y, p = theta[: self.d], theta[self.d :]
        response = self.responder.respond(p, y)
        if isinstance(self.queries, MatrixQueries):
            image = self.queries.matrix @ response.recovery
            v = np.einsum("ij,ij->i", image, image)
        else:
            image, v = np.empty((0, 0)), response.variances(self.queries)
        x, f = response.costs, response.value
        primal = float((self.offset + x * v.max()).max())
        if primal < self.found.primal:
            self.found.primal = primal
            self.found.strategy, self.found.recovery = response.strategy, response.recovery
        free = float(self.offset @ y)
        self.found.bound((f * f / float(p.sum()) + free) / float(y.sum()), p, y)
        return _Point(response, np.concatenate([self.offset + x, v]), 2 * f + free - float(p.sum()), image)

    def limits(self, t: float) -> Floats:
        return np.concatenate([np.full(self.d, t), np.ones(self.m)])

    def direction(self, theta: Floats) -> Floats | None:
        return np.concatenate([theta[: self.d], np.zeros(self.m)])

    def system(self, theta: Floats, slack: Floats, point: _Point) -> _System:
        response, a = point.response, self.direction(theta)
        assert a is not None
        if self.matrix_free:
            return ConjugateGradientSystem(self.queries, response, theta[self.d :], theta * slack, a)
        Z = np.sqrt(theta[self.d :])[:, None] * point.image / np.sqrt(response.values)
        K = curvature(np.vstack([response.basis, Z]), response.values, self.d)
        return CholeskySystem(K, theta * slack, a, response.value)


class _Total:
    """max 2f − Σy, whose optimum has x_i ≤ 1; query weights are fixed."""

    def __init__(self, problem: Problem, found: Found) -> None:
        self.m, self.d = problem.queries.shape
        self.p, self.found = np.ones(self.m), found
        self.responder = FixedResponder(problem.queries, problem.rank, self.p)

    def start(self) -> tuple[Floats, float]:
        y = np.full(self.d, 1.0 / self.d)
        y = y * self.responder.respond(y).costs ** 2
        return y * (1.1 * self.responder.respond(y).costs.max()) ** 2, 1.0

    def evaluate(self, theta: Floats) -> _Point:
        response = self.responder.respond(theta)
        x, f = response.costs, response.value
        primal = float(x.max()) * f
        if primal < self.found.primal:
            self.found.primal = primal
            self.found.strategy, self.found.recovery = response.strategy, response.recovery
        self.found.bound(f * f / float(theta.sum()), self.p, theta)
        return _Point(response, x, 2 * f - float(theta.sum()), np.empty((0, 0)))

    def limits(self, t: float) -> Floats:
        return np.full(self.d, t)

    def direction(self, theta: Floats) -> Floats | None:
        return None

    def system(self, theta: Floats, slack: Floats, point: _Point) -> _System:
        K = curvature(point.response.basis, point.response.values, self.d)
        return CholeskySystem(K, theta * slack, None, point.response.value)


def fit(
    problem: Problem, tolerance: float, limit: int, offset: Floats | None = None, matrix_free: bool = False
) -> Found:
    """Least `max_i(offset_i + cost_i)` with all variances of the scaled problem at most 1 (offset 0: as `fixed_point`).

    Args:
        problem: rows scaled by 1/√target.
        tolerance: the gap at which to stop.
        limit: most Newton steps.
        offset: cost that cells bear already, (d,).
        matrix_free: solve the Newton systems by conjugate gradients, never forming an (m + d)² matrix.
    """
    found = Found(method="matrix-free interior point" if matrix_free else "interior point")
    _, d = problem.queries.shape
    _follow(_Fit(problem, np.zeros(d) if offset is None else offset, found, matrix_free), found, tolerance, limit)
    return found


def total(problem: Problem, tolerance: float, limit: int) -> Found:
    """Least `max cost · sum of variances` of the scaled problem; arguments as for `fit`."""
    found = Found(method="interior point")
    _follow(_Total(problem, found), found, tolerance, limit)
    return found


def _follow(game: _Fit | _Total, found: Found, tolerance: float, limit: int) -> None:
    """Follows the central path until the gap is proven or the steps are used up."""
    theta, t = game.start()
    n = len(theta)
    point = game.evaluate(theta)
    slack = game.limits(t) - point.levels
    mu = 0.5 * abs(float(theta @ slack)) / n
    slack = np.maximum(slack, 0.3 * mu / theta)
    for found.iterations in range(limit):
        if found.gap <= tolerance:
            return
        mu = float(theta @ slack) / n
        floor = 0.3 * tolerance * point.response.value / n
        step = _Step(game, theta, slack, t, point)
        moved = step.take(mu, floor)
        if moved is None:
            return
        theta, slack, t, point = moved
        mu = float(theta @ slack) / n
        slack = np.clip(slack, mu / (20.0 * theta), 20.0 * mu / theta)
    found.iterations = limit


class _Step:
    """One predictor-corrector step."""

    def __init__(self, game: _Fit | _Total, theta: Floats, slack: Floats, t: float, point: _Point) -> None:
        self.game, self.theta, self.slack, self.t, self.point = game, theta, slack, t, point
        self.system = game.system(theta, slack, point)
        self.a = game.direction(theta)
        self.Ha = None if self.a is None else self.system.solve(self.a)
        self.room = game.limits(t) - point.levels

    def _solve(self, right: Floats) -> tuple[Floats, float]:
        """The step in log-weights for this right-hand side, and that in t."""
        g = self.system.solve(right)
        if self.a is None or self.Ha is None:
            return g, 0.0
        lacking = 1.0 - float(self.a.sum())
        dt = (float(self.a @ g) - lacking) / float(self.a @ self.Ha)
        return g - self.Ha * dt, dt + self.point.response.value * lacking

    def take(self, mu: float, floor: float) -> tuple[Floats, Floats, float, _Point] | None:
        """The next point, or None when no step improves."""
        theta, slack = self.theta, self.slack
        base = -theta * self.room
        e, _ = self._solve(base)
        dz = -slack * (1.0 + e)
        ahead = _longest(e, dz / slack)
        predicted = float((theta * (1.0 + ahead * e)) @ (slack + ahead * dz)) / len(theta)
        sigma = (predicted / mu) ** 3
        disagreement = float((np.abs(self.room - slack) / slack).max())
        correction = theta * e * dz
        if disagreement > 3.0:
            sigma, correction = max(sigma, 1.0 if disagreement > 30.0 else 0.5), np.zeros_like(correction)
        target = max(sigma * mu, floor)
        centre = self.point.merit + target * float(np.log(theta).sum())
        allowance = 2.0 * len(theta) * mu if disagreement <= 3.0 else 0.0
        for corrected in (correction, None):
            right = target - (0.0 if corrected is None else corrected)
            e, dt = self._solve(base + right)
            dz = right / theta - slack - slack * e
            length = _longest(e, dz / slack)
            for _ in range(1 if corrected is not None else 12):
                grown = theta * (1.0 + length * e)
                point = self.game.evaluate(grown)
                merit = point.merit + target * float(np.log(grown).sum())
                if merit >= centre - allowance - 1e-13 * abs(centre):
                    return grown, slack + length * dz, self.t + length * dt, point
                allowance = 0.0
                length *= 0.5
        return None


def _longest(*relative: Floats) -> float:
    """The largest step that keeps 1 + step·change positive for every relative change, with a margin; at most 1."""
    lowest = min(float(change.min()) for change in relative)
    return 1.0 if lowest >= -_TO_BOUNDARY else -_TO_BOUNDARY / lowest
