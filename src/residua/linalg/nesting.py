"""Nested groups of neighbouring values as one tree: every running sum lies between two others.

Running sums C_{−1} = 0, C_0, …, C_{n−1} are vertices in a row, and a group of values is an interval from the sum before
it to its last one. Nested groups are intervals of one tree, in which every interval of two values and more is cut at
one of its inner vertices, near its middle, and never inside a group. So every group is an interval of the tree, every
inner vertex cuts exactly one, and the tree is `2 (log₂ n + levels)` deep at most: whatever passes from its root to
the leaves accumulates few roundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Integers


@dataclass(frozen=True, eq=False)
class Nesting:
    """A tree of intervals, each cut at one vertex.

    The first entry is the last running sum, which lies between nothing. Then come all intervals of two values and more,
    each before those inside it: first what is left of its cut, then what is right of it. So the interval at s from a
    to b, cut at m, has its left part at s + 1 (or the value m, if that is all), its right part at s + m − a (or the
    value b).

    Args:
        low: the vertex before the interval, (n,).
        cut: where it is cut, (n,); every vertex but −1 once.
        high: the last vertex of the interval, (n,).
        places: where each group of two values and more is, (groups,); of one value, minus that value minus one.
    """

    low: Integers
    cut: Integers
    high: Integers
    places: Integers

    @property
    def size(self) -> int:
        """How many values the axis has."""
        return len(self.cut)


def nesting_of(n: int, groups: Sequence[tuple[int, int]] | Integers) -> Nesting | None:
    """The tree of n values with these groups, each from its first value to its last; None if any two of them cross.

    Example:
        >>> found = nesting_of(5, [(1, 3)])
        >>> found.low.tolist(), found.cut.tolist(), found.high.tolist(), found.places.tolist()
        ([-1, -1, -1, 0, 0], [4, 3, 0, 2, 1], [-1, 4, 3, 3, 2], [3])
    """
    from residua.linalg.nesting_kernels import cut, parents

    given = np.asarray(groups, dtype=np.int64).reshape(-1, 2)
    if len(given) and (given[:, 0].min() < 0 or given[:, 1].max() >= n or (given[:, 0] > given[:, 1]).any()):
        return None
    several = np.flatnonzero(given[:, 1] > given[:, 0])
    distinct, which = np.unique(given[several] * [1, -1], axis=0, return_inverse=True)  # the outer ones first
    starts, ends = distinct[:, 0] - 1, -distinct[:, 1]
    parent = np.empty(len(starts), dtype=np.int64)
    if not parents(starts, ends, parent):
        return None
    order = np.argsort(parent, kind="stable")
    firsts = np.searchsorted(parent[order], np.arange(-1, len(starts) + 1))
    low, high, middle = np.full((3, n), -1, dtype=np.int64)
    middle[0] = n - 1
    places = np.empty(len(starts), dtype=np.int64)
    cut(starts, ends, order, firsts, low, middle, high, places)
    found = -1 - given[:, 0]
    found[several] = places[which.ravel()]
    return Nesting(low, middle, high, found)
