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
from residua.plans.cells import Grouping
from residua.plans.measurements import Measurements
from residua.plans.verifier import Profile, even, price
from residua.privacy import AddRemove, ReplaceOne

Kinds = Sequence[
    tuple[Sequence[Measurements], int]
]  # all that is measured in a kind of group, and how many groups are of it


def largest_two(costs: Sequence[Fraction], counts: Sequence[int]) -> tuple[Fraction, Fraction]:
    """The costs of the two most expensive groups, from the cost of each kind and how many groups are of it."""
    held = sorted(((cost, count) for cost, count in zip(costs, counts, strict=True) if count), reverse=True)
    if not held:
        return Fraction(0), Fraction(0)
    first, many = held[0]
    second = first if many > 1 else held[1][0] if len(held) > 1 else Fraction(0)
    return first, second


def largest(kinds: Kinds) -> tuple[Fraction, Fraction]:
    """The most expensive cell of the two most expensive groups."""
    return largest_two([price(kind, AddRemove()) if kind else Fraction(0) for kind, _ in kinds], [n for _, n in kinds])


def replaced(kinds: Kinds) -> Fraction:
    """What a record that is replaced within a group, or moves to another, costs."""
    within = [price(kind, ReplaceOne()) for kind, count in kinds if kind and count]
    return max([sum(largest(kinds), Fraction(0)), *within])


def group_profile(members: Sequence[Measurements], chosen: Integers, by: tuple[int, ...]) -> Profile:
    """What each group's most expensive cell costs, group by group."""
    costs = [even(each.price(AddRemove())).everywhere for each in members]
    whole = np.array([0, *costs], dtype=object)
    return Profile(Grouping(by, np.arange(len(chosen))), whole[chosen + 1], 0, crossed=True)
