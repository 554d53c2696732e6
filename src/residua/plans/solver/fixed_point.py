"""The multiplicative fixed point: weights grow where cost or variance is above average, over-relaxed.

`y ← y (x/f)^a`, `p ← p (v/f)^a`. At a solution every weighted cell has `x_i = max x` and every weighted query
`v_j = max v`, so solutions are fixed points. In log-weights the joint Hessian of f has its spectrum in [0, 1], that of
the cells alone in [0, ½]; hence the step is stable for a < 2 (both moving) and a < 4 (cells only). Where both move, it
is also accelerated: half to a third of the rounds.

Reference: the plain step (a = 1) for the total is Denisov et al. 2022.

Anderson acceleration of a fixed point in log-weights: the step that would have cancelled the last residuals.

From the last few points u and residuals r it finds the combination whose residual is smallest, and steps from there.
"Smallest" is measured in the metric diag(weights), in which the Hessian of the dual has its spectrum in [0, 1]: a
weight on its way to zero has a residual that never vanishes, and in the plain metric it drowns all others (that is
what made the unweighted form erratic: 150 rounds without an answer on random ranges, 20 with it).

Reference: Walker and Ni 2011, "Anderson acceleration for fixed-point iterations", in its difference form.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.solver.dense_response import FixedResponder, Responder, Response
from residua.plans.solver.problem import Problem

_LEAST = 1e-100  # below this share of the average a value counts as this
_PATIENCE = 10  # rounds in which the gap must fall at all (by a hundredth), or the exponent comes down


@dataclass
class Found:
    """The best mechanism and the best bound so far, perhaps of two rounds, in a solver's own scaled coordinates."""

    strategy: Floats = field(default_factory=lambda: np.empty((0, 0)))
    recovery: Floats = field(default_factory=lambda: np.empty((0, 0)))
    query_weights: Floats = field(default_factory=lambda: np.empty(0))
    cell_weights: Floats = field(default_factory=lambda: np.empty(0))
    primal: float = np.inf
    dual: float = 0.0
    iterations: int = 0
    method: str = "fixed point"

    @property
    def gap(self) -> float:
        """`primal / dual − 1`."""
        return self.primal / self.dual - 1.0 if self.dual > 0 else np.inf

    def bound(self, dual: float, query_weights: Floats, cell_weights: Floats) -> None:
        """Takes in a lower bound and the weights that prove it."""
        if dual > self.dual:
            self.dual, self.query_weights, self.cell_weights = dual, query_weights.copy(), cell_weights.copy()


class _Exponent:
    """The exponent of the step: its excess over 1 is halved when the gap stalls or the bound falls back."""

    def __init__(self, start: float) -> None:
        self.value, self.mark, self.waited, self.last = start, np.inf, 0, 0.0

    def falls(self, dual: float) -> bool:
        """Whether this bound is below that of the last round."""
        return dual < self.last * (1.0 - 1e-12)

    def update(self, gap: float, dual: float, blamed: bool = True) -> float:
        """Takes in one round and returns the next step's exponent; `blamed` if this exponent may cause a fall."""
        self.waited += 1
        if gap < 0.99 * self.mark:
            self.mark, self.waited = gap, 0
        if self.waited >= _PATIENCE or (blamed and self.falls(dual)):
            self.value, self.waited = 1.0 + (self.value - 1.0) / 2.0, 0
        self.last = dual
        return self.value


def fit(problem: Problem, tolerance: float, limit: int, patience: int | None = None) -> Found:
    """Least `max cost · max variance` of the scaled problem.

    Accelerated; a round in which the bound falls back is answered by a plain step from a clean memory.

    Args:
        problem: rows scaled by 1/√target.
        tolerance: the gap at which to stop.
        limit: most rounds.
        patience: give up early when the rate of this many rounds cannot reach the tolerance within the limit.
    """
    queries = problem.queries
    m, d = queries.shape
    responder, found, exponent = Responder(queries, problem.rank, exact=False), Found(), _Exponent(1.9)
    memory = Acceleration()
    theta = np.repeat([1.0 / d, 1.0 / m], [d, m])  # [y; p]
    best, weights = Response(theta[:d], np.empty((d, 0)), np.empty(0)), theta[d:]
    floor = 1e-3 * tolerance / (m + d)  # weight that can only cost the bound a thousandth of the tolerance
    history: list[float] = []
    for found.iterations in range(1, limit + 1):
        y, p = theta[:d], theta[d:]
        response = responder.respond(p, y)
        x, v, f = response.costs, response.variances(queries), response.value
        primal, masses = float(x.max() * v.max()), (float(y.sum()), float(p.sum()))
        if primal < found.primal:
            found.primal, best, weights = primal, response, p
        dual = f * f / (masses[0] * masses[1])
        found.bound(dual, p, y)
        history.append(found.gap)
        if found.gap <= tolerance or _hopeless(history, tolerance, limit, patience):
            break
        fell, accelerated = exponent.falls(dual), memory.used
        a = exponent.update(found.gap, dual, blamed=not accelerated)
        if fell:
            memory.forget()
        residual = np.concatenate([_excess(x, f / masses[0]), _excess(v, f / masses[1])])
        theta = _move(theta, memory.step(np.log(theta), residual, theta, a), d, floor)
    if not responder.exact:
        best = Responder(queries, problem.rank).respond(weights, best.cell_weights)
    found.strategy, found.recovery = best.strategy, best.recovery
    return found


