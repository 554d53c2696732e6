"""What replacing one record by another costs under precisions on sets.

Two cells that agree on exactly the attributes in E have
`Γ_ij = Σ_S τ_S Π_{i∈S∩E}(1 − 1/n_i) Π_{i∈S∖E}(−1/n_i)`, so that replacing one by the other costs
`(e_i − e_j)ᵀ Γ (e_i − e_j) = 2 (pcost − Γ_ij)`: the worst pair is the E with the least Γ_ij.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice
from residua.plans.strategy import Strategy

MOST_ENUMERATED = 16  # attributes: 2^16 patterns of agreement


def replacement_cost(lattice: Lattice, precisions: Floats, strategies: Sequence[Strategy]) -> tuple[float, bool]:
    """The largest cost over all pairs of cells, and whether it is exact.

    Exact for plain strategies of up to 16 attributes, by trying all patterns of agreement. Beyond, a safe bound: each
    block at its own worst pair, `2 τ_S cost_S (1 + max_{i∈S} −least_i)` for S ≠ ∅ (the total does not change).
    """
    sizes = np.array([strategy.size for strategy in strategies])
    if all(strategy.plain for strategy in strategies):
        used = np.flatnonzero([len(with_i) > 0 for with_i, _ in lattice.covers])
        used = used[sizes[used] > 1]
        if len(used) <= MOST_ENUMERATED:
            return _enumerated(lattice, sizes, precisions, used), True
    costs = lattice.products(np.array([strategy.cost for strategy in strategies]))
    apart = np.array([max(-strategy.least, 0.0) for strategy in strategies])
    worst = 1.0 + np.maximum(lattice.maxima(apart), 0.0)
    worst[0] = 0.0  # the total is the same before and after
    return float(2.0 * (precisions * costs) @ worst), False


def _enumerated(lattice: Lattice, sizes: Integers, precisions: Floats, used: Integers) -> float:
    inverse = 1.0 / sizes
    kappa = lattice.products(1.0 - inverse)
    shared = _dense(lattice, precisions, used)
    for axis, i in enumerate(used):
        without, with_i = np.take(shared, 0, axis=axis), np.take(shared, 1, axis=axis)
        shared = np.stack([without - with_i * inverse[i], without + with_i * (1.0 - inverse[i])], axis=axis)
    return float(2.0 * (precisions @ kappa - shared.min()))


def _dense(lattice: Lattice, precisions: Floats, used: Integers) -> Floats:
    """Precisions as a (2, …, 2) array: index 1 on axis j when the set holds the j-th used attribute."""
    bit = np.zeros(lattice.attributes, dtype=np.int64)
    bit[used] = 2 ** np.arange(len(used) - 1, -1, -1)
    flat = np.zeros(2 ** len(used))
    for k, level in enumerate(lattice.levels):
        block = slice(lattice.offsets[k], lattice.offsets[k + 1])
        # Sets with a one-valued attribute share a pattern with others, but carry no precision.
        np.add.at(flat, bit[level].sum(axis=1), precisions[block])
    return flat.reshape((2,) * len(used))


def replacement_value(lattice: Lattice, sizes: Integers, importance: Floats) -> float:
    """A lower bound on the weighted sum of variances of any plan whose replacement cost is 1.

    Pairs of cells that differ in every attribute (E = ∅) cost `Σ_S τ_S κ'_S` with `κ'_S = 2(κ_S − Π_{i∈S}(−1/n_i))`,
    a part of the worst case; under that cost alone the least `Σ_S κ_S û_S / τ_S` is `(Σ_S √(κ_S κ'_S û_S))²`.
    """
    kappa = lattice.products(1.0 - 1.0 / sizes)
    apart = np.maximum(2.0 * (kappa - lattice.products(-1.0 / sizes)), 0.0)
    return float(np.sqrt(kappa * apart * importance).sum()) ** 2
