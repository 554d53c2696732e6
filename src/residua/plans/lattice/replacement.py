"""What replacing one record by another costs under a residual plan.

Two cells that agree on exactly the attributes in E have
`Γ_ij = Σ_S τ_S Π_{i∈S∩E}(1 − 1/n_i) Π_{i∈S∖E}(−1/n_i)`, so that replacing one by the other costs
`(e_i − e_j)ᵀ Γ (e_i − e_j) = 2 (pcost − Γ_ij)`: the worst pair is the E with the least Γ_ij.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from residua.linalg.lattice import Lattice

Floats = NDArray[np.float64]
MOST_ENUMERATED = 16  # attributes: 2^16 patterns of agreement


def replacement_cost(lattice: Lattice, sizes: NDArray[np.int64], precisions: Floats) -> tuple[float, bool]:
    """The largest cost over all pairs of cells, and whether it is exact.

    Exact up to 16 attributes, by trying all patterns of agreement. Beyond, a safe bound: each residual's own worst
    pattern, `2 τ_S κ_S (1 + max_{i∈S} 1/(n_i − 1))` for S ≠ ∅ (the total does not change).
    """
    inverse = 1.0 / sizes
    used = np.flatnonzero([len(with_i) > 0 for with_i, _ in lattice.covers])
    used = used[sizes[used] > 1]
    kappa = lattice.products(1.0 - inverse)
    if len(used) <= MOST_ENUMERATED:
        shared = _dense(lattice, precisions, used)
        for axis, i in enumerate(used):
            without, with_i = np.take(shared, 0, axis=axis), np.take(shared, 1, axis=axis)
            shared = np.stack([without - with_i * inverse[i], without + with_i * (1.0 - inverse[i])], axis=axis)
        return float(2.0 * (precisions @ kappa - shared.min())), True
    with np.errstate(divide="ignore"):
        worst = lattice.maxima(np.where(sizes > 1, 1.0 / (sizes - 1.0), 0.0))
    worst[0] = -1.0  # the total is the same before and after
    return float(2.0 * (precisions * kappa) @ (1.0 + worst)), False


def _dense(lattice: Lattice, precisions: Floats, used: NDArray[np.int64]) -> Floats:
    """Precisions as a (2, …, 2) array: index 1 on axis j when the set holds the j-th used attribute."""
    bit = np.zeros(lattice.attributes, dtype=np.int64)
    bit[used] = 2 ** np.arange(len(used) - 1, -1, -1)
    flat = np.zeros(2 ** len(used))
    for k, level in enumerate(lattice.levels):
        block = slice(lattice.offsets[k], lattice.offsets[k + 1])
        # Sets with a one-valued attribute share a pattern with others, but carry no precision.
        np.add.at(flat, bit[level].sum(axis=1), precisions[block])
    return flat.reshape((2,) * len(used))


def replacement_value(lattice: Lattice, sizes: NDArray[np.int64], importance: Floats) -> float:
    """A lower bound on the weighted sum of variances of any plan whose replacement cost is 1.

    Pairs of cells that differ in every attribute (E = ∅) cost `Σ_S τ_S κ'_S` with `κ'_S = 2(κ_S − Π_{i∈S}(−1/n_i))`,
    a part of the worst case; under that cost alone the least `Σ_S κ_S û_S / τ_S` is `(Σ_S √(κ_S κ'_S û_S))²`.
    """
    kappa = lattice.products(1.0 - 1.0 / sizes)
    apart = np.maximum(2.0 * (kappa - lattice.products(-1.0 / sizes)), 0.0)
    return float(np.sqrt(kappa * apart * importance).sum()) ** 2
