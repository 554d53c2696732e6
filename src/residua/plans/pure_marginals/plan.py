"""Pure marginal plans: which marginals are measured with Laplace noise, and everything that follows without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.linalg.lattice import Lattice
from residua.plans.base import Plan
from residua.plans.lattice_blocks import INVISIBLE_SCALE
from residua.plans.pure.plan import Candidate
from residua.plans.pure.variance import rounded_laplace_variance
from residua.plans.residual.plan import ResidualPlan
from residua.privacy import AddRemove, Guarantee, ReplaceOne, Unit
from residua.privacy.exact import round_up
from residua.workload import Marginals

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_LARGEST_SHARE = 2.0**60


@dataclass(frozen=True, eq=False)
class PureMarginalPlan(Plan):
    """What is measured: `t · m_A + round(s z)` for some marginals A, z standard Laplace, at `ε_A = t/s` each.

    Answers pool all measured tables by least squares in residual space, so all of them agree; their variances are
    exact (`variance`, `variances`, `covariance`).

    Guarantee: measuring this plan is `unit_epsilon`-DP, within `guarantee`, for the unit of protection `unit`.

    Args:
        domain: what the table may hold.
        lattice: all sets that can be answered.
        shares: ε_A of each of them, (sets,); 0 means not measured.
        guarantee: what measuring the plan guarantees.
        unit: whom it protects.
        workload: the marginals that were asked for.
        objective: what the plan was optimised for, in words.
        gap: loss over `lower_bound`, less 1.
        candidates: the choices of marginals that were tried, best first.
        lower_bound: no plan with Laplace noise has a smaller loss at this budget; loose; 0 when nothing is proven.
    """

    domain: Domain
    lattice: Lattice
    shares: Floats
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Marginals | None = None
    objective: str = ""
    gap: float = np.inf
    candidates: tuple[Candidate, ...] = ()
    lower_bound: float = 0.0

    def __post_init__(self) -> None:
        shares = np.array(self.shares, dtype=np.float64)
        if shares.shape != (len(self.lattice),):
            raise PlanError(f"shares has shape {shares.shape}; give one for each of {len(self.lattice)} sets.")
        if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
            raise PlanError("shares must be finite and not negative, and not all 0.")
        if shares.max() > _LARGEST_SHARE or shares[shares > 0].min() < 1 / _LARGEST_SHARE:
            raise PlanError("a share is so large or so small that its noise cannot be sampled; plan again.")
        shares.setflags(write=False)
        object.__setattr__(self, "shares", shares)

    # ---- what is measured

    @cached_property
    def measured(self) -> Integers:
        """Numbers of the sets that are measured, increasing."""
        return np.flatnonzero(self.shares > 0)

    @property
    def measured_sets(self) -> tuple[tuple[str, ...], ...]:
        """The marginals that are measured."""
        rows = list(self.lattice)
        return tuple(tuple(self.domain.names[i] for i in rows[number]) for number in self.measured)

    @cached_property
    def grids(self) -> Integers:
        """t of each measured set: the least power of two that makes rounding invisible."""
        wanted = INVISIBLE_SCALE * self.shares[self.measured]
        return np.asarray(2 ** np.clip(np.ceil(np.log2(wanted)), 0, 40).astype(np.int64))

    @cached_property
    def scales(self) -> Floats:
        """s of each measured set, rounded up."""
        return np.asarray(self.grids / self.shares[self.measured] * (1.0 + 2.0**-48))

    # ---- cost

    @cached_property
    def _total(self) -> Fraction:
        return sum((Fraction(int(t)) / Fraction(s) for t, s in zip(self.grids, self.scales, strict=True)), Fraction(0))

    @cached_property
    def epsilon(self) -> float:
        """`Σ ε_A`: the privacy cost for one record added or removed, rounded up."""
        return round_up(self._total)

    @cached_property
    def unit_epsilon(self) -> float:
        """The privacy cost for the plan's unit of protection, rounded up."""
        if isinstance(self.unit, ReplaceOne):
            return round_up(2 * self._total)
        assert isinstance(self.unit, AddRemove)
        return round_up(self.unit.records * self._total)

    @property
    def pcost(self) -> float:
        """`epsilon²`, rounded up: an epsilon-DP mechanism is `epsilon²/2`-zCDP, as Gaussian noise of this pcost is."""
        return round_up(Fraction(self.epsilon) ** 2)

    @property
    def unit_pcost(self) -> float:
        """`unit_epsilon²`, rounded up."""
        return round_up(Fraction(self.unit_epsilon) ** 2)

    # ---- accuracy

    @cached_property
    def cell_precisions(self) -> Floats:
        """One over the variance of a cell of each set as measured, rounding included, (sets,); 0 if not measured."""
        found = np.zeros(len(self.lattice))
        found[self.measured] = self.grids.astype(np.float64) ** 2 / rounded_laplace_variance(self.scales)
        return found

    @cached_property
    def pooled(self) -> ResidualPlan:
        """The precision of every residual after pooling, as a residual plan: it knows all variances and covariances."""
        tau = self.lattice.sum_over_supersets(self.cell_precisions, 1.0 / self.domain.sizes)
        return ResidualPlan(self.domain, self.lattice, tau, None, self.unit, self.workload)

    def supports(self, attributes: Sequence[str]) -> bool:
        """Whether the marginal on these attributes can be answered."""
        return self.pooled.supports(attributes)

    def variance(self, attributes: Sequence[str]) -> float:
        """The variance of every cell of the marginal on these attributes.

        Raises:
            PlanError: the plan cannot answer this marginal.
        """
        return self.pooled.variance(attributes)

    def marginal_variances(self, workload: Marginals) -> Floats:
        """The variance of a cell of each marginal of a workload, (marginals,); infinite if unanswerable."""
        return self.pooled.marginal_variances(workload)

    def variances(self, workload: Marginals) -> Floats:
        """The variance of every query of a workload, cell by cell, (queries,); infinite if unanswerable."""
        return self.pooled.variances(workload)

    def covariance(self, attributes: Sequence[str], other: Sequence[str] | None = None) -> Floats:
        """Covariance matrix of all cells of a marginal, or between the cells of two, (cells, cells)."""
        return self.pooled.covariance(attributes, other)

    def cell_covariance(self, cell: Mapping[str, Label], other: Mapping[str, Label]) -> float:
        """Covariance of two cells, each given as attribute → label."""
        return self.pooled.cell_covariance(cell, other)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells."""
        return self.pooled.combination_variance(combination)

    def __repr__(self) -> str:
        return (
            f"PureMarginalPlan({len(self.measured):,} marginals, epsilon={self.epsilon:.6g}, {self.guarantee!r}, "
            f"gap={self.gap:.2g})"
        )
