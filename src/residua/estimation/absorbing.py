"""How much of the noise of each residual a model has taken for signal: by a release simulated from the estimates.

A model fitted to a release follows part of its noise. With V the squared noise of a residual, B the squared error of
the model and C what they have in common, the squared distance between model and measurement is `D = B + V − 2C` in
expectation, and the mixture of both that errs least keeps `1 − (V − C)/D` of the deviation: as if the model were
independent, and the noise were `V − C`. It errs by C and the posterior variance at that noise. Where the model follows
all of the noise (C = V), nothing speaks for it, and the measurement stays.

C depends on how freely the model fits, hardly on the truth: a release simulated from the estimates, and fitted again,
has the share `c = C/V` of the real one to within a few hundredths over all tables. One table has few directions, and
its own share is moved towards that of all tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from residua.estimation.mixture import Mixture, Values
from residua.estimation.observed import centred
from residua.estimation.simulation import Simulated
from residua.linalg.arrays import Floats

_SPREAD = 0.2  # how far shares of tables of one number of attributes are from their mean
_MOST = 0.98
_DIRECTIONS, _SIMULATIONS = 150, 4  # of singles that are looked at, in so many simulations at most


def simulations(values: Values) -> int:
    """How many releases to simulate: few attributes of few values have few directions each time."""
    directions = max(int((values.sizes - 1).sum()), 1)
    return int(np.clip(math.ceil(_DIRECTIONS / directions), 1, _SIMULATIONS))


def absorbed_shares(fits: Sequence[tuple[Simulated, Mixture]], values: Values, total: float) -> Floats:
    """The share of the noise of each single (on the diagonal) and pair that a model of it has followed.

    Args:
        fits: releases whose truth is known, and the mixture fitted to each.
        values: where each attribute's values stand.
        total: the number of records.

    Returns:
        (attributes, attributes), symmetric; 0 where nothing was measured.
    """
    d = len(values.sizes)
    found = np.zeros((d, d))
    first = fits[0][0]
    shares = [(one, {1: mixture.singles, 2: mixture.pairs}) for one, mixture in fits]
    for size in (1, 2):
        sets = [s for s in combinations(range(d), size) if math.isfinite(first.variance(s))]
        if not sets:
            continue
        own, precision = np.zeros(len(sets)), np.zeros(len(sets))
        for number, members in enumerate(sets):
            at = tuple(values.of(i) for i in members)
            sums = np.zeros(3)
            for simulated, model in shares:
                truth = simulated.truth(members)
                noise = simulated.residual(members) - truth
                apart = centred(total * model[size][at]) - truth
                sums += [float((apart * noise).sum()), float((noise**2).sum()), float((apart**2).sum())]
            whole = max(sums[1], 1e-300)
            own[number] = sums[0] / whole
            precision[number] = len(fits) * first.directions(members) / (1.0 + sums[2] / whole)
        mean = float(np.clip((own @ precision) / precision.sum(), 0.0, _MOST))
        shrunk = (own * precision + mean / _SPREAD**2) / (precision + 1.0 / _SPREAD**2)
        for members, share in zip(sets, np.clip(shrunk, 0.0, _MOST).tolist(), strict=True):
            found[members[0], members[-1]] = found[members[-1], members[0]] = share
    return found
