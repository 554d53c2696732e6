"""What a product plan costs a person in each cell, exactly: the diagonal of its privacy cost matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from residua.plans.lattice.blocks import ProductBlocks
from residua.plans.lattice.price import measured_sets
from residua.plans.strategy import Strategy, column_norms
from residua.plans.verifying import POINT


def cell_costs(blocks: ProductBlocks, most_cells: int) -> tuple[tuple[int, ...], NDArray[np.object_]] | None:
    """Which attributes matter and the cost of each of their cells in whole numbers of 2^-200, (n_i, …).

    A cell costs `Σ_S (t²/s²) Π_{i∈S} ‖R_i e_j‖²`, each block rounded up. Attributes whose values all have the same
    norm do not matter; None if those that do have more cells than given.
    """
    sets = measured_sets(blocks)
    used = sorted({i for row, _, _ in sets for i in row})
    norms = {i: _norms(blocks.strategies[i]) for i in used}
    uneven = tuple(i for i in used if len(set(norms[i])) > 1)
    shape = tuple(len(norms[i]) for i in uneven)
    if math.prod(shape) > most_cells:
        return None
    # One more place along each axis holds the blocks without the attribute; it is added to all others at the end.
    costs: NDArray[np.object_] = np.zeros([1, *(n + 1 for n in shape)], dtype=object)
    for row, t, s in sets:
        numerator, denominator = s.as_integer_ratio()
        even = math.prod(norms[i][0] for i in row if i not in uneven)
        found: NDArray[np.object_] = np.array([(t * denominator) ** 2 * even * POINT], dtype=object)
        for i in (i for i in uneven if i in row):
            found = np.multiply.outer(found, np.array(norms[i], dtype=object))
        places = (slice(n) if i in row else slice(n, n + 1) for i, n in zip(uneven, shape, strict=True))
        at = (slice(1), *places)
        costs[at] += (-(-found // (numerator * numerator))).reshape(costs[at].shape)
    for axis, n in enumerate(shape, start=1):
        costs = np.take(costs, range(n), axis=axis) + np.take(costs, [n], axis=axis)
    return uneven, costs[0]


def _norms(strategy: Strategy) -> list[int]:
    """`‖R e_j‖²` of every value, exactly; one number where all are the same."""
    return [strategy.norm] if strategy.identity else column_norms(strategy.matrix)
