"""The loss of rows over runs of ordered values, and its slopes: O(levels · rows · b²), whatever the number of values.

With all runs of a level alike (see `plans/runs/solved.py` for C, u, a and κ), the mean variance of all running sums is
`Σ_l tr G_l C_l − Σ_{l<top} m₂ u_l`, where G_l is the mean of `v vᵀ` over all ends, `v = (1, …, 1, κ, 0, …)`, and `m₁,
m₂` are the means of κ and κ² over all ends in a run, which follow from those of its parts. Values are the same with
`v = κ` in one place; ranges are `(n + 1) Σ Var P − Var Σ P`, and ΣP is one combination, with coefficients that follow
level by level. Slopes are these formulas backwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats

Rows = tuple[Floats, Floats]  # of one level: what each part itself is measured with, (b,), and more rows, (p, b)


@dataclass(frozen=True, eq=False)
class _Means:
    """Means over all ends in a run of some level: of κ, of κ², of κ² of values; and κ of the sum of all sums."""

    first: float
    second: float
    values: float
    whole: float


@dataclass(frozen=True, eq=False)
class RunsLoss:
    """Weights of mean variances: of running sums, ranges and values.

    Args:
        parts: b of each level, from fine to coarse.
        prefixes: what the mean variance of running sums counts.
        ranges: what that of ranges counts.
        values: what that of values counts.
    """

    parts: tuple[int, ...]
    prefixes: float
    ranges: float
    values: float

    @cached_property
    def size(self) -> float:
        """How many values there are."""
        return math.prod(map(float, self.parts))

    @cached_property
    def _weights(self) -> tuple[float, float]:
        """What the mean over running sums counts, and the variance of their sum."""
        return self.prefixes + 2 * self.ranges, -self.ranges / (self.size * (self.size + 1) / 2)

    def __call__(self, rows: Sequence[Rows]) -> tuple[float, list[Rows]]:
        """The loss with noise of variance 2 in every row, and its slopes."""
        C, u, a = _solved(rows)
        of_sums, of_whole = self._weights
        means, total, below = [_Means(1.0, 1.0, 1.0, 1.0)], 0.0, 1.0
        ends: list[Floats] = []
        for level, b in enumerate(self.parts):
            c, share, m, i = C[level], a[level], means[-1], np.arange(b)
            diagonal, before = np.diagonal(c), np.cumsum(share) - share
            trace = float(diagonal.sum())
            pairs = float((b - 1 - i) @ (2 * np.tril(c).sum(axis=1) - diagonal))
            total += of_sums * (pairs + m.first * (u[level] - trace) + m.second * trace) / b
            total += self.values * m.values * trace / b
            v: Floats = np.asarray((b - 1 - i) * below + m.whole, dtype=np.float64)
            ends.append(v)
            below *= b
            runs = self.size / below
            total += of_whole * runs * float(v @ c @ v)
            means.append(
                _Means(
                    float((before + share * m.first).mean()),
                    float((before**2 + 2 * before * share * m.first + share**2 * m.second).mean()),
                    float((share**2).mean()) * m.values,
                    float(v @ share),
                )
            )
            if level + 1 < len(self.parts):
                top = means[-1]
                total -= (of_sums * top.second + self.values * top.values + of_whole * runs * top.whole**2) * u[level]
        return total, self._slopes(rows, C, u, a, means, ends)

    def _slopes(
        self,
        rows: Sequence[Rows],
        C: list[Floats],
        u: list[float],
        a: list[Floats],
        means: list[_Means],
        ends: list[Floats],
    ) -> list[Rows]:
        """From the top down: slopes by the means above, then by a, u and C, then by rows."""
        of_sums, of_whole = self._weights
        found: list[Rows] = []
        g = _Means(0.0, 0.0, 0.0, 0.0)  # slopes by the means of the level above
        by_u, above = 0.0, 1.0
        for level in range(len(self.parts) - 1, -1, -1):
            b, c, share, m, v = self.parts[level], C[level], a[level], means[level], ends[level]
            i, before, runs = np.arange(b), np.cumsum(share) - share, above
            trace, slope = float(np.trace(c)), by_u
            second, values, whole = g.second, g.values, g.whole
            if level + 1 < len(self.parts):
                top = means[level + 1]
                slope -= of_sums * top.second + self.values * top.values + of_whole * runs * top.whole**2
                second, values = second - of_sums * u[level], values - self.values * u[level]
                whole -= of_whole * runs * 2 * top.whole * u[level]
            by_before = (g.first + second * 2 * (before + share * m.first)) / b
            by_a = (g.first * m.first + second * 2 * (before * m.first + share * m.second)) / b
            by_a += values * 2 * share * m.values / b + by_before.sum() - np.cumsum(by_before) + whole * v
            cv = c @ v
            squares = float((share**2).mean())
            g = _Means(
                g.first * float(share.mean())
                + second * 2 * float((before * share).mean())
                + of_sums * (u[level] - trace) / b,
                second * squares + of_sums * trace / b,
                values * squares + self.values * trace / b,
                float((of_whole * runs * 2 * cv + whole * share).sum()),
            )
            slope -= float(by_a @ share) / u[level]
            by_row = by_a / u[level]
            # H = (∂/∂C) C, with G applied by cumulated sums.
            weight = (b - 1 - i)[:, None]
            sums, weighted = np.cumsum(c, axis=0), np.cumsum(weight * c, axis=0)
            H = weight * sums + (weighted[-1] - weighted) + m.first * (sums[-1] - c) + m.second * c
            H = H * (of_sums / b) + (self.values * m.values / b) * c + of_whole * runs * np.multiply.outer(v, cv)
            H += 0.5 * np.multiply.outer(by_row, sums[-1]) + (slope * sums[-1] + 0.5 * (by_row @ c))
            crossed = np.einsum("ij,ji->i", c, H)
            own, more = rows[level]
            found.append((-own * crossed, -(more @ c) @ H))
            by_u = float(crossed.sum()) / u[level - 1] ** 2 if level else 0.0
            above *= b
        return found[::-1]


def _solved(rows: Sequence[Rows]) -> tuple[list[Floats], list[float], list[Floats]]:
    """C, u and a of each level; rows beside those of single parts by Woodbury. O(p b²)"""
    C: list[Floats] = []
    u: list[float] = []
    a: list[Floats] = []
    for own, more in rows:
        e = 1.0 / (own**2 / 2 + (1.0 / u[-1] if u else 0.0))
        spread = more * e
        inner = np.linalg.solve(2 * np.eye(len(more)) + spread @ more.T, spread)
        c: Floats = np.asarray(np.diag(e) - spread.T @ inner, dtype=np.float64)
        sums: Floats = np.asarray(c.sum(axis=1), dtype=np.float64)
        C.append(c)
        u.append(float(sums.sum()))
        a.append(sums / u[-1])
    return C, u, a
