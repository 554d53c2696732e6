"""Noise along an axis with nested groups: every running sum is drawn between two others, from the ends to the middle.

Noise with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹`, G the Gram matrix of ordered queries and nested groups
(`conductances.py`), is a sum of independent parts, one for each pole. Part j is a network of conductances. Given the
running sums at the ends of an interval and the hub h, what is inside is independent of what is outside; with k, c, g
the conductances from the cut m to the interval's ends a and b and to the hub, and t their sum,

    C_m = α C_a + β C_b + γ h + σ z,   α = k/t,  β = c/t,  γ = g/t,  σ² = 1/t,   α + β + γ = 1,

z a standard normal. The last running sum is drawn first, given h alone. Where prefixes alone are asked, h = C_{−1} = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import Network
from residua.linalg.path import MOST_CELLS, NoiseAlong, OrderedNoise, cell_starts
from residua.machine import csr_array


@dataclass(frozen=True, eq=False)
class NestedNoise(NoiseAlong):
    """Noise along an axis with nested groups, whose Gram matrix is a network."""

    queries: Network

    def variances(self) -> tuple[Floats, Floats]:
        """The variances of all running sums, and of the noise of each value, (n,) each."""
        return self.sum_variances(), self.widths()[0]

    @property
    def finest(self) -> float:
        """The least variance of a running sum, a value or a group: groups may have less than each of their values."""
        return float(min(self.sum_variances().min(), *(each.min(initial=np.inf) for each in self.widths())))

    def sum_variances(self) -> Floats:
        """The variances of all running sums, (n,)."""
        from residua.linalg.conductance_kernels import add_sum_variances

        return self._summed(add_sum_variances, np.zeros(self.size), np.empty((3, self.size + 1)))

    def widths(self) -> tuple[Floats, Floats]:
        """The variances of the noise of each value, (n,), and of each group, (groups,)."""
        from residua.linalg.conductance_kernels import widths

        single, wide = np.zeros((2, self.size))
        room = np.empty((2, 3, self.size))
        widths(*self.queries.arguments, self.q, self.poles, self.weights, single, wide, *room)
        places = self.queries.nesting.places
        return single, np.where(places < 0, single[-1 - np.minimum(places, -1)], wide[np.maximum(places, 0)])

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, (rows,), from rows over them, (rows, n).

        One of few sums takes a walk up the tree from each of them.
        """
        from residua.linalg.conductance_kernels import add_row_variances

        where = np.empty(self.size, dtype=np.int64)
        where[self.queries.nesting.cut] = np.arange(self.size)
        entries = (where, rows.indptr, rows.indices, rows.data)
        return self._summed(add_row_variances, np.zeros(rows.shape[0]), np.zeros(self.size + 1), *entries)

    def _applied(self, rows: Floats) -> Floats:
        from residua.linalg.conductance_kernels import add_applied

        return self._summed(add_applied, np.zeros(rows.shape), np.empty(self.size + 1), rows)

    def add_simulated(self, z: Floats, out: Floats) -> None:
        """Adds noise from standard normals, (parts, n + 1), to running sums, (n,)."""
        from residua.linalg.conductance_kernels import add_simulated

        for (factors, hub, weight), each in zip(self._parts(), z, strict=True):
            add_simulated(*self._tree, factors, hub, weight, each, out, np.empty(self.size + 1))

    def largest_ranges(self, cells: int = MOST_CELLS, *, alone: bool = False) -> tuple[Floats, Integers]:
        """A bound alone, however many cells there are: the variances of both ends, no covariance being negative."""
        starts = cell_starts(self.size + 1, cells)
        each = np.maximum.reduceat(np.append(0.0, self.sum_variances()), starts)
        return (each + each.max()) * (1 + self.relative_error), starts

    def _summed(self, add: Callable[..., None], out: Floats, room: Floats, *given: Any) -> Floats:
        """What a pass adds for every part, of the shape of `out`."""
        for factors, hub, weight in self._parts():
            add(*self._tree, factors, hub, weight, *given, out, room)
        return out

    @property
    def _tree(self) -> tuple[Integers, Integers, Integers]:
        tree = self.queries.nesting
        return tree.low, tree.cut, tree.high

    def _parts(self) -> Iterator[tuple[Floats, float, float]]:
        """α, β, γ, σ² of every running sum in the tree's order, (4, n), the hub's variance, and the part's weight."""
        from residua.linalg.conductance_kernels import factors

        steps, room = np.empty((4, self.size)), np.empty((3, self.size))
        for pole, weight in zip(self.poles.tolist(), self.weights.tolist(), strict=True):
            arguments = self.queries.arguments
            hub = factors(*arguments[:3], self.queries.first, *arguments[4:], self.q, pole, steps, room)
            yield steps, hub, weight


AxisNoise = OrderedNoise | NestedNoise


def simulated_along(noises: tuple[AxisNoise, ...], random: np.random.Generator) -> Floats:
    """Running sums along one or two axes of noise with the product of their covariances, in floats, (n,) or (n, m)."""
    if len(noises) == 1:
        return noises[0].simulated(random)
    first, second = noises
    total = np.zeros((second.size, first.size))
    for part in range(len(first.poles)):
        rows = np.array([second.simulated(random) for _ in range(first.size + 1)])
        one = replace(first, poles=first.poles[part : part + 1], weights=first.weights[part : part + 1])
        for column, out in zip(rows.T, total, strict=True):
            one.add_simulated(np.ascontiguousarray(column)[None], out)
    return np.asarray(total.T)
