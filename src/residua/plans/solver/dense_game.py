"""Our side of the planning game over single queries: the best matrix for weights on them, whatever is made of it.

With it any convex loss of the variances is solved by the loops of `saddle` and `losses`: a response is the least
weighted sum at privacy cost 1 (`solve.least_total`), and its bound is the lower bound of that.

What is chosen is the covariance matrix Σ of the answers: variances are linear in it, and costs, `diag Σ⁻¹`, convex.
So a loss may fall where one variance grows; weights are then of either sign, and prove something as soon as no
direction is wanted to have noise (residual-planner, Definition 4.1, for queries).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from residua.errors import GapWarning
from residua.linalg.arrays import Floats
from residua.plans.solver.solve import DenseSolution, least_total

_LEAST_WEIGHT = 1e-6  # of the largest: directions that weigh less are answered as if they weighed this much
_NONE = 1e-12
_RANK = 1e-12
_ROUNDING = 1e-14  # of the largest: a direction that weighs this much less than nothing weighs nothing


@dataclass(frozen=True, eq=False)
class DenseGame:
    """The game over queries on distinct cells; noise is Σ in the row space of the queries, (r, r), at privacy cost 1.

    Args:
        queries: W, (m, cells).
        tolerance: how near to the best a response is.
        budget: at what privacy cost it is played.
    """

    signed: ClassVar[bool] = True

    queries: Floats
    tolerance: float
    budget: float = 1.0
    _known: list[tuple[Floats, tuple[Floats, Floats, float], float]] = field(default_factory=list, init=False)

    @cached_property
    def _basis(self) -> tuple[Floats, Floats]:
        """The queries in coordinates of their row space, (m, r), and its orthonormal rows, (r, cells)."""
        left, values, rows = np.linalg.svd(self.queries, full_matrices=False)
        rank = int((values > _RANK * values[0]).sum())
        return left[:, :rank] * values[:rank], rows[:rank]

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Σ of the least weighted sum, (r, r), the variances it gives, and what no weighted sum is below.

        Where noise is wanted in some direction, no sum is the least: it is that of a Σ with a small cost there.
        """
        return self._answered(weights)[0]

    def value(self, weights: Floats) -> float:
        """What no weighted sum of variances is below."""
        return self._answered(weights)[1]

    def variances(self, noise: Floats) -> Floats:
        """The variance of every query, (m,)."""
        asked = self._basis[0]
        return np.asarray(np.einsum("ij,jk,ik->i", asked, noise, asked, optimize=True) / self.budget)

    def mixed(self, one: Floats, other: Floats, share: float) -> Floats:
        """So much of one Σ and the rest of another, scaled to cost 1: it costs no more before that."""
        return self._scaled(share * one + (1.0 - share) * other)

    def strategy(self, noise: Floats) -> Floats:
        """What is measured, with noise of variance 1, (r, cells)."""
        values, vectors = np.linalg.eigh(noise)
        return np.asarray((vectors / np.sqrt(values)).T @ self._basis[1])

    def _scaled(self, noise: Floats) -> Floats:
        return np.asarray(noise * float(np.square(self.strategy(noise)).sum(axis=0).max()))

    def _answered(self, weights: Floats) -> tuple[tuple[Floats, Floats, float], float]:
        for seen, answer, bound in self._known:
            if np.array_equal(seen, weights):
                return answer, bound
        asked, rows = self._basis
        values, vectors = np.linalg.eigh((asked.T * weights) @ asked)
        unit = float(np.abs(values).max())
        values = values / unit
        lifted, kept = np.maximum(values, _LEAST_WEIGHT), values > _NONE
        turned = vectors.T @ rows
        best = self._solved(turned * np.sqrt(lifted)[:, None])
        strategy = best.strategy[:, best.columns] * (best.columns >= 0)
        measured = strategy @ rows.T
        noise = self._scaled(np.asarray(np.linalg.inv(measured.T @ measured), dtype=np.float64))
        variances, bound = self.variances(noise), -np.inf
        if values[0] >= -_ROUNDING:  # what is proven must be so for the weights themselves: directions are left out
            proof = best
            if (lifted > values).any():
                proof = self._solved(turned[kept] * np.sqrt(values[kept])[:, None])
            bound = proof.bound * unit / self.budget
        answer = noise, variances, float(weights @ variances) if math.isinf(bound) else bound
        self._known[:] = [*self._known[-3:], (weights.copy(), answer, bound)]
        return answer, bound

    def _solved(self, queries: Floats) -> DenseSolution:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # the bound counts, and it is true however far the solver got
            return least_total(queries, 1.0, self.tolerance)
