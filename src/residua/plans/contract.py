"""What every plan promises, whatever its form and its noise: cost, accuracy, measurements, algebra and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.cells import Grouping
from residua.plans.combining import algebra_of
from residua.plans.estimator import Estimator
from residua.plans.measurements import Measurements
from residua.plans.noise import NORMAL, Noise
from residua.plans.quotes import Forecasts
from residua.plans.statements import Candidate, KeptPlan, price_remarks
from residua.plans.uncertainty import Uncertainty
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.showing import ReportedPlan
from residua.workload import Workload


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
        return "the best possible"

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

    @abstractmethod
    def saved_measurements(self, arrays: Mapping[str, NDArray[Any]]) -> Measurements:
        """What was measured, from the arrays that a saved release keeps (`Measurements.arrays`)."""

    @abstractmethod
    def estimator(self, measurements: Measurements, noisy: NDArray[Any]) -> Estimator:
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
