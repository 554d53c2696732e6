"""What every plan promises, whatever its form and its noise: cost, accuracy, measurements, algebra and files.

How estimates err is a question of its own: a plan answers it, and so do its estimates beside known facts
(`conditional.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain
from residua.errors import PlanError, listing, named
from residua.language import mark
from residua.linalg.arrays import Array, Floats
from residua.plans.cells import Grouping
from residua.plans.combining import algebra_of
from residua.plans.estimator import Asked, Estimator, Query, as_workload, combination_query, require_same_domain
from residua.plans.measurements import Measurements
from residua.plans.noise import NORMAL, Noise
from residua.plans.quotes import Forecasts, picked
from residua.plans.statements import Candidate, KeptPlan, price_remarks
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.quoting import Term
from residua.showing import ReportedPlan
from residua.workload import Workload, marginals

Per = Literal["query", "term"]
_MOST_QUERIES = 2**28
_MOST_PAIRS = 2**24


class Uncertainty(ABC):
    """Unbiased estimates, and how they err: two questions answered by whoever knows, and what follows from them."""

    domain: Domain  # what the table may hold

    @property
    def by_names(self) -> tuple[str, ...]:
        """The attributes that make groups of people, each of which may have a plan of its own; none in most forms."""
        return ()

    @property
    def family(self) -> Any:
        """The lattice whose precisions the plan's tables have; None for a plan that has none."""
        return None

    @abstractmethod
    def _variances(self, workload: Workload) -> Floats:
        """The variance of every query, (queries,); infinite where it cannot be answered."""

    @abstractmethod
    def _covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances between the queries of two workloads, all of them answerable, (queries, queries)."""

    @property
    def alike(self) -> bool:
        """Whether all values of an attribute are measured alike."""
        return False

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        """Covariances place by place, from those of all queries; forms know better ways."""
        if math.prod(first.shape) * math.prod(second.shape) > _MOST_PAIRS:
            raise PlanError("these groups are too many for a plan of this form; ask for fewer.")
        return picked(self._covariance(first.workload, second.workload), first, second, crossed)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells that can be answered: attribute set → an array over its cells."""
        variance = self._combination_variance(combination)
        if not np.isfinite(variance):
            raise PlanError("this plan does not answer this combination; plan for a workload that asks for it.")
        return variance

    def _combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """The same; infinite where it cannot be answered."""
        return float(self._variances(combination_query(self.domain, combination))[0])

    def _term_variances(self, workload: Workload) -> Floats:
        """The mean variance of each term's queries, (terms,); infinite where some cannot be answered."""
        return np.asarray(np.add.reduceat(self._variances(workload), workload.starts) / workload.cells)

    def largest_variances(self, workload: Workload) -> Floats:
        """The largest variance of each term's queries, (terms,); infinite where they are too many to look at."""
        if workload.queries > 2**24:
            return np.full(len(workload), np.inf)
        return np.asarray(np.maximum.reduceat(self.variances(workload), workload.starts))

    def _cell_variances(self, positions: tuple[int, ...]) -> Floats:
        """The variances of the cells of a marginal, attributes in the domain's order; infinite if unanswerable."""
        names = [self.domain.names[i] for i in positions]
        shape = [int(self.domain.sizes[i]) for i in positions]
        return self._variances(marginals(self.domain, [names])).reshape(shape)

    def supports(self, asked: Asked) -> bool:
        """Whether a workload, the marginal on some attributes, or one query can be answered without bias."""
        if isinstance(asked, Workload):
            return bool(np.isfinite(self.variances(asked, per="term")).all())
        if isinstance(asked, Mapping):
            return bool(np.isfinite(self._variances(as_workload(self.domain, asked)[0])).all())
        positions = tuple(sorted(self.domain.positions(self._names(asked))))
        return bool(np.isfinite(self._cell_variances(positions)).all())

    @overload
    def variance(self, asked: Query) -> float: ...

    @overload
    def variance(self, asked: Sequence[str]) -> Floats: ...

    def variance(self, asked: Sequence[str] | Query) -> float | Floats:
        """The variance of every cell of the marginal on some attributes, or of one query.

        Args:
            asked: names of attributes; or a query, attribute → a label, labels, a range or coefficients, such as
                `{"age": rs.between(18, 64), "sex": "Female"}`.

        Returns:
            An array with one axis per attribute, in the order of the names, infinite in groups of people that cannot
            tell; for a query, one number.

        Raises:
            PlanError: the plan, or no group of one that differs by group, can answer it.
        """
        if isinstance(asked, Mapping):
            return float(self.covariance(asked))
        names = self._names(asked)
        positions = self.domain.positions(names)
        variances = self._cell_variances(tuple(sorted(positions)))
        known = np.isfinite(variances)
        if not (known.any() if self.by_names else known.all()):
            who = "no group answers" if self.by_names else "this plan does not answer"
            remedy = "plan for a workload that asks for it, or estimate it from a release: residua estimate"
            raise PlanError(f"{who} the marginal on {listing(names)}; {remedy}.")
        return np.asarray(variances.transpose(np.argsort(np.argsort(positions))))

    def variances(self, workload: Workload, *, per: Per = "query") -> Floats:
        """The variance of every query of a workload, (queries,); infinite where it cannot be answered.

        Args:
            workload: any workload over the plan's domain.
            per: `"query"`; or `"term"` for one number per term (a marginal, or a product of rows): the mean of its
                queries' variances, of workloads with more queries than an array can hold.
        """
        require_same_domain(self.domain, workload)
        if per == "term":
            return self._term_variances(workload)
        if per != "query":
            raise PlanError(f"per={named(per)} is not 'query' or 'term'.")
        if workload.queries > _MOST_QUERIES:
            raise PlanError(
                f"the workload has {workload.queries:,} queries, too many for one array; ask for their means with "
                "variances(workload, per='term')."
            )
        return self._variances(workload)

    def total_variance(self, workload: Workload) -> float:
        """The sum of the variances of all queries, each times its weight."""
        return float((workload.weights * workload.cells) @ self.variances(workload, per="term"))

    @overload
    def covariance(self, asked: Query, other: Query | None = None) -> float: ...

    @overload
    def covariance(self, asked: Workload | Sequence[str], other: Asked | None = None) -> Floats: ...

    def covariance(self, asked: Asked, other: Asked | None = None) -> float | Floats:
        """Covariances of all queries of a workload, or between those of two, (queries, queries); of two queries, one.

        Args:
            asked: a workload, the names of a marginal's attributes (its cells run row by row in the order of the
                names), or one query, as for `variance`.
            other: the same; `asked` itself if left out.

        Raises:
            PlanError: a query cannot be answered, or there are too many for a matrix.
        """
        first, order = as_workload(self.domain, asked)
        second, other_order = (first, order) if other is None else as_workload(self.domain, other)
        if first.queries * second.queries > 2**27:
            raise PlanError(
                f"a covariance matrix of {first.queries:,} by {second.queries:,} queries is too large; ask for the "
                "queries you need, or combination_variance for a sum."
            )
        if not (self.supports(first) and self.supports(second)):
            raise PlanError("this plan does not answer all of these queries; plan for a workload that has them.")
        covariances = self._covariance(first, second)
        if isinstance(asked, Mapping) and (other is None or isinstance(other, Mapping)):
            return float(covariances[0, 0])
        return covariances[order][:, other_order]

    def _names(self, attributes: Iterable[str]) -> tuple[str, ...]:
        """Names of attributes, all of them the domain's."""
        try:
            return tuple(self.domain.names[i] for i in self.domain.positions(attributes))
        except (TypeError, ValueError) as problem:
            raise PlanError(f"attributes: {problem}") from None


