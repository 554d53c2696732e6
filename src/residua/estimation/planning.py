"""How precisely to measure what, so that estimates that borrow strength are best: before data, and after a look.

The best plan for unbiased tables spends nearly everything on the largest tables asked for. Estimates need them least:
a model of all pairs predicts most of a larger table, and a few single attributes weigh on every table. So budgets are
shared by the number of attributes, and among tables of one number almost evenly, whatever their size.

After a look, larger tables are measured where their scores say that it pays. Singles and pairs rise together by
default: a model of all pairs borrows from every one of them, which the error of each alone does not show. Whether pairs
that seem strong should get more than that is tried, not assumed: releases are simulated from the estimates, as they
would be after each way of spending, and the way whose estimates come back best is taken. No data is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.estimation.fit import Fitted, Progress, fitted
from residua.estimation.observed import Members, Public, Supposed, variances_of
from residua.estimation.spending import Learned, at_precisions, blended, spend, with_scores
from residua.linalg.arrays import Booleans, Floats
from residua.plans.estimator import require_workload
from residua.plans.noise import NORMAL
from residua.plans.product.plan import ProductPlan
from residua.privacy import AddRemove, Guarantee, Nothing, PureDP, Unit
from residua.workload import Workload

# Shares of the budget by number of attributes, found on one real table (docs/decisions/14-estimates.md).
_TOTAL, _SINGLES, _TRIPLES, _MORE = 0.01, 0.17, 0.03, 0.01
_TOTAL_STDDEV, _MOST_TOTAL = 300.0, 1.0 / 3.0  # of the total, as far as that share pays for it
_POWER, _ALONE = 1.0 / 6.0, 1.0 / 2.0  # precision ∝ cells^power, of several numbers of attributes, of singles alone
_SLACK = 1.0 - 2.0**-40


def plan_estimates(workload: Workload, guarantee: Guarantee, *, unit: Unit | None = None) -> ProductPlan:
    """A plan whose releases `rs.estimate` makes the most of: for marginals, with normal noise.

    Guarantee: as for every plan, measuring it costs at most the guarantee for the unit; the verifier checks it again.
    What was measured keeps exact variances; for *unbiased* tables of three or more attributes `rs.plan` is better.

    Args:
        workload: marginals, made by `rs.marginals`; weights do not matter here.
        guarantee: the budget: `rs.ApproxDP`, `rs.GDP` or `rs.ZCDP`.
        unit: whom to protect; one record added or removed if left out.

    Raises:
        PlanError: not marginals, or a pure guarantee, which has no normal noise.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3, "c": 2})
        >>> plan = rs.plan_estimates(rs.marginals(domain, ways=3), rs.ZCDP(0.1))
        >>> plan.supports(["a", "b", "c"]), round(plan.cost, 6)          # rho = pcost / 2
        (True, 0.2)
    """
    require_estimable(workload, guarantee, "guarantee")
    return planned(workload, guarantee, unit or AddRemove(), len(workload.lattice.levels) - 1)


def require_estimable(workload: Workload, guarantee: Guarantee, argument: str) -> None:
    """Refuses what no plan for estimates is made of: other queries than marginals, and noise that is not normal."""
    require_workload(workload, plain=True)
    if not isinstance(guarantee, Guarantee) or isinstance(guarantee, PureDP | Nothing):
        raise PlanError(f"{argument}={guarantee!r} has no normal noise; give rs.ApproxDP, rs.GDP or rs.ZCDP.")


def planned(workload: Workload, guarantee: Guarantee, unit: Unit, ways: int) -> ProductPlan:
    """As `plan_estimates`, of sets of at most so many attributes; the others are left for later."""
    lattice, domain = workload.lattice, workload.domain
    shares = shares_by_ways(ways, float(guarantee.pcost_allowed()))
    cells = lattice.products(domain.sizes.astype(np.float64))
    costs = lattice.products(1.0 - 1.0 / domain.sizes)
    precisions = np.zeros(len(lattice))
    for ways, share in enumerate(shares):
        at = (lattice.set_sizes == ways) & (costs > 0)
        weights = cells[at] ** (_ALONE if len(shares) == 2 else _POWER)
        precisions[at] = share * weights / max(float(weights @ costs[at]), 1e-300)
    promise: Any = {"guarantee": guarantee, "unit": unit, "objective": "estimates that borrow strength"}
    unscaled = ProductPlan(domain, lattice, precisions, workload=workload, **promise)
    scale = float(guarantee.pcost_allowed()) / unscaled.unit_pcost * _SLACK
    plan = unscaled.scaled(scale)
    NORMAL.promised(plan.measurements.cost(plan.unit), guarantee)
    return plan


def shares_by_ways(ways: int, pcost: float) -> Floats:
    """The share of the budget for residuals of 0, 1, … attributes, (ways + 1,), adding up to one.

    Every table is as wrong as its total: where the budget is small, more of it goes there.
    """
    if ways == 0:
        return np.ones(1)
    total = float(np.clip(1.0 / (pcost * _TOTAL_STDDEV**2), _TOTAL, _MOST_TOTAL))
    more = [_TRIPLES, *[_MORE] * (ways - 3)] if ways > 2 else []
    rest = [_SINGLES, 1.0 - _SINGLES - sum(more), *more] if ways > 1 else [1.0]
    return np.array([total, *((1.0 - total) * share for share in rest)])


_SHARES = (0.0, 0.5, 1.0)  # how far spending follows the strength of single pairs
_LITTLE = 1e-3  # of what is there: not worth a measurement of its own
_MOST_LARGE = 0.06  # of the budget, for tables of three or more attributes: forecasts of what they bring are rough
_BETTER = 0.98  # of the error of rising together, for another way to be taken


def precisions_after(
    plan: ProductPlan,
    known: Learned,
    fit: Fitted,
    public: Public,
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
    return _without_little(_best(even, alone, known, costs, fit, public, small, progress), known.measured)


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
    small: Booleans,
    progress: Progress | None,
) -> Floats:
    """The way of spending on singles and pairs whose simulated release is estimated best."""
    tried: list[tuple[float, Floats]] = []
    for share in _SHARES:
        on_small = blended(
            np.where(small, even, 0.0), np.where(small, alone, 0.0), share, np.where(small, known.measured, 0.0), costs
        )
        wanted = np.where(small, on_small, even)
        error = _simulated_error(wanted, known, fit, public, progress)
        tried.append((error if share == 0.0 else error / _BETTER, wanted))
    return min(tried, key=lambda one: one[0])[1]


def _simulated_error(wanted: Floats, known: Learned, fit: Fitted, public: Public, progress: Progress | None) -> float:
    """The error of all pairs, estimated from a release simulated with these precisions."""
    noise = np.divide(1.0, wanted, out=np.full_like(wanted, np.inf), where=wanted > 0)
    variances = variances_of(public.domain, known.lattice, noise)
    simulated = Supposed(fit.values, fit.singles, fit.pairs).observed(public.domain, variances, seed=1)
    again = fitted(simulated, public, fit.total, 0.0, progress, reconcile=False, simulate=False)
    return float(np.abs(again.pairs - fit.pairs).sum())
