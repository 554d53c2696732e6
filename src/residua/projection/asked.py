"""All that was asked of products as a metric: squares over all queries, with one weight per set of attributes.

The queries of a term A have the squares `‖(⊗ W_i) m_A‖²`. Let v_i add up to 1 with the least `a_i = ‖W_i v_i‖²`. Then
`W_iᵀW_i v_i` is the same in all places, so that in `x = v_i (1ᵀx) + F y`, with y the rest in coordinates in which it is
`‖y‖²` long, `‖W_i x‖² = a_i (1ᵀx)² + ‖y‖²` has no cross terms; and all queries together have the squares
`Σ_S w_S ‖y_S‖²` with `w_S = Σ_{A⊇S} Π_{i∈A∖S} a_i`.

Where families ask an attribute in several ways, their Gram matrices have no such coordinates in common. Then G is a
weighted sum of them, each is at most s times G, and the metric, in which a term counts `Π s_i` times, is nowhere less
than the squares asked: what it bounds holds of them. The weights are those that make the noise least in the metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh, solve
from scipy.sparse import csr_array

from residua.linalg.arrays import Floats, contrasts
from residua.linalg.lattice import SetFamily
from residua.plans.operators.correlated import Ordered
from residua.plans.strategy import Strategy
from residua.projection.axes import Coordinates, MatrixCoordinates, axis_along
from residua.workload import AttributeQueries, Identity

_FAINT = 1e-9  # of the mean eigenvalue of G: what nobody asks of an attribute still weighs this much
_STEP, _SEARCHES = 4.0, 2
_SHORT = 1024  # values of an axis whose eigenvalues are computed


@dataclass(frozen=True, eq=False)
class MetricAlong:
    """One attribute in the metric.

    Args:
        gram: G, (n, n).
        factors: s of each way in which the attribute is asked.
        spread: v, (n,).
        least: `a = vᵀGv`.
    """

    gram: Floats
    factors: dict[AttributeQueries, float]
    spread: Floats
    least: float

    @staticmethod
    def of(kinds: Sequence[AttributeQueries], omegas: Floats) -> MetricAlong:
        """The attribute with these weights on the Gram matrices of the ways in which it is asked."""
        grams = [asked.gram() for asked in kinds]
        G = np.asarray(sum(omega * V for omega, V in zip(omegas, grams, strict=True)))
        n = len(G)
        faint = _FAINT * float(G.trace()) / n
        if np.linalg.eigvalsh(G)[0] < faint:
            G = G + faint * np.eye(n)
        exact = len(kinds) == 1
        factors = {
            asked: 1.0 if exact else float(eigvalsh(V, G, subset_by_index=[n - 1, n - 1])[0]) * (1.0 + 1e-9)
            for asked, V in zip(kinds, grams, strict=True)
        }
        v = solve(G, np.ones(n), assume_a="pos")
        v = v / v.sum()
        return MetricAlong(G, factors, v, float(v @ G @ v))

    @cached_property
    def axis(self) -> MatrixCoordinates:
        """The coordinates along the attribute."""
        B = contrasts(len(self.gram))
        return axis_along(self.spread, np.asarray(B.T @ np.linalg.inv(B @ self.gram @ B.T) @ B))

    def noise(self, strategy: Strategy) -> NoiseInMetric:
        """What a strategy's spread and the noise of its rests count."""
        F = strategy.recovery * strategy.unit
        values = np.append(np.linalg.eigvalsh(F.T @ self.gram @ F), 0.0)  # there may be no rests
        return NoiseInMetric.of(float(strategy.spread @ self.gram @ strategy.spread), values)


@dataclass(frozen=True, eq=False)
class PrefixMetric:
    """A long ordered attribute in the metric: squares over all prefixes, with bounds in place of eigenvalues."""

    axis: Coordinates
    factors: ClassVar[Mapping[AttributeQueries, float]] = {}  # prefixes alone, once
    least: ClassVar[float] = 1.0  # all of the total in the last value, which is in one prefix

    def noise(self, strategy: Strategy) -> NoiseInMetric:
        """Of a long axis, no eigenvalue is above the largest sum of a row of covariances, which are positive."""
        assert isinstance(strategy, Ordered)  # plans along an axis have no other
        sums = np.cumsum(strategy.spread)
        if strategy.size <= _SHORT:
            values = np.linalg.eigvalsh(np.cumsum(np.cumsum(strategy.inverse, axis=0), axis=1))
            return NoiseInMetric.of(float(sums @ sums), values)
        total = float(np.sum(strategy.sum_variances - sums**2 / strategy.tells))
        largest = min(float(strategy.noise.applied(csr_array(np.ones((1, strategy.size)))).max()), total)
        return NoiseInMetric(float(sums @ sums), total, math.sqrt(total * largest), largest)


