"""What the budget went to: the share of the privacy cost that each part of the measurements takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.plans.contract import Plan
from residua.plans.lattice.plan import LatticePlan
from residua.plans.tables.plan import TablesPlan

SHOWN = 12


@dataclass(frozen=True)
class Share:
    """A part of the measurements and its share of the budget, of 1."""

    title: str
    share: float
    parts: int = 1


@dataclass(frozen=True)
class Budget:
    """What the budget went to.

    Args:
        ways: by the number of attributes.
        largest: the parts that take most.
        parts: how many parts are measured.
        words: what a part is.
    """

    ways: tuple[Share, ...]
    largest: tuple[Share, ...]
    parts: int
    words: str


def budget(plan: Plan) -> Budget | None:
    """What a plan's budget goes to; None for a plan that measures one matrix, which has no parts by table."""
    if isinstance(plan, LatticePlan):
        costs = plan.precisions * plan.costs
        words = "what a table adds to the smaller tables in it"
    elif isinstance(plan, TablesPlan):
        costs = np.zeros(len(plan.lattice))
        costs[plan.measured] = np.asarray(plan.shares, dtype=np.float64)[plan.measured]
        words = "a table"
    else:
        return None
    total = float(costs.sum())
    if not total > 0:
        return None
    shares = costs / total
    measured = np.flatnonzero(shares > 0)
    sizes = np.asarray(plan.lattice.set_sizes)
    ways = tuple(
        Share(_ways(int(k)), float(shares[measured][sizes[measured] == k].sum()), int((sizes[measured] == k).sum()))
        for k in np.unique(sizes[measured])
    )
    order = measured[np.argsort(-shares[measured], kind="stable")][:SHOWN]
    names = plan.domain.names
    largest = tuple(
        Share(" × ".join(names[i] for i in plan.lattice.members(int(n))) or "the total", float(shares[n]))
        for n in order
    )
    return Budget(ways, largest, len(measured), words)


def _ways(count: int) -> str:
    return {0: "the total", 1: "one attribute", 2: "two attributes", 3: "three attributes"}.get(
        count, f"{count} attributes"
    )
