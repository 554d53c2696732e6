"""A total that was measured poorly: from what is measured of it and of single attributes, and from its being positive.

A released total is normal around the truth, N is not negative, and neither is a cell of an attribute's table, whose
residual r is measured apart from the total: `r + N/n ≥ 0`. The squared distance of a measured residual from the tables
of total N, in units of its noise, is evidence against N as far as it exceeds what noise makes it, half of the
directions: a table with many empty cells is that far from itself. The mean of N under both is the estimate.
"""

from __future__ import annotations

import math

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.release.base import Release

_CLEAR = 3.0  # standard deviations above zero: then the released total is kept as it is
_REACH = 6.0  # standard deviations above the released total: further up, nothing is looked for
_STEPS = 800
_MOST_VALUES = 5_000  # of an attribute that is looked at


def estimated_total(release: Release) -> tuple[float, float] | None:
    """The total and its standard deviation, positive; None where the release does not tell one at all."""
    try:
        released = float(release.estimates(()))
    except PlanError:
        return None
    stddev = float(release.table(()).columns["stddev"][0])
    if stddev == 0.0 or released > _CLEAR * stddev:
        return max(released, 0.0), stddev
    grid = np.linspace(0.0, max(released, 0.0) + _REACH * stddev, _STEPS + 1)[1:]
    log = -0.5 * ((grid - released) / stddev) ** 2
    for name in release.domain.names:
        size = release.domain[name].size
        if not 1 < size <= _MOST_VALUES or not release.plan.supports([name]):
            continue
        table = release.estimates([name])
        variance = (float(release.plan.variance([name]).sum()) - stddev**2 / size) / (size - 1)
        if variance > 0:
            far = _distances(table - table.mean(), grid) / variance
            log -= 0.5 * np.maximum(far - 0.5 * (size - 1), 0.0)
    weights = np.exp(log - log.max())
    mean = float(weights @ grid / weights.sum())
    return mean, math.sqrt(float(weights @ (grid - mean) ** 2 / weights.sum()))


def _distances(residual: Floats, totals: Floats) -> Floats:
    """Squared distances of a centred table from the non-negative tables of each total, (totals,)."""
    wanted = residual + totals[:, None] / len(residual)
    ordered = -np.sort(-wanted, axis=1)
    excess = (np.cumsum(ordered, axis=1) - totals[:, None]) / np.arange(1, len(residual) + 1)
    last = (ordered > excess).sum(axis=1) - 1
    level = excess[np.arange(len(totals)), np.maximum(last, 0)]
    return np.asarray(((np.maximum(wanted - level[:, None], 0.0) - wanted) ** 2).sum(axis=1))
