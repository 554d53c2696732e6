"""Ordered queries as an electrical path: everything about them in passes along the axis, without a subtraction.

The Gram matrix G of prefixes, of ranges, or of a weighted mixture of them along n values has a tridiagonal inverse: the
Laplacian of a path, `links` between neighbours and `left`, `right` to ground at its ends. Queries of single values add
`values` to the diagonal of G. For weights q on the cells and a shift p, the matrix `(values I + G + p Q⁻¹)⁻¹` is the
parallel sum of that Laplacian and of `K = diag(q / (values q + p))`: conductances from every node to a second
terminal. Effective conductances, seen from one end and from the other, then give its diagonal, all prefix sums, and
the first-order recurrences that have it as covariance (`chain.py`).

All quantities are positive and are only added, multiplied and divided. So a float result that took at most c
operations one after the other is right to a factor `(1 ± u)^c`, u = 2⁻⁵³, whatever the numbers are (no underflow:
`checked` bounds them): with n nodes c is at most 8 n + 64, which `relative_error` returns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats


@dataclass(frozen=True, eq=False)
class Path:
    """The Gram matrix of ordered queries, by the conductances of its inverse.

    Args:
        links: conductances between neighbours, (n − 1,).
        left: conductance from the first node to ground.
        right: conductance from the last node to ground.
        values: what queries of single values add to the diagonal of G.
    """

    links: Floats
    left: float
    right: float
    values: float = 0.0

    @property
    def size(self) -> int:
        """How many values the axis has."""
        return len(self.links) + 1

    @property
    def gram_diagonal(self) -> Floats:
        """The diagonal of the Gram matrix, (n,): a resistance to ground for each node."""
        from residua.linalg.axis_kernels import resistances

        found = np.empty(self.size)
        resistances(self.links, self.left, self.right, found, np.empty(self.size))
        return found + self.values

    def shares(self, q: Floats, poles: Floats, weights: Floats) -> Floats:
        """`Σ_j a_j [S (S + p_j)⁻¹]_ii` for `S = Q^½ G Q^½`, (n,)."""
        from residua.linalg.axis_kernels import shares

        found, room = np.zeros(self.size), np.empty(self.size)
        shares(self.links, self.left, self.right, self.values, q, poles, weights, found, room)
        return found


def prefix_path(weights: Floats) -> Path:
    """The path of all prefixes, each with its own weight > 0, (n,)."""
    return Path(1 / weights[:-1], 0.0, float(1 / weights[-1]))


def range_path(n: int, prefixes: float, ranges: float, values: float = 0.0) -> Path:
    """The path of all prefixes, all ranges and all values, each kind with one weight; not of values alone."""
    scale = 1 / (prefixes + ranges * (n + 1))
    return Path(np.full(n - 1, scale), scale * ranges / (prefixes + ranges), scale, values)


def ends_path(ends: Floats) -> Path:
    """The path of all ranges with weights `u_i u_k`, i < k, of the running sums C_{−1}, …, C_{n−1} they are between.

    Over running sums the Gram matrix is `Σu diag(u) − u uᵀ` without its first row and column: a diagonal and rank one.
    """
    conductances = 1 / (ends * ends.sum())
    return Path(conductances[1:-1], float(conductances[0]), float(conductances[-1]))


def relative_error(n: int) -> float:
    """How far a result along n nodes may be off, relatively: more than `(1 + u)^(8n + 64) − 1`."""
    return math.expm1((8 * n + 64) * 2.0**-52)
