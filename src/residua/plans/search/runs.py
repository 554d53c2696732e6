"""The best rows over runs of ordered values for Laplace noise: how many parts, which rows, and how heavy each level is.

On every level a run measures its b parts, and p sums of neighbours that overlap: hats, each falling to 0 where the next
is highest, as the best strategies on few values have them ("identity plus"). From there all coefficients and the
weights of the levels are descended together; every column of a level's rows adds up to the level's weight ω, and
`Σ ω = 1` costs epsilon 1. Several divisions into runs are descended a little, the best ones to the end. Starts are
fixed, so that plans repeat.

Reference: McKenna, Miklau, Hay and Machanavajjhala (2018), §5 (OPT_0) for identity plus; on runs it is our own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.search.runs_loss import RunsLoss

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

Told = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Weighted:
    """Rows of each level from fine to coarse, columns adding up to the level's weight, and their loss at epsilon 1.

    Args:
        rows: (rows, parts) per level.
        loss: as if every run had all its parts.
    """

    rows: tuple[Floats, ...]
    loss: float


def weighted_runs(size: int, prefixes: float, ranges: float, values: float, told: Told | None = None) -> list[Weighted]:
    """The best rows found, best first.

    Args:
        size: how many values there are.
        prefixes: what the mean variance of all prefixes counts.
        ranges: what that of all ranges counts.
        values: what that of all values counts.
        told: called after every descent with its loss.
    """
    found: list[tuple[float, RunsLoss, tuple[int, ...], Floats]] = []
    for parts in divisions(size):
        loss = RunsLoss(parts, prefixes, ranges, values)
        for hats in _HATS:
            more = tuple(max(round(b / hats) + 1, 2) for b in parts)
            found.append(_descended(loss, more, _start(parts, more), _ROUGH))
            if told:
                told(found[-1][0])
    found.sort(key=lambda each: each[0])
    for rounds, many in _STAGES:
        further = []
        for _, loss, more, x in found[:many]:
            further.append(_descended(loss, more, x, rounds))
            if told:
                told(further[-1][0])
        found = sorted(further, key=lambda each: each[0])
    return [Weighted(_rows(loss.parts, more, x), value) for value, loss, more, x in found]


def divisions(size: int) -> list[tuple[int, ...]]:
    """Ways to divide so many values into runs, from fine to coarse: even ones, and ones with more parts above."""
    found = set()
    for levels in range(1, _MOST_LEVELS + 1):
        for tilt in _TILTS if levels > 1 else (0.0,):
            logs = math.log(size) / levels + tilt * (np.arange(levels) - (levels - 1) / 2)
            above = [max(round(b), 2) for b in np.exp(logs[1:]).tolist()]
            parts = (-(-size // math.prod(above)), *above)
            if min(parts) >= _LEAST_PARTS and max(parts) <= _MOST_PARTS:
                found.add(parts)
    most = min(map(len, found), default=0) + 1  # more levels than that have not been better
    return sorted(parts for parts in found if len(parts) <= most)


def _start(parts: tuple[int, ...], more: tuple[int, ...]) -> Floats:
    """Even weights, every part, and hats."""
    random = np.random.default_rng(0)
    found = [np.zeros(len(parts))]
    for b, p in zip(parts, more, strict=True):
        hats = np.maximum(1 - np.abs((np.arange(b) + 0.5) * (p - 1) / b - np.arange(p)[:, None]), 0.0)
        hats *= np.maximum(1 + _JITTER * random.standard_normal(hats.shape), 0.1)
        found += [np.ones(b), (hats + 0.02 * random.random(hats.shape)).ravel()]
    return np.concatenate(found)


def _parted(parts: tuple[int, ...], more: tuple[int, ...], x: Floats) -> tuple[Floats, list[tuple[Floats, Floats]]]:
    """Weights of the levels, and what each part and each hat is measured with, before columns add up."""
    omega = np.exp(x[: len(parts)] - x[: len(parts)].max())
    at, found = len(parts), []
    for b, p in zip(parts, more, strict=True):
        found.append((x[at : at + b], x[at + b : at + b + p * b].reshape(p, b)))
        at += b + p * b
    return omega / omega.sum(), found


def _descended(
    loss: RunsLoss, more: tuple[int, ...], start: Floats, rounds: int
) -> tuple[float, RunsLoss, tuple[int, ...], Floats]:
    """The loss after a descent, of what, and where."""
    from scipy.optimize import minimize  # takes long to load

    parts = loss.parts

    def objective(x: Floats) -> tuple[float, Floats]:
        omega, given = _parted(parts, more, x)
        sums = [own + hats.sum(axis=0) for own, hats in given]
        scaled = [(w * own / s, w * hats / s) for w, (own, hats), s in zip(omega, given, sums, strict=True)]
        value, slopes = loss(scaled)
        by_omega, found = np.zeros(len(parts)), []
        for level, ((own, hats), (by_own, by_hats)) in enumerate(zip(scaled, slopes, strict=True)):
            toll = by_own * own + (by_hats * hats).sum(axis=0)
            by_omega[level] = toll.sum() / omega[level]
            found.append((omega[level] * by_own - toll) / sums[level])
            found.append(((omega[level] * by_hats - toll) / sums[level]).ravel())
        logits = omega * (by_omega - omega @ by_omega)
        return math.log(value), np.concatenate([logits, *found]) / value

    finest = parts[0]
    bounds = [(-_STEEPEST, _STEEPEST)] * len(parts)
    bounds += [(1.0, 1.0)] * finest + [(0.0, _LARGEST)] * (more[0] * finest)  # every value is measured
    bounds += [(_FLOOR, _LARGEST)] * (len(start) - len(bounds))
    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": rounds, "maxfun": 2 * rounds, "maxcor": 20},
    )
    return math.exp(found.fun), loss, more, found.x


def _rows(parts: tuple[int, ...], more: tuple[int, ...], x: Floats) -> tuple[Floats, ...]:
    """The rows of each level, without those that are next to nothing; columns add up to the level's weight."""
    omega, given = _parted(parts, more, x)
    found = []
    for level, (w, (own, hats)) in enumerate(zip(omega.tolist(), given, strict=True)):
        rows = np.vstack([np.diag(own), hats])
        rows = np.where(rows > 1e-4 * rows.sum(axis=0), rows, 0.0)
        kept = np.asarray(rows.sum(axis=1) > 0)
        if level == 0:
            kept[: parts[0]] = True
        rows = rows[kept]
        found.append(np.asarray(w * rows / np.maximum(rows.sum(axis=0), 1e-300)))
    return tuple(found)
