"""Where the search for an ordered attribute's strategy begins: at the optimum of the attribute alone, found in passes.

For prefixes, ranges and values of one attribute the dense optimum takes passes along it, and no matrices
(`ordered.py`). Alone, that is the strategy itself, which one round of the search then confirms; crossed with others it
is near. Without it a search of 500 values takes 15 rounds of n³.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.path import OrderedNoise, range_path
from residua.plans.solver.ordered import least_total
from residua.workload import AttributeQueries

LEAST = 192  # values; below, loading the compiled passes takes longer than they save
_TOLERANCE = 1e-4


def ordered_start(kinds: Sequence[AttributeQueries]) -> tuple[Floats, Floats] | None:
    """Weights on the values and a spread vector, (n,) each, for these rows, each kind with its mean variance.

    None where the rows are not of that kind, or few.
    """
    n = kinds[0].size
    weights: dict[str | None, float] = {"prefixes": 0.0, "ranges": 0.0, "values": 0.0}
    for asked in kinds:
        if asked.along not in weights:
            return None
        weights[asked.along] += 1.0 / asked.trace()
    if n < LEAST or not weights["prefixes"] + weights["ranges"]:
        return None
    path = range_path(n, *weights.values())
    found = least_total(path, tolerance=_TOLERANCE)
    noise = OrderedNoise(path, found.q, found.root.poles, found.root.weights)
    total = noise.combined_with_all(np.append(np.zeros(n - 1), 1.0))
    return found.q, np.diff(total / total[-1], prepend=0.0)
