"""Lattice plans: how precisely each product of attribute strategies is measured, and what follows without data.

A lattice plan measures, for each set S of a downward-closed family, `(⊗_{i∈S} R_i/unit_i) m_S` with precision τ_S, R_i
the integer strategy of attribute i (`strategy.py`). With every strategy plain these are the residuals of marginals,
`Γ = Σ_S τ_S R_S` with orthogonal projections R_S (up to a factor). Facts are sums over subsets (`facts.py`).

Reference: residual-planner, Theorems 4.2, 4.5 and 4.7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, domain_of_settings
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import SetFamily
from residua.linalg.modes import contrasts
from residua.plans.blocks import Blocks
from residua.plans.bodies import check_claims, head_of_body, head_to_body
from residua.plans.cells import MOST_COLUMNS, Grouping
from residua.plans.contract import Plan
from residua.plans.noise import NORMAL, ORDERED, Noise
from residua.plans.operators.correlated import Ordered
from residua.plans.persons import by_cells
from residua.plans.product.bounds import dense_advice, gap_of_any, least_for_persons
from residua.plans.product.contribution import TablePrices, table_prices
from residua.plans.product.crossed_blocks import CrossedBlocks, compile_crossed, saved_crossed
from residua.plans.product.replacement import replacement_cost, some_person, some_replacement
from residua.plans.product.set_blocks import LatticeBlocks, compile_blocks
from residua.plans.product.set_facts import Facts
from residua.plans.product.set_reading import CrossedReading, LatticeReading
from residua.plans.product.totals import feasible, replacement_bound
from residua.plans.questions import combined
from residua.plans.strategy import Strategy, plain_strategies, strategy_of_body
from residua.privacy import AddRemove, Guarantee, Unit
from residua.quoting import Term
from residua.workload import Workload, renumber
from residua.workload.files import lattice_of_body, lattice_to_body, workload_of_body, workload_to_body


@dataclass(frozen=True, eq=False)
class LatticePlan(Plan):
    """What is measured of each attribute, and how precisely each product. Made by `rs.plan` and by the algebra.

    Guarantee: measuring this plan costs at most `unit_pcost`, within `guarantee`, for the unit of protection `unit`.

    Args:
        domain: what the table may hold.
        lattice: the sets whose blocks may be measured.
        precisions: τ_S for each of them, (sets,); 0 means not measured.
        guarantee: what measuring the plan guarantees; None when there is nothing to measure.
        unit: whom it protects.
        workload: what was asked, if anything.
        objective: what the plan was optimised for, in words.
        gap: proven bound on how far the plan is from the best of its class, relative: for marginals all plans; for
            products those that measure each block of this plan's split (its spread vectors) by itself, while
            `gap_any` is against all plans whatever. For persons with limits and marginals: all plans of residuals, at
            the price that residua asks (`contribution.py`), while `gap_any` is against all plans whatever, at what
            persons really cost. Infinite when nothing is proven.
        strategies: the integer strategy of each attribute of the domain; plain ones if left out.
    """

    kinds: ClassVar[tuple[str, ...]] = ("residual", "product")

    domain: Domain
    lattice: SetFamily
    precisions: Floats
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf
    strategies: tuple[Strategy, ...] = ()

    def __post_init__(self) -> None:
        if not self.strategies:
            object.__setattr__(self, "strategies", plain_strategies(self.domain.sizes))
        if [strategy.size for strategy in self.strategies] != self.domain.sizes.tolist():
            raise PlanError("the strategies do not fit the domain; give one for each attribute.")
        precisions = np.array(self.precisions, dtype=np.float64)
        if precisions.shape != (len(self.lattice),):
            raise PlanError(f"precisions has shape {precisions.shape}; give one for each of {len(self.lattice)} sets.")
        if not (np.isfinite(precisions).all() and (precisions >= 0).all()):
            raise PlanError("precisions must be finite and not negative.")
        if any(strategy.cost == 0 for strategy in self.strategies):
            precisions[self.costs == 0] = 0.0  # an empty block, of an attribute with one value, is known
        precisions = feasible(self.lattice, precisions, self.strategies)
        precisions.setflags(write=False)
        object.__setattr__(self, "precisions", precisions)

    @cached_property
    def plain(self) -> bool:
        """Whether every attribute is measured by the plain residual, as for marginals."""
        return all(strategy.plain for strategy in self.strategies)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Positions of the attributes along which noise is correlated."""
        return tuple(i for i, strategy in enumerate(self.strategies) if strategy.tells)

    @property
    def comparison_class(self) -> str:
        """What `gap` compares the plan with."""
        if self.axes and all(one.plain or one.tells for one in self.strategies):
            return super().comparison_class
        if not self.plain:
            return "the best plan that measures block by block"
        return super().comparison_class if self._prices is None else "the best plan of residuals, as persons are priced"

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
        if self._prices is not None:
            return self._prices.price(self.precisions)
        by_records = by_cells(self.unit) or (self.axes and self.unit.contribution is not None)
        return float(self.unit.scaled(self.pcost, None if by_records else self.replacement[0]))

    @cached_property
    def _prices(self) -> TablePrices | None:
        """What tables cost a person with limits; along axes no more is known than of any records."""
        return None if self.axes else table_prices(self.unit, self.domain, self.lattice, self.strategies)

    @cached_property
    def slack(self) -> float:
        """By how much, relative, the price is above what some change of the data costs at most."""
        if by_cells(self.unit) or not self.pcost:
            return 0.0
        if self.axes:
            return math.inf
        if self._prices is not None:
            some = some_person(self.lattice, self.precisions, self.strategies, self._prices.reach)
        else:
            some = max(some_replacement(self.lattice, self.precisions, self.strategies), self.pcost * self.domain.drops)
        return max(self.unit_pcost / some - 1.0, 0.0) if some > 0 else math.inf

    @cached_property
    def replacement(self) -> tuple[float, bool]:
        """The cost of replacing one record by another, never less, and whether all patterns of agreement were tried."""
        known = (self.lattice, self.precisions, self.strategies)
        cost, exact = (replacement_bound(*known), False) if self.axes else replacement_cost(*known)
        # A record changed to a value that is left out is a record removed.
        return (max(cost, self.pcost) if self.domain.drops else cost), exact

    # ---- accuracy

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S = 1/τ_S` for every set, infinite where nothing is measured, (sets,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / self.precisions)

    @cached_property
    def facts(self) -> Facts:
        """What follows from the noise of the blocks."""
        return Facts(self.domain, self.lattice, self.noise_variances, self.strategies)

    def _variances(self, workload: Workload) -> Floats:
        return self.facts.variances(workload)

    def _term_variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return self.facts.variances(workload)
        return self.facts.term_variances(workload)

    def _cell_variances(self, positions: tuple[int, ...]) -> Floats:
        shape = tuple(int(self.domain.sizes[i]) for i in positions)
        if not self.plain:
            return super()._cell_variances(positions)
        number = int(self.lattice.find(np.array([positions], dtype=np.int32).reshape(1, -1))[0])
        if number < 0 and 1 in shape:  # attributes with one value need not be in the family
            return self.facts.cells(positions)
        return np.broadcast_to(self.facts.cell_variances[number] if number >= 0 else np.inf, shape)

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        return self.facts.covariance(first, second)

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        return self.facts.paired(first, second, crossed)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells.

        Raises:
            PlanError: the plan cannot answer it.
        """
        found = self.facts.combination(combined(self.domain, combination))
        if not np.isfinite(found):
            raise PlanError("this plan does not answer this combination; plan for a workload that asks for it.")
        return found

    @cached_property
    def gap_any(self) -> float:
        """Proven bound on how far the plan is from any linear Gaussian plan whatever; infinite on large domains."""
        if self.workload is None or self.objective != "TotalVariance":
            return math.inf
        if self._prices is not None and self.workload.plain and self.plain:
            loss = float((self.workload.weights * self.workload.cells) @ self.variances(self.workload, per="term"))
            return max(loss * self.unit_pcost / least_for_persons(self.workload, self._prices.reach) - 1.0, 0.0)
        if self.unit_pcost != self.pcost:
            return math.inf
        if self.plain or self.axes:
            return self.gap if self.plain or "block" not in self.comparison_class else math.inf
        asked = self.workload
        achieved = float((asked.weights * asked.cells) @ self.variances(asked, per="term")) * self.pcost
        return gap_of_any(asked, achieved)

    @property
    def advice(self) -> str:
        """Where the cells are so few that a matrix plan of the same queries could be better: how much, at most."""
        return "" if self.plain or self.axes or self.workload is None else dense_advice(self.workload, self)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Whether another form might do better, and how loose a price for persons or replacements can be."""
        better = (("Better?", f"{self.advice}, or [objective] dense = true"),) if self.advice else ()
        return (*better, *super().remarks)

    @property
    def poses(self) -> str:  # type: ignore[override]
        """Residuals of marginals, or products."""
        return "marginals" if self.plain else "products"

    @property
    def family(self) -> LatticePlan:
        """The plan itself."""
        return self

    # ---- measuring

    @property
    def noise(self) -> Noise:
        """Normal; correlated along axes."""
        return ORDERED if self.axes else NORMAL

    def compile(self) -> LatticeBlocks | CrossedBlocks:
        """Integer tables with noise rounded up."""
        made = compile_crossed if self.axes else compile_blocks
        return made(self.domain, self.lattice, self.precisions, self.strategies)

    def saved_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> LatticeBlocks | CrossedBlocks:
        """The sets, grids and scales that a file keeps, with the plan's own strategies."""
        if self.axes:
            return saved_crossed(self.domain, self.lattice, self.strategies, arrays)
        measured, grids, scales = arrays["measured"], arrays["grids"], arrays["scales"]
        domain = self.domain
        return LatticeBlocks(
            self.lattice, domain.sizes, measured, grids, scales, self.strategies, domain.drops, domain.names
        )

    def reading(self, blocks: Blocks, measurements: NDArray[Any]) -> LatticeReading | CrossedReading:
        """Marginals rebuilt from their blocks."""
        if isinstance(blocks, CrossedBlocks):
            return CrossedReading(self.replaced(precisions=blocks.precisions), blocks, measurements)
        assert isinstance(blocks, LatticeBlocks)
        return LatticeReading(self.replaced(precisions=blocks.precisions), blocks, measurements)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes of which more than the total is measured."""
        return tuple(i for i in range(len(self.domain)) if self.measures(i))

    def measures(self, attribute: int) -> bool:
        """Whether more than the total is measured of an attribute, given by its position."""
        with_attribute, _ = self.lattice.covers[attribute]
        return bool((self.precisions[with_attribute] > 0).any())

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
        return self.replaced(precisions=self.precisions * factor)

    def over_cells(self) -> tuple[Grouping, Floats]:
        """For each measured set, `√τ_S · ⊗_{i∈S} H_i ⊗_{i∉S} 1ᵀ` with `H_i = R_i/unit_i`, (rows, cells).

        For the plain residual H is an orthonormal basis of what sums to 0: a plan for marginals has orthogonal rows.

        Raises:
            PlanError: too many cells for a matrix.
        """
        measured = np.flatnonzero(self.precisions > 0)
        members = [self.lattice.members(number) for number in measured.tolist()]
        attributes = tuple(sorted({i for row in members for i in row}))
        cells = math.prod(int(self.domain.sizes[i]) for i in attributes)
        if cells > MOST_COLUMNS:
            raise PlanError(
                f"a plan for marginals or products measures {cells:,} cells; it can be combined with other kinds of "
                f"plans, or with plans that measure an attribute by another strategy, over at most {MOST_COLUMNS:,}. "
                "Plan one like the other, with form=rs.Lattice(like=other): plans that share strategies combine over "
                "any number of cells. (Beside a plan of queries that tie attributes together, like that one.) Or plan "
                "over fewer attributes."
            )
        parts = {i: measured_rows(self.strategies[i]) for i in attributes}

        def block(row: tuple[int, ...], tau: float) -> Floats:
            found = np.full((1, 1), math.sqrt(tau))
            for i in attributes:
                found = np.kron(found, parts[i] if i in row else np.ones((1, parts[i].shape[1])))
            return found

        blocks = [block(row, tau) for row, tau in zip(members, self.precisions[measured].tolist(), strict=True)]
        return Grouping(attributes, np.arange(cells)), np.vstack([np.zeros((0, cells)), *blocks])

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values: a plan of marginals by plain strategies needs fewer."""
        residual = self.plain and (self.workload is None or self.workload.plain)
        strategies = {} if residual else {"strategies": [strategy.to_body() for strategy in self.strategies]}
        return {
            **head_to_body("residual" if residual else "product", self),
            "sets": lattice_to_body(self.lattice),
            "precisions": self.precisions.tolist(),
            "workload": workload_to_body(self.workload, self.lattice),
            **strategies,
        }

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> LatticePlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        lattice = lattice_of_body(body["sets"], len(domain))
        strategies: tuple[Strategy, ...] = ()
        if body["kind"] != "residual":
            sized = zip(body["strategies"], domain.sizes.tolist(), strict=True)
            strategies = tuple(strategy_of_body(each, size) for each, size in sized)
        made = cls(
            domain=domain,
            lattice=lattice,
            precisions=np.array(body["precisions"], dtype=np.float64),
            workload=workload_of_body(domain, body["workload"], lattice),
            strategies=strategies,
            **head_of_body(body),
        )
        check_claims(made)
        return made

    def __repr__(self) -> str:
        return (
            f"LatticePlan({int((self.precisions > 0).sum()):,} {'residuals' if self.plain else 'blocks'}, "
            f"pcost={self.pcost:.6g}, {self.guarantee!r}, gap={self.gap:.2g})"
        )


def measured_rows(strategy: Strategy) -> Floats:
    """Independent rows with the Gram matrix of an attribute's `R/unit`, (rank, values)."""
    if isinstance(strategy, Ordered):
        return strategy.root
    return contrasts(strategy.size) if strategy.plain else np.asarray(strategy.matrix / strategy.unit)
