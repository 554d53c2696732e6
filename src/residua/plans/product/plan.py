"""Product plans: how precisely each set of short attributes is measured, by itself or along one attribute.

    Γ = Σ_T τ_T · ⊗_{i∈T} (R_iᵀR_i / unit_i²) ⊗ A_T

T ranges over a downward-closed family of sets of short attributes, R_i is the integer strategy of attribute i
(`strategy.py`; plain strategies centre), and A_T an operator along one long attribute (`operators/contract.py`) or, of
plans without one, the number 1. With every strategy plain and no operators these are the residuals of marginals.

With Laplace noise and no operators, marginals are measured as they are; pooled by least squares, they have precisions
as if their residuals had been measured (`table_measurements.py`).

Reference: residual-planner, Theorems 4.2, 4.5 and 4.7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Array, Floats, keep_fixed
from residua.linalg.lattice import Set, SetFamily
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.estimator import Estimator
from residua.plans.noise import LAPLACE, NORMAL, ORDERED, Noise
from residua.plans.operators.contract import Operator
from residua.plans.product import forms
from residua.plans.product.bounds import compared_with, dense_advice, gap_of_all
from residua.plans.product.crossed_measurements import feasible
from residua.plans.product.facts import ProductUncertainty, family_of, require_operators
from residua.plans.product.residual_costs import ResidualCosts
from residua.plans.product.table_measurements import TableMeasurements, compile_tables
from residua.plans.statements import tried
from residua.plans.strategy import Strategy, plain_strategies
from residua.privacy.costs import by_cells
from residua.workload import renumber


@dataclass(frozen=True, eq=False)
class ProductPlan(ProductUncertainty, Plan):
    """What is measured of each set of attributes, and how precisely. Made by `rs.plan` and by the algebra.

    Guarantee: measuring this plan costs at most `unit_pcost` (`unit_epsilon` with Laplace noise), within `guarantee`,
    for the unit of protection `unit`.

    Args:
        domain: what the table may hold.
        lattice: the sets T that may be measured, of short attributes where there are operators.
        precisions: τ_T for each of them, (sets,); 0 means not measured.
        guarantee: what measuring the plan guarantees; None when there is nothing to measure.
        unit: whom it protects.
        workload: what was asked, if anything.
        objective: what the plan was optimised for, in words.
        gap: proven bound on how far the plan is from the best of its class, relative; infinite if nothing is proven.
        strategies: the integer strategy of each attribute of the domain; plain ones if left out.
        attribute: the position of the attribute along which operators measure; −1 where there are none.
        operators: A_T of each set of the family, where there is such an attribute; None where none is measured.
        shares: with Laplace noise on whole marginals, ε_T of each set, (sets,); precisions then pool all tables.
        candidates: with Laplace noise, what was tried, best first; the first is the one measured.
        lower_bound: no plan with Laplace noise has a smaller loss at this budget; loose; 0 when nothing is proven.
    """

    kinds: ClassVar[tuple[str, ...]] = ("product",)

    lattice: SetFamily
    precisions: Floats
    strategies: tuple[Strategy, ...] = ()
    attribute: int = -1
    operators: tuple[Operator | None, ...] = ()
    shares: Floats | None = None

    @classmethod
    def along(cls, domain: Domain, axis: int, parts: Mapping[Set, Operator], **promise: Any) -> ProductPlan:
        """The plan that measures each of these sets of short attributes by its operator along one attribute."""
        lattice, operators, measured = family_of(parts, len(domain))
        return cls(domain, lattice, measured, attribute=axis, operators=operators, **promise)

    @classmethod
    def of_tables(cls, domain: Domain, lattice: SetFamily, shares: Floats, **promise: Any) -> ProductPlan:
        """The plan that measures marginals as they are, with Laplace noise, each at its share of epsilon."""
        return cls(domain, lattice, np.zeros(len(lattice)), shares=shares, **promise)

    def __post_init__(self) -> None:
        if not self.strategies:
            object.__setattr__(self, "strategies", plain_strategies(self.domain.sizes))
        if [strategy.size for strategy in self.strategies] != self.domain.sizes.tolist():
            raise PlanError("the strategies do not fit the domain; give one for each attribute.")
        if self.shares is not None:
            keep_fixed(self, "shares", dtype=np.float64)
            object.__setattr__(self, "precisions", self.tables.pooled_precisions)
        if self.attribute >= 0:
            require_operators(self)
        precisions = np.array(self.precisions, dtype=np.float64)
        if precisions.shape != (len(self.lattice),):
            raise PlanError(f"precisions has shape {precisions.shape}; give one for each of {len(self.lattice)} sets.")
        if not (np.isfinite(precisions).all() and (precisions >= 0).all()):
            raise PlanError("precisions must be finite and not negative.")
        if self.attribute < 0 and any(strategy.cost == 0 for strategy in self.strategies):
            precisions[self.costs == 0] = 0.0  # an empty block, of an attribute with one value, is known
        precisions = feasible(self.lattice, precisions, self.strategies) if self.axes else precisions
        precisions.setflags(write=False)
        object.__setattr__(self, "precisions", precisions)

    @property
    def name(self) -> str:
        """The attribute along which operators measure, if there are any."""
        return self.domain.names[self.attribute] if self.attribute >= 0 else ""

    @property
    def size(self) -> int:
        """How many values it has."""
        return int(self.domain.sizes[self.attribute]) if self.attribute >= 0 else 1

    @cached_property
    def parts(self) -> dict[Set, Operator]:  # type: ignore[override]
        """`τ_T A_T` of each set that is measured along the attribute; none where there are no operators."""
        return {
            tuple(members): each if tau == 1.0 else each.scaled(tau)
            for members, each, tau in zip(self.lattice, self.operators, self.precisions.tolist(), strict=False)
            if each is not None and tau > 0
        }

    def with_parts(self, parts: Mapping[Set, Operator], **changes: Any) -> ProductPlan:
        """The same plan with other operators, and other fields changed."""
        lattice, operators, measured = family_of(parts, len(self.domain))
        return replace(self, lattice=lattice, operators=operators, precisions=measured, **changes)

    @cached_property
    def tables(self) -> TableMeasurements:
        """Marginals that are measured as they are: on which grids and with how much noise."""
        assert self.shares is not None, "only plans with shares of epsilon measure whole tables"
        return compile_tables(self.domain, self.lattice, self.shares)

    @property
    def by_residuals(self) -> bool:
        """Whether numbers alone say how precisely residuals are measured: no operators, normal noise."""
        return self.attribute < 0 and self.shares is None

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Positions of the attributes along which noise is correlated by their strategy."""
        return tuple(i for i, strategy in enumerate(self.strategies) if strategy.tells)

    @property
    def correlated(self) -> Any:
        """The correlated noise along the attribute, where nothing else is measured; or None."""
        operator = self.parts.get(()) if len(self.parts) == 1 else None
        return operator if operator is not None and operator.correlated else None

    @property
    def shared(self) -> str:  # type: ignore[override]
        """The nodes of trees, or the strategies of attributes."""
        return "strategies" if self.by_residuals or self.correlated else "nodes" if self.noise == NORMAL else ""

    @property
    def noise(self) -> Noise:
        """That of the operators; Laplace on whole tables; else normal, correlated along axes."""
        if self.shares is not None:
            return LAPLACE
        if self.attribute < 0:
            return ORDERED if self.axes else NORMAL
        known = sorted(self.parts.values(), key=lambda each: not each.has_values)
        return known[0].noise if known else NORMAL

    @property
    def comparison_class(self) -> str:
        """What `gap` compares the plan with."""
        return compared_with(self) or super().comparison_class

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes of which more than the total is measured."""
        along = {self.attribute} if any(operator.has_values for operator in self.parts.values()) else set()
        return tuple(sorted({*along, *(i for i in range(len(self.domain)) if self.measures(i))}))

    def measures(self, attribute: int) -> bool:
        """Whether more than the total is measured of a short attribute, given by its position."""
        with_attribute, _ = self.lattice.covers[attribute]
        return bool((self.precisions[with_attribute] > 0).any())

    # ---- cost

    @cached_property
    def costs(self) -> Floats:
        """Privacy cost of each block at precision 1, `Π_{i∈S} cost_i`, (sets,)."""
        return self.lattice.products(np.array([strategy.cost for strategy in self.strategies]))

    @cached_property
    def residual_costs(self) -> ResidualCosts:
        """What precisions of residuals cost, where numbers alone say how precisely they are measured."""
        return ResidualCosts(self)

    @property
    def empty(self) -> bool:
        """Whether no set has a precision."""
        return not self.precisions.any()

    @cached_property
    def pcost(self) -> float:
        """`max diag Γ`: the privacy cost for one record added or removed; `epsilon²` for Laplace noise."""
        return float(self.precisions @ self.costs) if self.by_residuals else super().pcost

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        if by_cells(self.unit) and self.by_residuals:
            return float(self.unit.scaled(self.pcost))
        by_verifier = not self.by_residuals or (self.axes and self.unit.contribution is not None)
        return super().unit_pcost if by_verifier else self.residual_costs.unit_pcost

    @property
    def slack(self) -> float:
        """By how much, relative, the price is above what some change of the data costs at most."""
        if self.by_residuals:
            return self.residual_costs.slack
        return 0.0 if all(each.exactly_priced(self.unit) for each in self.parts.values()) else math.inf

    # ---- accuracy

    @cached_property
    def noise_variances(self) -> Floats:  # type: ignore[override]
        """`σ²_S = 1/τ_S` for every set, infinite where nothing is measured, (sets,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / self.precisions)

    @property
    def alike(self) -> bool:
        """Noise on whole marginals treats all values of an attribute alike."""
        return self.shares is not None

    @cached_property
    def gap_any(self) -> float:
        """Proven bound on how far the plan is from any linear Gaussian plan whatever; infinite on large domains."""
        return gap_of_all(self) if self.workload is not None and self.by_residuals else math.inf

    # ---- measuring

    def compile(self) -> Any:
        """Whole tables, pieces along the attribute, or integer tables of residuals; with noise rounded up."""
        return forms.measurements_of(self)

    def saved_measurements(self, arrays: Mapping[str, Array]) -> Any:
        """The sets, grids and scales that a file keeps of residuals; all others as compiled."""
        return forms.saved_measurements(self, arrays) if self.by_residuals else self.compile()

    def estimator(self, measurements: Any, noisy: Array) -> Estimator:
        """Tables rebuilt from what was measured of all sets."""
        return forms.estimator_of(self, measurements, noisy)

    @property
    def poses(self) -> str:  # type: ignore[override]
        """That of an operator that has its own; of one attribute alone, tables crossed with it, marginals."""
        if self.attribute < 0:
            return "marginals" if self.plain else "products"
        own = {operator.poses for operator in self.parts.values()}
        return own.pop() if len(own) == 1 and all(own) else "an axis" if [*self.parts] == [()] else "noise per set"

    # ---- algebra

    def on(self, lattice: SetFamily) -> Floats:
        """The plan's precisions on a family that holds its own, (sets,)."""
        if self.lattice.same_sets(lattice):
            return self.precisions
        precisions = np.zeros(len(lattice))
        precisions[renumber(self.lattice, lattice)] = self.precisions
        return precisions

    def scaled(self, factor: float) -> Self:
        """The same plan with all its precisions multiplied by a number."""
        if self.shares is not None:
            return self.replaced(shares=self.shares * np.sqrt(factor))
        return self.replaced(precisions=self.precisions * factor)

    def over_cells(self) -> tuple[Grouping, Floats]:
        """Rows L with `LᵀL = Γ` over the cells of all measured attributes, (rows, cells).

        Raises:
            PlanError: too many cells for a matrix, or Laplace noise.
        """
        return forms.rows_over_cells(self) if self.noise.gaussian else super().over_cells()

    def laplace_rows(self) -> tuple[Grouping, Floats]:
        """The cells of every table that is measured as it is."""
        return forms.tables_over_cells(self) if self.shares is not None else super().laplace_rows()

    # ---- what people are shown

    @property
    def advice(self) -> str:
        """Where the cells are so few that a matrix plan of the same queries could be better: how much, at most."""
        asked = self.workload if self.by_residuals and not self.plain and not self.axes else None
        return "" if asked is None else dense_advice(asked, self)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How it is measured, what was tried or might do better, and how loose its price can be."""
        return (*forms.described(self), *tried(self.candidates, self.gap), *super().remarks)

    @property
    def details(self) -> dict[str, Any]:
        """What was tried, how loose the price can be, and which tables are measured as they are."""
        measured = {} if self.shares is None else {"measured": forms.listed_tables(self)}
        return {**super().details, **measured}

    def __repr__(self) -> str:
        return f"ProductPlan({forms.in_brief(self)}, {self.guarantee!r}, gap={self.gap:.2g})"

    # ---- files

    def kept(self) -> dict[str, Any]:
        """Operators by set, or a number per set."""
        return forms.kept(self)

    @classmethod
    def of_kept(cls, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> ProductPlan:
        """The plan that plain values describe."""
        return forms.of_kept(cls, domain, body, stated)  # type: ignore[no-any-return]
