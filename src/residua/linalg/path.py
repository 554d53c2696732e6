"""Ordered queries as an electrical path, and noise with their covariance: passes along the axis, without a subtraction.

The Gram matrix G of prefixes, of ranges, or of a weighted mixture of them along n values has a tridiagonal inverse: the
Laplacian of a path, `links` between neighbours and `left`, `right` to ground at its ends. Queries of single values add
`values` to the diagonal of G. For weights q on the cells and a shift p, the matrix `(values I + G + p Q⁻¹)⁻¹` is the
parallel sum of that Laplacian and of `K = diag(q / (values q + p))`: conductances from every node to a second
terminal. Effective conductances, seen from one end and from the other, then give its diagonal, all prefix sums, and
the first-order recurrences that have it as covariance.

All quantities are positive and are only added, multiplied and divided. So a float result that took at most c
operations one after the other is right to a factor `(1 ± u)^c`, u = 2⁻⁵³, whatever the numbers are (no underflow:
`checked` bounds them): with n nodes c is at most 8 n + 64, which `relative_error` returns.

Noise with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹` is a sum of independent parts, one for each pole. The running sums C of
part j have a tridiagonal precision: conductances `κ_i = values + p_j/q_i` between C_{i−1} and C_i (C_{−1} = 0), and
`1/link_i` from C_i to 0. With R_i the conductance from C_i to 0 by way of what is to its right, they are first-order
recurrences of independent standard normals z:

    C_i = φ_i C_{i−1} + σ_i z_i,   φ_i = κ_i/(κ_i + R_i),   σ_i² = 1/(κ_i + R_i),
    R_i = 1/link_i + κ_{i+1} R_{i+1}/(κ_{i+1} + R_{i+1}).

Where the path has a conductance `left` to ground, one more normal comes in, times `√(left/(1 + left κ_0 m_0)) m_i`,
with `m_i = φ_i m_{i−1} + 1 − φ_i` (Sherman and Morrison: it takes a matrix of rank one from the precision). Estimates
are read with the same recurrences: the covariance of two running sums is `V_i φ_{i+1} … φ_k`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from residua.linalg import path_kernels as kernels
from residua.linalg.arrays import Floats, Integers
from residua.machine import csr_array

MOST_CELLS = 4096
_GRADING = 3  # cell k of K starts at (k/K)³ of half the axis


class OrderedGram(Protocol):
    """The Gram matrix of ordered queries along an axis."""

    @property
    def size(self) -> int:
        """How many values the axis has."""

    @property
    def relative_error(self) -> float:
        """How far a result of the passes may be off, relatively."""

    @property
    def star(self) -> Star:
        """The same as a star and chords."""


@dataclass(frozen=True, eq=False)
class Star:
    """The same Gram matrix over running sums: each joined to a hub, the hub to C_{−1}, and some to each other.

    Args:
        resistances: whether `grounds` and `first` are resistances, not conductances.
        grounds: of each running sum to the hub, (n,).
        first: of C_{−1} to the hub; None where it is the hub.
        values: conductance between all neighbours.
        chords: conductances between running sums, C_{−1} being number 0: the first, the last, how much, (3, chords).
    """

    resistances: bool
    grounds: Floats
    first: float | None
    values: float
    chords: Floats


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
    def relative_error(self) -> float:
        """How far a result along the path may be off, relatively: more than `(1 + u)^(8n + 64) − 1`."""
        return math.expm1((8 * self.size + 64) * 2.0**-52)

    @property
    def star(self) -> Star:
        """Resistances to the hub."""
        return Star(True, np.append(self.links, self.right), self.left or None, self.values, np.zeros((3, 0)))

    @cached_property
    def gram_diagonal(self) -> Floats:
        """The diagonal of the Gram matrix, (n,): a resistance to ground for each node."""
        first = 1 / self.left if self.left else math.inf
        return star_diagonal(np.append(1 / self.links, 1 / self.right), first) + self.values

    def shares(self, q: Floats, poles: Floats, weights: Floats) -> Floats:
        """`Σ_j a_j [S (S + p_j)⁻¹]_ii` for `S = Q^½ G Q^½`, (n,)."""
        sums, room = np.zeros(self.size), np.empty(self.size)
        kernels.shares(self.links, self.left, self.right, self.values, q, poles, weights, sums, room)
        return sums


def star_diagonal(grounds: Floats, first: float) -> Floats:
    """The diagonal of the Gram matrix, (n,), by conductances from all running sums, (n,), and C_{−1} to a hub."""
    after = np.cumsum(grounds[::-1])[::-1]
    if math.isinf(first):
        return after.copy()
    before = first + np.append(0.0, np.cumsum(grounds[:-1]))
    return np.asarray(after * (before / (before[-1] + grounds[-1])))


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


@dataclass(frozen=True, eq=False)
class NoiseAlong(ABC):
    """Noise with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹` along an axis of n values, by its running sums.

    Args:
        queries: the Gram matrix G of the queries it was made for.
        q: the weights of the cells, (n,).
        poles: p_j > 0, (parts,).
        weights: a_j > 0, (parts,).
    """

    queries: OrderedGram
    q: Floats
    poles: Floats
    weights: Floats

    @property
    def size(self) -> int:
        """How many values the axis has."""
        return self.queries.size

    @property
    def relative_error(self) -> float:
        """How far a result of the passes may be off."""
        return self.queries.relative_error

    def scaled(self, factor: float) -> Self:
        """The noise with its variances multiplied."""
        return replace(self, weights=self.weights * factor)

    @abstractmethod
    def variances(self) -> tuple[Floats, Floats]:
        """The variances of all running sums, and of the noise of each value, (n,) each."""

    @property
    @abstractmethod
    def finest(self) -> float:
        """The least variance of anything that is read off, for which the grid is chosen."""

    def sum_of_range_variances(self) -> float:
        """The sum of the variances of all n(n+1)/2 ranges.

        They are the differences of two of C_{−1} = 0, C_0, …, C_{n−1}: `(n + 1) Σ Var C_i − Var Σ C_i`.
        """
        sums, _ = self.variances()
        return float((self.size + 1) * sums.sum() - self.row_variances(csr_array(np.ones((1, self.size))))[0])

    @abstractmethod
    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, (rows,), from rows over them, (rows, n)."""

    def covariance(self, first: csr_array, second: csr_array) -> Floats:
        """Covariances of combinations of running sums, (rows of the first, rows of the second)."""
        return np.asarray(first @ self.applied(second).T)

    def applied(self, rows: csr_array) -> Floats:
        """Covariances of combinations of running sums with every running sum, (rows, n)."""
        return self._applied(rows.toarray())

    def combined_with_all(self, row: Floats) -> Floats:
        """The covariance of one combination of running sums, (n,), with every running sum, (n,)."""
        return np.asarray(self._applied(row[None])[0])

    @abstractmethod
    def _applied(self, rows: Floats) -> Floats: ...

    @abstractmethod
    def largest_ranges(self, cells: int = MOST_CELLS, *, alone: bool = False) -> tuple[Floats, Integers]:
        """For each cell of running sums no less than the largest variance of a range that ends in it, (cells,).

        Also where the cells start, counted from C_{−1} = 0, (cells,). With at least n + 1 cells it is that variance. If
        the first sum of each cell shall stand `alone`, the variances of ranges between these: a look at some, no bound.
        """

    def simulated(self, random: np.random.Generator) -> Floats:
        """Running sums of noise like this, in floats, (n,): for forecasts, never for a release."""
        sums = np.zeros(self.size)
        self.add_simulated(random.standard_normal((len(self.poles), self.size + 1)), sums)
        return sums

    @abstractmethod
    def add_simulated(self, z: Floats, out: Floats) -> None:
        """Adds noise from standard normals, (parts, n + 1), to running sums, (n,)."""


@dataclass(frozen=True, eq=False)
class OrderedNoise(NoiseAlong):
    """Noise for ordered queries without groups, whose Gram matrix is a path."""

    queries: Path

    def variances(self) -> tuple[Floats, Floats]:
        """The variances of all running sums, and of the noise of each value, (n,) each."""
        sums, single = np.zeros((2, self.size))
        kernels.variances(*self._arguments, sums, single, np.empty(self.size))
        return sums, single

    @property
    def finest(self) -> float:
        """The least variance of a value, for which the grid is chosen."""
        return float(self.variances()[1].min())

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, (rows,), from rows over them, (rows, n)."""
        variances = np.zeros(rows.shape[0])
        rows.sort_indices()
        kernels.row_variances(
            *self._arguments, rows.indptr, rows.indices, rows.data, variances, np.empty((4, self.size))
        )
        return variances

    def _applied(self, rows: Floats) -> Floats:
        covariances = np.zeros(rows.shape)
        kernels.applied(*self._arguments, rows, covariances, np.empty((4, self.size)))
        return covariances

    def largest_ranges(self, cells: int = MOST_CELLS, *, alone: bool = False) -> tuple[Floats, Integers]:
        """The largest variances of ranges, without looking at each of them.

        A range is the difference of two running sums. Sums are put into cells of neighbours. In one part of the noise
        the covariance of C_i and C_k, i ≤ k, is `V_i φ_{i+1} … φ_k` with 0 < φ < 1: of two cells it is at least the
        least covariance of a sum of the first with the cell's last one, times the φ from there to the last sum of the
        second. What the left end adds is `(m_k − m_i)²` times a factor, and m does not fall. So for all pairs of sums
        of two cells

            Var(C_k − C_i) ≤ max V + max V − 2 Σ_j a_j (least covariance)_j + Σ_j a_j extra_j (m_last − m_first)²,

        exactly the variance where each cell holds one sum.
        """
        starts = cell_starts(self.size + 1, cells)
        ends, count, n = np.append(starts, self.size + 1), len(starts), self.size
        room, sums = np.empty(n), np.empty(n + 1)
        total, shared, facts = np.zeros(n + 1), np.zeros((count, count)), np.zeros((4, count))
        for p, a in zip(self.poles.tolist(), self.weights.tolist(), strict=True):
            extra = kernels.cell_facts(*self._arguments[:5], p, ends, alone, room, facts, sums)
            total += a * sums
            kernels.lower(facts, extra, a, shared)
        highest = total[starts] if alone else np.maximum.reduceat(total, starts)
        return kernels.largest(highest, shared) * (1 + self.relative_error), starts

    def add_simulated(self, z: Floats, out: Floats) -> None:
        """Adds noise from standard normals, (parts, n + 1), to running sums, (n,)."""
        kernels.simulated(*self._arguments, z, out, np.empty(self.size))

    @property
    def _arguments(self) -> tuple[Floats, float, float, float, Floats, Floats, Floats]:
        path = self.queries
        return path.links, path.left, path.right, path.values, self.q, self.poles, self.weights


def over_running_sums(rows: csr_array) -> csr_array:
    """Rows over values as rows over running sums: `Σ r_i x_i = Σ (r_i − r_{i+1}) C_i`."""
    entries = rows.tocoo()
    there = entries.col > 0
    moved = (entries.data[there], (entries.row[there], entries.col[there] - 1))
    over_sums = csr_array(rows - csr_array(moved, shape=rows.shape))
    over_sums.eliminate_zeros()
    return over_sums


def cell_starts(nodes: int, cells: int) -> Integers:
    """Where cells of neighbours start: one of each, or finer towards both ends, (at most cells,)."""
    if nodes <= cells:
        return np.arange(nodes)
    half = np.linspace(0.0, 1.0, cells // 2) ** _GRADING * (nodes / 2)
    left = np.unique(np.maximum(np.floor(half), np.arange(len(half)))).astype(np.int64)
    left = left[left < nodes // 2]
    return np.concatenate([left, nodes - left[:0:-1]])
