"""Product plans: how precisely each product of attribute strategies is measured, and what follows without data.

A product plan measures, for each set S of a downward-closed family, `(⊗_{i∈S} R_i/unit_i) m_S` with precision τ_S,
R_i the integer strategy of attribute i (`strategy.py`). With every strategy plain this is a residual plan. Facts are
sums over subsets of products over attributes (`covariance.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain
from residua.errors import DomainError, PlanError
from residua.linalg.lattice import Lattice
from residua.plans.base import Plan
from residua.plans.precisions import checked_precisions, inverse
from residua.plans.product import covariance as cov
from residua.plans.product.covariance import Query
from residua.plans.product.strategy import SUPPORT_TOLERANCE, Strategy
from residua.plans.residual.replacement import worst_pattern
from residua.privacy import AddRemove, Guarantee, ReplaceOne, Unit
from residua.workload import AttributeQueries, Explicit, Identity, Marginals, Products, as_products, renumber

Floats = NDArray[np.float64]
Workload = Products | Marginals | Explicit
_MOST_QUERIES = 2**28


@dataclass(frozen=True, eq=False)
class ProductPlan(Plan):
    """What is measured of each attribute, and how precisely each product. Made by `rs.plan`.

    Guarantee: measuring this plan costs at most `unit_pcost`, within `guarantee`, for the unit of protection `unit`.

    Args:
        domain: what the table may hold.
        lattice: the sets whose blocks may be measured.
        precisions: τ_S for each of them, (sets,); 0 means not measured.
        strategies: the integer strategy of each attribute of the domain.
        guarantee: what measuring the plan guarantees; None when there is nothing to measure.
        unit: whom it protects.
        workload: what was asked, if anything.
        objective: what the plan was optimised for, in words.
        gap: proven bound on how far the plan is from the best of its class, relative: all plans that measure each
            block of this plan's split (its spread vectors) by itself. `gap_any` is against all plans whatever.
    """

    rival: ClassVar[str] = "the best plan that measures block by block"
    domain: Domain
    lattice: Lattice
    precisions: Floats
    strategies: tuple[Strategy, ...]
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Products | None = None
    objective: str = ""
    gap: float = np.inf

    def __post_init__(self) -> None:
        if [strategy.size for strategy in self.strategies] != self.domain.sizes.tolist():
            raise PlanError("the strategies do not fit the domain; give one for each attribute.")
        object.__setattr__(self, "precisions", checked_precisions(self.precisions, self.lattice, self.costs))

    # ---- cost

    @cached_property
    def costs(self) -> Floats:
        """Privacy cost of each block at precision 1, `Π_{i∈S} cost_i`, (sets,)."""
        return self.lattice.products(np.array([strategy.cost for strategy in self.strategies]))

    @cached_property
    def pcost(self) -> float:
        """`max diag Γ`: the privacy cost for one record added or removed."""
        return float(self.precisions @ self.costs)

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        return float(self.unit.scaled(self.pcost, self.replacement if isinstance(self.unit, ReplaceOne) else None))

    @cached_property
    def replacement(self) -> float:
        """What replacing one record by another costs at most: a safe bound, exact where every strategy is plain."""
        least = np.array([strategy.least for strategy in self.strategies])
        cost, _ = worst_pattern(self.lattice, self.precisions * self.costs, least)
        return max(cost, self.pcost) if self.domain.drops else cost

    # ---- accuracy

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S = 1/τ_S` for every set, infinite where nothing is measured, (sets,)."""
        return inverse(self.precisions)

    @cached_property
    def gap_any(self) -> float:
        """Proven bound on how far the plan is from any linear Gaussian plan whatever; infinite on large domains."""
        from residua.plans.product.bounds import gap_of_any

        return gap_of_any(self)

    @property
    def advice(self) -> str:
        """Where the cells are so few that a dense plan of the same queries could be better: how much, at most."""
        from residua.plans.product.bounds import dense_advice

        return dense_advice(self)

    def supports(self, asked: Workload | Iterable[str]) -> bool:
        """Whether all these queries (or the marginal on these attributes) can be answered without bias."""
        if isinstance(asked, Products | Marginals | Explicit):
            return bool(np.isfinite(self.variances(asked)).all())
        return bool(np.isfinite(cov.of_rows(self, self._cells(asked)[0])).all())

    def variance(self, attributes: Iterable[str]) -> Floats:
        """The variance of every cell of the marginal on these attributes, an array with one axis each.

        Raises:
            PlanError: the plan cannot answer this marginal.
        """
        term, order = self._cells(attributes)
        found = cov.of_rows(self, term)
        if not np.isfinite(found).all():
            names = tuple(self.domain.names[i] for i, _ in term)
            raise PlanError(
                f"this plan does not answer the marginal on {names!r}; plan for a workload that asks for it."
            )
        return np.asarray(found.transpose(order))

    def variances(self, workload: Workload) -> Floats:
        """The variance of every query of a workload, (queries,); infinite where it cannot be answered."""
        self._same_domain(workload)
        if workload.queries > _MOST_QUERIES:
            raise PlanError(
                f"the workload has {workload.queries:,} queries, too many for one array; "
                "use term_variances(workload), the mean of each term."
            )
        if isinstance(workload, Explicit):
            return cov.of_explicit(self, workload)
        terms = [cov.of_rows(self, term).ravel() for term in as_products(workload).terms()]
        return np.concatenate(terms)

    def term_variances(self, workload: Products | Marginals) -> Floats:
        """The mean variance of each term's queries, (terms,); infinite where some cannot be answered."""
        self._same_domain(workload)
        asked = as_products(workload)
        found = []
        for family in asked.families:
            d, e = np.zeros((2, len(self.domain)))  # 0 for attributes that no term uses
            for i in family.used:
                d[i], e[i] = (float(part.mean()) for part in self.row_facts(i, family.queries[i]))
            numbers = renumber(asked.lattice, self.lattice)
            noise = np.where(numbers >= 0, self.noise_variances[numbers], np.inf)
            inside = asked.lattice.products(d) > 0
            parts = np.where(inside, np.where(inside, noise, 0.0) * asked.lattice.products(d), 0.0)
            found.append(asked.lattice.sum_over_subsets(parts, e)[family.sets.numbers])
        return np.concatenate(found)

    def query_variance(self, query: Query) -> float:
        """The variance of one product of rows: attribute → a label, a range (first, last), or coefficients.

        Example: `plan.query_variance({"age": (18, 64), "sex": "Female"})`.

        Raises:
            PlanError: the plan cannot answer it.
        """
        return self.query_covariance(query, query)

    def query_covariance(self, query: Query, other: Query) -> float:
        """The covariance of two products of rows, each given as for `query_variance`."""
        return cov.of_queries(self, self._vectors(query), self._vectors(other))

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells."""
        return cov.of_combination(self, combination)

    def measures(self, attribute: int) -> bool:
        """Whether more than the total is measured of an attribute, given by its position."""
        with_attribute, _ = self.lattice.covers[attribute]
        return bool((self.precisions[with_attribute] > 0).any())

    def row_facts(self, attribute: int, asked: AttributeQueries) -> tuple[Floats, Floats]:
        """`w_jᵀ K w_j` and `(w_jᵀ v)²` of every row asked of an attribute, (rows,) each; infinite: not measured."""
        return self._facts(attribute, asked)

    # ---- plumbing

    def __repr__(self) -> str:
        return (
            f"ProductPlan({int((self.precisions > 0).sum()):,} blocks, pcost={self.pcost:.6g}, "
            f"{self.guarantee!r}, gap={self.gap:.2g})"
        )

    @cached_property
    def _known_facts(self) -> dict[tuple[int, AttributeQueries], tuple[Floats, Floats]]:
        return {}

    def _facts(self, attribute: int, asked: AttributeQueries) -> tuple[Floats, Floats]:
        key = (attribute, asked)
        if key not in self._known_facts:
            self._known_facts[key] = row_facts(self.strategies[attribute], asked)
        return self._known_facts[key]

    def _vectors(self, query: Query) -> dict[int, Floats]:
        try:
            return cov.vectors(self.domain, query)
        except DomainError as problem:
            raise PlanError(f"query: {problem}") from None

    def _cells(self, names: Iterable[str]) -> tuple[list[tuple[int, AttributeQueries]], list[int]]:
        """The term that asks the cells of a marginal, and how its axes come to stand in the order of the names."""
        try:
            positions = self.domain.positions(names)
        except DomainError as problem:
            raise PlanError(f"attributes: {problem}") from None
        ordered = sorted(positions)
        term: list[tuple[int, AttributeQueries]] = [(i, Identity(int(self.domain.sizes[i]))) for i in ordered]
        return term, [ordered.index(i) for i in positions]

    def _same_domain(self, workload: Workload) -> None:
        if not isinstance(workload, Products | Marginals | Explicit):
            raise PlanError(f"workload={workload!r} is not a workload; make one with rs.product or rs.marginals.")
        if workload.domain != self.domain:
            raise PlanError("the plan and the workload are over different domains; declare one domain for both.")


def row_facts(strategy: Strategy, asked: AttributeQueries) -> tuple[Floats, Floats]:
    """`diag(W K Wᵀ)` and `(W v)²`, (rows,) each; infinite for rows outside what is measured."""
    d, e = asked.diagonal(strategy.inverse).copy(), asked.times(strategy.spread) ** 2
    if not strategy.identity and strategy.count < strategy.size - 1:
        lost = strategy.outside(asked.matrix()) > SUPPORT_TOLERANCE
        d[lost] = e[lost] = np.inf
    return d, e
