"""The total of a projection where none is public.

A total that was measured poorly is estimated from what is measured of it and of single attributes, and from its being
positive. The released total (the best linear unbiased estimate from everything measured) is normal around the truth N,
which is not negative. What is measured of an attribute apart from the total, its residual r, says more: shares p of n
values that vary as a symmetric Dirichlet of parameter α make `r` as large as `N √(n−1) √w`, `w = 1/(n (nα + 1))` per
direction. So the squared length of a measured residual, normal of variance `σ² + N² w` in each of n − 1 directions, is
evidence about N; α is not known, and averaged over. The mean of N under both, given a flat prior on N > 0, is the
estimate: where the residuals are noise, that of a normal cut at zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import logsumexp

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.projection.problem import CLEAR
from residua.projection.problems import kind_of
from residua.release.base import Release

_REACH = 6.0  # standard deviations above the released total: further up, nothing is looked for
_STEPS = 800
_MOST_VALUES = 5_000  # of an attribute that is looked at
_SPREADS = np.array([0.1, 0.3, 1.0, 3.0, 10.0])  # α


def estimated_total(release: Release, *, relative: bool = False) -> tuple[float, float] | None:
    """The total and its standard deviation, positive; None where the release does not tell one at all.

    `relative` gives the total whose relative error is expected to be least, for a prior of `1/√N`: where noise drowns
    the total, a small one, since tables of a total below the truth are never further from it than twice the records.
    """
    try:
        released = float(release.estimates(()))
    except PlanError:
        return None
    stddev = float(release.table(()).columns["stddev"][0])
    if stddev == 0.0 or released > CLEAR * stddev:
        return max(released, 0.0), stddev
    most = max(released, 0.0) + _REACH * stddev
    grid = np.geomspace(min(1.0, most / _STEPS), most, _STEPS)
    log = -0.5 * ((grid - released) / stddev) ** 2
    for name in release.domain.names:
        size = release.domain[name].size
        if not 1 < size <= _MOST_VALUES or not release.plan.supports([name]):
            continue
        table = release.estimates([name])
        variance = (float(release.plan.variance([name]).sum()) - stddev**2 / size) / (size - 1)
        if variance > 0:
            log += _evidence(float(((table - table.mean()) ** 2).sum()), size, variance, grid)
    weights = np.exp(log - log.max()) * grid  # points lie further apart where totals are larger
    mean = float(weights @ grid / weights.sum())
    if relative:
        below = np.cumsum(weights * grid**-1.5)
        mean = float(grid[np.searchsorted(below, 0.5 * below[-1])])
    return mean, math.sqrt(float(weights @ (grid - mean) ** 2 / weights.sum()))


def _evidence(squares: float, size: int, variance: float, totals: Floats) -> Floats:
    """The log likelihood of a residual's squared length, for each total, up to a constant, (totals,)."""
    w = 1.0 / (size * (size * _SPREADS + 1.0))
    each = variance + totals[:, None] ** 2 * w  # (totals, spreads)
    return np.asarray(logsumexp(-0.5 * ((size - 1) * np.log(each / variance) + squares / each), axis=1))


def keeps_own(release: Release, total: Any) -> bool:
    """Whether there are groups, and each keeps its own total."""
    return kind_of(release.plan).by_strata and (total is None or total == "released")


def met_total(release: Release, total: Any) -> tuple[float | None, float]:
    """The total to be met, and its standard deviation: as given, as released, or estimated from all that was."""
    if total == "free" or keeps_own(release, total):
        return None, 0.0
    if total is None:
        return estimated_total(release) or (None, 0.0)
    if total != "released":
        given: float = total  # or not a number, which `facts_of` refuses
        return given, 0.0
    released = float(release.estimates(()))
    if not 0 <= released < math.inf:
        raise PlanError(
            f"total='released': the released total is {released:,.6g}, and no table can add up to that; give a total, "
            "or total='free', or leave it out to have it estimated."
        )
    return released, float(release.table(()).columns["stddev"][0])
