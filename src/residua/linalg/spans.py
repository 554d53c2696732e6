"""The largest variances of all ranges along an axis, without looking at each of them.

A range is the difference of two running sums. Sums are put into cells of neighbours. In one part of the noise
(`chain.py`) the covariance of C_i and C_k, i ≤ k, is `V_i φ_{i+1} … φ_k` with 0 < φ < 1: of two cells it is at least
the least covariance of a sum of the first with the cell's last one, times the φ from there to the last sum of the
second. What the left end adds is `(m_k − m_i)²` times a factor, and m does not fall. So for all pairs of sums of two
cells

    Var(C_k − C_i) ≤ max V + max V − 2 Σ_j a_j (least covariance)_j + Σ_j a_j extra_j (m_last − m_first)²,

exactly the variance where each cell holds one sum.
"""

from __future__ import annotations

import numpy as np

from residua.linalg import network
from residua.linalg.arrays import Floats, Integers
from residua.linalg.nested_noise import AxisNoise, NestedNoise
from residua.linalg.path import relative_error

MOST_CELLS = 4096
_GRADING = 3  # cell k of K starts at (k/K)³ of half the axis


def largest_ranges(noise: AxisNoise, cells: int = MOST_CELLS, *, alone: bool = False) -> tuple[Floats, Integers]:
    """For each cell of running sums no less than the largest variance of a range that ends in it, (cells,).

    Also where the cells start, counted from C_{−1} = 0, (cells,). With at least n + 1 cells it is that variance. If the
    first sum of each cell shall stand `alone`, the variances of ranges between these: a look at some, no bound. With
    nested groups it is a bound alone, however many cells there are: the variances of both ends.
    """
    from residua.linalg.span_kernels import cell_facts, largest, lower

    starts = cell_starts(noise.size + 1, cells)
    if isinstance(noise, NestedNoise):  # no covariance of two running sums is negative
        each = np.maximum.reduceat(np.append(0.0, noise.sum_variances()), starts)
        return (each + each.max()) * (1 + network.relative_error(noise.size)), starts
    ends = np.append(starts, noise.size + 1)
    path, count = noise.path, len(starts)
    room, sums = np.empty(path.size), np.empty(path.size + 1)
    total, shared, facts = np.zeros(path.size + 1), np.zeros((count, count)), np.zeros((4, count))
    for p, a in zip(noise.poles.tolist(), noise.weights.tolist(), strict=True):
        extra = cell_facts(path.links, path.left, path.right, path.values, noise.q, p, ends, alone, room, facts, sums)
        total += a * sums
        lower(facts, extra, a, shared)
    highest = total[starts] if alone else np.maximum.reduceat(total, starts)
    return largest(highest, shared) * (1 + relative_error(path.size)), starts


def cell_starts(nodes: int, cells: int) -> Integers:
    """Where cells of neighbours start: one of each, or finer towards both ends, (at most cells,)."""
    if nodes <= cells:
        return np.arange(nodes)
    half = np.linspace(0.0, 1.0, cells // 2) ** _GRADING * (nodes / 2)
    left = np.unique(np.maximum(np.floor(half), np.arange(len(half)))).astype(np.int64)
    left = left[left < nodes // 2]
    return np.concatenate([left, nodes - left[:0:-1]])
