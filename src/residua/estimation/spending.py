"""What is left after a look and scores: on the larger tables that pairs do not explain, and on everything evenly.

The score of a table, `‖m_A − model_A‖₁` with noise, is the error that the look left in it. What is left of a score once
the errors of its margins are taken away is the error that measuring the table's own interaction would remove. At a
precision τ that interaction errs by `c/√τ` instead, c the expected sum of absolute values of noise of precision 1, and
the cost κτ is missing everywhere else: errors of all tables fall as the root of what is spent, so that this loses
`λκτ` of them, `λ = w Σ_A E_A / (2 pcost)`, E_A without own interactions. As in a plan, what tables of fewer attributes
lose in proportion counts as much (single ones: 0.4), so that w is the sum of these weights. The sum of both is least
at `τ = (c / (2λκ))^(2/3)`, and must be below half of what it removes: forecasts are rough.

Singles and pairs rise together, in the proportions of a plan for as many records as the look counted. More for pairs
that are far from independent was tried and is worse (docs/decisions/14-estimates.md): the model borrows from all of
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from residua.estimation.observed import Members
from residua.estimation.planning import MEAN, SINGLES
from residua.estimation.tables import EstimatedTables, accuracy_of
from residua.linalg.arrays import Floats
from residua.plans.product.plan import ProductPlan

_WORTH = 0.5  # of what a measurement removes: the most that it may add and cost
_MOST = 0.5  # of what is left, for tables that pairs do not explain
_LITTLE = 1e-3  # of what is there: not worth a measurement of its own


def precisions_after(
    plan: ProductPlan,
    measured: Floats,
    tables: EstimatedTables,
    pcost: float,
    scores: Mapping[Members, float],
    stddev: float,
) -> Floats:
    """How precisely each set is to be known once all is spent, none below what it is, (sets,).

    Args:
        plan: made by `rs.plan_estimates`: the proportions that all rises in.
        measured: how precisely each set was measured, (sets,).
        tables: what the look says.
        pcost: what everything may cost in the end, for one record added or removed.
        scores: of larger tables.
        stddev: of their noise.
    """
    lattice, costs = plan.lattice, plan.costs
    left = pcost - float(measured @ costs)
    if left <= 0:
        return measured
    wanted, worth = measured.copy(), []
    cells = {members: float(np.prod(plan.domain.sizes[list(members)])) for members in scores}
    passed_on = {members: _passed_on(tables, members, cells[members]) for members in scores}
    lost = sum(min(max(value, stddev), passed_on[members]) for members, value in scores.items()) / (2.0 * pcost)
    lost *= len(lattice.levels) - 2 + SINGLES
    for members, value in scores.items():
        number = lattice.number(members)
        cost = float(costs[number])
        apart = math.sqrt(max(max(value - stddev, 0.0) ** 2 - passed_on[members] ** 2, 0.0))
        if not apart or not cost or not lost:
            continue
        one = MEAN * cells[members] * math.sqrt(cost)
        tau = (one / (2.0 * lost * cost)) ** (2.0 / 3.0)
        total = one / math.sqrt(tau) + lost * cost * tau
        if total < _WORTH * apart and tau > measured[number]:
            worth.append(((apart - total) / (cost * tau), number, tau))
    room = _MOST * left
    for _, number, tau in sorted(worth, reverse=True):
        room -= float(costs[number]) * (tau - measured[number])
        if room < 0:
            break
        wanted[number] = tau
    filled = _filled(plan.precisions * costs, wanted * costs, pcost) / np.where(costs > 0, costs, 1.0)
    return np.asarray(np.where(filled > measured * (1.0 + _LITTLE), filled, measured))


def _passed_on(tables: EstimatedTables, members: Members, cells: float) -> float:
    """The expected sum of absolute errors of a table that has those of its margins and none of its own."""
    interactions = tables.interactions(members)
    interactions[members] = replace(interactions[members], error=0.0, exact=True)
    names = tuple(tables.observed.domain.names[i] for i in members)
    return MEAN * cells * accuracy_of(tables.observed.domain, names, interactions, tables.fitted, tables.copies).rmse


def _filled(shares: Floats, floor: Floats, whole: float) -> Floats:
    """`max(c · shares, floor)` with c such that it adds up to the whole."""
    ratio = np.divide(floor, shares, out=np.full_like(floor, np.inf), where=shares > 0)
    order = np.argsort(ratio, kind="stable")
    # With the k smallest ratios above their floor: c · Σ_k shares + Σ_rest floor = whole.
    above, rest = np.cumsum(shares[order]), float(floor.sum()) - np.cumsum(floor[order])
    with np.errstate(divide="ignore", invalid="ignore"):
        c = (whole - rest) / above
    fits = np.flatnonzero(np.isfinite(c) & (c >= ratio[order]))
    return np.asarray(np.maximum(c[fits[-1]] * shares, floor)) if len(fits) else np.array(floor)
