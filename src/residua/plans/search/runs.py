"""The best rows over runs of ordered values for Laplace noise: how many parts, which rows, and how heavy each level is.

On every level a run measures its b parts, and p sums of neighbours that overlap: hats, each falling to 0 where the next
is highest, as the best strategies on few values have them ("identity plus"). From there all coefficients and the
weights of the levels are descended together; every column of a level's rows adds up to the level's weight ω, and
`Σ ω = 1` costs epsilon 1. Several divisions into runs are descended a little, the best ones to the end. Starts are
fixed, so that plans repeat.

Reference: McKenna, Miklau, Hay and Machanavajjhala (2018), §5 (OPT_0) for identity plus; on runs it is our own.

The loss of rows over runs of ordered values, and its slopes: O(levels · rows · b²), whatever the number of values.

With all runs of a level alike (C, u, a, κ: `operators/bucket_squares.py`), the mean variance of all prefix sums is
`Σ_l tr G_l C_l − Σ_{l<top} m₂ u_l`, where G_l is the mean of `v vᵀ` over all ends, `v = (1, …, 1, κ, 0, …)`, and `m₁,
m₂` are the means of κ and κ² over all ends in a run, which follow from those of its parts. Values are the same with
`v = κ` in one place; ranges are `(n + 1) Σ Var P − Var Σ P`, and ΣP is one combination, with coefficients that follow
level by level. Slopes are these formulas backwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.search.strategies import Told, lowest, shares_of

Rows = tuple[Floats, Floats]  # of one level: what each part itself is measured with, (b,), and more rows, (p, b)


@dataclass(frozen=True, eq=False)
class _Means:
    """Means over all ends in a run of some level: of κ, of κ², of κ² of values; and κ of the sum of all sums."""

    first: float
    second: float
    values: float
    whole: float


@dataclass(frozen=True, eq=False)
class RunsLoss:
    """Weights of mean variances: of running sums, ranges and values.

    Args:
        parts: b of each level, from fine to coarse.
        prefixes: what the mean variance of running sums counts.
        ranges: what that of ranges counts.
        values: what that of values counts.
    """

    parts: tuple[int, ...]
    prefixes: float
    ranges: float
    values: float

    @cached_property
    def size(self) -> float:
        """How many values there are."""
        return math.prod(map(float, self.parts))

    @cached_property
    def _weights(self) -> tuple[float, float]:
        """What the mean over running sums counts, and the variance of their sum."""
        return self.prefixes + 2 * self.ranges, -self.ranges / (self.size * (self.size + 1) / 2)

    def __call__(self, rows: Sequence[Rows]) -> tuple[float, list[Rows]]:
        """The loss with noise of variance 2 in every row, and its slopes."""
        C, u, a = _solved(rows)
        of_sums, of_whole = self._weights
        means, total, below = [_Means(1.0, 1.0, 1.0, 1.0)], 0.0, 1.0
        ends: list[Floats] = []
        for level, b in enumerate(self.parts):
            c, share, m, i = C[level], a[level], means[-1], np.arange(b)
            diagonal, before = np.diagonal(c), np.cumsum(share) - share
            trace = float(diagonal.sum())
            pairs = float((b - 1 - i) @ (2 * np.tril(c).sum(axis=1) - diagonal))
            total += of_sums * (pairs + m.first * (u[level] - trace) + m.second * trace) / b
            total += self.values * m.values * trace / b
            v: Floats = np.asarray((b - 1 - i) * below + m.whole, dtype=np.float64)
            ends.append(v)
            below *= b
            runs = self.size / below
            total += of_whole * runs * float(v @ c @ v)
            means.append(
                _Means(
                    float((before + share * m.first).mean()),
                    float((before**2 + 2 * before * share * m.first + share**2 * m.second).mean()),
                    float((share**2).mean()) * m.values,
                    float(v @ share),
                )
            )
            if level + 1 < len(self.parts):
                top = means[-1]
                total -= (of_sums * top.second + self.values * top.values + of_whole * runs * top.whole**2) * u[level]
        return total, self._slopes(rows, C, u, a, means, ends)

    def _slopes(
        self,
        rows: Sequence[Rows],
        C: list[Floats],
        u: list[float],
        a: list[Floats],
        means: list[_Means],
        ends: list[Floats],
    ) -> list[Rows]:
        """From the top down: slopes by the means above, then by a, u and C, then by rows."""
        of_sums, of_whole = self._weights
        slopes: list[Rows] = []
        g = _Means(0.0, 0.0, 0.0, 0.0)  # slopes by the means of the level above
        by_u, above = 0.0, 1.0
        for level in range(len(self.parts) - 1, -1, -1):
            b, c, share, m, v = self.parts[level], C[level], a[level], means[level], ends[level]
            i, before, runs = np.arange(b), np.cumsum(share) - share, above
            trace, slope = float(np.trace(c)), by_u
            second, values, whole = g.second, g.values, g.whole
            if level + 1 < len(self.parts):
                top = means[level + 1]
                slope -= of_sums * top.second + self.values * top.values + of_whole * runs * top.whole**2
                second, values = second - of_sums * u[level], values - self.values * u[level]
                whole -= of_whole * runs * 2 * top.whole * u[level]
            by_before = (g.first + second * 2 * (before + share * m.first)) / b
            by_a = (g.first * m.first + second * 2 * (before * m.first + share * m.second)) / b
            by_a += values * 2 * share * m.values / b + by_before.sum() - np.cumsum(by_before) + whole * v
            cv = c @ v
            squares = float((share**2).mean())
            g = _Means(
                g.first * float(share.mean())
                + second * 2 * float((before * share).mean())
                + of_sums * (u[level] - trace) / b,
                second * squares + of_sums * trace / b,
                values * squares + self.values * trace / b,
                float((of_whole * runs * 2 * cv + whole * share).sum()),
            )
            slope -= float(by_a @ share) / u[level]
            by_row = by_a / u[level]
            # H = (∂/∂C) C, with G applied by cumulated sums.
            weight = (b - 1 - i)[:, None]
            sums, weighted = np.cumsum(c, axis=0), np.cumsum(weight * c, axis=0)
            H = weight * sums + (weighted[-1] - weighted) + m.first * (sums[-1] - c) + m.second * c
            H = H * (of_sums / b) + (self.values * m.values / b) * c + of_whole * runs * np.multiply.outer(v, cv)
            H += 0.5 * np.multiply.outer(by_row, sums[-1]) + (slope * sums[-1] + 0.5 * (by_row @ c))
            crossed = np.einsum("ij,ji->i", c, H)
            own, more = rows[level]
            slopes.append((-own * crossed, -(more @ c) @ H))
            by_u = float(crossed.sum()) / u[level - 1] ** 2 if level else 0.0
            above *= b
        return slopes[::-1]


def _solved(rows: Sequence[Rows]) -> tuple[list[Floats], list[float], list[Floats]]:
    """C, u and a of each level; rows beside those of single parts by Woodbury. O(p b²)"""
    C: list[Floats] = []
    u: list[float] = []
    a: list[Floats] = []
    for own, more in rows:
        e = 1.0 / (own**2 / 2 + (1.0 / u[-1] if u else 0.0))
        spread = more * e
        inner = np.linalg.solve(2 * np.eye(len(more)) + spread @ more.T, spread)
        c: Floats = np.asarray(np.diag(e) - spread.T @ inner, dtype=np.float64)
        sums: Floats = np.asarray(c.sum(axis=1), dtype=np.float64)
        C.append(c)
        u.append(float(sums.sum()))
        a.append(sums / u[-1])
    return C, u, a


_MOST_LEVELS = 5
_LEAST_PARTS, _MOST_PARTS = 3, 270
# By how much (logarithms) each level has more parts than the one below it.
_TILTS = (-0.7, 0.0, 0.7, 1.4, 2.1, 2.8, 3.5, 4.2)
_HATS = (3.5, 5.0, 7.0, 10.0)  # parts from one hat to the next
_ROUGH = 60  # rounds
_STAGES = ((200, 8), (600, 2))  # rounds, and how many go through them
_STEEPEST = 12.0  # bound on logarithms of weights
_LARGEST = 30.0  # of coefficients beside 1
_JITTER = 0.3  # starts that are too regular stay so
_FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class WeightedRuns:
    """Rows of each level from fine to coarse, columns adding up to the level's weight, and their loss at epsilon 1.

    Args:
        rows: (rows, parts) per level.
        loss: as if every run had all its parts.
    """

    rows: tuple[Floats, ...]
    loss: float


def weighted_runs(
    size: int, prefixes: float, ranges: float, values: float, told: Told | None = None
) -> list[WeightedRuns]:
    """The best rows found, best first.

    Args:
        size: how many values there are.
        prefixes: what the mean variance of all prefixes counts.
        ranges: what that of all ranges counts.
        values: what that of all values counts.
        told: called after every descent with its loss.
    """
    descents: list[tuple[float, RunsLoss, tuple[int, ...], Floats]] = []
    for parts in divisions(size):
        loss = RunsLoss(parts, prefixes, ranges, values)
        for hats in _HATS:
            more = tuple(max(round(b / hats) + 1, 2) for b in parts)
            descents.append(_descended(loss, more, _start(parts, more), _ROUGH))
            if told:
                told(descents[-1][0])
    descents.sort(key=lambda each: each[0])
    for rounds, many in _STAGES:
        further = []
        for _, loss, more, x in descents[:many]:
            further.append(_descended(loss, more, x, rounds))
            if told:
                told(further[-1][0])
        descents = sorted(further, key=lambda each: each[0])
    return [WeightedRuns(_rows(loss.parts, more, x), value) for value, loss, more, x in descents]


def divisions(size: int) -> list[tuple[int, ...]]:
    """Ways to divide so many values into runs, from fine to coarse: even ones, and ones with more parts above."""
    divisions = set()
    for levels in range(1, _MOST_LEVELS + 1):
        for tilt in _TILTS if levels > 1 else (0.0,):
            logs = math.log(size) / levels + tilt * (np.arange(levels) - (levels - 1) / 2)
            above = [max(round(b), 2) for b in np.exp(logs[1:]).tolist()]
            parts = (-(-size // math.prod(above)), *above)
            if min(parts) >= _LEAST_PARTS and max(parts) <= _MOST_PARTS:
                divisions.add(parts)
    most = min(map(len, divisions), default=0) + 1  # more levels than that have not been better
    return sorted(parts for parts in divisions if len(parts) <= most)


def _start(parts: tuple[int, ...], more: tuple[int, ...]) -> Floats:
    """Even weights, every part, and hats."""
    random = np.random.default_rng(0)
    pieces = [np.zeros(len(parts))]
    for b, p in zip(parts, more, strict=True):
        hats = np.maximum(1 - np.abs((np.arange(b) + 0.5) * (p - 1) / b - np.arange(p)[:, None]), 0.0)
        hats *= np.maximum(1 + _JITTER * random.standard_normal(hats.shape), 0.1)
        pieces += [np.ones(b), (hats + 0.02 * random.random(hats.shape)).ravel()]
    return np.concatenate(pieces)


def _parted(parts: tuple[int, ...], more: tuple[int, ...], x: Floats) -> tuple[Floats, list[tuple[Floats, Floats]]]:
    """Weights of the levels, and what each part and each hat is measured with, before columns add up."""
    at, pieces = len(parts), []
    for b, p in zip(parts, more, strict=True):
        pieces.append((x[at : at + b], x[at + b : at + b + p * b].reshape(p, b)))
        at += b + p * b
    return shares_of(x[: len(parts)]), pieces


def _descended(
    loss: RunsLoss, more: tuple[int, ...], start: Floats, rounds: int
) -> tuple[float, RunsLoss, tuple[int, ...], Floats]:
    """The loss after a descent, of what, and where."""
    parts = loss.parts

    def objective(x: Floats) -> tuple[float, Floats]:
        omega, given = _parted(parts, more, x)
        sums = [own + hats.sum(axis=0) for own, hats in given]
        scaled = [(w * own / s, w * hats / s) for w, (own, hats), s in zip(omega, given, sums, strict=True)]
        value, slopes = loss(scaled)
        by_omega, by_x = np.zeros(len(parts)), []
        for level, ((own, hats), (by_own, by_hats)) in enumerate(zip(scaled, slopes, strict=True)):
            toll = by_own * own + (by_hats * hats).sum(axis=0)
            by_omega[level] = toll.sum() / omega[level]
            by_x.append((omega[level] * by_own - toll) / sums[level])
            by_x.append(((omega[level] * by_hats - toll) / sums[level]).ravel())
        return math.log(value), np.concatenate([omega * (by_omega - omega @ by_omega), *by_x]) / value

    finest = parts[0]
    bounds = [(-_STEEPEST, _STEEPEST)] * len(parts)
    bounds += [(1.0, 1.0)] * finest + [(0.0, _LARGEST)] * (more[0] * finest)  # every value is measured
    bounds += [(_FLOOR, _LARGEST)] * (len(start) - len(bounds))
    value, x = lowest(objective, [start], bounds, maxiter=rounds, maxfun=2 * rounds, maxcor=20)
    return math.exp(value), loss, more, x


def _rows(parts: tuple[int, ...], more: tuple[int, ...], x: Floats) -> tuple[Floats, ...]:
    """The rows of each level, without those that are next to nothing; columns add up to the level's weight."""
    omega, given = _parted(parts, more, x)
    levels = []
    for level, (w, (own, hats)) in enumerate(zip(omega.tolist(), given, strict=True)):
        rows = np.vstack([np.diag(own), hats])
        rows = np.where(rows > 1e-4 * rows.sum(axis=0), rows, 0.0)
        kept = np.asarray(rows.sum(axis=1) > 0)
        if level == 0:
            kept[: parts[0]] = True
        rows = rows[kept]
        levels.append(np.asarray(w * rows / np.maximum(rows.sum(axis=0), 1e-300)))
    return tuple(levels)
