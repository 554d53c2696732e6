"""Coordinates of an ordered attribute beside a longer one: waves along it, by cosine transforms.

The metric along it is squares over all prefixes, as in `running.py`: the total is spread by the last value alone, and
what is beside it, `x = F y`, is as long as its running sums y. A table can be kept as running sums along one axis only;
along this one it is kept in values. `F Fᵀ` is the Laplacian of a path, `C Λ Cᵀ` with the cosines C of the type II
transform but the constant, and `λ_k = 2 − 2 cos(π k/n)`. So in the coordinates `F = C Λ^½`, which are the running sums
rotated, squares of values have no cross terms but with the total, and the step of the alternating method is as long
along each wave as it can be: rounds grow with n where those of running sums themselves grow with its square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import dct, idct

from residua.linalg.arrays import Floats


@dataclass(frozen=True, eq=False)
class Waves:
    """Coordinates of one attribute with n values: the total, and n − 1 waves.

    Args:
        size: n.
    """

    size: int

    @cached_property
    def lengths(self) -> Floats:
        """`diag FᵀF = λ`, (n − 1,)."""
        return np.asarray(4.0 * np.sin(math.pi * np.arange(1, self.size) / (2.0 * self.size)) ** 2)

    @property
    def total_length(self) -> float:
        """1: the total is in one value."""
        return 1.0

    @property
    def crossing(self) -> float:
        """`‖Λ^-½ Fᵀ v‖`, the length of a column of C without the constant."""
        return math.sqrt((self.size - 1) / self.size)

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
        """How long the running sums of one record can be."""
        return math.sqrt(self.size - 1)

    @cached_property
    def _roots(self) -> Floats:
        return np.asarray(np.sqrt(self.lengths))

    def lifted(self, coordinates: Floats, axis: int) -> Floats:
        """From coordinates to values, along one axis."""
        amplitudes = self._scaled(coordinates, np.concatenate([[0.0], self._roots]), axis)
        found = np.asarray(idct(amplitudes, axis=axis, norm="ortho", overwrite_x=True))
        np.moveaxis(found, axis, 0)[-1] += np.moveaxis(coordinates, axis, 0)[0]
        return found

    def lowered(self, values: Floats, axis: int) -> Floats:
        """What coordinates see of a function linear in the values, along one axis."""
        found = self._scaled(dct(values, axis=axis, norm="ortho"), np.concatenate([[0.0], self._roots]), axis)
        np.moveaxis(found, axis, 0)[0] = np.moveaxis(values, axis, 0)[-1]
        return found

    def own(self, values: Floats, axis: int) -> Floats:
        """From values to the coordinates beside the total, along one axis."""
        rests = np.array(values, dtype=np.float64)
        np.moveaxis(rests, axis, 0)[-1] -= rests.sum(axis=axis)
        waves = np.moveaxis(np.asarray(dct(rests, axis=axis, norm="ortho")), axis, 0)[1:]
        return self._scaled(np.moveaxis(waves, 0, axis), 1.0 / self._roots, axis)

    def _scaled(self, tables: Floats, factors: Floats, axis: int) -> Floats:
        return np.asarray(tables * factors.reshape([-1] + [1] * (tables.ndim - 1 - axis)))
