"""The second half of an adaptive release: from what a look and scores say to the precisions of all sets.

Larger tables are measured where their scores say that it pays. Singles and pairs rise together by default: a model of
all pairs borrows from every one of them, which the error of each alone does not show. Whether pairs that seem strong
should get more than that is tried, not assumed: releases are simulated from the estimates, as they would be after each
way of spending, and the way whose estimates come back best is taken. No data is touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from residua.domain import Domain
from residua.estimation.curves import at_precisions
from residua.estimation.facts import Members, Public
from residua.estimation.fit import Fitted, Progress, fitted
from residua.estimation.learning import with_scores
from residua.estimation.observed import Observed
from residua.estimation.simulation import Simulated
from residua.estimation.spending import Learned, blended, spend
from residua.linalg.arrays import Booleans, Floats
from residua.plans.lattice.plan import LatticePlan

_SHARES = (0.0, 0.5, 1.0)  # how far spending follows the strength of single pairs
_LITTLE = 1e-3  # of what is there: not worth a measurement of its own
_MOST_LARGE = 0.06  # of the budget, for tables of three or more attributes: forecasts of what they bring are rough
_BETTER = 0.98  # of the error of rising together, for another way to be taken


def precisions_after(
    plan: LatticePlan,
    known: Learned,
    fit: Fitted,
    public: Public,
    observed: Observed,
    pcost: float,
    scores: tuple[Mapping[Members, float], float] | None = None,
    progress: Progress | None = None,
) -> Floats:
    """How precisely each set is to be known once all is spent, none below what it is, (sets,).

    Args:
        plan: made by `rs.plan_estimates`: the proportions that singles and pairs rise in.
        known: what was measured says.
        fit: the estimates of singles and pairs so far.
        public: what is known besides.
        observed: what was measured.
        pcost: what everything may cost in the end, for one record added or removed.
        scores: of larger tables, and the deviation of their noise.
        progress: called with what is being done, how much is done, and of how much.
    """
    lattice, costs = plan.lattice, plan.costs
    assert plan.workload is not None  # it is plain
    cells = lattice.products(plan.domain.sizes.astype(np.float64))
    if scores is not None:
        known = with_scores(known, *scores, cells, costs)
    weights = np.zeros(len(lattice))
    weights[plan.workload.numbers] = plan.workload.weights
    small = lattice.set_sizes < 3
    proportions = np.where(small, plan.precisions, 0.0)
    even = spend(known, weights, costs, pcost, small, proportions)
    if scores is not None and float((even * costs)[~small].sum()) > _MOST_LARGE * pcost:
        known = _worthiest(known, even, costs, small, _MOST_LARGE * pcost)
        even = spend(known, weights, costs, pcost, small, proportions)
    if not (lattice.set_sizes == 2).any():
        return _without_little(even, known.measured)
    alone = spend(known, weights, costs, pcost)
    return _without_little(_best(even, alone, known, costs, fit, public, observed, small, progress), known.measured)


def _worthiest(known: Learned, wanted: Floats, costs: Floats, small: Booleans, most: float) -> Learned:
    """Only those of the larger tables that bring most for what they cost, as many as that pays for."""
    errors, _ = at_precisions(known.curves, np.where(known.reference > 0, known.reference, 1.0), wanted)
    spent = wanted * costs
    gain = np.where(small | (spent <= 0), 0.0, (known.curves[:, 0] - errors) / np.maximum(spent, 1e-300))
    order = np.argsort(-gain, kind="stable")
    kept = small.copy()
    kept[order[(np.cumsum(np.where(small, 0.0, spent)[order]) <= most) & (gain[order] > 0)]] = True
    return Learned(known.lattice, known.measured, np.where(kept, known.reference, 0.0), known.curves)


def _without_little(wanted: Floats, measured: Floats) -> Floats:
    return np.asarray(np.where(wanted > measured * (1.0 + _LITTLE), wanted, measured))


def _best(
    even: Floats,
    alone: Floats,
    known: Learned,
    costs: Floats,
    fit: Fitted,
    public: Public,
    observed: Observed,
    small: Booleans,
    progress: Progress | None,
) -> Floats:
    """The way of spending on singles and pairs whose simulated release is estimated best."""
    found: list[tuple[float, Floats]] = []
    for share in _SHARES:
        on_small = blended(
            np.where(small, even, 0.0), np.where(small, alone, 0.0), share, np.where(small, known.measured, 0.0), costs
        )
        wanted = np.where(small, on_small, even)
        error = _simulated_error(wanted, known, fit, public, observed, progress)
        found.append((error if share == 0.0 else error / _BETTER, wanted))
    return min(found, key=lambda one: one[0])[1]


def _simulated_error(
    wanted: Floats, known: Learned, fit: Fitted, public: Public, observed: Observed, progress: Progress | None
) -> float:
    """The error of all pairs, estimated from a release simulated with these precisions."""
    lattice = known.lattice
    variances = {members: 1.0 / tau if tau > 0 else math.inf for members, tau in zip(lattice, wanted, strict=True)}
    supposed = Supposed(observed, variances)
    simulated = Simulated(supposed, fit.values, fit.singles, fit.pairs, seed=1)
    again = fitted(simulated, public, fit.total, 0.0, progress, reconcile=False, simulate=False)
    return float(np.abs(again.pairs - fit.pairs).sum())


@dataclass(frozen=True, eq=False)
class Supposed(Observed):
    """A release that is yet to be made: what is measured, with other variances.

    Args:
        real: the release that there is.
        variances: of each set; infinite where nothing will be measured.
    """

    real: Observed
    variances: Mapping[Members, float]

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """What the table may hold."""
        return self.real.domain

    def variance(self, members: Members) -> float:
        """As supposed."""
        return self.variances.get(members, math.inf) if self.directions(members) else math.inf

    def residual(self, members: Members) -> Floats:
        """Nothing was measured yet."""
        raise NotImplementedError

    def sets(self, size: int) -> Iterator[Members]:
        """Those that will be measured."""
        return (members for members, variance in self.variances.items() if len(members) == size and variance < math.inf)
