"""Compiled loops for raking tables of three attributes; loaded when first needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled


@compiled
def rake_three(table: Any, over_first: Any, over_second: Any, over_third: Any, tolerance: float, rounds: int) -> float:
    """Rakes a table (n, m, q) in place to its margins over each axis; how far it is from them at most, in the end."""
    n, m, q = table.shape
    first, second, third = np.zeros((m, q)), np.zeros((n, q)), np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for k in range(q):
                first[j, k] += table[i, j, k]
    apart = np.inf
    for number in range(rounds + 1):
        apart = 0.0
        for j in range(m):
            for k in range(q):
                apart = max(apart, abs(first[j, k] - over_first[j, k]))
                first[j, k] = over_first[j, k] / first[j, k] if first[j, k] > 0 else 0.0
        if apart <= tolerance or number == rounds:
            break
        second[:] = 0.0
        for i in range(n):
            for j in range(m):
                for k in range(q):
                    table[i, j, k] *= first[j, k]
                    second[i, k] += table[i, j, k]
        for i in range(n):
            for k in range(q):
                second[i, k] = over_second[i, k] / second[i, k] if second[i, k] > 0 else 0.0
        for i in range(n):
            for j in range(m):
                whole = 0.0
                for k in range(q):
                    table[i, j, k] *= second[i, k]
                    whole += table[i, j, k]
                third[i, j] = over_third[i, j] / whole if whole > 0 else 0.0
        first[:] = 0.0
        for i in range(n):
            for j in range(m):
                for k in range(q):
                    table[i, j, k] *= third[i, j]
                    first[j, k] += table[i, j, k]
    second[:] = 0.0  # over the third axis it is exact, over the first it was just looked at
    for i in range(n):
        for j in range(m):
            for k in range(q):
                second[i, k] += table[i, j, k]
    for i in range(n):
        for k in range(q):
            apart = max(apart, abs(second[i, k] - over_second[i, k]))
    return apart
