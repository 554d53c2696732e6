"""What plans that differ by group cost: groups are disjoint, so that a record pays in its own group alone.

Γ is block-diagonal, one block for each group. One record added or removed costs the largest diagonal entry of any
block. A record replaced within a group costs what the group's own plan says; one that moves from a group to another
costs both, `Γ_ii + Γ_jj`, for no measurement sees both cells. A person's records cost `Σ_g k_g² max diag Γ_g` at most
with k_g records in group g, and `Σ_g k_g²` is at most the number of pairs of a person's records that can agree on the
group.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from residua.linalg.arrays import Integers
from residua.plans.blocks import POINT, Blocks, Profile, rounded_up
from residua.plans.cells import Grouping
from residua.plans.composition import composed
from residua.plans.persons import reach_of
from residua.privacy import AddRemove, ReplaceOne, Unit


def largest_two(costs: Sequence[Fraction], counts: Sequence[int]) -> tuple[Fraction, Fraction]:
    """The costs of the two most expensive groups, from the cost of each kind and how many groups are of it."""
    held = sorted(((cost, count) for cost, count in zip(costs, counts, strict=True) if count), reverse=True)
    if not held:
        return Fraction(0), Fraction(0)
    first, many = held[0]
    second = first if many > 1 else held[1][0] if len(held) > 1 else Fraction(0)
    return first, second


def unit_cost(
    unit: Unit,
    cells: Sequence[Fraction],
    within: Sequence[Fraction],
    counts: Sequence[int],
    by: Sequence[int],
    names: Sequence[str],
    sizes: Integers,
) -> Fraction:
    """What measuring costs this unit, never less than the truth.

    Args:
        unit: whom to protect.
        cells: the most expensive cell of each kind of group.
        within: what a replacement within a group of each kind costs.
        counts: how many groups are of each kind.
        by: positions of the attributes that make groups.
        names: of all attributes.
        sizes: of all attributes.
    """
    first, second = largest_two(cells, counts)
    if isinstance(unit, ReplaceOne):
        inside = max((cost for cost, count in zip(within, counts, strict=True) if count), default=Fraction(0))
        return unit.scaled(first, max(inside, first + second))
    reach = reach_of(unit, names, sizes)
    assert reach is not None
    return reach.agreeing(by) * first


def blocks_cost(members: Sequence[Blocks], counts: Sequence[int], by: Sequence[int], unit: Unit) -> Fraction:
    """The price of one measurement of groups."""
    return together_cost([[each] for each in members], counts, by, unit)


def together_cost(kinds: Sequence[Sequence[Blocks]], counts: Sequence[int], by: Sequence[int], unit: Unit) -> Fraction:
    """What several measurements cost together: for each kind of group, all that is measured in such a group."""
    told = [each for kind in kinds for each in kind]
    if not told:
        return Fraction(0)
    sizes, names = told[0].counted.sizes, _names(told)
    cells = [composed(sizes, [each.profile() for each in kind]).largest if kind else Fraction(0) for kind in kinds]
    within = [_replacement(kind) if isinstance(unit, ReplaceOne) else Fraction(0) for kind in kinds]
    return rounded_up(unit_cost(unit, cells, within, counts, by, names, sizes))


def group_profile(members: Sequence[Blocks], chosen: Integers, by: tuple[int, ...]) -> Profile:
    """What each group's most expensive cell costs, group by group."""
    costs = [each.price(AddRemove()) for each in members]
    whole = np.array([0, *(-(-cost.numerator * POINT // cost.denominator) for cost in costs)], dtype=object)
    return Profile(Grouping(by, np.arange(len(chosen))), whole[chosen + 1], 0, crossed=True)


def _replacement(kind: Sequence[Blocks]) -> Fraction:
    by_form: dict[type[Blocks], list[Blocks]] = {}
    for each in kind:
        by_form.setdefault(type(each), []).append(each)
    return sum((form.price_together(blocks, ReplaceOne()) for form, blocks in by_form.items()), Fraction(0))


def _names(told: Sequence[Blocks]) -> Sequence[str]:
    return tuple(getattr(told[0], "names", ()))
