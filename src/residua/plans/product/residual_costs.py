"""What precisions of residuals and products cost in closed form: floats, for planning; the verifier has its own.

Two cells that agree on exactly the attributes in E have
`Γ_ij = Σ_S τ_S Π_{i∈S∩E}(1 − 1/n_i) Π_{i∈S∖E}(−1/n_i)`, so that replacing one by the other costs
`(e_i − e_j)ᵀ Γ (e_i − e_j) = 2 (pcost − Γ_ij)`: the worst pair is the E with the least Γ_ij.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.operators.correlated import Ordered
from residua.plans.product.balanced import least_in_common
from residua.plans.product.crossed_measurements import tells_of, to_measure
from residua.plans.product.set_price import MOST_ENUMERATED, pairs_of_rows
from residua.plans.solver.closed_form import Spending
from residua.plans.solver.patterns import PatternSpending, replacing
from residua.plans.strategy import Strategy
from residua.privacy import Unit
from residua.privacy.costs import Reach, by_cells, reach_of

_MOST_GROUPS = 2048
_BITS = 40  # of costs that are counted


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
            count = np.concatenate([outside[level].sum(axis=1) for level in self.lattice.levels])
            bounds = (-self.lattice.maxima(-each) for each in (alone, beside))
            most = np.minimum(most, np.where(count == 1, *bounds))
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


def replaced_records(
    domain: Domain, lattice: SetFamily, strategies: Sequence[Strategy], weights: Floats | None = None
) -> PatternSpending:
    """How to spend best where a record is replaced, the sets having these weights.

    Raises:
        PlanError: that changes nothing that is measured.
    """
    costs = lattice.products(np.array([strategy.cost for strategy in strategies]))
    if not (costs[1:] > 0).any() and not domain.drops:
        raise PlanError("replacing a record changes none of these tables; they can be published without noise.")
    ratios = np.array([strategy.least for strategy in strategies])
    return replacing(lattice, costs, ratios, weights, most=MOST_ENUMERATED, removable=domain.drops)


@dataclass(frozen=True, eq=False)
class ResidualCosts:
    """What measuring a plan of residuals costs units other than some records added or removed."""

    plan: Any

    @cached_property
    def unit_pcost(self) -> float:
        """For a unit other than some records added or removed."""
        if self.tables is not None:
            return self.tables.price(self.plan.precisions)
        return float(self.plan.unit.scaled(self.plan.pcost, self.replacement[0]))

    @cached_property
    def tables(self) -> TablePrices | None:
        """What tables cost a person with limits; along axes no more is known than of any records."""
        plan = self.plan
        return None if plan.axes else table_prices(plan.unit, plan.domain, plan.lattice, plan.strategies)

    @cached_property
    def slack(self) -> float:
        """By how much, relative, the price is above what some change of the data costs at most."""
        plan = self.plan
        if by_cells(plan.unit) or not plan.pcost:
            return 0.0
        if plan.axes:
            return math.inf
        known = (plan.lattice, plan.precisions, plan.strategies)
        if self.tables is not None:
            some = some_person(*known, self.tables.reach)
        elif plan.plain and self.replacement[1]:
            return 0.0  # all patterns of agreement were tried, and all cells of a pattern are alike
        else:
            some = max(some_replacement(*known), plan.pcost * plan.domain.drops)
        return max(self.unit_pcost / some - 1.0, 0.0) if some > 0 else math.inf

    @cached_property
    def replacement(self) -> tuple[float, bool]:
        """The cost of replacing one record by another, never less, and whether all patterns of agreement were tried."""
        cost, exact = replacement_cost(self.plan.lattice, self.plan.precisions, self.plan.strategies)
        # A record changed to a value that is left out is a record removed.
        return (max(cost, self.plan.pcost) if self.plan.domain.drops else cost), exact


def replacement_cost(lattice: SetFamily, precisions: Floats, strategies: Sequence[Strategy]) -> tuple[float, bool]:
    """The largest cost over all pairs of cells, never less, and whether all patterns of agreement were tried.

    It is exact then where every strategy is plain. Along axes each block that is measured counts, its total included.
    """
    costs, tells = lattice.products(np.array([strategy.cost for strategy in strategies])), tells_of(strategies)
    if not tells.any():
        return worst_pattern(lattice, precisions * costs, np.array([strategy.least for strategy in strategies]))
    whole = lattice.sum_over_subsets(costs, tells) * to_measure(lattice, precisions, tells)
    least = [-strategy.opposed if isinstance(strategy, Ordered) else strategy.least for strategy in strategies]
    return worst_pattern(lattice, whole, np.array(least))


def worst_pattern(lattice: SetFamily, costs: Floats, ratios: Floats) -> tuple[float, bool]:
    """`max_E 2 Σ_S cost_S (1 − Π_{i∈S∖E} r_i)` over patterns E of agreement, and whether it is the maximum itself.

    It is up to 19 attributes, or with attributes that are alike, by trying all patterns. Beyond, a safe bound: what two
    cells have in common at least (`balanced.py`), or each set's own worst pattern, `2 cost_S (1 + max_{i∈S} (−r_i)₊)`
    for S ≠ ∅ (the total does not change).

    Args:
        lattice: the sets.
        costs: what each costs a record added or removed, (sets,).
        ratios: r_i, from −1 to 1: the least inner product of two values of attribute i, relative to the largest norm.
    """
    spending = replacing(lattice, costs, ratios, np.append(0.0, costs[1:]), most=MOST_ENUMERATED, removable=False)
    if spending.every or not costs[1:].any():
        return float(spending.costs(np.ones(len(costs))).max()), True
    total, largest = float(costs[1:].sum()), float(costs[1:].max())
    apart = float(costs[1:] @ np.maximum(lattice.maxima(-ratios)[1:], 0.0))
    counted = np.ceil(costs * (2.0**_BITS / largest)).tolist()
    whole = {row: int(cost) for row, cost in zip(lattice, counted, strict=True) if row and cost}
    least = float(least_in_common(whole, dict(enumerate(map(Fraction, ratios.tolist()))))) * largest / 2.0**_BITS
    return 2.0 * (total + min(apart, total * 2.0 ** (4 - _BITS) - least)), False


def some_person(lattice: SetFamily, precisions: Floats, strategies: Sequence[Strategy], reach: Reach) -> float:
    """The largest cost of some persons: K records spread over limited attributes, or as many as can be in one cell.

    The a-th record has the value number `⌊a/l_i⌋` of every limited attribute i, values ordered by what they cost beside
    the most expensive one; and the same with every limit lowered to a multiple of the least: groups do not overlap.
    """
    used = {i: most for i, most in reach.limits.items() if len(lattice.covers[i][0])}
    least = min([reach.records, *used.values()])
    costs = np.array([1.0 if i in used else one.cost for i, one in enumerate(strategies)])
    shares = precisions * lattice.products(costs)
    largest = 0.0
    for limits in (used, {i: most // least * least for i, most in used.items()}, dict.fromkeys(used, least)):
        whole = min([reach.records, *(most * strategies[i].size for i, most in limits.items())])
        for records in {whole, least}:
            starts = sorted({0, *(a for most in limits.values() for a in range(0, records, most))})[:_MOST_GROUPS]
            begun = np.array(starts, dtype=np.int64)
            counts = np.diff(np.append(begun, records if len(begun) < _MOST_GROUPS else begun[-1] + 1)).astype(float)
            met = {i: _meeting(strategies[i], begun // most) for i, most in limits.items()}
            largest = max(largest, _squares(lattice, shares, met, counts))
    return largest


def some_replacement(lattice: SetFamily, precisions: Floats, strategies: Sequence[Strategy]) -> float:
    """The largest cost of some replacements: the most expensive cell by one that differs in one attribute or all."""
    pairs = [_apart(one) for one in strategies]
    first = np.array([pair[0] for pair in pairs])
    largest = 0.0
    for changed in [range(len(pairs)), *([i] for i in range(len(pairs)))]:
        other, between = first.copy(), first.copy()
        for i in changed:
            other[i], between[i] = pairs[i][1], pairs[i][2]
        change = lattice.products(first) + lattice.products(other) - 2.0 * lattice.products(between)
        largest = max(largest, float(precisions @ change))
    return largest


def _apart(strategy: Strategy) -> tuple[float, float, float]:
    """`‖R e_j‖²`, `‖R e_k‖²` and `e_jᵀRᵀR e_k` over unit², j the most expensive value and k the least like it."""
    if strategy.size < 2:
        return 0.0, 0.0, 0.0
    if strategy.plain:
        return strategy.cost, strategy.cost, -1.0 / strategy.size
    R = strategy.matrix / strategy.unit
    norms = (R**2).sum(axis=0)
    j = int(norms.argmax())
    inner = R[:, j] @ R
    k = int((norms - 2.0 * inner).argmax())
    return float(norms[j]), float(norms[k]), float(inner[k])


def _meeting(strategy: Strategy, places: Integers) -> Floats:
    """`RᵀR / unit²` between values, by how much they cost beside the most expensive one, (places, places)."""
    if strategy.plain:
        return np.asarray((places[:, None] == places) - 1.0 / strategy.size)
    R = strategy.matrix / strategy.unit
    first = int((R**2).sum(axis=0).argmax())
    order = np.argsort(-(R[:, first] @ R), kind="stable")
    chosen = R[:, order[places]]
    return np.asarray(chosen.T @ chosen)


def _squares(lattice: SetFamily, shares: Floats, inner: dict[int, Floats], counts: Floats) -> float:
    """`Σ_S shares_S Σ_ab Π_{i∈S limited} G_i(c_a, c_b)` over groups of records; sets are summed by what they limit."""
    code = np.zeros(lattice.attributes, dtype=np.int64)
    for place, i in enumerate(inner):
        code[i] = 1 << place
    kinds: Integers = np.concatenate([code[level].sum(axis=1) for level in lattice.levels])
    sums = np.bincount(kinds, weights=shares, minlength=1 << len(inner))
    total = 0.0
    for kind in np.flatnonzero(sums).tolist():
        product = np.ones((len(counts), len(counts)))
        for place, i in enumerate(inner):
            if kind >> place & 1:
                product = product * inner[i]
        total += float(sums[kind]) * float(counts @ product @ counts)
    return total
