"""What running several plans costs together, exactly: their privacy cost matrices add up, cell by cell.

The sum of matrices never costs more than the sum of their costs, and less when the plans ask about different cells:
the cost is the largest diagonal entry of the sum, not the sum of the largest. Everything is in whole numbers of 2^-200,
rounded up.

Plans for marginals cost the same in every cell. Plans for products cost most in one cell, the same for all that measure
by the same strategies, so that those add up exactly; with other kinds, and with other strategies, they are added cell
by cell where the cells can be listed, and where not by their dearest cells: a safe bound.

Each plan may be chosen after seeing what the earlier ones measured, as long as the sum stays within the budget on every
cell: fully adaptive composition of Gaussian mechanisms (Smith and Thakurta 2022; Whitehouse et al. 2023; Feldman and
Zrnic 2021 for single cells).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.plans.base import Plan
from residua.plans.dense.blocks import column_norms, compile_dense
from residua.plans.dense.cells import MOST_CELLS, MOST_COLUMNS, Grouping, refine
from residua.plans.dense.plan import DensePlan, moved_columns
from residua.plans.product.blocks import ProductBlocks, compile_product
from residua.plans.product.plan import ProductPlan
from residua.plans.product.profile import cell_costs
from residua.plans.product.strategy import Strategy
from residua.plans.product.verify import summed_cost
from residua.plans.residual.blocks import ResidualBlocks, compile_blocks
from residua.plans.residual.plan import ResidualPlan
from residua.plans.residual.verify import together_cost
from residua.plans.verifying import POINT
from residua.privacy import AddRemove, ReplaceOne

_EVERYWHERE = Grouping((), np.array([-1]))


@dataclass(frozen=True, eq=False)
class Profile:
    """What plans cost a person in each cell: the diagonal of their privacy cost matrix, never less than the truth.

    Args:
        grouping: the cells that are told apart.
        values: the cost of each group, in whole numbers of 2^-200, (groups,).
        everywhere: what is to be added in every cell, in the same unit.
    """

    grouping: Grouping
    values: NDArray[np.object_]
    everywhere: int

    @property
    def largest(self) -> Fraction:
        """The dearest cell."""
        return Fraction(max(self.values, default=0) + self.everywhere, POINT)


def profile_of(plan: Plan) -> Profile:
    """The privacy profile of what one plan really measures, in whole numbers.

    A residual plan costs the same in every cell, and product plans over too many cells are taken to do so, and plans of
    kinds that know no better.
    """
    if not plan.pcost:
        return _even(0)
    if isinstance(plan, DensePlan):
        numerator, denominator = plan.scale.as_integer_ratio()
        upper, lower = denominator * denominator * POINT, numerator * numerator
        values = np.array([-(-norm * upper // lower) for norm in column_norms(plan.strategy)], dtype=object)
        return Profile(Grouping(plan.attributes, plan.columns), values, 0)
    if isinstance(plan, ResidualPlan):
        cost = together_cost([compile_blocks(plan)], AddRemove())
    elif isinstance(plan, ProductPlan):
        blocks = compile_product(plan)
        cost = summed_cost([blocks], AddRemove())
        listed = cell_costs(blocks, MOST_COLUMNS)
        if listed is not None and listed[0]:
            attributes, values = listed
            return Profile(Grouping(attributes, np.arange(values.size)), values.ravel(), 0)
    else:  # priced for its unit
        cost = _price(plan) / plan.unit.scaled(1)
    return _even(-(-cost.numerator * POINT // cost.denominator))


def composed_profile(plans: Sequence[Plan]) -> Profile:
    """The privacy profile of running all these plans, in whole numbers.

    Plans over so many cells together that they cannot be listed are added up by their dearest cells: plans for
    products first, then all.
    """
    profiles = [profile_of(plan) for plan in plans]
    products = [isinstance(plan, ProductPlan) for plan in plans]
    ways = (
        profiles,
        [_flat(profile) if product else profile for profile, product in zip(profiles, products, strict=True)],
        [_flat(profile) for profile in profiles],
    )
    for way in ways:
        everywhere = sum(profile.everywhere for profile in way)
        uneven = [profile for profile in way if len(profile.values)]
        if not uneven:
            break
        try:
            cells = refine(plans[0].domain.sizes, [profile.grouping for profile in uneven], most_columns=MOST_CELLS)
        except PlanError:
            continue
        values = sum(cells.lifted(profile.values, which) for which, profile in enumerate(uneven))
        return Profile(Grouping(cells.attributes, cells.columns), np.asarray(values, dtype=object), everywhere)
    return _even(everywhere)


def _even(everywhere: int) -> Profile:
    return Profile(_EVERYWHERE, np.zeros(0, dtype=object), everywhere)


def _flat(profile: Profile) -> Profile:
    """The profile with every cell as dear as the dearest."""
    return _even(max(profile.values, default=0) + profile.everywhere)


def composed_cost(plans: Sequence[Plan]) -> Fraction:
    """What running all these plans of one domain and one unit costs that unit, never less than the truth.

    Guarantee: at least the largest diagonal entry of the summed privacy cost matrices of what is really measured (for
    a replacement, the largest `(e_i − e_j)ᵀ Γ (e_i − e_j)`), and no more than the sum of their prices.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain({"age": rs.Integers(0, 9)})
        >>> young = rs.plan(rs.queries(domain, ["age < 5"]), rs.GDP(1.0))
        >>> old = rs.plan(rs.queries(domain, ["age >= 5"]), rs.GDP(1.0))
        >>> round(float(composed_cost([young, old])), 6)  # nobody is both
        1.0
    """
    measured = [plan for plan in plans if plan.pcost]
    if not measured:
        return Fraction(0)
    unit = measured[0].unit
    if isinstance(unit, ReplaceOne):
        return _replacement(measured)
    return unit.scaled(composed_profile(measured).largest)


def _replacement(plans: Sequence[Plan]) -> Fraction:
    """What changing one record costs: exact within residual and within dense plans, added up between those kinds."""
    residual = [compile_blocks(plan) for plan in plans if isinstance(plan, ResidualPlan)]
    products = [compile_product(plan) for plan in plans if isinstance(plan, ProductPlan)]
    dense = [plan for plan in plans if isinstance(plan, DensePlan)]
    others = [plan for plan in plans if not isinstance(plan, ResidualPlan | ProductPlan | DensePlan)]
    total = sum((_price(plan) for plan in others), Fraction(0))
    apart = together_cost(residual, ReplaceOne()) if residual else Fraction(0)
    if products:
        apart += summed_cost(products, ReplaceOne())
        apart = min(apart, summed_cost([*products, *map(_plain_products, residual)], ReplaceOne()))
    return total + apart + (_dense_replacement(dense) if dense else 0)


def _plain_products(blocks: ResidualBlocks) -> ProductBlocks:
    """The same measurements, of products whose strategies are all plain."""
    strategies = tuple(Strategy(int(n)) for n in blocks.sizes)
    measured, grids, scales = blocks.measured, blocks.grids, blocks.scales
    return ProductBlocks(blocks.lattice, blocks.sizes, measured, grids, scales, blocks.drops, strategies)


def _dense_replacement(plans: Sequence[DensePlan]) -> Fraction:
    """From floating-point products, widened by a bound on their rounding."""
    try:
        cells = refine(plans[0].domain.sizes, [Grouping(plan.attributes, plan.columns) for plan in plans])
    except PlanError:
        return sum((_price(plan) for plan in plans), Fraction(0))
    rows = np.vstack(
        [moved_columns(cells.lifted(plan.strategy, which)) / plan.scale for which, plan in enumerate(plans)]
    )
    gram = rows.T @ rows
    diagonal = np.diag(gram)
    largest = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    pcost = composed_profile(plans).largest
    # Each entry of a product of k terms is off by at most (k + 4)·2^-52 of the largest diagonal; four of them enter.
    slack = 4 * (len(rows) + 8) * Fraction(1, 2**52) * Fraction(float(diagonal.max()))
    # A record changed to a cell nobody asks about, or to a value that is left out, is a record removed.
    unasked = pcost if (cells.columns < 0).any() or compile_dense(plans[0]).drops else Fraction(0)
    return ReplaceOne().scaled(pcost, max(Fraction(largest) + slack, unasked))


def _price(plan: Plan) -> Fraction:
    from residua.plans.kinds import priced  # every kind of plan is registered there, those that import this too

    return priced(plan)[1]