@dataclass(frozen=True, eq=False)
class Plan(ReportedPlan, Uncertainty, Forecasts, KeptPlan):
    """Noise decided before any data is seen. Made by `rs.plan`; `Plan.load` reads any saved plan.

    A form of plan is a subclass. It says what it costs, answers three questions about accuracy (the `_…` methods), how
    it is measured and read (`compile`, `estimator`), and how files keep it (`kinds`, `kept`, `of_kept`).
    """

    shared: ClassVar[str] = ""  # what plans like it take from it: `strategies`, `rows` of blocks, `nodes` of a tree
    poses: ClassVar[str] = ""  # which projection problem its releases are (`projection/problems.py`)

    domain: Domain
    _: KW_ONLY
    guarantee: Guarantee | None = None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf
    bias: float = 0.0
    candidates: tuple[Candidate, ...] = ()
    lower_bound: float = 0.0

    @property
    def noise(self) -> Noise:
        """What is added to every measured integer."""
        return NORMAL

    @property
    def comparison_class(self) -> str:
        """What `gap` compares the plan with."""
        return mark("the best possible")

    # ---- cost

    @property
    def empty(self) -> bool:
        """Whether there is nothing to measure."""
        return not self.pcost

    def _priced(self, unit: Unit) -> Fraction:
        """What measuring the plan costs a unit, by the verifier, in the currency of its noise."""
        return Fraction(0) if self.empty else self.measurements.cost(unit)

    def _as_pcost(self, price: Fraction) -> float:  # an epsilon-DP mechanism is `epsilon²/2`-zCDP
        return round_up(price if self.noise.gaussian else Fraction(round_up(price)) ** 2)

    @cached_property
    def pcost(self) -> float:
        """`max diag Γ`: the privacy cost for one record added or removed; `epsilon²` for Laplace noise."""
        return self._as_pcost(self._priced(AddRemove()))

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        return self._as_pcost(self._priced(self.unit))

    @property
    def slack(self) -> float:
        """By how much, relative, `unit_pcost` can be above what the unit really costs; 0 where it is exact."""
        return 0.0

    def _epsilon(self, unit: Unit) -> float:
        if self.noise.gaussian:
            raise PlanError("normal noise has no epsilon without a delta; see plan.guarantee.")
        return round_up(self._priced(unit))

    @property
    def epsilon(self) -> float:
        """What Laplace noise costs for one record added or removed, rounded up.

        Raises:
            PlanError: the noise is normal, and has no such epsilon.
        """
        return self._epsilon(AddRemove())

    @property
    def unit_epsilon(self) -> float:
        """What Laplace noise costs the plan's unit of protection, rounded up."""
        return self._epsilon(self.unit)

    @property
    def cost(self) -> float:
        """What measuring the plan costs its unit, by the verifier, in the currency of its noise; rounded up."""
        return round_up(self._priced(self.unit))

    # ---- measuring

    @abstractmethod
    def compile(self) -> Measurements:
        """The integer measurements that realise the plan, with noise rounded up.

        Raises:
            VerificationError: nothing to measure, or noise that cannot be sampled exactly.
        """

    @cached_property
    def measurements(self) -> Measurements:
        """What measuring the plan comes down to, compiled once."""
        return self.compile()

    def saved_measurements(self, arrays: Mapping[str, Array]) -> Measurements:
        """What was measured, from the arrays that a saved release keeps (`Measurements.arrays`): as compiled."""
        return self.compile()

    @abstractmethod
    def estimator(self, measurements: Measurements, noisy: Array) -> Estimator:
        """How estimates are read off measurements of the plan."""

    @property
    @abstractmethod
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes of which more than the total is measured."""

    # ---- algebra

    def over_cells(self) -> tuple[Grouping, Floats]:
        """Rows L with `LᵀL = Γ` over groups of cells, (rows, groups).

        Raises:
            PlanError: a plan without such rows, or too many cells for a matrix.
        """
        raise PlanError(f"{type(self).__name__} has no matrix over cells to combine; use plans with Gaussian noise.")

    def laplace_rows(self) -> tuple[Grouping, Floats]:
        """What is measured with Laplace noise, each row over its scale, so that its largest entry is its epsilon.

        Raises:
            PlanError: a plan without such rows, or too many cells for a matrix.
        """
        raise PlanError(
            f"{type(self).__name__}: nested buckets with Laplace noise are not combined with other plans; measure it "
            "by itself, or plan explicit queries with form=rs.Matrix()."
        )

    def scaled(self, factor: float) -> Self:
        """The same plan with all its precisions multiplied by a number, what it promises unchanged."""
        raise PlanError(f"{type(self).__name__} cannot be measured more coarsely; plan at a smaller budget.")

    def can_answer(self, other: Plan) -> bool:
        """Whether whatever `other` would release can be computed from this plan's release: `Γ_other ⪯ Γ`.

        Raises:
            PlanError: plans over different domains or units, or plans that cannot be compared.

        Reference: common-mechanism, Theorem 3.5.
        """
        return algebra_of([self, other]).can_answer(self, other)

    def equivalent(self, other: Plan) -> bool:
        """Whether each of the two plans answers the other: `Γ_other = Γ`."""
        return self.can_answer(other) and other.can_answer(self)

    def __add__(self, other: Plan) -> Plan:
        return cast("Plan", algebra_of([self, other]).compose(self, other))

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """What else people should know about this plan, each with a heading."""
        return price_remarks(self.unit, self.slack)

    @property
    def details(self) -> dict[str, Any]:
        """What else should be known about this plan, as plain values, for programs."""
        tried = {"candidates": [vars(each) for each in self.candidates]} if self.candidates else {}
        known = self.slack if np.isfinite(self.slack) else None  # None: a bound, no more is known
        return {**tried, "price_slack": known} if price_remarks(self.unit, self.slack) else tried

    @property
    def correlated(self) -> Any:
        """The correlated noise of a plan that measures one ordered attribute by it, and nothing else; or None."""
        return None

    @property
    def space(self) -> Any:
        """The measured space of a plan that is about one histogram; None for a plan that has none."""
        return None

    def replaced(self, **changes: Any) -> Self:
        """The same plan with some fields changed."""
        return cast("Self", replace(cast("Any", self), **changes))
