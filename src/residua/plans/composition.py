"""What running several plans costs together, exactly: their privacy cost matrices add up, cell by cell.

The sum of matrices never costs more than the sum of their costs, and less when the plans ask about different cells:
the cost is the largest diagonal entry of the sum, not the sum of the largest. Everything is in whole numbers of 2^-200,
rounded up.

Plans for marginals cost the same in every cell. Plans for products cost most in one cell, the same for all that measure
by the same strategies, so that those add up exactly; beside other forms, and with other strategies, they are added cell
by cell where the cells can be listed, and where not by their most expensive cells: a safe bound.

Persons are priced for all plans together: their bound and the ledger's key decide which of a person's records are
counted, the same ones in every measurement.

Each plan may be chosen after seeing what the earlier ones measured, as long as the sum stays within the budget on every
cell: fully adaptive composition of Gaussian mechanisms (Smith and Thakurta 2022; Whitehouse et al. 2023; Feldman and
Zrnic 2021 for single cells).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Integers
from residua.plans.blocks import Blocks, Profile, even
from residua.plans.cells import MOST_CELLS, Grouping, refine
from residua.plans.contract import Plan
from residua.plans.persons import by_cells


def require_plan(plan: object) -> None:
    """Refuses what is no plan.

    Raises:
        PlanError: it is not.
    """
    if not isinstance(plan, Plan):
        raise PlanError(f"plan={plan!r} is not a plan; make one with rs.plan.")


def priced(plan: Plan) -> tuple[Blocks, Fraction]:
    """What measuring one plan comes down to, and what that costs, by the verifier.

    Raises:
        VerificationError: more expensive than the plan promises, or not measurable.
    """
    require_plan(plan)
    blocks = plan.blocks
    return blocks, blocks.noise.promised(blocks.cost(plan.unit), plan.guarantee)


def composed(sizes: Integers, profiles: Sequence[Profile]) -> Profile:
    """The privacy profile of several measurements together, in whole numbers.

    Over so many cells together that they cannot be listed, they are added up by their most expensive cells: products
    of attributes first, then all.

    Args:
        sizes: how many values each attribute of the domain has, (attributes,).
        profiles: of each measurement.
    """
    ways = (
        list(profiles),
        [profile.flat if profile.crossed else profile for profile in profiles],
        [profile.flat for profile in profiles],
    )
    for way in ways:
        everywhere = sum(profile.everywhere for profile in way)
        uneven = [profile for profile in way if len(profile.values)]
        if not uneven:
            break
        try:
            cells = refine(sizes, [profile.grouping for profile in uneven], most_columns=MOST_CELLS)
        except PlanError:
            continue
        values = sum(cells.lifted(profile.values, which) for which, profile in enumerate(uneven))
        return Profile(Grouping(cells.attributes, cells.columns), np.asarray(values, dtype=object), everywhere)
    return even(everywhere)


def composed_profile(plans: Sequence[Plan]) -> Profile:
    """The privacy profile of running all these plans, of what they really measure, in whole numbers."""
    return composed(plans[0].domain.sizes, [plan.blocks.profile() if plan.pcost else even(0) for plan in plans])


def composed_cost(plans: Sequence[Plan]) -> Fraction:
    """What running all these plans of one domain costs the unit they protect, never less than the truth.

    Guarantee: at least the largest diagonal entry of the summed privacy cost matrices of what is really measured (for
    a replacement, the largest `(e_i − e_j)ᵀ Γ (e_i − e_j)`; for a person, the largest `zᵀΓz` over all that a person can
    have), and no more than the sum of their prices.

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
    others = [plan for plan in measured if plan.unit != unit]
    if others:  # persons under another bound have other records counted: what they pay adds up
        return composed_cost([plan for plan in measured if plan.unit == unit]) + composed_cost(others)
    forms = {type(plan.blocks) for plan in measured}
    if by_cells(unit) and not (len(forms) == 1 and next(iter(forms)).exact_together):
        return unit.scaled(composed_profile(measured).largest)
    # Exact within a form, added up between forms.
    by_form: dict[type[Blocks], list[Blocks]] = {}
    total = Fraction(0)
    for plan in measured:
        if plan.noise.gaussian:
            by_form.setdefault(type(plan.blocks), []).append(plan.blocks)
        else:  # an epsilon: as expensive as normal noise of its square
            total += plan.blocks.cost(unit) ** 2
    total += sum((form.price_together(blocks, unit) for form, blocks in by_form.items()), Fraction(0))
    if unit.contribution is None:
        return total
    return min(total, unit.scaled(composed_profile(measured).largest))  # cell by cell, forms may pay less together
