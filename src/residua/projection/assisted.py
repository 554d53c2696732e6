"""Narrower intervals of projected numbers: the shortest on average that hold every number as often as they say.

A number x ≥ 0 was released as y = x + s·noise, normal. An interval of 95 % is a family of tests: for every x a region
A(x) of probability 95 % under x, and the interval is of all x whose region holds y. Whichever regions are chosen, x is
held with 95 %, *whatever x is*. The release's own interval has regions around x. Here A(x) is where
density(y | x) / density(y) is largest: of all families, intervals are then shortest on average over numbers spread as
that density says (Pratt, 1961; Yu and Hoff, 2018). Half of it is the table as if its projected numbers were the true
ones, half is spread evenly, so that numbers unlike the others are not paid for them. No number has a say in its own
regions: the density is that of the other four fifths of the table. What of its noise is in others by the projection,
or because cells of one plan share noise, is neglected; coverage is measured (docs/uncertainty.md). Numbers of ten
standard deviations and more have regions around them.

For a density of numbers with normal noise the logarithm of the ratio is concave in y, since that of the density has
second derivative `Var(x | y) − 1`: so every A(x) is an interval `x − a … x + b`, found by bisection.

No honest interval is much shorter: of a zero, whatever the method, the mean width is at least ∫ P(y in A(x) | 0) dx
with A(x) the best test of x against 0, 1.67 s, where the release's own, cut at zero, has 1.97 s.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.projection.intervals import cut_ends, proven, tables_of
from residua.projection.problem import Terms
from residua.release.base import Release
from residua.workload import Workload

ASSISTED = "shortest for tables spread as the projected ones"
_STEP = 0.1  # of the grid, in standard deviations
_MOST = 10.0  # standard deviations up to which numbers have regions of their own
_FAR = 6.0  # how far from them y is looked at
_EVENLY = 0.5  # the share of the density that is spread evenly
_FOLDS = 5  # of a table; the numbers of one have regions by the others'
_HALVINGS = 30
_SEEN = np.arange(-_FAR, _MOST + _FAR, 0.05)


def require_assistable(release: Release, terms: Terms) -> None:
    """Refuses what has no narrower intervals.

    Raises:
        PlanError: noise that is not normal, a biased release, or cells that may be negative.
    """
    if not (release.plan.noise.gaussian and terms.nonnegative) or release.plan.bias:
        raise PlanError("narrower intervals are for normal noise and tables without negative cells; use safe ones.")


def assisted_ends(
    release: Release, terms: Terms, workload: Workload, estimates: Floats, confidence: float, together: float
) -> dict[str, Floats]:
    """The ends of the intervals of the answers to every query, (queries,) each; as safe ones where those are no tables.

    Args:
        release: of normal noise.
        terms: what the tables meet.
        workload: the queries.
        estimates: the projected answers, (queries,).
        confidence: how often an interval holds the truth.
        together: 1, for each by itself.

    Raises:
        PlanError: intervals that hold together.
    """
    if together != 1:
        raise PlanError("narrower intervals hold each by itself; leave simultaneous out, or take the safe ones.")
    lower, upper = cut_ends(release, terms, workload, confidence, together)
    released, variances = release.estimator.answers(workload)
    z = float(ndtri((1 + confidence) / 2))
    stddev = release.estimator.widths(workload, confidence, 1.0) * np.sqrt(variances) / z
    low, high = proven(terms, workload)
    for *_, places in tables_of(workload):
        own = places[(low[places] == 0.0) & (high[places] > 0.0) & (stddev[places] > 0.0)]
        if len(own):
            s = stddev[own]
            ends = _shortest(released[own] / s, estimates[own] / s, z)
            lower[own], upper[own] = (np.clip(each * s, 0.0, high[own]) for each in ends)
    return {"lower": np.minimum(lower, estimates), "upper": np.maximum(upper, estimates)}


def _shortest(y: Floats, spread: Floats, z: float) -> tuple[Floats, Floats]:
    """The ends of the intervals of numbers, all in standard deviations, (numbers,) each.

    Args:
        y: as released.
        spread: as projected: how the numbers of the table are spread.
        z: the quantile of the probability of every region.
    """
    x = np.arange(0.0, _MOST + _STEP / 2, _STEP)
    fold, places = np.arange(len(y)) % _FOLDS, np.minimum(np.rint(spread / _STEP), len(x) - 1).astype(np.int64)
    counts = np.zeros((_FOLDS, len(x)))
    np.add.at(counts, (fold, places), 1.0)
    counts = counts.sum(axis=0) - counts
    shares = counts / np.maximum(counts.sum(axis=1), 1.0)[:, None]
    least, most = _regions(x, _EVENLY * ndtr(_SEEN) / _MOST + (1 - _EVENLY) * shares @ _normal(), z)
    lower, upper = np.empty((2, len(y)))
    for k in range(_FOLDS):
        own = y[fold == k]
        lower[fold == k] = np.where(own > most[k, -1], own - z, np.interp(own, most[k], x))
        upper[fold == k] = np.where(own > least[k, -1], own + z, np.interp(own, least[k], x))
    return np.maximum(lower, 0.0), np.maximum(upper, 0.0)


def _regions(x: Floats, densities: Floats, z: float) -> tuple[Floats, Floats]:
    """From where to where y is in the region of each number, for each density of y, (densities, numbers) each.

    Below and above it y is with the probabilities `w α` and `(1 − w) α`; at the right w both ends have the same ratio.
    Where a region would end beyond that of a larger number, it is the larger one's end: regions grow by that.
    """
    alpha, log = 2 * ndtr(-z), np.log(densities)
    low, high = np.zeros((2, len(log), len(x)))
    high += 1.0
    for _ in range(_HALVINGS):
        w = (low + high) / 2
        below, above = ndtri(alpha * w), -ndtri(alpha * (1 - w))
        left_log, right_log = (
            np.array([np.interp(x + own, _SEEN, row) for own, row in zip(end, log, strict=True)])
            for end in (below, above)
        )
        more = above**2 - below**2 < 2 * (left_log - right_log)
        low, high = np.where(more, w, low), np.where(more, high, w)
    least = np.minimum(x + ndtri(alpha * high), _MOST - z)
    most = np.maximum.accumulate(x - ndtri(alpha * (1 - low)), axis=1)
    return np.minimum.accumulate(least[:, ::-1], axis=1)[:, ::-1], most


@cache
def _normal() -> Floats:
    """The density of y, (numbers, y), of the numbers 0, 0.1, … 10."""
    x = np.arange(0.0, _MOST + _STEP / 2, _STEP)
    return np.asarray(np.exp(-0.5 * (_SEEN - x[:, None]) ** 2) / np.sqrt(2 * np.pi))
