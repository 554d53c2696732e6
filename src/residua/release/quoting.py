"""How a release answers what is quoted from it: unbiased estimates, with the exact covariances of its noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from residua.domain import Domain
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.quotes import NoiseOf
from residua.plans.reading import Reading
from residua.quoting import Term


@dataclass(frozen=True, eq=False)
class ReleaseAnswers:
    """What a reading says of any linear combination, and how it errs.

    Args:
        plan: the plan as it was really measured.
        reading: how estimates are read off the measurements.
        remark: what else readers must know.
    """

    plan: Plan
    reading: Reading
    remark: str = ""

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.plan.domain

    @property
    def note(self) -> str:
        """Where a plan was asked for with a bias, intervals would not hold the truth."""
        return "answers are biased, as the plan was asked for with a bias" if self.plan.bias else ""

    @cached_property
    def noise(self) -> NoiseOf:
        """The errors."""
        return NoiseOf(self.plan, self.reading, "release")

    def estimates(self, term: Term) -> Floats:
        """The best unbiased estimates.

        Raises:
            PlanError: what is needed was not measured.
        """
        self.noise.require(term)
        return self.reading.answers(term.workload)[0].reshape(term.shape)

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> Floats | None:
        """Exact; None for a biased plan."""
        return None if self.plan.bias else self.noise.covariances(first, second, crossed)

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Estimates and variances of the counts at or below each value, less q times all; None for a biased plan."""
        return None if self.plan.bias else self.reading.running(position, q)

    def widths(
        self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float
    ) -> float | Floats:
        """Those of normal or of Laplace noise."""
        return self.noise.widths(first, second, factors, confidence, together)
