"""Sums of neighbouring values over a tree of ordered nodes: variances of prefixes and ranges, by passes over levels.

Given a parent's error e, those of its children are `k_c e + η_c` with `Cov η = diag z − z zᵀ/u`, independent of all
that is outside (see `residua.linalg.tree`). So two numbers per node, the variance of what lies before it and its
covariance with the node, go down the tree; and a sum over the first values of a node is `κ e + ξ`, with κ and the
variance of ξ going up it. A range is one such sum at either end, and whole children between, of the first node that
holds both ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.tree import SolvedTree
from residua.plans.operators.nesting import Nesting


@dataclass(frozen=True, eq=False)
class Order:
    """The values of an ordered nesting, all its nodes solved; values of one parent are alike.

    Args:
        nesting: the levels, `nesting.ordered`.
        solved: least squares over them, from the values up.
    """

    nesting: Nesting
    solved: SolvedTree

    def _of(self, level: int, what: tuple[Floats, ...]) -> Floats:
        """Something of every node of a level."""
        return what[0][self.nesting.parents[0]] if level == 0 and self.nesting.root else what[level]

    @cached_property
    def _before(self) -> tuple[Floats, ...]:
        """Of every level but the root: `Σ z` over the earlier children of the same parent."""
        variances: list[Floats] = []
        for level, parent in enumerate(self.nesting.parents):
            z = self._of(level, self.solved.z)
            first = np.searchsorted(parent, np.arange(self.nesting.sizes[level + 1]))
            if level == 0:
                variances.append((np.arange(len(parent)) - first[parent]) * z)
            else:
                sums = np.cumsum(z) - z
                variances.append(sums - sums[first][parent])
        return tuple(variances)

    def prefixes(self) -> Floats:
        """The variance of every prefix, (values,)."""
        before, with_own = np.zeros(1), np.zeros(1)  # Var of what lies before a node; its covariance with the node
        for level in range(self.nesting.root - 1, -1, -1):
            parent = self.nesting.parents[level]
            k, u = self._of(level, self.solved.k), self.solved.u[level + 1][parent]
            S, g, V = self._before[level], with_own[parent], self.solved.V[level + 1][parent]
            K = S / u
            before = before[parent] + 2 * K * g + K**2 * V + S * (1.0 - K)
            with_own = k * (g + K * V - S)
        return np.asarray(before + 2 * with_own + self._of(0, self.solved.V))

    def ranges(self, first: Integers, last: Integers) -> Floats:
        """The variance of the sum from one value to another, both included, (ranges,)."""
        variance = self._of(0, self.solved.V)[first]
        open_ = np.flatnonzero(first != last)
        left: Any = first[open_]
        right: Any = last[open_]
        kappa, kappa_last = np.zeros(len(open_)), np.ones(len(open_))
        rest = np.zeros(len(open_))
        for level, parent in enumerate(self.nesting.parents):
            if not len(open_):
                break
            z, S = self._of(level, self.solved.z), self._before[level]
            up, up_last = parent[left], parent[right]
            u, u_last = self.solved.u[level + 1][up], self.solved.u[level + 1][up_last]
            met = up == up_last
            # Whole children between the ends, and parts of the two at the ends.
            between = np.where(met, S[right] - S[left] - z[left], 0.0)
            ends = 1.0 - kappa
            total = ends * z[left] + between + kappa_last * z[right]
            squares = ends**2 * z[left] + between + kappa_last**2 * z[right]
            here = rest + squares - total**2 / u + (total / u) ** 2 * self.solved.V[level + 1][up]
            variance[open_[met]] = here[met]
            # Ends that have not met: what lies before each inside its parent.
            own, own_last = S[left] + kappa * z[left], S[right] + kappa_last * z[right]
            rest = rest + S[left] + kappa**2 * z[left] - own**2 / u
            rest = rest + S[right] + kappa_last**2 * z[right] - own_last**2 / u_last
            kappa, kappa_last, left, right = own / u, own_last / u_last, up, up_last
            go = ~met
            open_, left, right = open_[go], left[go], right[go]
            kappa, kappa_last, rest = kappa[go], kappa_last[go], rest[go]
        return variance

    def sum_over_ranges(self) -> float:
        """The variances of all ranges, added up: `(n + 1) Σ Var P_j − Var Σ P_j` with P the prefixes."""
        n = self.nesting.sizes[0]
        return float((n + 1) * self.prefixes().sum() - self._squared(np.arange(n, 0, -1, dtype=np.float64)))

    def _squared(self, coefficients: Floats) -> float:
        """The variance of one combination of values."""
        A: Floats = coefficients
        total = 0.0
        for level, parent in enumerate(self.nesting.parents):
            z, k = self._of(level, self.solved.z), self._of(level, self.solved.k)
            up = np.asarray(
                np.bincount(parent, weights=A * k, minlength=self.nesting.sizes[level + 1]), dtype=np.float64
            )
            total += float(((A - up[parent]) ** 2) @ z)
            A = up
        return total + float(A[0] ** 2 * self.solved.V[-1][0])
