"""How many records a bound on each person's leaves out: in all and in each asked one-way table, with noise of its own.

The records that are not counted, of one person at most so many, are counted like any others: their total and their
one-way tables are a small plan for a person with that many records. The verifier prices it, the one debit pays for it
beside what is counted, and it is kept in the release as a release of its own. What a person has beyond that bound as
well is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import PlanError, SourceError, named
from residua.linalg.lattice import closure
from residua.measurement.noisy import with_noise
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.plans.product.plan import ProductPlan
from residua.plans.verifier import priced
from residua.privacy import ZCDP, AddRemove, Person, PureDP
from residua.privacy.exact import round_up
from residua.privacy.guarantees import like
from residua.release import Release
from residua.source.bound import MOST_TOLD, Loss
from residua.workload import marginals

_MOST_VALUES = 4096  # of an attribute whose table is measured; of longer ones the total tells
_SLACK = 1 - 2.0**-30  # of the share that is spent, for rounding


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What is measured of the records that a bound leaves out.

    Args:
        plan: their total and one-way tables, for a person with the most of them that count.
        measurements: what that comes down to.
        cost: its price, by the verifier.
    """

    plan: Plan
    measurements: Measurements
    cost: Fraction

    def measured(self, loss: Loss) -> Release:
        """The records that were left out, with noise; here their true counts end."""
        tables = np.array(np.broadcast_to(loss.tables, self.measurements.counted.cells))  # of nobody: one 0
        if int(tables.max(initial=0)) > self.measurements.most_records:
            raise SourceError("there are more records than 64-bit measurements can hold; split the data.")
        noisy = with_noise(self.measurements, tables)
        return Release(self.plan, self.measurements, noisy, {self.measurements.currency: round_up(self.cost)})


def left_out_of(plan: Plan, cost: Fraction, share: float, most: int | None) -> LeftOut | None:
    """What is measured of the records that a plan's bound leaves out, for a share of all that is spent.

    Args:
        plan: what is measured of those that are counted.
        cost: its price.
        share: of the price of both together; nothing for 0.
        most: of one person, ten times the bound if left out.

    Raises:
        PlanError: no share, no number of records, or a plan that bounds nobody's.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise PlanError(f"left_out={named(share)} is not a share of what is spent; say 0.02, or 0 for none.")
    if not isinstance(plan.unit, Person):
        if most is not None:
            raise PlanError("left_out_most is about what is not counted of persons; plan with unit=rs.Person(…).")
        return None
    most = min(10 * plan.unit.records, MOST_TOLD) if most is None else most
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_TOLD:
        raise PlanError(
            f"left_out_most={named(most)} is not a whole number from 1 to {MOST_TOLD:,}; say 50, for example."
        )
    if not share:
        return None
    spent = cost * Fraction(share) / (1 - Fraction(share))
    beside = one_way_tables(plan, Person(most), float(spent))
    measurements, price = priced(beside)
    assert price <= spent
    return LeftOut(beside, measurements, price)


def one_way_tables(plan: Plan, unit: Person | AddRemove, price: float) -> Plan:
    """The total and the one-way tables that a plan was asked, each with the same noise, for this price at the most."""
    spent = price * _SLACK
    domain, asked = plan.domain, None if plan.workload is None else plan.workload.tables
    names = {each[0] for each in (() if asked is None else asked.sets) if len(each) == 1}
    singles = [
        i
        for i, name in enumerate(domain.names)
        if name in names and domain[name].coded <= _MOST_VALUES and not domain[name].summed
    ]
    lattice = closure([np.array(singles, dtype=np.int32).reshape(-1, 1)], len(domain))
    workload = marginals(domain, [(), *((domain.names[i],) for i in singles)])
    promise: dict[str, Any] = {"unit": unit, "workload": workload, "objective": "the same noise on every table"}
    each = spent / (len(singles) + 1) / unit.records ** (2 if plan.noise.gaussian else 1)
    if not plan.noise.gaussian:
        shares = np.full(len(lattice), each)
        return ProductPlan.of_tables(domain, lattice, shares, guarantee=PureDP(spent / _SLACK), **promise)
    # Noise on a table measures its total too: with precision 1/n of that of its cells.
    total = each * (1 + float(np.sum(1 / domain.sizes[singles])))
    precisions = np.where(lattice.set_sizes == 0, total, each)
    return ProductPlan(domain, lattice, precisions, guarantee=like(ZCDP(1.0), Fraction(spent / _SLACK)), **promise)
