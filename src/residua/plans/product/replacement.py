"""What replacing one record by another costs under precisions on sets.

Two cells that agree on exactly the attributes in E have
`Γ_ij = Σ_S τ_S Π_{i∈S∩E}(1 − 1/n_i) Π_{i∈S∖E}(−1/n_i)`, so that replacing one by the other costs
`(e_i − e_j)ᵀ Γ (e_i − e_j) = 2 (pcost − Γ_ij)`: the worst pair is the E with the least Γ_ij.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.persons import Reach
from residua.plans.product.set_price import MOST_ENUMERATED
from residua.plans.strategy import Strategy


def replacement_cost(lattice: SetFamily, precisions: Floats, strategies: Sequence[Strategy]) -> tuple[float, bool]:
    """The largest cost over all pairs of cells, never less, and whether all patterns of agreement were tried.

    It is exact then where every strategy is plain.
    """
    costs = precisions * lattice.products(np.array([strategy.cost for strategy in strategies]))
    return worst_pattern(lattice, costs, np.array([strategy.least for strategy in strategies]))


def worst_pattern(lattice: SetFamily, costs: Floats, ratios: Floats) -> tuple[float, bool]:
    """`max_E 2 Σ_S cost_S (1 − Π_{i∈S∖E} r_i)` over patterns E of agreement, and whether it is the maximum itself.

    It is up to 16 attributes, by trying all patterns. Beyond, a safe bound: each set's own worst pattern,
    `2 cost_S (1 + max_{i∈S} (−r_i)₊)` for S ≠ ∅ (the total does not change).

    Args:
        lattice: the sets.
        costs: what each costs a record added or removed, (sets,).
        ratios: r_i, from −1 to 1: the least inner product of two values of attribute i, relative to the largest norm.
    """
    costs = np.concatenate([[0.0], costs[1:]])
    used = np.flatnonzero([bool((costs[with_i] > 0).any()) for with_i, _ in lattice.covers])
    if len(used) <= MOST_ENUMERATED:
        shared = _dense(lattice, costs, used)
        for axis, i in enumerate(used):
            without, with_i = np.take(shared, 0, axis=axis), np.take(shared, 1, axis=axis)
            shared = np.stack([without + with_i * ratios[i], without + with_i], axis=axis)
        return float(2.0 * (costs.sum() - shared.min())), True
    worst = np.concatenate([[0.0], np.maximum(lattice.maxima(-ratios)[1:], 0.0)])
    return float(2.0 * costs @ (1.0 + worst)), False


def _dense(lattice: SetFamily, costs: Floats, used: Integers) -> Floats:
    """Costs as a (2, …, 2) array: index 1 on axis j when the set holds the j-th used attribute."""
    bit = np.zeros(lattice.attributes, dtype=np.int64)
    bit[used] = 2 ** np.arange(len(used) - 1, -1, -1)
    flat = np.zeros(2 ** len(used))
    for k, level in enumerate(lattice.levels):
        block = slice(lattice.offsets[k], lattice.offsets[k + 1])
        # Sets with an attribute that is not used share a pattern with others, but cost nothing.
        np.add.at(flat, bit[level].sum(axis=1), costs[block])
    return flat.reshape((2,) * len(used))


def replacement_value(lattice: SetFamily, sizes: Integers, importance: Floats) -> float:
    """A lower bound on the weighted sum of variances of any plan whose replacement cost is 1.

    Pairs of cells that differ in every attribute (E = ∅) cost `Σ_S τ_S κ'_S` with `κ'_S = 2(κ_S − Π_{i∈S}(−1/n_i))`,
    a part of the worst case; under that cost alone the least `Σ_S κ_S û_S / τ_S` is `(Σ_S √(κ_S κ'_S û_S))²`.
    """
    kappa = lattice.products(1.0 - 1.0 / sizes)
    apart = np.maximum(2.0 * (kappa - lattice.products(-1.0 / sizes)), 0.0)
    return float(np.sqrt(kappa * apart * importance).sum()) ** 2


_MOST_GROUPS = 2048


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
