"""Pure plans: any linear queries, measured through an integer strategy with Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from residua.plans.matrix.laplace_price import column_norm, epsilon_of_unit, replacement_norm
from residua.plans.matrix.space import Floats
from residua.plans.matrix.strategy_plan import StrategyPlan
from residua.plans.noise import rounded_laplace_variance
from residua.privacy.exact import round_up


@dataclass(frozen=True)
class Candidate:
    """A strategy that was tried.

    Args:
        name: which one.
        loss: the plan's objective under it, at the plan's budget.
    """

    name: str
    loss: float


@dataclass(frozen=True, eq=False)
class PurePlan(StrategyPlan):
    """What is measured: `y = B x + round(s z)` on the merged cells of some attributes, z standard Laplace.

    The error of a query w is `2 Δ²/ε² · w (AᵀA)⁻¹ wᵀ` for `A = B`, `Δ = sensitivity` (`plan.variances`).

    Guarantee: measuring this plan is `unit_epsilon`-DP, within `guarantee`, for the unit of protection `unit`.

    Args:
        candidates: the strategies that were tried, best first; the first is the one measured.
        lower_bound: no strategy with Laplace noise has a smaller loss at this budget; 0 when nothing is proven. It is
            the L2 optimum's, at least the singular value bound, and it is loose: the best strategies known for
            ranges lie at 2.5 to 4.5 times it, and `gap` says so.

    Reference: matrix-mechanism, Propositions 3 and 4.
    """

    candidates: tuple[Candidate, ...] = field(default=())
    lower_bound: float = 0.0

    @cached_property
    def _norm(self) -> int:
        return column_norm(self.strategy)

    @property
    def sensitivity(self) -> float:
        """`Δ`: the largest column sum of absolute values of the integer strategy."""
        return float(self._norm)

    @cached_property
    def epsilon(self) -> float:
        """The privacy cost for one record added or removed, rounded up."""
        return round_up(Fraction(self._norm) / Fraction(self.scale))

    @cached_property
    def unit_epsilon(self) -> float:
        """The privacy cost for the plan's unit of protection, rounded up."""
        removable = bool((self.columns < 0).any()) or self.domain.drops
        replaced = replacement_norm(self.strategy, removable=removable)
        return round_up(epsilon_of_unit(self.unit, self._norm, replaced) / Fraction(self.scale))

    @property
    def pcost(self) -> float:
        """`epsilon²`, rounded up: an epsilon-DP mechanism is `epsilon²/2`-zCDP, as Gaussian noise of this pcost is."""
        return round_up(Fraction(self.epsilon) ** 2)

    @property
    def unit_pcost(self) -> float:
        """`unit_epsilon²`, rounded up."""
        return round_up(Fraction(self.unit_epsilon) ** 2)

    @property
    def noise_variance(self) -> float:
        """The variance of the rounded Laplace noise on each measurement."""
        return rounded_laplace_variance(self.scale)

    @cached_property
    def error_profile(self) -> Floats:
        """`(BᵀB)⁻¹` on the merged cells, its pseudo-inverse if not all are measured, (columns, columns)."""
        _, s, Vt = self.factors
        return np.asarray((Vt.T / s**2) @ Vt)

    def __repr__(self) -> str:
        rows, cells = self.strategy.shape
        return f"PurePlan({rows:,} × {cells:,}, epsilon={self.epsilon:.6g}, {self.guarantee!r}, gap={self.gap:.2g})"
