"""Plans for estimates: how precisely to measure what, before data, so that estimates that borrow strength are best.

The best plan for unbiased tables spends nearly everything on the largest tables asked for. Estimates need them least:
a model of all pairs predicts most of a larger table, and a few single attributes weigh on every table. So budgets are
shared by the number of attributes, and among tables of one number almost evenly, whatever their size.
"""

from __future__ import annotations

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.lattice.plan import LatticePlan
from residua.plans.noise import NORMAL
from residua.privacy import AddRemove, Guarantee, PureDP, Unit
from residua.workload import Workload

# Shares of the budget by number of attributes, found on one real table (docs/decisions/0017-estimates.md).
_TOTAL, _SINGLES, _TRIPLES, _MORE = 0.01, 0.17, 0.03, 0.01
_POWER, _ALONE = 1.0 / 6.0, 1.0 / 2.0  # precision ∝ cells^power, of several numbers of attributes, of singles alone
_SLACK = 1.0 - 2.0**-40


def plan_estimates(workload: Workload, guarantee: Guarantee, *, unit: Unit | None = None) -> LatticePlan:
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
    if not isinstance(workload, Workload) or not workload.plain:
        raise PlanError(f"workload={workload!r} is not a workload of marginals; make one with rs.marginals.")
    if not isinstance(guarantee, Guarantee) or isinstance(guarantee, PureDP):
        raise PlanError(f"guarantee={guarantee!r} has no normal noise; give rs.ApproxDP, rs.GDP or rs.ZCDP.")
    return planned(workload, guarantee, unit or AddRemove(), len(workload.lattice.levels) - 1)


def planned(workload: Workload, guarantee: Guarantee, unit: Unit, ways: int) -> LatticePlan:
    """As `plan_estimates`, of sets of at most so many attributes; the others are left for later."""
    lattice, domain = workload.lattice, workload.domain
    shares = shares_by_ways(ways)
    cells = lattice.products(domain.sizes.astype(np.float64))
    costs = lattice.products(1.0 - 1.0 / domain.sizes)
    precisions = np.zeros(len(lattice))
    for ways, share in enumerate(shares):
        at = (lattice.set_sizes == ways) & (costs > 0)
        weights = cells[at] ** (_ALONE if len(shares) == 2 else _POWER)
        precisions[at] = share * weights / max(float(weights @ costs[at]), 1e-300)
    made = LatticePlan(domain, lattice, precisions, guarantee, unit, workload, "estimates that borrow")
    scale = float(guarantee.pcost_allowed()) / made.unit_pcost * _SLACK
    plan = LatticePlan(
        domain, lattice, precisions * scale, guarantee, made.unit, workload, "estimates that borrow strength"
    )
    NORMAL.promised(plan.blocks.cost(plan.unit), guarantee)
    return plan


def shares_by_ways(ways: int) -> Floats:
    """The share of the budget for residuals of 0, 1, … attributes, (ways + 1,), adding up to one."""
    if ways == 0:
        return np.ones(1)
    if ways == 1:
        return np.array([_TOTAL, 1.0 - _TOTAL])
    more = [_TRIPLES, *[_MORE] * (ways - 3)] if ways > 2 else []
    return np.array([_TOTAL, _SINGLES, 1.0 - _TOTAL - _SINGLES - sum(more), *more])
