"""Dense plans: any linear queries, measured through an integer strategy on the cells that queries tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.domain import Label
from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.matrix.space import Floats
from residua.plans.matrix.strategy_plan import StrategyPlan
from residua.privacy import ReplaceOne

_ROUNDING_VARIANCE = 1.0 / 12.0


def moved_columns(B: NDArray[np.int64]) -> Floats:
    """The columns of a strategy, all moved alike so that what they have in common is gone, (rows, columns).

    A strategy for records that are changed may know their number very well: its differences would drown in that.
    Nothing is rounded: entries too large for it are left where they are.
    """
    rows = B.astype(np.float64)
    return rows - rows[:, :1] if float(np.abs(rows).max(initial=0.0)) < 2.0**52 else rows


@dataclass(frozen=True, eq=False)
class DensePlan(StrategyPlan):
    """What is measured: `y = B x + round(s z)` on the merged cells of some attributes, z standard normal.

    Guarantee: measuring this plan costs at most `unit_pcost`, within `guarantee`, for the unit of protection `unit`.
    """

    # ---- cost

    @cached_property
    def _diagonal(self) -> Floats:
        return np.asarray((self.strategy.astype(np.float64) ** 2).sum(axis=0) / self.scale**2)

    @cached_property
    def pcost(self) -> float:
        """`max diag Γ`: the privacy cost for one record added or removed."""
        return float(self._diagonal.max(initial=0.0))

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        return float(self.unit.scaled(self.pcost, self.replacement if isinstance(self.unit, ReplaceOne) else None))

    @cached_property
    def replacement(self) -> float:
        """The largest cost of replacing one record by another."""
        if not self.pcost:
            return 0.0
        B = moved_columns(self.strategy) / self.scale
        gram = B.T @ B
        diagonal = np.diag(gram)
        pairs = diagonal[:, None] + diagonal[None, :] - 2 * gram
        # A record changed to a cell nobody asks about, or to a value that is left out, is a record removed.
        unasked = self.pcost if (self.columns < 0).any() or self.domain.drops else 0.0
        return max(float(pairs.max()), unasked)

    @cached_property
    def profile(self) -> Floats:
        """The privacy profile: what the plan costs a person in each cell, an array with one axis an attribute."""
        padded = np.append(self._diagonal, 0.0)
        return np.asarray(padded[self.columns].reshape(self.shape))

    def cell_pcost(self, cell: Mapping[str, Label]) -> float:
        """What the plan costs a person with these values of the plan's attributes.

        Example: `plan.cell_pcost({"age": 30, "sex": "Female"})`.
        """
        from residua.plans.lattice.residual_covariance import codes

        at = codes(self.domain, cell)
        if set(at) != set(self.attributes):
            raise PlanError(f"cell must give a value for each of {', '.join(self.names)}.")
        return float(self.profile[tuple(at[i] for i in self.attributes)])

    def free(self, tolerance: float = 1e-6) -> NDArray[np.bool_]:
        """Cells with budget left: more queries on them alone cost nothing, an array with one axis an attribute."""
        return np.asarray(self.profile < self.pcost * (1 - tolerance))

    @cached_property
    def gamma(self) -> Floats:
        """The privacy cost matrix on the merged cells, `BᵀB/s²`, (columns, columns)."""
        B = self.strategy.astype(np.float64) / self.scale
        return np.asarray(B.T @ B)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each measurement, its rounding included."""
        return self.scale**2 + _ROUNDING_VARIANCE

    # ---- algebra

    def derivation(self, other: Plan) -> tuple[Floats, Floats]:
        """How another plan is computed from this one: A and C with `B_other = A B` and `I = A Aᵀ + C Cᵀ`.

        For measurements divided by their noise scales: the other's are distributed as `A y + C z`, z standard normal.

        Raises:
            PlanError: this plan does not answer the other.

        Reference: common-mechanism, Lemma 3.2.
        """
        from residua.plans.algebra import derivation

        return derivation(self, other)

    def __repr__(self) -> str:
        rows, cells = self.strategy.shape
        # Of a plan for records that are changed, which knows their number, a record more or less would tell much.
        cost = self.unit_pcost if isinstance(self.unit, ReplaceOne) else self.pcost
        return f"DensePlan({rows:,} × {cells:,}, pcost={cost:.6g}, {self.guarantee!r}, gap={self.gap:.2g})"
