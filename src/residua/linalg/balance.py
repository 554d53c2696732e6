"""Where a polynomial of many signed numbers is least, about: what its exact lower bound is then made of.

The polynomial is `Σ_S p_S Π_{i∈S} x_i` over `r_i ≤ x_i ≤ 1`, the bound that of `plans/product/balanced.py`, which
counts it in fractions: whatever is found here, in floats, can only make it weaker.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_SPLITS = 300  # of intervals: the least of them is then within 1e-4 of all costs, or 1e-3 where three are crossed
_FAINTEST = -25.0  # of the logarithms of a: 1e-11 of the largest, so that quotients stay numbers

Interval = tuple[float, float, float]  # s₀, s₁ and ν


def fitted(rows: Sequence[Sequence[int]], costs: Sequence[float], n: int) -> tuple[list[float], dict[int, float]]:
    """a and β_t with `β_t Π a ≤ cost` for all sets of two or three, about, and near it if costs are products."""
    t = max((min(len(row), 3) for row in rows), default=1)
    logs = np.zeros(n)
    for row, cost in zip(rows, costs, strict=True):
        if len(row) == t:
            logs[list(row)] += math.log(cost)
    own, shared = math.comb(n - 1, t - 1), math.comb(n - 2, t - 2) if t > 1 else 0
    logs = (logs - shared * logs.sum() / (own + shared * (n - 1))) / max(own - shared, 1)
    a = np.exp(np.maximum(logs - logs.max(), _FAINTEST))
    least: dict[int, list[float]] = {2: [], 3: []}
    for row, cost in zip(rows, costs, strict=True):
        if len(row) in least:
            least[len(row)].append(cost / float(a[list(row)].prod()))
    # Where sets are missing, their product would count in full: then nothing is taken for one.
    whole = {k: len(each) == math.comb(n, k) > 0 for k, each in least.items()}
    return a.tolist(), {k: min(each) if whole[k] else 0.0 for k, each in least.items()}


def divided(terms: Sequence[Sequence[Any]], two: float, three: float) -> list[Interval]:
    """Intervals that cover all `s = Σ a x`, halved where least is proven, each with the best ν, from p, a and r."""
    p, b, least = np.array(terms, dtype=np.float64).T

    def proven(low: float, high: float) -> tuple[float, Interval]:
        w = max(two / 2 + three * high / 2, 0.0)
        c = p - w * b**2 * (1 + least) + three / 3 * b**3 * (1 + least + least**2)
        nus = np.append(c / b, 0.0)
        d = c - nus[:, None] * b
        bounds = np.minimum(d, d * least).sum(axis=1) + np.minimum(nus * low, nus * high)
        best = int(bounds.argmax())
        square = 0.0 if low <= 0 <= high else min(low * low, high * high)
        free = float((w * b**2 * least - three / 3 * b**3 * least * (1 + least)).sum())
        return float(bounds[best]) + free + two / 2 * square + three / 6 * low**3, (low, high, float(nus[best]))

    heap = [proven(math.floor(float(b @ least)) - 1.0, math.ceil(float(b.sum())) + 1.0)]
    for _ in range(_SPLITS):
        _, (low, high, _) = heapq.heappop(heap)
        middle = (low + high) / 2
        for each in (proven(low, middle), proven(middle, high)):
            heapq.heappush(heap, each)
    return [each for _, each in heap]
