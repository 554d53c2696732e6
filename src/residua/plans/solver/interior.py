"""A primal-dual interior-point method on the same dual: six to ten Newton steps to a gap of 1e-6 on any workload.

Weights θ = [y; p] and slacks of the constraints x_i ≤ t (cells) and v_j ≤ 1 (queries) are kept on a central path
`θ · slack = μ`, where the gap is exactly `(m + d) μ`. Predictor-corrector steps in log-weights; the curvature is that
of `dense_response`.

Three safeguards, each found by a failure: the null vector (1, 1) of K is held by `f a aᵀ`; μ has a floor, because a gap
claimed below it is rounding; slacks that disagree with the constraints by more than a factor of 3 call for centring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.saddle import Solution, simplices
from residua.plans.solver.dense_response import CholeskySystem, ConjugateGradientSystem, Responder, Response, curvature
from residua.plans.solver.queries import MatrixQueries, Problem

_TO_BOUNDARY = 0.99


@dataclass(frozen=True, eq=False)
class _Point:
    """What one decomposition tells about weights."""

    theta: Floats  # [y; p]
    response: Response
    levels: Floats  # [offset + x; v], to stay below the limits
    merit: float  # 2f + offset·y − Σp, the dual without its barrier
    image: Floats  # W F, (m, r), where it is needed


class _Path:
    """min t such that offset_i + X_ii ≤ t and v_j ≤ 1, by predictor-corrector steps."""

    def __init__(self, problem: Problem, offset: Floats, matrix_free: bool) -> None:
        self.queries, self.offset, self.matrix_free = problem.queries, offset, matrix_free
        self.m, self.d = self.queries.shape
        self.responder = Responder(self.queries, problem.rank)
        self.best = Solution(method="matrix-free interior point" if matrix_free else "interior point")

    def start(self) -> None:
        """A round of the fixed point, scaled into the interior."""
        first = self.evaluate(np.repeat([1.0 / self.d, 1.0 / self.m], [self.d, self.m]))
        levels = first.levels - np.append(self.offset, np.zeros(self.m))
        point = self.evaluate(simplices([self.d, self.m])(first.theta * levels))
        lift = 1.1 * float(point.levels[self.d :].max())  # p·c² divides every v by c and multiplies every x by it
        x = lift * (point.levels[: self.d] - self.offset)
        self.t = 1.1 * float((x + self.offset).max())
        self.point = self.evaluate(point.theta * np.repeat([1.0, lift**2], [self.d, self.m]))
        self.slack, theta = self.room, self.point.theta
        self.slack = np.maximum(self.slack, 0.15 * abs(float(theta @ self.slack)) / len(theta) / theta)

    def evaluate(self, theta: Floats) -> _Point:
        """The best mechanism for these weights."""
        y, p = theta[: self.d], theta[self.d :]
        response = self.responder.respond(p, y)
        if isinstance(self.queries, MatrixQueries):
            image = self.queries.matrix @ response.recovery
            v = np.einsum("ij,ij->i", image, image)
        else:
            image, v = np.empty((0, 0)), response.variances(self.queries)
        x, f = response.costs, response.value
        self.best.offer(float((self.offset + x * v.max()).max()), response)
        free = float(self.offset @ y)
        self.best.prove((f * f / float(p.sum()) + free) / float(y.sum()), (p, y))
        return _Point(theta, response, np.concatenate([self.offset + x, v]), 2 * f + free - float(p.sum()), image)

    @property
    def room(self) -> Floats:
        """By how much the levels are below the limits."""
        return np.asarray(np.repeat([self.t, 1.0], [self.d, self.m]) - self.point.levels)

    def follow(self, tolerance: float, limit: int) -> None:
        """Follows the central path until the gap is proven or the steps are used up."""
        self.start()
        for self.best.rounds in range(limit):
            if self.best.gap <= tolerance or not self.step(
                0.3 * tolerance * self.point.response.value / (self.m + self.d)
            ):
                return
            theta = self.point.theta
            mu = float(theta @ self.slack) / len(theta)
            self.slack = np.clip(self.slack, mu / (20.0 * theta), 20.0 * mu / theta)
        self.best.rounds = limit

    def _system(self, direction: Floats) -> CholeskySystem | ConjugateGradientSystem:
        """Newton's equations here."""
        theta, response = self.point.theta, self.point.response
        p, damping = theta[self.d :], theta * self.slack
        if self.matrix_free:
            return ConjugateGradientSystem(self.queries, response, p, damping, direction)
        Z = np.sqrt(p)[:, None] * self.point.image / np.sqrt(response.values)
        K = curvature(np.vstack([response.basis, Z]), response.values, self.d)
        return CholeskySystem(K, damping, direction, response.value)

    def step(self, floor: float) -> bool:
        """Goes to the next point, with μ no less than the floor; False when no step improves."""
        point, slack, room = self.point, self.slack, self.room
        theta, n = point.theta, len(point.theta)
        a = np.concatenate([theta[: self.d], np.zeros(self.m)])
        system = self._system(a)
        Ha, lacking = system.solve(a), 1.0 - float(a.sum())

        def solved(right: Floats) -> tuple[Floats, float]:
            """The step in log-weights for this right-hand side, and that in t."""
            g = system.solve(right)
            dt = (float(a @ g) - lacking) / float(a @ Ha)
            return g - Ha * dt, dt + point.response.value * lacking

        mu, base = float(theta @ slack) / n, -theta * room
        e, _ = solved(base)
        dz = -slack * (1.0 + e)
        ahead = _longest(e, dz / slack)
        predicted = float((theta * (1.0 + ahead * e)) @ (slack + ahead * dz)) / n
        sigma = (predicted / mu) ** 3
        disagreement = float((np.abs(room - slack) / slack).max())
        correction = theta * e * dz
        if disagreement > 3.0:
            sigma, correction = max(sigma, 1.0 if disagreement > 30.0 else 0.5), np.zeros_like(correction)
        target = max(sigma * mu, floor)
        centre = point.merit + target * float(np.log(theta).sum())
        allowance = 2.0 * n * mu if disagreement <= 3.0 else 0.0
        for corrected, tries in ((correction, 1), (0.0, 12)):
            right = target - corrected
            e, dt = solved(base + right)
            dz = right / theta - slack - slack * e
            length = _longest(e, dz / slack)
            for _ in range(tries):
                ahead_of = self.evaluate(theta * (1.0 + length * e))
                merit = ahead_of.merit + target * float(np.log(ahead_of.theta).sum())
                if merit >= centre - allowance - 1e-13 * abs(centre):
                    self.point, self.slack, self.t = ahead_of, slack + length * dz, self.t + length * dt
                    return True
                allowance = 0.0
                length *= 0.5
        return False


def fit(
    problem: Problem, tolerance: float, limit: int, offset: Floats | None = None, matrix_free: bool = False
) -> Solution:
    """Least `max_i(offset_i + cost_i)` with all variances of the scaled problem at most 1 (offset 0: as `fixed_point`).

    Args:
        problem: rows scaled by 1/√target.
        tolerance: the gap at which to stop.
        limit: most Newton steps.
        offset: cost that cells bear already, (d,).
        matrix_free: solve the Newton systems by conjugate gradients, never forming an (m + d)² matrix.
    """
    path = _Path(problem, np.zeros(problem.queries.shape[1]) if offset is None else offset, matrix_free)
    path.follow(tolerance, limit)
    path.best.plan = path.best.plan.strategy, path.best.plan.recovery
    return path.best


def _longest(*relative: Floats) -> float:
    """The largest step that keeps 1 + step·change positive for every relative change, with a margin; at most 1."""
    lowest = min(float(change.min()) for change in relative)
    return 1.0 if lowest >= -_TO_BOUNDARY else -_TO_BOUNDARY / lowest
