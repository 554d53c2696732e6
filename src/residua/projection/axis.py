"""Coordinates along one attribute in which a product release's noise is white and non-negativity is easy to keep.

A strategy splits an attribute's table into `x = v (1ᵀx) + F y`, the noise of y white. Weights `d_j = 1/(n v_j)` on
cells make v orthogonal to F, whose columns add up to zero: `vᵀ D F = 1ᵀF/n = 0`. A rotation of y leaves the noise white
and makes `FᵀDF` diagonal. With both, the weighed squares of all tables have no cross terms in the coordinates.
Where v has entries near zero or below, all cells weigh the same, and the cross terms left are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from residua.plans.product.strategy import Strategy

Floats = NDArray[np.float64]
_LEAST_SHARE = 0.2  # of an equal share: smaller ones would weigh cells too differently


@dataclass(frozen=True, eq=False)
class Axis:
    """Coordinates of one attribute with n values: the total, and n − 1 more.

    Args:
        up: `[v, F]`, from coordinates to values, (n, n).
        down: its inverse, whose first row is all ones, (n, n).
        cell_weights: d, on squared differences of values, (n,).
        lengths: `diag FᵀDF`, (n − 1,).
        total_length: `vᵀDv`.
        crossing: `[v, F]ᵀ D [v, F]` is at most 1 + crossing times its own diagonal; 0 if D is made of v.
        even: a positive vector adding up to 1: v itself, or equal shares, (n,).
    """

    up: Floats
    down: Floats
    cell_weights: Floats
    lengths: Floats
    total_length: float
    crossing: float
    even: Floats

    @property
    def size(self) -> int:
        """n: how many values there are."""
        return len(self.even)


def axis_of(strategy: Strategy) -> Axis:
    """The coordinates of an attribute all of whose values a strategy tells apart."""
    return axis_along(strategy.spread, strategy.inverse)


def axis_along(v: Floats, inverse: Floats) -> Axis:
    """The coordinates that spread the total by v, with `F Fᵀ` this inverse, (n, n), whose rows add up to zero."""
    n = len(v)
    even = v if v.min() >= _LEAST_SHARE / n else np.full(n, 1.0 / n)
    d = 1.0 / (n * even)
    root = np.sqrt(d)
    lengths, vectors = np.linalg.eigh(root[:, None] * inverse * root)
    lengths, vectors = lengths[1:], vectors[:, 1:]  # K 1 = 0: the values' rests add up to zero
    F = vectors * np.sqrt(lengths) / root[:, None]
    up = np.column_stack([v, F])
    total_length = float(v @ (d * v))
    across = F.T @ (d * v) / np.sqrt(lengths * total_length)
    crossing = 0.0 if even is v else float(np.linalg.norm(across))
    return Axis(up, np.linalg.inv(up), d, lengths, total_length, crossing, even)
