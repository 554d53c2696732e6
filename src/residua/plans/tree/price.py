"""The verifier of trees: what measuring costs, from grids and noise scales alone, never less than the truth.

A record in a leaf pays, for each set S, `t² Π n_i (n_i − 1) / s²` for every measured node on its way to the root. With
one scale per level that is one sum of fractions. With one per node, floats are added up along all ways at once: every
term is positive, so that the sum is off by no more than a known factor, by which it is enlarged.

With Laplace noise, counts of nodes alone are measured, with one scale per level: a record changes one count of each by
t, hence `Σ t/s` over levels, exactly; k records at most k times that; a record that is replaced changes two counts of
every level but the root's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats
from residua.plans.blocks import require_scales, rounded_up
from residua.plans.noise import LAPLACE
from residua.plans.persons import most_records
from residua.plans.tree.nesting import Nesting
from residua.plans.tree.sets import Measured, SetOfNodes
from residua.privacy import Unit

_MOST_SHORT = 12  # short attributes: 2^12 patterns of agreement
_LEAST_RECORDS = 2**28


def price(blocks: Measured, unit: Unit) -> Fraction:
    """What measuring costs this unit; replacements by the worst pair of cells.

    Raises:
        VerificationError: noise that cannot be sampled exactly, scales that do not fit the tree, possible overflow.
    """
    _check(blocks)
    if blocks.noise == LAPLACE:
        return rounded_up(_epsilon(blocks, unit))
    return _scaled(blocks, unit)


def price_together(several: Sequence[Measured], unit: Unit) -> Fraction:
    """What measuring several sets of nodes costs together: ways from the root add up leaf by leaf, over one tree.

    Raises:
        VerificationError: as for `price`.
    """
    first = several[0]
    for blocks in several:
        _check(blocks)
        if blocks.noise == LAPLACE or blocks.attribute != first.attribute or not _same(blocks.nesting, first.nesting):
            return sum((price(each, unit) for each in several), Fraction(0))
    together = tuple(each for blocks in several for each in blocks.sets)
    drops = any(blocks.drops for blocks in several)
    return _scaled(
        Measured(first.sizes, first.attribute, first.nesting, together, drops, first.noise, first.names), unit
    )


def _same(first: Nesting, second: Nesting) -> bool:
    """Whether two trees are the same one."""
    return first is second or (first.sizes == second.sizes and all(map(np.array_equal, first.parents, second.parents)))


def _scaled(blocks: Measured, unit: Unit) -> Fraction:
    """What normal noise costs this unit."""
    largest = _largest(blocks)
    replaced = None
    if unit.contribution is None and len(blocks.short) <= _MOST_SHORT:
        replaced = 2 * (largest + _least_inner(blocks))
        replaced = max(replaced, largest) if blocks.drops else replaced
    return rounded_up(unit.scaled(largest, replaced))


def _check(blocks: Measured) -> None:
    nesting = blocks.nesting
    if not blocks.sets or len({each.members for each in blocks.sets}) < len(blocks.sets):
        raise VerificationError("the tree measures nothing, or something twice; plan again.")
    if not 0 <= blocks.attribute < len(blocks.sizes) or int(blocks.sizes[blocks.attribute]) != nesting.sizes[0]:
        raise VerificationError("the levels are not those of the domain; plan again.")
    for each in blocks.sets:
        if any(not 0 <= i < len(blocks.sizes) for i in each.members):
            raise VerificationError("a set names an attribute that the domain lacks; plan again.")
        sizes = tuple(int(blocks.sizes[i]) for i in each.members)
        if each.sizes != sizes or blocks.attribute in each.members or list(each.members) != sorted(set(each.members)):
            raise VerificationError("a set is not made of other attributes of the domain; plan again.")
        if not isinstance(each.grid, int) or each.grid < 1 or len(each.scales) != nesting.root - each.start + 1:
            raise VerificationError("grids or noise scales do not fit the levels; plan again.")
        for k, scales in enumerate(each.scales):
            level = each.start + k
            full = nesting.sizes[min(level + 1, nesting.root)] if k == 0 else nesting.sizes[level]
            if len(scales) not in ((1, full) if k == 0 else (0, 1, full)):
                raise VerificationError("grids or noise scales do not fit the levels; plan again.")
            require_scales(scales)
    if blocks.most_records < _LEAST_RECORDS:
        raise VerificationError("the grid is so fine that numbers could overflow; plan again.")


def _epsilon(blocks: Measured, unit: Unit) -> Fraction:
    """What Laplace noise costs this unit, exactly."""
    (each, *others) = blocks.sets
    if others or each.members or any(len(scales) > 1 for scales in each.scales):
        raise VerificationError("Laplace noise is for counts of nodes, with one scale per level; plan again.")
    levels = [each.grid / Fraction(float(a[0])) if len(a) else Fraction(0) for a in each.scales]
    records = most_records(unit, blocks.names, blocks.sizes)
    if records is not None:
        return records * sum(levels, Fraction(0))
    replaced = 2 * sum(levels[:-1], Fraction(0))
    return max(replaced, sum(levels, Fraction(0))) if blocks.drops else replaced


def _factor(each: SetOfNodes) -> int:
    """`t² Π n_i (n_i − 1)`: the squared norm of a column of the integers that are measured of a node."""
    return each.grid**2 * math.prod(n * (n - 1) for n in each.sizes)


def _largest(blocks: Measured) -> Fraction:
    if all(len(scales) <= 1 for each in blocks.sets for scales in each.scales):
        return sum(
            (Fraction(_factor(each)) / Fraction(float(s)) ** 2 for each in blocks.sets for a in each.scales for s in a),
            Fraction(0),
        )
    ways = [_ways(blocks, each)[each.start] for each in blocks.sets]
    base = min(each.start for each in blocks.sets)
    total = np.zeros(blocks.nesting.sizes[min(base + 1, blocks.nesting.root)])
    for each, way in zip(blocks.sets, ways, strict=True):
        total = total + _on_base(blocks, base, each.start, way)
    return Fraction(float(total.max())) * _enlarged(blocks)


def _enlarged(blocks: Measured) -> Fraction:
    """`(1 + 2^-53)` for each rounding on a way, and a few more: three per term, one per sum."""
    roundings = 8 + 4 * sum(len(each.scales) + 1 for each in blocks.sets)
    return 1 + Fraction(roundings, 2**52)


def _ways(blocks: Measured, each: SetOfNodes) -> dict[int, Floats]:
    """Sums of costs from the root to every node, per level; of the finest level by parent."""
    factor, root = float(_factor(each)), blocks.nesting.root
    found: dict[int, Floats] = {}
    way = np.zeros(1)
    for level in range(root, each.start - 1, -1):
        if level < root and level > each.start:
            way = way[blocks.nesting.parents[level]] if len(way) > 1 else way
        scales = each.scales[level - each.start]
        if len(scales):
            way = way + factor / (scales * scales)
        found[level] = way
    return found


def _on_base(blocks: Measured, base: int, start: int, way: Floats) -> Floats:
    """What each set costs the leaves of every parent of the finest level of all."""
    root = blocks.nesting.root
    if len(way) == 1:
        return way
    return way[blocks.nesting.between(min(base + 1, root), min(start + 1, root))]


def _least_inner(blocks: Measured) -> Fraction:
    """A bound on `−Γ_ij` for any two cells: all their nodes are taken for shared where that is worse.

    Two cells that share some nodes and agree on the short attributes E have `Γ_ij = Σ_S r_S · way_S`, the way that
    they share, with `r_S = Π_{i∈S∖E} −1/(n_i − 1)`.
    """
    most = [Fraction(float(_ways(blocks, each)[each.start].max())) for each in blocks.sets]
    worst = Fraction(0)
    for agree in product((False, True), repeat=len(blocks.short)):
        apart = [i for i, same in zip(blocks.short, agree, strict=True) if not same]
        ratios = [
            math.prod(
                (Fraction(-1, max(int(blocks.sizes[i]) - 1, 1)) for i in each.members if i in apart), start=Fraction(1)
            )
            for each in blocks.sets
        ]
        worst = max(worst, sum((-r * way for r, way in zip(ratios, most, strict=True) if r < 0), Fraction(0)))
    return worst * _enlarged(blocks)
