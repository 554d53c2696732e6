"""Plans of noisy tables: which marginals are measured with Laplace noise, and everything that follows without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, domain_of_settings
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.blocks import Blocks
from residua.plans.bodies import check_claims, head_of_body, head_to_body
from residua.plans.candidates import Candidate, candidates_of_body, candidates_to_body, tried
from residua.plans.contract import Plan
from residua.plans.noise import LAPLACE, Noise
from residua.plans.persons import most_records
from residua.plans.product.lattice_plan import LatticePlan
from residua.plans.product.table_blocks import MeasuredTables, TableBlocks
from residua.plans.product.table_reading import TablesReading
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.quoting import Term
from residua.workload import Workload
from residua.workload.files import lattice_of_body, lattice_to_body, workload_of_body, workload_to_body


@dataclass(frozen=True, eq=False)
class TablesPlan(Plan):
    """What is measured: `t · m_A + round(s z)` for some marginals A, z standard Laplace, at `ε_A = t/s` each.

    Answers pool all measured tables by least squares in residual space, so all of them agree; their variances are
    exact, those of the lattice `pooled`.

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

    kinds: ClassVar[tuple[str, ...]] = ("pure marginals",)

    domain: Domain
    lattice: SetFamily
    shares: Floats
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf
    candidates: tuple[Candidate, ...] = ()
    lower_bound: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", self.tables.shares)

    @property
    def noise(self) -> Noise:
        """Laplace."""
        return LAPLACE

    @cached_property
    def tables(self) -> MeasuredTables:
        """What is measured, on which grids and with how much noise."""
        return MeasuredTables(self.domain, self.lattice, self.shares)

    @property
    def measured(self) -> Integers:
        """Numbers of the sets that are measured, increasing."""
        return self.tables.measured

    @property
    def measured_sets(self) -> tuple[tuple[str, ...], ...]:
        """The marginals that are measured."""
        rows = list(self.lattice)
        return tuple(tuple(self.domain.names[i] for i in rows[number]) for number in self.measured)

    # ---- cost

    @cached_property
    def _total(self) -> Fraction:
        pairs = zip(self.tables.grids, self.tables.scales, strict=True)
        return sum((Fraction(int(t)) / Fraction(s) for t, s in pairs), Fraction(0))

    @cached_property
    def epsilon(self) -> float:
        """`Σ ε_A`: the privacy cost for one record added or removed, rounded up."""
        return round_up(self._total)

    @cached_property
    def unit_epsilon(self) -> float:
        """The privacy cost for the plan's unit of protection, rounded up."""
        records = most_records(self.unit, self.domain.names, self.domain.sizes)
        return round_up((2 if records is None else records) * self._total)

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
    def pooled(self) -> LatticePlan:
        """The precision of every residual after pooling, as a lattice: it knows all variances and covariances."""
        return LatticePlan(self.domain, self.lattice, self.tables.pooled_precisions, None, self.unit, self.workload)

    def _variances(self, workload: Workload) -> Floats:
        return self.pooled.facts.variances(workload)

    def _term_variances(self, workload: Workload) -> Floats:
        return self.pooled._term_variances(workload)

    def _cell_variances(self, positions: tuple[int, ...]) -> Floats:
        return self.pooled._cell_variances(positions)

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        return self.pooled.facts.covariance(first, second)

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        return self.pooled.facts.paired(first, second, crossed)

    @property
    def alike(self) -> bool:
        """They are: marginals treat all values of an attribute alike."""
        return True

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells."""
        return self.pooled.combination_variance(combination)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How many tables are measured, and what else was tried."""
        shares = self.shares[self.measured]
        low, high = f"{shares.min():.3g}", f"{shares.max():.3g}"
        each = low if low == high else f"{low} to {high}"
        measured = ("Measured", f"{len(self.measured):,} marginals, at epsilon {each} each")
        return (measured, *tried(self.candidates, self.gap), *super().remarks)

    @property
    def details(self) -> dict[str, Any]:
        """What is measured and what else was tried."""
        pairs = zip(self.measured_sets, self.shares[self.measured].tolist(), strict=True)
        measured = [{"attributes": list(names), "epsilon": share} for names, share in pairs]
        return {**super().details, "measured": measured}

    @property
    def family(self) -> LatticePlan:
        """What the pooled tables have the precisions of."""
        return self.pooled

    # ---- measuring

    def compile(self) -> TableBlocks:
        """The tables on their grids."""
        tables, domain = self.tables, self.domain
        return TableBlocks(self.lattice, domain.sizes, tables.measured, tables.grids, tables.scales, domain.names)

    def saved_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> TableBlocks:
        """The plan's own tables."""
        return self.compile()

    poses = "noisy tables"

    def reading(self, blocks: Blocks, measurements: NDArray[Any]) -> TablesReading:
        """Pooled by least squares."""
        return TablesReading(self, self.tables, measurements)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes of which more than the total is measured."""
        return self.pooled.measured_attributes

    def scaled(self, factor: float) -> TablesPlan:
        """The same plan with the precision of every table multiplied by a number."""
        return self.replaced(shares=self.shares * np.sqrt(factor))

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            **head_to_body("pure marginals", self),
            "lower_bound": self.lower_bound,
            "candidates": candidates_to_body(self.candidates),
            "sets": lattice_to_body(self.lattice),
            "shares": self.shares.tolist(),
            "workload": workload_to_body(self.workload, self.lattice),
        }

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> TablesPlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        lattice = lattice_of_body(body["sets"], len(domain))
        made = cls(
            domain=domain,
            lattice=lattice,
            shares=np.array(body["shares"], dtype=np.float64),
            workload=workload_of_body(domain, body["workload"], lattice),
            **head_of_body(body),
            candidates=candidates_of_body(body["candidates"]),
            lower_bound=float(body["lower_bound"]),
        )
        if not made.lower_bound >= 0:
            raise ValueError("its lower bound means nothing")
        check_claims(made)
        return made

    def __repr__(self) -> str:
        return (
            f"TablesPlan({len(self.measured):,} marginals, epsilon={self.epsilon:.6g}, {self.guarantee!r}, "
            f"gap={self.gap:.2g})"
        )
