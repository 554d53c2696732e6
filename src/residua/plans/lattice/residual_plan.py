"""Residual plans: how precisely each residual is measured, and everything that follows without data.

A residual plan measures, for each set S of a downward-closed family, the residual `r_S = C_S m_S` of the marginal
on S (centred along every axis) with precision `τ_S = 1/σ²_S`. Its privacy cost matrix is `Γ = Σ_S τ_S R_S` with
orthogonal projections R_S (up to a factor), so that all facts are sums over subsets.

Reference: residual-planner, Theorems 4.2, 4.5 and 4.7. The paper prints one covariance for all pairs of cells of a
marginal; it depends on which attributes the two cells agree on (`covariance.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.linalg.lattice import Lattice
from residua.plans.contract import Plan
from residua.plans.lattice import residual_covariance as cov
from residua.plans.lattice.precisions import checked_precisions, inverse
from residua.plans.lattice.replacement import replacement_cost
from residua.plans.solver.residuals import ResidualCoefficients
from residua.privacy import AddRemove, Guarantee, ReplaceOne, Unit
from residua.workload import Marginals, renumber

Floats = NDArray[np.float64]
_MOST_QUERIES = 2**28


@dataclass(frozen=True, eq=False)
class ResidualPlan(Plan):
    """Which residuals are measured and how precisely. Made by `rs.plan` and by the algebra of plans.

    Guarantee: measuring this plan costs at most `unit_pcost`, which is within `guarantee`, for the unit of
    protection `unit`.

    Args:
        domain: what the table may hold.
        lattice: the sets whose residuals may be measured.
        precisions: τ_S for each of them, (sets,); 0 means not measured.
        guarantee: what measuring the plan guarantees; None when there is nothing to measure.
        unit: whom it protects.
        workload: the marginals that were asked for, if any.
        objective: what the plan was optimised for, in words.
        gap: proven bound on how far from optimal the plan is, relative; infinite when nothing is proven.
    """

    domain: Domain
    lattice: Lattice
    precisions: Floats
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Marginals | None = None
    objective: str = ""
    gap: float = np.inf

    def __post_init__(self) -> None:
        # A set with a one-valued attribute has an empty residual.
        precisions = checked_precisions(self.precisions, self.lattice, self.coefficients.cost)
        object.__setattr__(self, "precisions", precisions)

    @cached_property
    def coefficients(self) -> ResidualCoefficients:
        """How precisions turn into cost and variances."""
        return ResidualCoefficients(self.lattice, self.domain.sizes)

    # ---- cost

    @cached_property
    def pcost(self) -> float:
        """`max diag Γ = Σ_S τ_S κ_S`: the privacy cost for one record added or removed."""
        return float(self.precisions @ self.coefficients.cost)

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        replace = self.replacement[0] if isinstance(self.unit, ReplaceOne) else None
        return float(self.unit.scaled(self.pcost, replace))

    @cached_property
    def replacement(self) -> tuple[float, bool]:
        """The cost of replacing one record by another, and whether it is exact (else a safe bound)."""
        cost, exact = replacement_cost(self.lattice, self.domain.sizes, self.precisions)
        # A record changed to a value that is left out is a record removed.
        return (max(cost, self.pcost) if self.domain.drops else cost), exact

    # ---- accuracy

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S = 1/τ_S` for every set, infinite where nothing is measured, (sets,)."""
        return inverse(self.precisions)

    @cached_property
    def _cell_variances(self) -> Floats:
        return self.coefficients.cell_variances(self.noise_variances)

    def supports(self, attributes: Iterable[str]) -> bool:
        """Whether the marginal on these attributes can be answered without bias."""
        number = self._number(attributes)
        return number >= 0 and bool(np.isfinite(self._cell_variances[number]))

    def variance(self, attributes: Iterable[str]) -> float:
        """The variance of each cell of the marginal on these attributes.

        Raises:
            PlanError: the plan cannot answer this marginal.
        """
        number = self._number(attributes)
        if number < 0 or not np.isfinite(self._cell_variances[number]):
            raise PlanError(
                f"this plan does not answer the marginal on {attributes!r}; plan for a workload that asks for it."
            )
        return float(self._cell_variances[number])

    def marginal_variances(self, workload: Marginals) -> Floats:
        """The variance of a cell of each marginal of a workload, (marginals,); infinite if unanswerable."""
        if not isinstance(workload, Marginals):
            raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals.")
        self._same_domain(workload.domain)
        if workload.lattice.same_sets(self.lattice):
            return self._cell_variances[workload.numbers]
        numbers = renumber(workload.lattice, self.lattice)[workload.numbers]
        return np.where(numbers >= 0, self._cell_variances[numbers], np.inf)

    def variances(self, workload: Marginals) -> Floats:
        """The variance of every query of a workload, cell by cell, (queries,); infinite if unanswerable."""
        variances = self.marginal_variances(workload)
        if workload.queries > _MOST_QUERIES:
            raise PlanError(
                f"the workload has {workload.queries:,} queries, too many for one array; "
                "use marginal_variances(workload), one for each marginal."
            )
        return np.repeat(variances, workload.cells.astype(np.int64))

    def covariance(self, attributes: Sequence[str], other: Sequence[str] | None = None) -> Floats:
        """Covariance matrix of all cells of a marginal, or between the cells of two, (cells, cells).

        Cells run row by row in the order in which the attributes are given.

        Raises:
            PlanError: unanswerable, or too many cells for a matrix (use `cell_covariance`).
        """
        return cov.matrix(self, attributes, attributes if other is None else other)

    def cell_covariance(self, cell: Mapping[str, Label], other: Mapping[str, Label]) -> float:
        """Covariance of two cells, of the same marginal or of different ones, each given as attribute → label.

        Example: `plan.cell_covariance({"age": 30, "sex": "Female"}, {"age": 31})`.
        """
        return cov.of_cells(self, cell, other)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells."""
        return cov.of_combination(self, combination)

    def __repr__(self) -> str:
        return (
            f"ResidualPlan({int((self.precisions > 0).sum()):,} residuals, pcost={self.pcost:.6g}, "
            f"{self.guarantee!r}, gap={self.gap:.2g})"
        )

    def _number(self, names: Iterable[str]) -> int:
        try:
            row = np.array([sorted(self.domain.positions(names))], dtype=np.int32)
        except ValueError as problem:
            raise PlanError(f"attributes: {problem}") from None
        return int(self.lattice.find(row)[0])

    def _same_domain(self, domain: Domain) -> None:
        if domain is not self.domain and domain != self.domain:
            raise PlanError("the plan and the workload are over different domains; declare one domain for both.")
