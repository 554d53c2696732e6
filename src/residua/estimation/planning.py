"""How precisely to measure what, before data, so that estimates that borrow strength are best.

The best plan for unbiased tables spends nearly everything on the largest tables asked for. Estimates need them least:
a model of all pairs predicts most of a larger table, and a few single attributes weigh on every table. So the budget is
shared by the number of attributes, as the errors that are expected for so many records say. Among tables of one number
more goes to those of more cells: of single attributes as unbiased tables want it, of larger tables less, which borrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.plans.estimator import require_workload
from residua.plans.noise import NORMAL
from residua.plans.product.plan import ProductPlan
from residua.privacy import AddRemove, Guarantee, Nothing, PureDP, Unit
from residua.workload import Workload

# What is expected of tables before they are seen (docs/decisions/14-estimates.md).
_RECORDS = 10_000  # where nobody says how many there are
_STRENGTH, _WEAKER = 0.5, 0.04  # squared deviations of pairs from independence, and how much those of one more are less
_CELLS, _COUNTS = np.array([0.125, 0.25, 0.625]), np.array([5.0, 1.2, 0.12])  # shares of cells, counts beside the mean
SINGLES = 0.4  # how much singles weigh beside larger tables
_LEAST = (0.02, 0.1, 0.1, 0.02)  # shares of 0, 1, 2 and more attributes: what was expected may be wrong
_POWERS = (0.0, 1.0 / 2.0, 1.0 / 3.0, 1.0 / 6.0)  # precision ∝ cells^power, of tables of 0, 1, 2, and more attributes
MEAN = math.sqrt(2.0 / math.pi)  # of the absolute value of a standard normal
_MOST_SETS = 500  # of one number of attributes that are looked at
_SLACK = 1.0 - 2.0**-40


def plan_estimates(
    workload: Workload, guarantee: Guarantee, *, unit: Unit | None = None, records: float | None = None
) -> ProductPlan:
    """A plan whose releases `rs.estimate` makes the most of: for marginals, with normal noise.

    Guarantee: as for every plan, measuring it costs at most the guarantee for the unit; the verifier checks it again.
    What was measured keeps exact variances; for *unbiased* tables of three or more attributes `rs.plan` is better.

    Args:
        workload: marginals, made by `rs.marginals`; weights do not matter here.
        guarantee: the budget: `rs.ApproxDP`, `rs.GDP` or `rs.ZCDP`.
        unit: whom to protect; one record added or removed if left out.
        records: about how many records there are, as far as that is public; the order of magnitude is enough, and
            10,000 if left out. It decides how much goes to the total, single attributes, pairs and larger tables.

    Raises:
        PlanError: not marginals, a pure guarantee, which has no normal noise, or no number of records.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3, "c": 2})
        >>> plan = rs.plan_estimates(rs.marginals(domain, ways=3), rs.ZCDP(0.1))
        >>> plan.supports(["a", "b", "c"]), round(plan.cost, 6)          # rho = pcost / 2
        (True, 0.2)
    """
    require_estimable(workload, guarantee, "guarantee")
    if records is not None and (isinstance(records, bool) or not isinstance(records, int | float) or not records >= 1):
        raise PlanError(
            f"records={named(records)} is not a number of records; give about how many there are, or leave it out."
        )
    return planned(workload, guarantee, unit or AddRemove(), records)


def require_estimable(workload: Workload, guarantee: Guarantee, argument: str) -> None:
    """Refuses what no plan for estimates is made of: other queries than marginals, and noise that is not normal."""
    require_workload(workload, plain=True)
    if not isinstance(guarantee, Guarantee) or isinstance(guarantee, PureDP | Nothing):
        raise PlanError(f"{argument}={named(guarantee)} has no normal noise; give rs.ApproxDP, rs.GDP or rs.ZCDP.")


def planned(workload: Workload, guarantee: Guarantee, unit: Unit, records: float | None = None) -> ProductPlan:
    """As `plan_estimates`, unchecked."""
    lattice, domain = workload.lattice, workload.domain
    cells = lattice.products(domain.sizes.astype(np.float64))
    costs = lattice.products(1.0 - 1.0 / domain.sizes)
    levels = [np.flatnonzero((lattice.set_sizes == ways) & (costs > 0)) for ways in range(len(lattice.levels))]
    proportions = np.zeros(len(lattice))
    for ways, at in enumerate(levels):
        weights = cells[at] ** _POWERS[min(ways, len(_POWERS) - 1)]
        proportions[at] = weights / max(float(weights @ costs[at]), 1e-300)
    looked = [at[:: max(1, len(at) // _MOST_SETS)] for at in levels]
    pcost = float(guarantee.pcost_allowed())
    noises = [(cells[at], costs[at] / (proportions[at] * pcost)) for at in looked]
    precisions = proportions * shares_by_ways(noises, records or _RECORDS)[lattice.set_sizes]
    promise: Any = {"guarantee": guarantee, "unit": unit, "objective": "estimates that borrow strength"}
    unscaled = ProductPlan(domain, lattice, precisions, workload=workload, **promise)
    plan = unscaled.scaled(pcost / unscaled.unit_pcost * _SLACK)
    NORMAL.promised(plan.measurements.cost(plan.unit), guarantee)
    return plan


def shares_by_ways(noises: Sequence[tuple[Floats, Floats]], records: float) -> Floats:
    """The share of the budget for residuals of 0, 1, … attributes, (ways + 1,), adding up to one.

    The least geometric mean of the expected errors of tables of each number of attributes. A cell whose deviation from
    what smaller tables say has variance v, measured with noise of variance s², errs by `√(2/π · v s²/(v + s²))`; a
    table's error is made of those of its interactions. Deviations are taken as in `docs/decisions/14-estimates.md`.

    Args:
        noises: for 0, 1, … attributes: the cells of each table, and the noise variance of a cell if all were spent
            there, (tables,) each.
        records: about how many there are.
    """
    ways = len(noises) - 1
    least = np.array([*_LEAST, *[_LEAST[-1]] * ways][: ways + 1])
    least *= min(1.0, 0.5 / least.sum())
    live = np.array([len(cells) > 0 for cells, _ in noises])

    def shares(free: Floats) -> Floats:
        each = np.where(live, np.exp(free - free.max()), 0.0)
        return np.asarray(np.where(live, least, 0.0) + (1.0 - least[live].sum()) * each / each.sum())

    def error(free: Floats) -> float:
        own = [
            _expected_square(n, *noise, share, records)
            for n, (noise, share) in enumerate(zip(noises, shares(free), strict=True))
        ]
        whole = [sum(math.comb(k, j) * own[j] for j in range(k + 1)) for k in range(1, ways + 1)]
        return sum(math.log(max(one, 1e-300)) * (SINGLES if k == 0 else 1.0) for k, one in enumerate(whole))

    return shares(minimize(error, np.zeros(ways + 1), method="Nelder-Mead", options={"fatol": 1e-4, "maxiter": 400}).x)


def _expected_square(ways: int, cells: Floats, noise: Floats, share: float, records: float) -> float:
    """The squared error that a residual of so many attributes adds to a table, the mean over tables."""
    if not len(cells):
        return 0.0
    s = (noise / share)[:, None]
    if ways == 0:
        return MEAN**2 * min(float(s[0, 0]), records**2)
    mean = (records / cells)[:, None]
    strength = 1.0 if ways == 1 else _STRENGTH * _WEAKER ** (ways - 2)
    v = strength * mean**2 * _COUNTS**2 / float(_CELLS @ _COUNTS**2) + (mean * _COUNTS if ways > 2 else 0.0)
    each = MEAN * cells * (np.sqrt(v * s / (v + s)) @ _CELLS)
    return float((each**2).mean())