class NoiseInMetric(NamedTuple):
    """What a strategy's spread counts in the metric; sum, length, and largest of the eigenvalues of its rests."""

    spread: float
    total: float
    length: float
    largest: float

    @staticmethod
    def of(spread: float, values: Floats) -> NoiseInMetric:
        """Of these eigenvalues."""
        return NoiseInMetric(spread, float(values.sum()), float(np.linalg.norm(values)), float(values.max()))


@dataclass(frozen=True, eq=False)
class AskedMetric:
    """The metric of all that was asked.

    Args:
        lattice: the sets.
        families: for each the terms' sets, 1 or 0, (sets,), and what is asked of each attribute.
        unasked: sets that no term is about and that are in no larger one: they count as one term more, (sets,).
        along: each attribute.
    """

    lattice: SetFamily
    families: Sequence[tuple[Floats, Sequence[AttributeQueries]]]
    unasked: Floats
    along: Sequence[MetricAlong | PrefixMetric]

    @cached_property
    def weights(self) -> Floats:
        """w_S, (sets,)."""
        return self._summed(np.array([one.least for one in self.along]))

    def noise_sums(self, strategies: Sequence[Strategy], variances: Floats) -> tuple[float, float, float]:
        """The sum of the noise's variances in the metric; of their squares, and the largest, bounds by adding blocks.

        Block S has the eigenvalues `σ²_S Σ_{A⊇S} Π_{i∈A} s_i Π_{i∈A∖S} vᵀG v · Π_{i∈S} eig(FᵀG F)`, v and F those of
        the strategies, and measurements are independent.
        """
        noise_of = {(one, strategy): one.noise(strategy) for one, strategy in zip(self.along, strategies, strict=True)}
        parts = [noise_of[pair] for pair in zip(self.along, strategies, strict=True)]
        noise = variances * self._summed(np.array([part.spread for part in parts]))
        sums = np.array([(part.total, part.length, part.largest) for part in parts]).T
        total, length, largest = (float(noise @ self.lattice.products(each)) for each in sums)
        return total, min(length**2, total * largest), largest

    def _summed(self, lengths: Floats) -> Floats:
        """`Σ_{A⊇S} Π_{i∈A} s_i Π_{i∈A∖S} length_i` of every set, (sets,)."""
        total = self.lattice.sum_over_supersets(self.unasked, lengths)
        for sets, queries in self.families:
            s = np.array([one.factors.get(asked, 1.0) for one, asked in zip(self.along, queries, strict=True)])
            total = total + self.lattice.products(s) * self.lattice.sum_over_supersets(sets, s * lengths)
        return np.asarray(total)


def asked_metric(
    lattice: SetFamily,
    families: Sequence[tuple[Floats, Sequence[AttributeQueries]]],
    unasked: Floats,
    strategies: Sequence[Strategy],
    variances: Floats,
    long: Mapping[int, Coordinates],
) -> AskedMetric:
    """The metric of all that was asked, for the noise of a plan.

    Args but the last three: as for `AskedMetric`.
        strategies: of each attribute.
        variances: σ²_S of the noise, 0 where there is none, (sets,).
        long: attributes all of whose prefixes are what is asked of them.
    """
    kinds = [[] if i in long else _kinds(lattice, families, i, strategy.size) for i, strategy in enumerate(strategies)]
    omegas = [np.array([1.0 / asked.gram().trace() if len(row) > 1 else 1.0 for asked in row]) for row in kinds]
    known = {tuple(row): MetricAlong.of(row, own) for row, own in zip(kinds, omegas, strict=True) if row}
    first = [PrefixMetric(long[i]) if i in long else known[tuple(row)] for i, row in enumerate(kinds)]
    best = AskedMetric(lattice, families, unasked, first)
    least = best.noise_sums(strategies, variances)[0]
    for i, k in [(i, k) for i, row in enumerate(kinds) if len(row) > 1 for k in range(len(row))] * _SEARCHES:
        for step in (_STEP, 1.0 / _STEP):
            while True:
                tried = omegas[i] * np.where(np.arange(len(omegas[i])) == k, step, 1.0)
                along = [MetricAlong.of(kinds[i], tried) if j == i else one for j, one in enumerate(best.along)]
                trial = AskedMetric(lattice, families, unasked, along)
                total = trial.noise_sums(strategies, variances)[0]
                if total >= least * (1.0 - 1e-3):
                    break
                best, least, omegas[i] = trial, total, tried
    return best


def _kinds(
    lattice: SetFamily, families: Sequence[tuple[Floats, Sequence[AttributeQueries]]], i: int, size: int
) -> list[AttributeQueries]:
    """The ways in which an attribute is asked by terms that count; its values if it is in none."""
    with_i = lattice.covers[i][0]
    return list(dict.fromkeys(queries[i] for sets, queries in families if sets[with_i].any())) or [Identity(size)]
