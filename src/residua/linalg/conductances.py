"""Ordered queries and nested groups as conductances of an electrical network: everything in passes over a tree.

In running sums C every query is a conductance: a value between neighbours, a group between the sums at its two ends, a
prefix between a sum and C_{−1} = 0. All prefixes and all ranges together are conductances from every sum to a hub
(`path.py` has the same star as a path); with prefixes alone the hub is C_{−1} itself. `G + p Q⁻¹`, G the Gram matrix
of all queries, adds a conductance `p/q_i` between the sums around value i. Covariances are resistances.

A group of values is an interval from the sum before it to its last one. Nested groups are intervals of one tree, in
which every interval of two values and more is cut at one of its inner vertices, near its middle, and never inside a
group. So every group is an interval of the tree, every inner vertex cuts exactly one, and the tree is
`2 (log₂ n + levels)` deep at most: whatever passes from its root to the leaves accumulates few roundings.

Seen from outside, an interval of the tree is a triangle of three conductances, between its two ends and the hub. Two
neighbouring intervals become one by taking out the vertex between them: its star of three conductances k, c, g of sum t
becomes a triangle of `k c/t`, `k g/t`, `c g/t`. One pass from the leaves finds all triangles, one from the root what
is outside of them.

**Errors.** Conductances are only added, multiplied and divided. One step changes each side of its triangle by a
factor `e^±10u` at most, u = 2⁻⁵³ (no chain is of more than nine operations), and leaves the rest alone. What a network
conducts between two of its vertices, or what is left of it between any when others are taken out, is a quotient of two
sums of products of conductances, each product over a forest (Kirchhoff). A forest has no more than two of the three
sides of a triangle, so that both sums change by `e^±20u`, their quotient by `e^±40u`. At most n + 1 vertices are taken
out, and the n conductances `p/q_i` err by 2u each: all results are right to a factor `e^±(44 n + 64) u`, which
`relative_error` exceeds. A product that underflows errs by less than 2⁻⁸⁰⁰, and no result changes by more than its
conductances do. Where the hub is C_{−1}, the conductance between them is 2⁵⁰⁰ in these passes: of others below 2⁴⁰²
(`plans/operators/correlated_price.py` admits no larger ones) that takes less than 2⁻⁹⁷ of a result.

**Noise.** Every running sum is drawn between two others, from the ends to the middle. Noise with covariance `Σ_j a_j (G
+ p_j Q⁻¹)⁻¹`, G the Gram matrix of ordered queries and nested groups, is a sum of independent parts, one for each pole.
Part j is a network of conductances. Given the running sums at the ends of an interval and the hub h, what is inside is
independent of what is outside; with k, c, g the conductances from the cut m to the interval's ends a and b and to the
hub, and t their sum,

    C_m = α C_a + β C_b + γ h + σ z,   α = k/t,  β = c/t,  γ = g/t,  σ² = 1/t,   α + β + γ = 1,

z a standard normal. The last running sum is drawn first, given h alone. Where prefixes alone are asked, h = C_{−1} = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from residua.linalg import conductance_kernels as kernels
from residua.linalg.arrays import Floats, Integers
from residua.linalg.path import MOST_CELLS, NoiseAlong, OrderedNoise, Path, Star, cell_starts, star_diagonal
from residua.machine import csr_array


@dataclass(frozen=True, eq=False)
class IntervalTree:
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


def nesting_of(n: int, groups: Sequence[tuple[int, int]] | Integers) -> IntervalTree | None:
    """The tree of n values with these groups, each from its first value to its last; None if any two of them cross.

    Example:
        >>> tree = nesting_of(5, [(1, 3)])
        >>> tree.low.tolist(), tree.cut.tolist(), tree.high.tolist(), tree.places.tolist()
        ([-1, -1, -1, 0, 0], [4, 3, 0, 2, 1], [-1, 4, 3, 3, 2], [3])
    """
    given = np.asarray(groups, dtype=np.int64).reshape(-1, 2)
    if len(given) and (given[:, 0].min() < 0 or given[:, 1].max() >= n or (given[:, 0] > given[:, 1]).any()):
        return None
    several = np.flatnonzero(given[:, 1] > given[:, 0])
    distinct, which = np.unique(given[several] * [1, -1], axis=0, return_inverse=True)  # the outer ones first
    starts, ends = distinct[:, 0] - 1, -distinct[:, 1]
    parent = np.empty(len(starts), dtype=np.int64)
    if not kernels.parents(starts, ends, parent):
        return None
    order = np.argsort(parent, kind="stable")
    firsts = np.searchsorted(parent[order], np.arange(-1, len(starts) + 1))
    low, high, middle = np.full((3, n), -1, dtype=np.int64)
    middle[0] = n - 1
    places = np.empty(len(starts), dtype=np.int64)
    kernels.cut(starts, ends, order, firsts, low, middle, high, places)
    placed = -1 - given[:, 0]
    placed[several] = places[which.ravel()]
    return IntervalTree(low, middle, high, placed)


_RIGID = 2.0**500


@dataclass(frozen=True, eq=False)
class Network:
    """The Gram matrix of ordered queries and of nested groups, by the conductances between its running sums.

    Args:
        nesting: the groups.
        grounds: conductances from each running sum to the hub, (n,).
        first: that from the hub to C_{−1}; infinite where they are one.
        values: of single values, (n,).
        held: of groups, (groups,).
    """

    nesting: IntervalTree
    grounds: Floats
    first: float
    values: Floats
    held: Floats

    @property
    def size(self) -> int:
        """How many values the axis has."""
        return self.nesting.size

    @property
    def relative_error(self) -> float:
        """How far a result may be off, relatively: more than `e^((44n + 64) u) − 1`, underflow included."""
        return math.expm1((64 * self.size + 128) * 2.0**-53)

    @cached_property
    def path(self) -> Path:
        """The same without groups, and of values what all of them have."""
        ends = 0.0 if math.isinf(self.first) else 1 / self.first
        return Path(1 / self.grounds[:-1], ends, float(1 / self.grounds[-1]), float(self.values.min()))

    @cached_property
    def _summed(self) -> tuple[Floats, Floats]:
        """Conductances of single values, (n,), and of intervals where they are in the tree, (n,).

        Those between the same two sums are added up in floats, and that is what they are from then on.
        """
        places = self.nesting.places
        single, chords = self.values.copy(), np.zeros(self.size)
        alone = places < 0
        np.add.at(single, -1 - places[alone], self.held[alone])
        np.add.at(chords, places[~alone], self.held[~alone])
        return single, chords

    @property
    def star(self) -> Star:
        """Conductances to the hub, and chords of values and groups."""
        n, (single, held) = np.arange(self.size), self._summed
        ends = [np.append(n, self.nesting.low + 1), np.append(n + 1, self.nesting.high + 1)]
        chords = np.array([*ends, np.append(single, held)])
        first = None if math.isinf(self.first) else self.first
        return Star(False, self.grounds, first, 0.0, chords[:, chords[2] > 0])

    @property
    def arguments(self) -> tuple[Integers, Integers, Integers, float, Floats, Floats, Floats]:
        """What the passes take."""
        tree = self.nesting
        return tree.low, tree.cut, tree.high, min(self.first, _RIGID), self.grounds, *self._summed

    @cached_property
    def gram_diagonal(self) -> Floats:
        """The diagonal of the Gram matrix, (n,)."""
        diagonal = star_diagonal(self.grounds, self.first)
        low, cut, high, _, _, values, chords = self.arguments
        kernels.cover(low, cut, high, values, chords, diagonal, np.empty(self.size))
        return diagonal

    def shares(self, q: Floats, poles: Floats, weights: Floats) -> Floats:
        """`Σ_j a_j [S (S + p_j)⁻¹]_ii` for `S = Q^½ G Q^½`, (n,)."""
        sums, room = np.zeros(self.size), np.empty((2, 3, self.size))
        kernels.shares(*self.arguments, q, poles, weights, sums, *room)
        return sums


def star_network(nesting: IntervalTree, prefixes: Floats, ranges: float, values: Floats, held: Floats) -> Network:
    """The network of prefixes, (n,), all ranges, values, (n,), and groups, (groups,), by their weights.

    With ranges, prefixes are of one weight: conductances w between all sums and r more to C_{−1} are those of a star
    to a hub, `w (n + 1) + r` to each sum and that times `(w + r)/w` to C_{−1}.
    """
    if not ranges:
        return Network(nesting, prefixes, math.inf, values, held)
    to_each = prefixes + ranges * (nesting.size + 1)
    return Network(nesting, to_each, float(to_each[0] * (1 + prefixes[0] / ranges)), values, held)


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
        return self._summed(kernels.add_sum_variances, np.zeros(self.size), np.empty((3, self.size + 1)))

    def widths(self) -> tuple[Floats, Floats]:
        """The variances of the noise of each value, (n,), and of each group, (groups,)."""
        single, wide = np.zeros((2, self.size))
        room = np.empty((2, 3, self.size))
        kernels.widths(*self.queries.arguments, self.q, self.poles, self.weights, single, wide, *room)
        places = self.queries.nesting.places
        return single, np.where(places < 0, single[-1 - np.minimum(places, -1)], wide[np.maximum(places, 0)])

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, (rows,), from rows over them, (rows, n).

        One of few sums takes a walk up the tree from each of them.
        """
        where = np.empty(self.size, dtype=np.int64)
        where[self.queries.nesting.cut] = np.arange(self.size)
        entries = (where, rows.indptr, rows.indices, rows.data)
        return self._summed(kernels.add_row_variances, np.zeros(rows.shape[0]), np.zeros(self.size + 1), *entries)

    def _applied(self, rows: Floats) -> Floats:
        return self._summed(kernels.add_applied, np.zeros(rows.shape), np.empty(self.size + 1), rows)

    def add_simulated(self, z: Floats, out: Floats) -> None:
        """Adds noise from standard normals, (parts, n + 1), to running sums, (n,)."""
        for (factors, hub, weight), each in zip(self._parts(), z, strict=True):
            kernels.add_simulated(*self.queries.arguments[:3], factors, hub, weight, each, out, np.empty(self.size + 1))

    def largest_ranges(self, cells: int = MOST_CELLS, *, alone: bool = False) -> tuple[Floats, Integers]:
        """A bound alone, however many cells there are: the variances of both ends, no covariance being negative."""
        starts = cell_starts(self.size + 1, cells)
        each = np.maximum.reduceat(np.append(0.0, self.sum_variances()), starts)
        return (each + each.max()) * (1 + self.relative_error), starts

    def _summed(self, add: Callable[..., None], out: Floats, room: Floats, *given: Any) -> Floats:
        """What a pass adds for every part, of the shape of `out`."""
        for factors, hub, weight in self._parts():
            add(*self.queries.arguments[:3], factors, hub, weight, *given, out, room)
        return out

    def _parts(self) -> Iterator[tuple[Floats, float, float]]:
        """α, β, γ, σ² of every running sum in the tree's order, (4, n), the hub's variance, and the part's weight."""
        steps, room = np.empty((4, self.size)), np.empty((3, self.size))
        for pole, weight in zip(self.poles.tolist(), self.weights.tolist(), strict=True):
            arguments = self.queries.arguments
            hub = kernels.factors(*arguments[:3], self.queries.first, *arguments[4:], self.q, pole, steps, room)
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
