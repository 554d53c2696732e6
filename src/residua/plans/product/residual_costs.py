"""What precisions of residuals and products cost in closed form: floats, for planning; the verifier has its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.linalg.arrays import Floats
from residua.linalg.lattice import SetFamily
from residua.plans.persons import by_cells
from residua.plans.product.contribution import TablePrices, table_prices
from residua.plans.product.replacement import replacement_cost, some_person, some_replacement
from residua.plans.product.totals import replacement_bound
from residua.plans.strategy import Strategy
from residua.privacy import Unit


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
