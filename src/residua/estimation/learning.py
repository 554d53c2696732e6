"""What a look teaches: how strong each interaction seems, as curves of the error that more precision would leave.

Singles and pairs are judged by what was measured of them. Larger tables are judged by their scores where there are
some, `‖m_A − model_A‖₁` with noise: what is left of a score once the errors of its margins are taken away is the error
that measuring the table's own interaction would remove; else by what was measured of the interactions of their size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from residua.estimation.curves import FACTORS, MEAN, error_curve
from residua.estimation.facts import Members, Public
from residua.estimation.fit import Fitted, Progress, fitted
from residua.estimation.observed import Observed
from residua.estimation.shrinkage import Prior, shrunk
from residua.estimation.spending import Learned
from residua.estimation.tables import Tables
from residua.linalg.arrays import Floats
from residua.linalg.lattice import Lattice

_MOST_TABLES = 600  # of three or more attributes that are looked at one by one; the others are taken as their mean
_NOISIEST = 32.0  # how far above what a score says the noise of a table is where its curve begins


def learned(
    observed: Observed,
    public: Public,
    total: float,
    total_variance: float,
    lattice: Lattice,
    progress: Progress | None = None,
) -> tuple[Learned, Fitted]:
    """What was measured says of every set of a family, and the tables of singles and pairs that it was said beside."""
    curves, measured = np.zeros((len(lattice), len(FACTORS))), np.zeros(len(lattice))
    numbers = {members: number for number, members in enumerate(lattice)}
    for members, number in numbers.items():
        variance = observed.variance(members) if members else total_variance
        measured[number] = 1.0 / variance if 0 < variance < math.inf else 0.0
    curves[0] = MEAN * math.sqrt(total_variance) / np.sqrt(FACTORS)

    def seen(members: Members, deviation: Floats, model: Floats, prior: Prior) -> None:
        if members in numbers:
            curves[numbers[members]] = error_curve(deviation, model, observed.cell_variance(members), prior)

    found = fitted(observed, public, total, total_variance, progress, seen=seen)
    tables = Tables(observed, public, found)
    for size in range(3, len(lattice.levels)):
        prior = tables.prior(size)
        if prior is None:
            continue
        found.priors[size] = prior
        first, last = int(lattice.offsets[size]), int(lattice.offsets[size + 1])
        chosen = np.flatnonzero(measured[first:last] > 0) + first
        sample = chosen[:: max(1, math.ceil(len(chosen) / _MOST_TABLES))]
        for number in sample.tolist():
            members = lattice.members(number)
            deviation, model = tables.deviation(members)
            posterior = shrunk(deviation, model, observed.cell_variance(members), prior)
            seen(members, deviation, model, posterior.prior)
        others = np.setdiff1d(chosen, sample)
        if len(others):
            curves[others] = curves[sample].mean(axis=0)
    return Learned(lattice, measured, np.array(measured), curves), found


def with_scores(
    known: Learned, values: Mapping[Members, float], stddev: float, cells: Floats, costs: Floats
) -> Learned:
    """What scores of larger tables add: each says what measuring the table's own interaction could remove.

    Args:
        known: what was measured says.
        values: the scores.
        stddev: of their noise; a score is believed but for one of these.
        cells: how many cells each set has, (sets,).
        costs: κ of each set, (sets,).
    """
    lattice = known.lattice
    below = lattice.sum_over_subsets(known.curves[:, 0] ** 2, np.ones(lattice.attributes))
    reference, curves = known.reference.copy(), known.curves.copy()
    for members, value in values.items():
        number = int(lattice.find(np.array(members, dtype=np.int32).reshape(1, -1))[0])
        own = below[number] - curves[number, 0] ** 2
        apart = math.sqrt(max(max(value - stddev, 0.0) ** 2 - own, 0.0))
        reference[number] = 0.0
        if apart > 0 and costs[number] > 0:
            # Noise of deviation σ adds MEAN σ √κ per cell; the curve begins where that is many times the deviation.
            one = MEAN * cells[number] * math.sqrt(costs[number])
            reference[number] = max((one / (_NOISIEST * apart)) ** 2, known.measured[number])
            noise = one / np.sqrt(reference[number] * FACTORS)
            # Noise above the deviation hides it; only below that is something gained.
            curves[number] = apart * noise / (apart**4 + noise**4) ** 0.25
    return Learned(lattice, known.measured, reference, curves)
