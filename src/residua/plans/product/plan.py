"""Plans of operators along one attribute, crossed with residuals of short ones, and all that follows without data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from residua.domain import Domain, domain_of_settings
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats
from residua.plans.blocks import Blocks
from residua.plans.bodies import check_claims, head_of_body, head_to_body
from residua.plans.candidates import Candidate, candidates_of_body, candidates_to_body, tried
from residua.plans.cells import MOST_COLUMNS, Grouping
from residua.plans.contract import Plan
from residua.plans.noise import NORMAL, Noise
from residua.plans.operators.contract import Operator, operator_of_body
from residua.plans.operators.path import CorrelatedPath
from residua.plans.packing import with_texts, with_texts_once
from residua.plans.product.facts import ProductFacts, Set
from residua.plans.product.piece_blocks import ProductBlocks
from residua.plans.product.piece_reading import ProductReading, rows_over_cells
from residua.plans.questions import combined, in_one_table
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.quoting import Term as QuotedTerm
from residua.workload import Workload
from residua.workload.files import workload_of_body, workload_to_body


@dataclass(frozen=True, eq=False)
class ProductPlan(Plan):
    """For each set of short attributes, an operator along one attribute: `Γ = Σ_T C_T ⊗ A_T`.

    Guarantee: measuring this plan satisfies `guarantee` for `unit`; no unbiased linear mechanism with noise of its kind
    has a loss below this one's by more than a factor `1 + gap`.

    Args:
        domain: what the table may hold.
        attribute: the position of the attribute along which operators measure.
        parts: the operator of each set of short attributes, by their positions in order; the empty set is the
            attribute by itself.
        guarantee: what measuring the plan guarantees.
        unit: whom it protects.
        workload: what was asked for.
        objective: what the plan was optimised for, in words.
        gap: how far from the best possible it may be.
        candidates: with Laplace noise, what was tried, best first; the first is the one measured.
        lower_bound: no plan with Laplace noise has a smaller loss at this budget; loose; 0 when nothing is proven.
    """

    kinds: ClassVar[tuple[str, ...]] = ("operators",)

    domain: Domain
    attribute: int
    parts: Mapping[Set, Operator]
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf
    candidates: tuple[Candidate, ...] = ()
    lower_bound: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.attribute < len(self.domain):
            raise PlanError("the plan measures an attribute that the domain lacks; plan again.")
        for members, operator in self.parts.items():
            if list(members) != sorted({*members} & set(range(len(self.domain)))) or self.attribute in members:
                raise PlanError("a set of attributes is not in order, or holds the attribute itself; plan again.")
            if operator.size != int(self.domain.sizes[self.attribute]):
                raise PlanError("an operator does not fit the attribute; plan again.")

    @property
    def name(self) -> str:
        """The attribute along which operators measure."""
        return self.domain.names[self.attribute]

    @property
    def size(self) -> int:
        """How many values it has."""
        return int(self.domain.sizes[self.attribute])

    @property
    def correlated(self) -> CorrelatedPath | None:
        """The correlated noise along the attribute, where nothing else is measured."""
        operator = self.parts.get(()) if len(self.parts) == 1 else None
        return operator if isinstance(operator, CorrelatedPath) else None

    @property
    def noise(self) -> Noise:
        """That of the operators."""
        return next((operator.noise for operator in self.parts.values() if operator.has_values), NORMAL)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """The attribute, and the short ones."""
        along = {self.attribute} if any(operator.has_values for operator in self.parts.values()) else set()
        return tuple(sorted({*along, *(i for members in self.parts for i in members)}))

    # ---- cost

    def _priced(self, unit: Unit) -> Fraction:
        return self.blocks.cost(unit) if self.parts else Fraction(0)

    @cached_property
    def pcost(self) -> float:
        """The privacy cost for one record added or removed; `epsilon²` for Laplace noise."""
        cost = self._priced(AddRemove())
        return round_up(cost if self.noise.gaussian else Fraction(round_up(cost)) ** 2)

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        cost = self._priced(self.unit)
        return round_up(cost if self.noise.gaussian else Fraction(round_up(cost)) ** 2)

    @cached_property
    def epsilon(self) -> float:
        """What Laplace noise costs for one record added or removed, rounded up."""
        return super().epsilon if self.noise.gaussian else round_up(self._priced(AddRemove()))

    @cached_property
    def unit_epsilon(self) -> float:
        """What Laplace noise costs the plan's unit of protection, rounded up."""
        return super().epsilon if self.noise.gaussian else round_up(self._priced(self.unit))

    @property
    def slack(self) -> float:
        """0 where the price is exact; infinite for replacements and limited persons, of whom a bound alone is known."""
        return 0.0 if all(each.exactly_priced(self.unit) for each in self.parts.values()) else math.inf

    # ---- accuracy

    @cached_property
    def facts(self) -> ProductFacts:
        """What follows from the operators."""
        return ProductFacts(self.domain.sizes, self.attribute, self.parts)

    def _variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return self.facts.variances(workload)
        return np.concatenate([self.facts.table(term).ravel() for term in workload.terms()])

    def _term_variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return self.facts.variances(workload)
        return np.array([self.facts.mean(term) for term in workload.terms()])

    def largest_variances(self, workload: Workload) -> Floats:
        """The largest variance of each term's queries, (terms,); of all ranges of many values a bound of it."""
        return np.array([self.facts.largest(term) for term in workload.terms()])

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        if not first.tabular or not second.tabular:
            return self.facts.covariance(*(each.listed() for each in (first, second)))
        terms = [list(each.terms()) for each in (first, second)]
        return np.block([[self.facts.pair(one, other) for other in terms[1]] for one in terms[0]])

    def _paired(self, first: QuotedTerm, second: QuotedTerm, crossed: tuple[int, ...]) -> Floats:
        """Variances from those of products of rows; covariances from those of all queries."""
        if first is second and not crossed:
            return self._variances(first.workload).reshape(first.shape)
        return super()._paired(first, second, crossed)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells.

        Raises:
            PlanError: the plan cannot answer it.
        """
        members, total = in_one_table(self.domain, combined(self.domain, combination))
        row = Workload.of_matrix(self.domain, members, csr_array(total.reshape(1, -1)), ("",), np.ones(1))
        variance = float(self.facts.variances(row)[0])
        if not np.isfinite(variance):
            raise PlanError("this plan does not answer this combination; plan for a workload that asks for it.")
        return variance

    # ---- measuring

    def compile(self) -> ProductBlocks:
        """One piece per set of short attributes, with noise rounded up."""
        if not self.parts:
            raise VerificationError("the plan has nothing to measure; what it answers is already known.")
        domain = self.domain
        pieces = tuple(
            operator.piece(members, tuple(int(domain.sizes[i]) for i in members))
            for members, operator in self.parts.items()
        )
        return ProductBlocks(domain.sizes, self.attribute, pieces, domain.drops, domain.names)

    def saved_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> ProductBlocks:
        """As compiled."""
        return self.compile()

    @property
    def poses(self) -> str:  # type: ignore[override]
        """That of an operator that has its own; otherwise of one attribute alone, or of tables crossed with others."""
        own = next((operator.poses for operator in self.parts.values() if operator.poses), "")
        return own or ("an axis" if [*self.parts] == [()] else "fibres")

    def reading(self, blocks: Blocks, measurements: NDArray[Any]) -> ProductReading:
        """Tables rebuilt from the residuals of all sets."""
        assert isinstance(blocks, ProductBlocks)
        measured = {piece.members: piece.operator for piece in blocks.pieces}
        return ProductReading(self.replaced(parts=measured), blocks, measurements)

    # ---- algebra

    def over_cells(self) -> tuple[Grouping, Floats]:
        """Rows L with `LᵀL = Γ` over the cells of all measured attributes, of few cells.

        Raises:
            PlanError: too many cells for a matrix, or Laplace noise.
        """
        if not self.noise.gaussian:
            return super().over_cells()
        attributes = tuple(sorted({self.attribute, *self.measured_attributes}))
        cells = math.prod(int(self.domain.sizes[i]) for i in attributes)
        if cells > MOST_COLUMNS:
            raise PlanError(
                f"a plan along {self.name!r} over {cells:,} cells is too large for a matrix; combine it with plans "
                "that take the same strategy, form=rs.Tree(like=other) or form=rs.Lattice(like=other), with plans over "
                f"at most {MOST_COLUMNS:,} cells, or measure it by itself with rs.measure."
            )
        return Grouping(attributes, np.arange(cells)), rows_over_cells(self, attributes)

    def scaled(self, factor: float) -> ProductPlan:
        """The same plan with all precisions multiplied."""
        return self.replaced(parts={members: each.scaled(factor) for members, each in self.parts.items()})

    # ---- what people are shown

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How the attribute is measured, what else was tried, and whether the price is a bound alone."""
        loose = (("Price", "a bound; what it really costs is not computed and may be much less"),)
        if not self.parts:
            return ()
        along = [operator for operator in self.parts.values() if operator.has_values] or [*self.parts.values()]
        heading, text = along[0].described(self.domain[self.name], self.name)
        crossed = [self.domain.names[i] for i in self.measured_attributes if i != self.attribute]
        text += f", crossed with {', '.join(crossed)} in {len(self.parts):,} sets" if crossed else ""
        text += f"; {self.blocks.cells:,} integers are measured"
        return ((heading, text), *tried(self.candidates, self.gap), *(loose if self.slack else ()))

    @property
    def details(self) -> dict[str, Any]:
        """That the price is a bound of unknown slack, where it is; and what else was tried."""
        tried_ones = {"candidates": [vars(each) for each in self.candidates]} if self.candidates else {}
        return {**tried_ones, "price_slack": None} if self.slack else tried_ones

    def __repr__(self) -> str:
        cost = f"pcost={self.pcost:.6g}" if self.noise.gaussian else f"epsilon={self.epsilon:.6g}"
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in self.parts.values()))
        return (
            f"ProductPlan({self.size:,} values of {self.name!r} by {kinds or 'nothing'}, {len(self.parts):,} sets, "
            f"{cost}, {self.guarantee!r}, gap={self.gap:.2g})"
        )

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values; long texts, which operators share, are kept once."""
        texts: list[str] = []
        parts = [{"members": list(members), "operator": each.to_body()} for members, each in self.parts.items()]
        return {
            **head_to_body("operators", self),
            "attribute": self.attribute,
            "parts": with_texts_once(parts, texts),
            "texts": texts,
            "workload": workload_to_body(self.workload),
            "candidates": candidates_to_body(self.candidates),
            "lower_bound": self.lower_bound,
        }

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> ProductPlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        attribute, known = int(body["attribute"]), dict[str, Any]()
        if not 0 <= attribute < len(domain):
            raise ValueError("it measures an attribute that the domain lacks")
        if len({tuple(part["members"]) for part in body["parts"]}) < len(body["parts"]):
            raise ValueError("it measures a set of attributes twice")
        along = domain[domain.names[attribute]]
        bound = float(body["lower_bound"])
        if not bound >= 0:
            raise ValueError("its lower bound means nothing")
        made = cls(
            domain,
            attribute,
            {
                tuple(int(i) for i in part["members"]): operator_of_body(
                    with_texts(part["operator"], body["texts"]), along, known
                )
                for part in body["parts"]
            },
            workload=workload_of_body(domain, body["workload"]),
            candidates=candidates_of_body(body["candidates"]),
            lower_bound=bound,
            **head_of_body(body),
        )
        check_claims(made)  # compiles and prices it: the verifier checks every array
        return made
