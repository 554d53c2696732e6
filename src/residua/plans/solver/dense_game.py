"""Our side of the planning game over single queries: the best matrix for weights on them, whatever is made of it.

With it any convex loss of the variances is solved by the loops of `saddle` and `losses`: a response is the least
weighted sum at privacy cost 1 (`solve.least_total`), and its bound is the lower bound of that.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from residua.errors import GapWarning
from residua.linalg.arrays import Floats
from residua.plans.solver.solve import DenseSolution, least_total

_LEAST_WEIGHT = 1e-6  # of the largest: queries that weigh less are answered as if they weighed this much
_NONE = 1e-12
_RANK = 1e-12


@dataclass(frozen=True, eq=False)
class DenseGame:
    """The game over queries on distinct cells; noise is Γ, the privacy cost matrix, at privacy cost 1.

    Args:
        queries: W, (m, cells).
        tolerance: how near to the best a response is.
        budget: at what privacy cost it is played.
    """

    signed: ClassVar[bool] = False  # variances are not linear in Γ

    queries: Floats
    tolerance: float
    budget: float = 1.0
    _known: list[tuple[Floats, tuple[Floats, Floats, float]]] = field(default_factory=list, init=False)

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Γ of the least weighted sum, (cells, cells), the variances it gives, and what no weighted sum is below."""
        for seen, answer in self._known:
            if np.array_equal(seen, weights):
                return answer
        least = float(weights.max()) * _LEAST_WEIGHT
        lifted = np.maximum(weights, least)
        best, bound = self._solved(self.queries, lifted)
        gram = np.zeros((self.queries.shape[1],) * 2)
        asked = np.flatnonzero(best.columns >= 0)
        gram[np.ix_(asked, asked)] = best.gamma[np.ix_(best.columns[asked], best.columns[asked])]
        if (weights < least).any():  # what is proven must be so for the weights themselves: some queries are left out
            kept = weights > float(weights.max()) * _NONE
            bound = self._solved(self.queries[kept], weights[kept])[1]
        answer = gram, best.variances / self.budget, bound / self.budget
        self._known[:] = [*self._known[-3:], (weights.copy(), answer)]
        return answer

    def value(self, weights: Floats) -> float:
        """What no weighted sum of variances is below."""
        return self.respond(weights)[2]

    def variances(self, noise: Floats) -> Floats:
        """The variance of every query under a Γ, (m,)."""
        values, vectors = np.linalg.eigh(noise)
        kept = values > _RANK * values[-1]
        squares = np.square(self.queries @ (vectors[:, kept] / np.sqrt(values[kept])))
        return np.asarray(squares.sum(axis=1) / self.budget)

    def mixed(self, one: Floats, other: Floats, share: float) -> Floats:
        """So much of one Γ and the rest of another: its cost is no more, and variances are convex on the way."""
        return np.asarray(share * one + (1.0 - share) * other)

    def _solved(self, queries: Floats, weights: Floats) -> tuple[DenseSolution, float]:
        unit = float(weights.max())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # the bound counts, and it is true however far the solver got
            best = least_total(queries, weights / unit, self.tolerance)
        return best, best.bound * unit
