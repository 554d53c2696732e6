"""Least squares over runs of ordered values, a small matrix per kind of run; and what follows for sums of values.

On level l every run measures the rows R of that level over the totals of its parts, with noise of variance σ². From
below, part c has the variance u_c (nothing is known of values). So the parts of a run have the precision
`RᵀR/σ² + diag(1/u)`; with C its inverse, the run's own total has the variance `u = 1ᵀC1`, and given an error e of that
total those of the parts are `a e + η`, `a = C1/u`, η with covariance `E = C − u a aᵀ` and independent of everything
outside the run. All runs of one kind are alike.

A sum that ends inside a run is `κ e + ξ`: with v = (1, …, 1, κ of the part where it ends, 0, …) it is `κ = vᵀa` and
`Var ξ = vᵀE v + Var ξ of that part`. Two such sums share ξ as long as they end in the same part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.machine import csr_array

_FEW = 4  # entries of a row whose variance comes from pairs of sums
_PAIRS = 2**20  # of sums that are looked at together
_ENTRIES = 2**24  # coefficients of values that are held at once
_MOST_ENTRIES = 2**28


@dataclass(frozen=True, eq=False)
class BucketLevel:
    """What is known of the runs of one level, by kind; parts that a shorter run lacks are 0.

    Args:
        C: covariances of the parts by what is measured inside the run, (kinds, b, b).
        u: variance of the run's total by the same, (kinds,).
        a: shares of the parts in an error of the total, (kinds, b).
        below: 1/u of every part, 0 for values, (kinds, b).
    """

    C: Floats
    u: Floats
    a: Floats
    below: Floats

    @cached_property
    def given(self) -> Floats:
        """E: covariances of the parts given the total, (kinds, b, b)."""
        return np.asarray(self.C - self.u[:, None, None] * self.a[:, :, None] * self.a[:, None, :])

    @cached_property
    def before(self) -> Floats:
        """Σ of a over the parts before each, (kinds, b)."""
        return np.asarray(np.cumsum(self.a, axis=1) - self.a)

    @cached_property
    def with_part(self) -> Floats:
        """`Σ_{c<i} E_cj` at (i, j): the parts before one beside another, (kinds, b, b)."""
        return np.asarray(np.cumsum(self.given, axis=1) - self.given)

    @cached_property
    def with_parts(self) -> Floats:
        """`Σ_{c<i, d<j} E_cd` at (i, j), (kinds, b, b)."""
        return np.asarray(np.cumsum(self.with_part, axis=2) - self.with_part)


@dataclass(frozen=True, eq=False)
class BucketSquares:
    """Least squares over all runs.

    Args:
        shape: the runs.
        rows: R/σ of each level, (rows, b), from fine to coarse.
    """

    shape: BucketShape
    rows: tuple[Floats, ...]

    @cached_property
    def levels(self) -> tuple[BucketLevel, ...]:
        """What is known of each level.

        Raises:
            ValueError: some values are not measured.
        """
        levels: list[BucketLevel] = []
        for number, R in enumerate(self.rows):
            b, kinds = self.shape.parts[number], self.shape.kinds(number)
            C, a = np.zeros((len(kinds), b, b)), np.zeros((len(kinds), b))
            u, below = np.zeros(len(kinds)), np.zeros((len(kinds), b))
            for kind in kinds:
                m = self.shape.columns(number, kind)
                if number:
                    below[kind] = 1.0 / levels[-1].u[self.shape.part_kinds(number, kind)]
                precision = R[:, :m].T @ R[:, :m] + np.diag(below[kind, :m])
                try:
                    np.linalg.cholesky(precision)
                except np.linalg.LinAlgError:
                    raise ValueError("some values are not measured") from None
                C[kind, :m, :m] = np.linalg.inv(precision)
                u[kind] = C[kind].sum()
                a[kind] = C[kind].sum(axis=1) / u[kind]
            levels.append(BucketLevel(C, u, a, below))
        return tuple(levels)

    # ---- sums of the first values

    def between(self, first: Integers, second: Integers) -> Floats:
        """Covariances of the running sums that end with given values, pair by pair, (pairs,)."""
        kappa, kappa_other, shared = np.ones(len(first)), np.ones(len(first)), np.zeros(len(first))
        steps = zip(self.shape.places(first), self.shape.places(second), strict=True)
        for number, ((run, part), (other, other_part)) in enumerate(steps):
            level, kinds = self.levels[number], self.shape.kind_of(number)
            k, k_other = kinds[run], kinds[other]
            here = (
                level.with_parts[k, part, other_part]
                + kappa_other * level.with_part[k, part, other_part]
                + kappa * level.with_part[k, other_part, part]
                + kappa * kappa_other * level.given[k, part, other_part]
            )
            shared = np.where(run == other, here + shared, 0.0)  # 0 so far where they end in different parts
            kappa = level.before[k, part] + kappa * level.a[k, part]
            kappa_other = level.before[k_other, other_part] + kappa_other * level.a[k_other, other_part]
        return np.asarray(shared + kappa * kappa_other * self.levels[-1].u[0])

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, (rows,), from rows over them, (rows, n)."""
        rows = csr_array(rows)
        rows.sum_duplicates()
        counts = np.diff(rows.indptr)
        squares = np.zeros(rows.shape[0])
        for many in range(1, _FEW + 1):
            for part in _parted(np.flatnonzero(counts == many), _PAIRS):
                at = rows.indptr[part][:, None] + np.arange(many)
                ends, factors = rows.indices[at].astype(np.int64), rows.data[at]
                for i in range(many):
                    for j in range(i, many):
                        twice = 2.0 if i < j else 1.0
                        squares[part] += twice * factors[:, i] * factors[:, j] * self.between(ends[:, i], ends[:, j])
        for part in _parted(np.flatnonzero(counts > _FEW), max(_ENTRIES // self.shape.size, 1)):
            given = over_values(rows[part])
            squares[part] = np.diagonal(self.combined(given, given))
        return np.maximum(squares, 0.0)

    def covariance(self, first: csr_array, second: csr_array) -> Floats:
        """Covariances of combinations of running sums, (rows, rows)."""
        ends, others = (np.unique(rows.indices[rows.data != 0]).astype(np.int64) for rows in (first, second))
        if len(ends) * len(others) <= _ENTRIES:
            pairs = np.meshgrid(ends, others, indexing="ij")
            known = self.between(pairs[0].ravel(), pairs[1].ravel()).reshape(len(ends), len(others))
            return np.asarray(first[:, ends] @ known @ second[:, others].toarray().T)
        if (first.shape[0] + second.shape[0]) * self.shape.size > _MOST_ENTRIES:
            raise PlanError(
                f"covariances of so many queries over {self.shape.size:,} values do not fit into memory; ask for fewer."
            )
        return self.combined(over_values(first), over_values(second))

    # ---- any combinations of values

    def combined(self, first: Floats, second: Floats) -> Floats:
        """Covariances of combinations of values, (rows, rows), from their coefficients, (n, rows) each."""
        A, B = self.shape.padded(first), self.shape.padded(second)
        total = np.zeros((first.shape[1], second.shape[1]))
        for number, level in enumerate(self.levels):
            kinds = self.shape.kind_of(number)
            up = [np.zeros((len(kinds), each.shape[2])) for each in (A, B)]
            for kind in self.shape.kinds(number):
                here = kinds == kind
                own = (A[here], B[here])
                eta = np.einsum("ij,rjk->rik", level.given[kind], own[0])
                total += eta.reshape(-1, eta.shape[2]).T @ own[1].reshape(-1, own[1].shape[2])
                for each, out in zip(own, up, strict=True):
                    out[here] = np.einsum("i,rik->rk", level.a[kind], each)
            if number + 1 < len(self.levels):
                b = self.shape.parts[number + 1]
                A, B = (each.reshape(-1, b, each.shape[1]) for each in up)
        return np.asarray(total + float(self.levels[-1].u[0]) * (up[0].T @ up[1]))


def over_values(rows: csr_array) -> Floats:
    """Combinations of running sums as coefficients of values, (n, rows)."""
    return np.asarray(np.cumsum(rows.toarray()[:, ::-1], axis=1)[:, ::-1].T)


def _parted(places: Integers, most: int) -> Sequence[Integers]:
    return [places[low : low + most] for low in range(0, len(places), most)]


# ---- sums over all prefixes, ranges or values: a few numbers per kind of run, O(levels · b²)
#
# An end in a run is `κ e + ξ`. Over all ends in a run, the sums of 1, κ, κ² and Var ξ follow from those of its parts;
# so do κ and Var ξ of the sum of all prefix sums, of which ranges need the variance.


class Totals(NamedTuple):
    """The variances of all prefixes, of all ranges and of all values, added up."""

    prefixes: float
    ranges: float
    values: float


def totals(solved: BucketSquares) -> Totals:
    """Sums of variances, in closed form."""
    shape = solved.shape
    below = np.ones((2, 4)) * [1.0, 1.0, 1.0, 0.0]  # by kind: how many ends, Σκ, Σκ², Σ Var ξ; a value is one end
    of_values = np.ones((2, 2)) * [1.0, 0.0]  # Σκ², Σ Var ξ of values
    whole = np.ones((2, 2)) * [1.0, 0.0]  # κ and Var ξ of the sum of all running sums
    for number, level in enumerate(solved.levels):
        here: list[Floats] = [np.zeros((2, 4)), np.zeros((2, 2)), np.zeros((2, 2))]
        for kind in shape.kinds(number):
            m = shape.columns(number, kind)
            parts = shape.part_kinds(number, kind) if number else np.zeros(m, dtype=np.int64)
            a, before = level.a[kind, :m], level.before[kind, :m]
            E, T, Q = (each[kind].diagonal()[:m] for each in (level.given, level.with_part, level.with_parts))
            count, first, second, rest = below[parts].T
            here[0][kind] = [
                count.sum(),
                float(count @ before + first @ a),
                float(count @ before**2 + 2 * first @ (before * a) + second @ a**2),
                float(rest.sum() + count @ Q + 2 * first @ T + second @ E),
            ]
            here[1][kind] = [
                float(of_values[parts, 0] @ a**2),
                float(of_values[parts, 1].sum() + of_values[parts, 0] @ E),
            ]
            v = count[::-1].cumsum()[::-1] - count + whole[parts, 0]
            here[2][kind] = [float(v @ a), float(whole[parts, 1].sum()) + float(v @ level.given[kind, :m, :m] @ v)]
        below, of_values, whole = here
    u, n = float(solved.levels[-1].u[0]), shape.size
    prefixes = float(below[0, 2]) * u + float(below[0, 3])
    together = float(whole[0, 0]) ** 2 * u + float(whole[0, 1])
    return Totals(prefixes, (n + 1) * prefixes - together, float(of_values[0, 0]) * u + float(of_values[0, 1]))


@dataclass(frozen=True)
class BucketShape:
    """Runs on levels: those of level 0 consist of values, the last level is one run of all.

    Args:
        size: how many values there are.
        parts: how many parts a run of each level has, from fine to coarse; of the finest the most.

    Example:
        >>> shape = BucketShape(11, (3, 2, 2))
        >>> shape.counts, [each.tolist() for each in shape.sizes]
        ((4, 2, 1), [[3, 3, 3, 2], [6, 5], [11]])
    """

    size: int
    parts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parts or any(not isinstance(b, int) or b < 1 for b in self.parts):
            raise ValueError("the runs have no parts")
        if self.counts[0] > self.size or self.parts[0] != -(-self.size // self.counts[0]):
            raise ValueError("the runs do not hold the values")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many runs each level has."""
        return tuple(math.prod(self.parts[level + 1 :]) for level in range(len(self.parts)))

    @cached_property
    def least(self) -> tuple[int, ...]:
        """How many values the shorter kind of run has, per level."""
        return tuple(self.size // count for count in self.counts)

    @cached_property
    def sizes(self) -> tuple[Integers, ...]:
        """How many values each run has, (runs,) per level."""
        sizes = [np.array([self.size])]
        for b in self.parts[:0:-1]:
            whole, more = np.divmod(sizes[0][:, None], b)
            sizes.insert(0, (whole + (np.arange(b) < more)).ravel())
        return tuple(sizes)

    def kinds(self, level: int) -> tuple[int, ...]:
        """The kinds of run on a level: 0 for the shorter, 1 for the longer one."""
        return (0, 1) if self.size % self.counts[level] else (0,)

    def kind_of(self, level: int) -> Integers:
        """The kind of every run, (runs,)."""
        return np.asarray(self.sizes[level] - self.least[level])

    def columns(self, level: int, kind: int) -> int:
        """How many parts a run has; on the finest level that is how many values."""
        return self.parts[level] if level else self.least[0] + kind

    def part_kinds(self, level: int, kind: int) -> Integers:
        """The kinds of the parts of a run above the finest level, (parts,)."""
        whole, more = divmod(self.least[level] + kind, self.parts[level])
        return np.asarray(whole + (np.arange(self.parts[level]) < more) - self.least[level - 1])

    @cached_property
    def starts(self) -> Integers:
        """The first value of every run of the finest level, (runs,)."""
        return np.asarray(np.cumsum(self.sizes[0]) - self.sizes[0])

    def places(self, values: Integers) -> list[tuple[Integers, Integers]]:
        """For each level the run that holds each value, and in which of its parts, from fine to coarse."""
        run = np.searchsorted(self.starts, values, side="right") - 1
        places = [(run, values - self.starts[run])]
        for b in self.parts[1:]:
            run, part = np.divmod(run, b)
            places.append((run, part))
        return places

    def padded(self, coefficients: np.ndarray, runs: slice = slice(None)) -> np.ndarray:
        """Something of the values of some runs, with nothing where a run is shorter, (runs, parts, …)."""
        sizes = self.sizes[0][runs]
        padded = np.zeros((len(sizes), self.parts[0], *coefficients.shape[1:]), dtype=coefficients.dtype)
        padded[self.filled(runs)] = coefficients
        return padded

    def filled(self, runs: slice = slice(None)) -> np.ndarray:
        """Which parts of some runs of the finest level are values, (runs, parts)."""
        return np.arange(self.parts[0]) < self.sizes[0][runs][:, None]
