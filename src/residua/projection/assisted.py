"""Narrower intervals of projected numbers: the shortest on average that hold every number as often as they say.

A number x ≥ 0 was released as y = x + s·noise, normal. An interval of 95 % is a family of tests: for every x a region
A(x) of probability 95 % under x, and the interval is of all x whose region holds y. Whichever regions are chosen, x is
held with 95 %, *whatever x is*. The release's own interval has regions around x. Here A(x) is where
density(y | x) / density(y) is largest, with the density of all y of a table as if the projected numbers were the true
ones: of all families, intervals are then shortest on average over such a table (Pratt, 1961; Yu and Hoff, 2018). Only
how short they are rests on the projection. That the density is estimated from the same numbers is neglected; coverage
is measured (docs/uncertainty.md). Numbers of ten standard deviations and more have regions around them.

No honest interval is much shorter: of a zero, whatever the method, the mean width is at least ∫ P(y in A(x) | 0) dx
with A(x) the best test of x against 0, 1.67 s, where the release's own, cut at zero, has 1.97 s.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.projection.intervals import cut_ends, places_of_tables, proven
from residua.projection.problem import Terms
from residua.release.base import Release
from residua.workload import Workload

ASSISTED = "shortest for tables spread as the projected ones"
_STEP = 0.04  # of the grid, in standard deviations
_MOST = 10.0  # standard deviations up to which numbers have regions of their own
_FAR = 6.0  # how far from them y is looked at
_EVENLY = 0.02  # the share of the density that is spread evenly, for numbers unlike all others


def require_assistable(release: Release, terms: Terms) -> None:
    """Refuses what has no narrower intervals.

    Raises:
        PlanError: noise that is not normal, a biased release, or cells that may be negative.
    """
    if not (release.plan.noise.gaussian and terms.nonnegative) or release.plan.bias:
        raise PlanError("narrower intervals are for normal noise and tables without negative cells; use safe ones.")


def assisted_ends(
    release: Release, terms: Terms, workload: Workload, estimates: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """The ends of the intervals of the answers to every query, (queries,) each; as safe ones where those are no tables.

    Args:
        release: of normal noise.
        terms: what the tables meet.
        workload: the queries.
        estimates: the projected answers, (queries,).
        confidence: how often an interval holds the truth.
    """
    lower, upper = cut_ends(release, terms, workload, confidence)
    released, variances = release.estimator.answers(workload)
    z = float(ndtri((1 + confidence) / 2))
    stddev = release.estimator.widths(workload, confidence, 1.0) * np.sqrt(variances) / z
    low, high = proven(terms, workload)
    for places in places_of_tables(workload):
        own = places[(low[places] == 0.0) & (high[places] > 0.0) & (stddev[places] > 0.0)]
        if len(own):
            s = stddev[own]
            ends = _shortest(released[own] / s, estimates[own] / s, confidence, z)
            lower[own], upper[own] = (np.clip(each * s, 0.0, high[own]) for each in ends)
    return np.minimum(lower, estimates), np.maximum(upper, estimates)


def _shortest(y: Floats, spread: Floats, confidence: float, z: float) -> tuple[Floats, Floats]:
    """The ends of the intervals of numbers, all in standard deviations, (numbers,) each.

    Args:
        y: as released.
        spread: as projected: how the numbers of the table are spread.
        confidence: the probability of every region.
        z: its quantile.
    """
    x, seen = np.arange(0.0, _MOST, _STEP), np.arange(-_FAR, _MOST + _FAR, _STEP)
    like = np.exp(-0.5 * (seen - x[:, None]) ** 2) * (_STEP / np.sqrt(2 * np.pi))  # (x, y), each row sums to one
    shares = np.bincount(np.minimum(np.rint(spread / _STEP), len(x) - 1).astype(np.int64), minlength=len(x))
    density = (1 - _EVENLY) * (shares / shares.sum()) @ like + _EVENLY / len(seen)
    order = np.argsort(-like / density, axis=1)
    gathered = np.take_along_axis(like, order, axis=1).cumsum(axis=1)
    region = np.zeros(like.shape, dtype=bool)
    np.put_along_axis(region, order, gathered - np.take_along_axis(like, order, axis=1) < confidence, axis=1)
    at = np.clip(np.rint((y - seen[0]) / _STEP), 0, len(seen) - 1).astype(np.int64)
    first, last = x[region.argmax(axis=0)][at], x[len(x) - 1 - region[::-1].argmax(axis=0)][at] + _STEP
    held = np.any(region, axis=0, keepdims=True)[0, at] & (y < seen[-1])
    beyond = y + z >= _MOST  # then some x of ten and more hold it, by regions around them
    lower = np.where(held, np.maximum(first - _STEP, 0.0), np.where(beyond, np.maximum(y - z, 0.0), 0.0))
    return lower, np.where(beyond, y + z, np.where(held, last, 0.0))
