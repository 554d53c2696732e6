"""The verifier: what measurements cost a unit of protection, exactly, from the integers and noise scales alone.

Small and trusted: planners may be wrong about accuracy, but nothing is measured that this file has not priced. It works
in whole numbers and fractions, and every step rounds up.

Measurements `B x + noise` of scale s state three things, whatever their form, each never less than the truth: what one
record added or removed costs in each cell, `‖B e_j‖²/s²` for normal noise and `‖B e_j‖₁/s` for Laplace noise; what a
record that is replaced costs, `max_ij ‖B e_i − B e_j‖²/s²`; and what a person with limited records costs. From these
follows the price of any number of them together: privacy cost matrices add up, cell by cell, so that the cost of all is
the largest diagonal entry of the sum, not the sum of the largest; and never more than the sum.

Each measurement may be chosen after seeing the earlier ones, as long as the sum stays within the budget on every cell:
fully adaptive composition of Gaussian mechanisms (Smith and Thakurta 2022; Whitehouse et al. 2023; Feldman and Zrnic
2021 for single cells). A person's records are the same ones in every measurement: their bound and the ledger's key
decide which are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import PlanError, VerificationError, kind_of
from residua.linalg.arrays import Floats, Integers, Objects
from residua.plans.cells import MOST_CELLS, Grouping, refine
from residua.plans.noise import LARGEST_SCALE, SMALLEST_SCALE
from residua.privacy import Unit
from residua.privacy.costs import reach_of
from residua.showing import ReportedPlan

POINT = 2**200  # fixed point: a cost is a whole number of 2^-200, rounded up
WORD = 2**62
FEWEST_RECORDS = 2**28  # that a measurement must be able to count without leaving 64 bits
Measured = Any  # measurements, which state what is asked here: `measurements.py`
Planned = Any  # plans, which say what they measure, whom they protect and what they promise: `contract.py`
_EVERYWHERE = Grouping((), np.array([-1]))


@dataclass(frozen=True, eq=False)
class Profile:
    """What measurements cost a person in each cell: the diagonal of their privacy cost matrix, never less.

    Args:
        grouping: the cells that are distinguished.
        values: the cost of each group, in whole numbers of 2^-200, (groups,).
        everywhere: what is to be added in every cell, in the same unit.
        crossed: whether the cells are those of a product of attributes, which may be too many beside others.
    """

    grouping: Grouping
    values: Objects
    everywhere: int
    crossed: bool = False

    @property
    def largest(self) -> Fraction:
        """The most expensive cell."""
        return Fraction(max(self.values, default=0) + self.everywhere, POINT)

    @property
    def flat(self) -> Profile:
        """The profile with every cell as expensive as the most expensive one."""
        return Profile(_EVERYWHERE, np.zeros(0, dtype=object), max(self.values, default=0) + self.everywhere)


def even(cost: Fraction) -> Profile:
    """A profile that is the same in all cells, rounded up."""
    return Profile(_EVERYWHERE, np.zeros(0, dtype=object), -(-cost.numerator * POINT // cost.denominator))


def price(several: Sequence[Measured], unit: Unit) -> Fraction:
    """What measuring all these costs this unit of protection, whatever was promised; never less than the truth.

    Guarantee: at least the largest diagonal entry of the summed privacy cost matrices of what is really measured (for
    a replacement, the largest `(e_i − e_j)ᵀ Γ (e_i − e_j)`; for a person, the largest `zᵀΓz` over all that a person can
    have), and no more than the sum of their prices. With Laplace noise an epsilon, by L1 norms.

    Args:
        several: measurements over one domain, with normal noise; or one with Laplace noise.
        unit: whom to protect.

    Raises:
        VerificationError: not integers, noise outside the exact samplers' range, or numbers that could overflow.
    """
    by_kin: dict[Hashable, list[Measured]] = {}
    for each in several:
        each.check()
        by_kin.setdefault(each.kin, []).append(each)
    alike = list(by_kin.values())
    added = [_together(group, type(group[0]).added) for group in alike]
    one = added[0]
    if len(alike) > 1:
        one = min(composed(several[0].sizes, [each.profile() for each in several]).largest, sum(added, Fraction(0)))
    reach = reach_of(unit, several[0].names, several[0].sizes)
    if reach is None:
        moved = [_together(group, changed) for group in alike]
        bounds = [min(cost, 4 * each) for cost, each in zip(moved, added, strict=True)]  # ‖a − b‖² ≤ 2‖a‖² + 2‖b‖²
        return rounded_up(unit.scaled(one, sum(bounds, Fraction(0))))
    many = reach.records ** (2 if several[0].noise.gaussian else 1)
    if not reach.limits:
        return rounded_up(many * one)

    def limited(group: Sequence[Measured]) -> Fraction:
        bound: Fraction | None = type(group[0]).limited(group, reach)
        whole = Fraction(many * type(group[0]).added(group))
        return whole if bound is None else min(bound, whole)

    return rounded_up(min(many * one, sum((_together(group, limited) for group in alike), Fraction(0))))


def changed(group: Sequence[Measured]) -> Fraction:
    """What a record costs that changes to any other: also one that is left out, or that these do not ask about.

    To them that is a record removed, while others may count it where it went: so the sum over several stays a bound.
    """
    moved: Fraction = type(group[0]).replaced(group)
    return max(moved, type(group[0]).added(group)) if any(each.removable for each in group) else moved


def _together(group: Sequence[Measured], cost: Callable[[Sequence[Measured]], Fraction]) -> Fraction:
    """What all of a kin cost together, and no more than the sum of each."""
    whole = cost(group)
    return whole if len(group) == 1 else min(whole, sum((cost([each]) for each in group), Fraction(0)))


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
        return Profile(cells, np.asarray(values, dtype=object), everywhere)
    return Profile(_EVERYWHERE, np.zeros(0, dtype=object), everywhere)


def require_scales(scales: Floats) -> None:
    """Refuses noise that cannot be sampled exactly.

    Raises:
        VerificationError: a scale is out of range, or no number.
    """
    if not ((scales >= SMALLEST_SCALE) & (scales <= LARGEST_SCALE)).all():  # also refuses NaN
        raise VerificationError("a noise scale is outside 1/2 to 2^40; noise cannot be sampled exactly there.")


def share(norm: int, scale: float) -> int:
    """`norm / s²` in fixed point, rounded up; a float is an exact rational."""
    numerator, denominator = scale.as_integer_ratio()
    return -(-(denominator**2) * norm * POINT // (numerator * numerator))


def rounded_up(cost: Fraction) -> Fraction:
    """A cost as a whole number of 2^-200, so that the ledger's sums stay short."""
    return Fraction(-(-cost.numerator * POINT // cost.denominator), POINT)


# ---- plans: the price of all that they really measure


def require_plan(plan: object) -> None:
    """Refuses what is no plan.

    Raises:
        PlanError: it is not.
    """
    if not isinstance(plan, ReportedPlan):
        raise PlanError(f"plan={kind_of(plan)} is not a plan; make one with rs.plan.")


def priced(plan: Planned) -> tuple[Measured, Fraction]:
    """What measuring one plan comes down to, and what that costs, by the verifier.

    Raises:
        VerificationError: more expensive than the plan promises, or not measurable.
    """
    require_plan(plan)
    measurements = plan.measurements
    return measurements, measurements.noise.promised(measurements.cost(plan.unit), plan.guarantee)


def composed_profile(plans: Sequence[Planned]) -> Profile:
    """The privacy profile of running all these plans, of what they really measure, in whole numbers."""
    return composed(
        plans[0].domain.sizes, [plan.measurements.profile() if plan.pcost else even(Fraction(0)) for plan in plans]
    )


def composed_cost(plans: Sequence[Planned]) -> Fraction:
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
    normal = [plan.measurements for plan in measured if plan.noise.gaussian]
    # An epsilon is as expensive as normal noise of its square.
    total = sum((plan.measurements.cost(unit) ** 2 for plan in measured if not plan.noise.gaussian), Fraction(0))
    if not normal:
        return total
    return total + (Fraction(normal[0].cost(unit)) if len(normal) == 1 else price(normal, unit))


def composed_price(plans: Sequence[Planned]) -> Fraction:
    """What running all these plans costs in the currency of their noise: of Laplace noise alone, epsilons that add up.

    Guarantee: plain composition: never less than the truth, however adaptively each plan was chosen.
    """
    measured = [plan for plan in plans if plan.pcost]
    if not measured or any(plan.noise.gaussian for plan in measured):
        return composed_cost(plans)
    return sum((Fraction(plan.measurements.cost(plan.unit)) for plan in measured), Fraction(0))
