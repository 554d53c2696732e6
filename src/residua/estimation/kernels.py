"""Compiled loops: raking tables of three attributes, and giving synthetic rows their values; loaded when first needed.

A column of rows is filled from a table of chances, one row per row and one column per value. Raking multiplies them
until the rows of each group have the shares that a table says; choosing then turns chances into values such that counts
stay near their expectations and quotas are met.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.machine import compiled


@compiled
def rake_three(
    table: Any, over_first: Any, over_second: Any, over_third: Any, tolerance: float, rounds: int, nothing: float
) -> float:
    """Rakes a table (n, m, q) in place to its margins over each axis; how far it was from them before the last round.

    Sums up to `nothing` count as zero.
    """
    n, m, q = table.shape
    first, second, apart = table.sum(axis=0), np.zeros((n, q)), np.inf
    for _ in range(rounds):
        apart = 0.0
        for j in range(m):
            for k in range(q):
                apart = max(apart, abs(first[j, k] - over_first[j, k]))
                first[j, k] = over_first[j, k] / first[j, k] if first[j, k] > nothing else 0.0
        second[:] = 0.0
        for i in range(n):
            for j in range(m):
                for k in range(q):
                    table[i, j, k] *= first[j, k]
                    second[i, k] += table[i, j, k]
        for i in range(n):
            for k in range(q):
                apart = max(apart, abs(second[i, k] - over_second[i, k]))
                second[i, k] = over_second[i, k] / second[i, k] if second[i, k] > nothing else 0.0
        first[:] = 0.0
        for i in range(n):
            for j in range(m):
                whole = 0.0
                for k in range(q):
                    table[i, j, k] *= second[i, k]
                    whole += table[i, j, k]
                factor = over_third[i, j] / whole if whole > nothing else 0.0
                for k in range(q):
                    table[i, j, k] *= factor
                    first[j, k] += table[i, j, k]
        if apart <= tolerance:
            break
    return apart


@compiled
def multiply(chances: Any, groups: Any, factors: Any) -> None:
    """Multiplies each row's chances (n, k) by its group's factors (g, k), and makes their sum 1 again."""
    n, k = chances.shape
    for r in range(n):
        g = groups[r]
        whole = 0.0
        for v in range(k):
            whole += chances[r, v] * factors[g, v]
        if whole > 0.0:
            for v in range(k):
                chances[r, v] *= factors[g, v] / whole


@compiled
def rake(chances: Any, groups: Any, shares: Any, factors: Any) -> float:
    """One step of raking: the rows of each group get, in the mean, the group's shares (g, k); `factors` keeps all.

    Returns how far their expected counts were from that before, summed over groups and values.
    """
    n, k = chances.shape
    sums = np.zeros(shares.shape)
    sizes = np.zeros(len(shares))
    for r in range(n):
        g = groups[r]
        sizes[g] += 1.0
        for v in range(k):
            sums[g, v] += chances[r, v]
    apart = 0.0
    for g in range(len(shares)):
        for v in range(k):
            wanted = sizes[g] * shares[g, v]
            apart += abs(wanted - sums[g, v])
            step = wanted / sums[g, v] if sums[g, v] > 0.0 else 1.0
            step = min(max(step, 1e-6), 1e6)
            if wanted == 0.0 and sizes[g] > 0.0:
                step = 0.0
            sums[g, v] = step
            factors[g, v] = min(max(factors[g, v] * step, 1e-30), 1e30) if step > 0.0 else 0.0
    multiply(chances, groups, sums)
    return apart


@compiled
def choose(chances: Any, order: Any, groups: Any, quotas: Any, draws: Any, owed: Any, tilt: float, chosen: Any) -> None:
    """Gives each row a value, in this order: drawn by its chances, tilted to the values that are owed.

    A value's debt grows by its chance at every row and falls by one when it is taken, so that along the order counts
    stay near their expectations. No value of chance zero is taken. Quotas (g, k), what each group of rows is still to
    get, are met as far as that allows: a last pass exchanges values of rows until they are, or nothing helps.
    """
    n, k = chances.shape
    left = quotas.copy()
    weights = np.empty(k)
    for t in range(n):
        r = order[t]
        g = groups[r]
        whole, spare = 0.0, 0.0
        for v in range(k):
            weights[v] = 0.0
            owed[v] += chances[r, v]
            if chances[r, v] > 0.0:
                spare += chances[r, v]
                if left[g, v] > 0:
                    weights[v] = chances[r, v] * np.exp(min(max(tilt * owed[v], -30.0), 30.0))
                    whole += weights[v]
        if whole == 0.0:
            whole = spare
            for v in range(k):
                weights[v] = chances[r, v]
        best = -1
        mark = draws[r] * whole
        for v in range(k):
            if weights[v] > 0.0:
                best = v
                mark -= weights[v]
                if mark < 0.0:
                    break
        chosen[r] = best
        if best >= 0:
            owed[best] -= 1.0
            left[g, best] -= 1
    for t in range(n - 1, -1, -1):  # a value taken too often gives way to one that is missing
        r = order[t]
        g, v = groups[r], chosen[r]
        if v >= 0 and left[g, v] < 0:
            best = -1
            for w in range(k):
                if left[g, w] > 0 and chances[r, w] > 0.0 and (best < 0 or chances[r, w] > chances[r, best]):
                    best = w
            if best >= 0:
                chosen[r] = best
                left[g, v] += 1
                left[g, best] -= 1
