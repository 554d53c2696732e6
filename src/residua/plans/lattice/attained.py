"""What some change of the data really costs: a lower bound that says how loose a price can be at most.

Prices are upper bounds on `zᵀΓz` over all changes z of a unit. Here z is one particular change, chosen well: a person
whose records are alike in all attributes that are not limited, in their most expensive values; or one record that takes
the place of another. A price above it by a share x is at most x too high.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice
from residua.plans.persons import Reach
from residua.plans.strategy import Strategy

_MOST_GROUPS = 2048


def some_person(lattice: Lattice, precisions: Floats, strategies: Sequence[Strategy], reach: Reach) -> float:
    """The largest cost of some persons: K records spread over limited attributes, or as many as can be in one cell.

    The a-th record has the value number `⌊a/l_i⌋` of every limited attribute i, values ordered by what they cost beside
    the most expensive one; and the same with every limit lowered to a multiple of the least: groups do not overlap.
    """
    used = {i: most for i, most in reach.limits.items() if len(lattice.covers[i][0])}
    least = min([reach.records, *used.values()])
    costs = np.array([1.0 if i in used else one.cost for i, one in enumerate(strategies)])
    shares = precisions * lattice.products(costs)
    found = 0.0
    for limits in (used, {i: most // least * least for i, most in used.items()}, dict.fromkeys(used, least)):
        whole = min([reach.records, *(most * strategies[i].size for i, most in limits.items())])
        for records in {whole, least}:
            starts = sorted({0, *(a for most in limits.values() for a in range(0, records, most))})[:_MOST_GROUPS]
            begun = np.array(starts, dtype=np.int64)
            counts = np.diff(np.append(begun, records if len(begun) < _MOST_GROUPS else begun[-1] + 1)).astype(float)
            met = {i: _meeting(strategies[i], begun // most) for i, most in limits.items()}
            found = max(found, _squares(lattice, shares, met, counts))
    return found


def some_replacement(lattice: Lattice, precisions: Floats, strategies: Sequence[Strategy]) -> float:
    """The largest cost of some replacements: the most expensive cell by one that differs in one attribute or all."""
    pairs = [_apart(one) for one in strategies]
    first = np.array([pair[0] for pair in pairs])
    found = 0.0
    for changed in [range(len(pairs)), *([i] for i in range(len(pairs)))]:
        other, between = first.copy(), first.copy()
        for i in changed:
            other[i], between[i] = pairs[i][1], pairs[i][2]
        change = lattice.products(first) + lattice.products(other) - 2.0 * lattice.products(between)
        found = max(found, float(precisions @ change))
    return found


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


def _squares(lattice: Lattice, shares: Floats, inner: dict[int, Floats], counts: Floats) -> float:
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
