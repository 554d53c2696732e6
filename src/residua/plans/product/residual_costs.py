"""What precisions of residuals and products cost in closed form: floats, for planning; the verifier has its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.linalg.arrays import Floats
from residua.linalg.lattice import SetFamily
from residua.plans.persons import Reach, by_cells, reach_of
from residua.plans.product.contribution import pairs_of_rows
from residua.plans.product.replacement import replacement_cost, some_person, some_replacement
from residua.plans.product.totals import replacement_bound
from residua.plans.solver.closed_form import Spending
from residua.plans.strategy import Strategy
from residua.privacy import Unit


def table_prices(
    unit: Unit, domain: Domain, lattice: SetFamily, strategies: tuple[Strategy, ...]
) -> TablePrices | None:
    """What tables cost the unit's person; None for units that cost k² times one record, or change records.

    Raises:
        PlanError: the unit limits an attribute that the domain lacks.
    """
    reach = None if by_cells(unit) else reach_of(unit, domain.names, domain.sizes)
    return None if reach is None else TablePrices(lattice, strategies, reach)


@dataclass(frozen=True, eq=False)
class TablePrices:
    """What every table of a family costs a person: prices that are linear where no s is negative.

    Args:
        lattice: the family.
        strategies: how each attribute is measured.
        reach: what the person can do.
    """

    lattice: SetFamily
    strategies: tuple[Strategy, ...]
    reach: Reach

    @cached_property
    def plain(self) -> tuple[int, ...]:
        """A: the limited attributes that are measured by the plain residual and are in the family."""
        return tuple(
            i for i in sorted(self.reach.limits) if self.strategies[i].plain and len(self.lattice.covers[i][0])
        )

    @cached_property
    def dilution(self) -> Floats:
        """`1/n_i` of the attributes of A, 0 of others, (attributes,)."""
        dilution = np.zeros(len(self.strategies))
        for i in self.plain:
            dilution[i] = 1.0 / self.strategies[i].size
        return dilution

    @cached_property
    def prices(self) -> Floats:
        """`cost_T F_{T,B}` of every set, (sets,)."""
        costs = np.array([1.0 if i in self.plain else one.cost for i, one in enumerate(self.strategies)])
        rows = {
            i: pairs_of_rows(self.strategies[i], self.reach, i)
            for i in self.reach.limits
            if i not in self.plain and len(self.lattice.covers[i][0])
        }
        # F is one of few numbers: those of the sets of limited attributes, alone or with others.
        limits = np.full(len(self.strategies), float(self.reach.records))
        for i in self.plain:
            limits[i] = self.reach.limits[i]
        least = np.concatenate([limits[level].min(axis=1, initial=self.reach.records) for level in self.lattice.levels])
        full = np.floor(self.reach.records / least)
        most = full * least**2 + (self.reach.records - full * least) ** 2
        if rows:
            alone, beside = np.full((2, len(self.strategies)), np.inf)
            for i, (positive, absolute) in rows.items():
                alone[i], beside[i] = float(positive), float(absolute)
            outside = np.ones(len(self.strategies))
            outside[list(self.plain)] = 0.0  # how many members of a set are in T
            for size, level in enumerate(self.lattice.levels[1:], start=1):
                block = slice(self.lattice.offsets[size], self.lattice.offsets[size + 1])
                single = outside[level].sum(axis=1) == 1
                bound = np.where(single, alone[level].min(axis=1), beside[level].min(axis=1))
                most[block] = np.minimum(most[block], bound)
        return np.asarray(self.lattice.products(costs) * most)

    @property
    def spending(self) -> Spending:
        """How to spend best at these prices."""
        return Spending(self.lattice, self.dilution, self.prices)

    def tables(self, precisions: Floats) -> Floats:
        """s of every set from τ, (sets,): how precisely tables, not residuals, are measured along A."""
        return self.lattice.sum_over_supersets(precisions, -self.dilution)

    def residuals(self, tables: Floats) -> Floats:
        """τ of every set from s, (sets,)."""
        return self.lattice.sum_over_supersets(tables, self.dilution)

    def price(self, precisions: Floats) -> float:
        """What measuring with these precisions costs the person, never less but for rounding; k² times at most."""
        costs = self.lattice.products(np.array([strategy.cost for strategy in self.strategies]))
        whole = float(self.reach.records) ** 2 * float(precisions @ costs)
        return min(whole, float(self.prices @ np.maximum(self.tables(precisions), 0.0)))


@dataclass(frozen=True, eq=False)
class ResidualCosts:
    """What measuring a family of sets costs.

    Args:
        domain: what the table may hold.
        lattice: the family.
        precisions: τ_S of each set, (sets,).
        strategies: how each attribute is measured.
        unit: whom to protect.
    """

    domain: Domain
    lattice: SetFamily
    precisions: Floats
    strategies: tuple[Strategy, ...]
    unit: Unit

    @cached_property
    def _along(self) -> bool:
        """Whether noise is correlated along some attribute."""
        return any(strategy.tells for strategy in self.strategies)

    @cached_property
    def pcost(self) -> float:
        """For one record added or removed."""
        costs = self.lattice.products(np.array([strategy.cost for strategy in self.strategies]))
        return float(self.precisions @ costs)

    @cached_property
    def unit_pcost(self) -> float:
        """For the unit of protection."""
        if self.tables is not None:
            return self.tables.price(self.precisions)
        by_records = by_cells(self.unit) or (self._along and self.unit.contribution is not None)
        return float(self.unit.scaled(self.pcost, None if by_records else self.replacement[0]))

    @cached_property
    def tables(self) -> TablePrices | None:
        """What tables cost a person with limits; along axes no more is known than of any records."""
        return None if self._along else table_prices(self.unit, self.domain, self.lattice, self.strategies)

    @cached_property
    def slack(self) -> float:
        """By how much, relative, the price is above what some change of the data costs at most."""
        if by_cells(self.unit) or not self.pcost:
            return 0.0
        if self._along:
            return math.inf
        if self.tables is not None:
            some = some_person(self.lattice, self.precisions, self.strategies, self.tables.reach)
        else:
            some = max(some_replacement(self.lattice, self.precisions, self.strategies), self.pcost * self.domain.drops)
        return max(self.unit_pcost / some - 1.0, 0.0) if some > 0 else math.inf

    @cached_property
    def replacement(self) -> tuple[float, bool]:
        """The cost of replacing one record by another, never less, and whether all patterns of agreement were tried."""
        known = (self.lattice, self.precisions, self.strategies)
        cost, exact = (replacement_bound(*known), False) if self._along else replacement_cost(*known)
        # A record changed to a value that is left out is a record removed.
        return (max(cost, self.pcost) if self.domain.drops else cost), exact
