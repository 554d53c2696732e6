"""MST: single tables, then the pairs of one tree, for comparison alone; its noise is NumPy's, nothing is private.

Written from the paper. A third of the budget each goes to single tables, to choosing the tree (one edge at a time, by
how far a pair is from independence, with the exponential mechanism), and to the tree's pairs.

Reference: McKenna, Miklau and Sheldon (2021), Winning the NIST contest, §3.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.junction import Model, fitted


def mst(counts: Any, sizes: list[int], rho: float, steps: int, random: Any) -> Model:
    """One run: `counts` gives the true table of a clique."""
    d = len(sizes)
    measured: dict[tuple[int, ...], tuple[Any, float]] = {}

    def measure(cliques: list[tuple[int, ...]]) -> None:
        variance = len(cliques) / (2 * rho / 3)
        for clique in cliques:
            table = counts(clique)
            measured[clique] = (table + random.normal(0, math.sqrt(variance), table.shape), variance)

    def model(steps: int) -> Model:
        precisions = {r: 1 / (variance * noisy.size) for r, (noisy, variance) in measured.items()}
        sums = sum(precisions[r] * float(measured[r][0].sum()) for r in precisions)
        return fitted(sizes, measured, max(1.0, sums / sum(precisions.values())), {}, steps=steps)

    measure([(i,) for i in range(d)])
    alone = model(steps)
    pairs = list(combinations(range(d), 2))
    far = np.array([np.abs(counts(pair) - alone.table(pair)).sum() for pair in pairs])
    group, tree = list(range(d)), []
    epsilon = math.sqrt(8 * rho / 3 / max(d - 1, 1))
    for _ in range(d - 1):
        open_ = [n for n, (a, b) in enumerate(pairs) if group[a] != group[b]]
        odds = epsilon / 2 * (far[open_] - far[open_].max())
        chosen = pairs[open_[int(random.choice(len(open_), p=np.exp(odds) / np.exp(odds).sum()))]]
        tree.append(chosen)
        group = [group[chosen[0]] if one == group[chosen[1]] else one for one in group]
    measure(tree)
    return model(4 * steps)