def total(problem: Problem, tolerance: float, limit: int, patience: int | None = None) -> Found:
    """Least `max cost · sum of variances` of the scaled problem; arguments as for `fit`.

    When W has full column rank, columns of the strategy are then scaled to one cost: this leaves its error of second
    order, where the plain response has it of first. (With r < d it would move the row space.)
    """
    queries = problem.queries
    m, d = queries.shape
    p = np.ones(m)
    responder, found, exponent = FixedResponder(queries, problem.rank, p), Found(), _Exponent(2.0)
    y = np.full(d, 1.0 / d)
    floor = 1e-3 * tolerance / d
    history: list[float] = []
    for found.iterations in range(1, limit + 1):
        response = responder.respond(y)
        x, f = response.costs, response.value
        candidates = [(float(x.max()) * f, np.ones(d))]
        if problem.rank == d:
            scale = np.where(x >= 0.9 * x.max(), np.sqrt(x / x.max()), 1.0)
            image = response.recovery * scale[:, None]
            loss = float(np.einsum("ij,ij->", responder.gram @ image, image))
            candidates.append((float((x / scale**2).max()) * loss, scale))
        primal, scale = min(candidates, key=lambda pair: pair[0])
        if primal < found.primal:
            found.primal = primal
            found.strategy, found.recovery = response.strategy / scale, response.recovery * scale[:, None]
        dual = f * f / float(y.sum())
        found.bound(dual, p, y)
        history.append(found.gap)
        if found.gap <= tolerance or _hopeless(history, tolerance, limit, patience):
            break
        y = _grow(y, x, exponent.update(found.gap, dual), floor)
    return found


def _grow(weights: Floats, costs: Floats, exponent: float, floor: float) -> Floats:
    grown = weights * (costs / costs.max()) ** exponent
    return np.asarray(np.maximum(grown / grown.sum(), floor))


def _excess(values: Floats, average: float) -> Floats:
    """By how much, in logarithms, each value is above average."""
    return np.log(np.maximum(values / average, _LEAST))


def _move(theta: Floats, step: Floats, cells: int, floor: float) -> Floats:
    """Weights moved by a step in their logarithms; those of cells and of queries each sum to 1, up to the floor."""
    moved = np.empty_like(theta)
    for part in (slice(None, cells), slice(cells, None)):
        grown = theta[part] * np.exp(step[part] - step[part].max())
        moved[part] = grown / grown.sum()
    return np.maximum(moved, floor)


def _hopeless(history: list[float], tolerance: float, limit: int, patience: int | None) -> bool:
    """Whether the gap, falling as it did over the last `patience` rounds, would miss the tolerance within the limit."""
    if patience is None or len(history) <= 2 * patience or len(history) % patience:
        return False
    rate = np.log(history[-1 - patience] / history[-1]) / patience
    return bool(history[-1] * np.exp(-rate * (limit - len(history))) > tolerance)


_MEMORY = 5
_DEPENDENT = 1e-12  # ridge on the cosines between differences: those that agree so far add rounding error only
_NO_CHANGE = 1e-200  # square of a difference that counts as none
_UP, _DOWN = 1.0, -4.0  # farthest an accelerated step may move a log-weight


class Acceleration:
    """Remembers the last differences of points and residuals."""

    def __init__(self) -> None:
        self.last: tuple[Floats, Floats] | None = None
        self.points: deque[Floats] = deque(maxlen=_MEMORY)
        self.residuals: deque[Floats] = deque(maxlen=_MEMORY)

    @property
    def used(self) -> bool:
        """Whether the last step was more than the plain one."""
        return bool(self.points)

    def forget(self) -> None:
        """Starts afresh; the next step is the plain one."""
        self.last = None
        self.points.clear()
        self.residuals.clear()

    def step(self, point: Floats, residual: Floats, weights: Floats, exponent: float) -> Floats:
        """The step from `point`, (n,): `exponent · residual` when nothing is remembered.

        Args:
            point: logarithms of the weights, (n,).
            residual: what a plain step with exponent 1 would add to them, (n,).
            weights: the metric, (n,).
            exponent: over-relaxation of the plain step.
        """
        if self.last is not None:
            self.points.append(point - self.last[0])
            self.residuals.append(residual - self.last[1])
        self.last = point, residual
        plain = exponent * residual
        if not self.points:
            return plain
        moved, changed = np.array(self.points), np.array(self.residuals)
        seen = changed * weights
        gram = seen @ changed.T
        scale = 1.0 / np.sqrt(np.maximum(np.diagonal(gram), _NO_CHANGE))
        gram = gram * scale * scale[:, None]
        gram[np.diag_indices(len(gram))] += _DEPENDENT
        share = scale * np.linalg.solve(gram, scale * (seen @ residual))
        return np.asarray(np.clip(plain - share @ (moved + exponent * changed), _DOWN, _UP))
