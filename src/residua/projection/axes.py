"""Coordinates along one attribute, in which a metric has no cross terms: matrices, prefix sums, or a cosine basis.

Coordinates are the total, and n − 1 more. Short attributes have them as matrices. Of a long ordered attribute the
metric is squares over all prefixes, `‖P‖²` of the prefix sums P, in passes instead of matrices. So the total is spread
by the last value alone, and the coordinates beside it are the prefix sums before the last: `[v, F]` is the difference
of neighbours.

No count of a table is negative where its prefix sums do not fall, and sums that do not fall are one pass away from any
others. So the table of an axis is kept as prefix sums, in which no direction is stiffer than another, however long
the axis is. A table can be kept as prefix sums along one axis only, the longest; along others it is kept in values.
There `F Fᵀ` is the Laplacian of a path, `C Λ Cᵀ` with the cosines C of the type II transform but the constant, and
`λ_k = 2 − 2 cos(π k/n)`. So in the coordinates `F = C Λ^½`, which are the prefix sums rotated, squares of values have
no cross terms but with the total, and the step of the alternating method is as long along each cosine as it can be:
rounds grow with n where those of prefix sums themselves grow with its square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.fft import dct, idct

from residua.linalg.arrays import Floats, along

_LEAST_SHARE = 0.2  # of an equal share: smaller ones would weigh cells too differently


@dataclass(frozen=True, eq=False)
class MatrixCoordinates:
    """Coordinates as matrices.

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
    in_sums: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """n: how many values there are."""
        return len(self.even)

    @property
    def longest(self) -> float:
        """How long the coordinates beside the total of one record can be."""
        return float(np.linalg.norm(self.down[1:], axis=0).max())

    def lifted(self, coordinates: Floats, axis: int) -> Floats:
        """From coordinates to values, along one axis."""
        return along(self.up, coordinates, axis)

    def lowered(self, values: Floats, axis: int) -> Floats:
        """What coordinates see of a function linear in the values, along one axis."""
        return along(self.up.T, values, axis)

    def own(self, values: Floats, axis: int) -> Floats:
        """From values to the coordinates beside the total, along one axis."""
        return along(self.down[1:], values, axis)


def axis_along(v: Floats, inverse: Floats) -> MatrixCoordinates:
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
    crossing = 0.0 if even is v else float(np.linalg.norm(F.T @ (d * v) / np.sqrt(lengths * total_length)))
    return MatrixCoordinates(up, np.linalg.inv(up), d, lengths, total_length, crossing, even)


@dataclass(frozen=True, eq=False)
class _Ordered:
    """What coordinates of a long ordered attribute have in common."""

    size: int
    in_sums: ClassVar[bool] = False

    @property
    def total_length(self) -> float:
        """1: the total is in one value."""
        return 1.0

    @property
    def crossing(self) -> float:
        """0: there are no cross terms."""
        return 0.0

    @cached_property
    def cell_weights(self) -> Floats:
        """All alike, (n,)."""
        return np.ones(self.size)

    @cached_property
    def even(self) -> Floats:
        """Equal shares of the values, (n,)."""
        return np.full(self.size, 1.0 / self.size)

    @property
    def longest(self) -> float:
        """How long the prefix sums of one record can be."""
        return math.sqrt(self.size - 1)


@dataclass(frozen=True, eq=False)
class PrefixSums(_Ordered):
    """The total, and n − 1 prefix sums.

    Args:
        size: n.
        last: how much the penalty weighs the last prefix sum, the total along the axis, beside the others.
    """

    last: float = 1.0
    in_sums: ClassVar[bool] = True

    @cached_property
    def lengths(self) -> Floats:
        """All 1, (n − 1,): tables are kept as the coordinates are."""
        return np.ones(self.size - 1)

    @property
    def total_length(self) -> float:
        """The weight of the last prefix sum."""
        return self.last

    @cached_property
    def cell_weights(self) -> Floats:
        """All alike but that of the total, (n,)."""
        return np.concatenate([[self.last], np.ones(self.size - 1)])

    @cached_property
    def even_kept(self) -> Floats:
        """Prefix sums of equal shares in the order of coordinates, (n,)."""
        return np.concatenate([[1.0], np.arange(1, self.size) / self.size])

    def lifted(self, coordinates: Floats, axis: int) -> Floats:
        """From coordinates to values, along one axis."""
        sums = np.moveaxis(coordinates, axis, 0)
        values = np.empty_like(sums)
        values[:-1] = sums[1:]
        values[-1] = sums[0]
        values[1:] -= values[:-1].copy()
        return np.moveaxis(values, 0, axis)

    def lowered(self, values: Floats, axis: int) -> Floats:
        """What coordinates see of a function linear in the values, along one axis."""
        slopes = np.moveaxis(values, axis, 0)
        lowered = np.empty_like(slopes)
        lowered[0] = slopes[-1]
        lowered[1:] = slopes[:-1] - slopes[1:]
        return np.moveaxis(lowered, 0, axis)

    def own(self, values: Floats, axis: int) -> Floats:
        """From values to the coordinates beside the total, along one axis."""
        return np.moveaxis(np.cumsum(np.moveaxis(values, axis, 0)[:-1], axis=0), 0, axis)


@dataclass(frozen=True, eq=False)
class CosineBasis(_Ordered):
    """The total, and n − 1 cosines.

    Args:
        size: n.
    """

    @cached_property
    def lengths(self) -> Floats:
        """`diag FᵀF = λ`, (n − 1,)."""
        return np.asarray(4.0 * np.sin(math.pi * np.arange(1, self.size) / (2.0 * self.size)) ** 2)

    @property
    def crossing(self) -> float:
        """`‖Λ^-½ Fᵀ v‖`, the length of a column of C without the constant."""
        return math.sqrt((self.size - 1) / self.size)

    @cached_property
    def _roots(self) -> Floats:
        return np.asarray(np.sqrt(self.lengths))

    def lifted(self, coordinates: Floats, axis: int) -> Floats:
        """From coordinates to values, along one axis."""
        amplitudes = self._scaled(coordinates, np.concatenate([[0.0], self._roots]), axis)
        values = np.asarray(idct(amplitudes, axis=axis, norm="ortho", overwrite_x=True))
        np.moveaxis(values, axis, 0)[-1] += np.moveaxis(coordinates, axis, 0)[0]
        return values

    def lowered(self, values: Floats, axis: int) -> Floats:
        """What coordinates see of a function linear in the values, along one axis."""
        lowered = self._scaled(dct(values, axis=axis, norm="ortho"), np.concatenate([[0.0], self._roots]), axis)
        np.moveaxis(lowered, axis, 0)[0] = np.moveaxis(values, axis, 0)[-1]
        return lowered

    def own(self, values: Floats, axis: int) -> Floats:
        """From values to the coordinates beside the total, along one axis."""
        rests = np.array(values, dtype=np.float64)
        np.moveaxis(rests, axis, 0)[-1] -= rests.sum(axis=axis)
        cosines = np.moveaxis(np.asarray(dct(rests, axis=axis, norm="ortho")), axis, 0)[1:]
        return self._scaled(np.moveaxis(cosines, 0, axis), 1.0 / self._roots, axis)

    def _scaled(self, tables: Floats, factors: Floats, axis: int) -> Floats:
        return np.asarray(tables * factors.reshape([-1] + [1] * (tables.ndim - 1 - axis)))


Coordinates = MatrixCoordinates | PrefixSums | CosineBasis
