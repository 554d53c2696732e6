"""What every projection is asked to do, whatever the kind of release: the seam between the surface and the solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from residua.domain.facts import Fact, shown
from residua.errors import PlanError
from residua.language import mark
from residua.linalg.arrays import Booleans, Floats
from residua.plans.contract import Plan
from residua.plans.estimator import Estimator
from residua.release.base import Release
from residua.workload import AttributeQueries, Workload, applied

Metric = Literal["margins", "covariance", "plain"]
CLEAR = 3.0  # standard deviations above zero: then a released total is kept as it is
MANY_CELLS = 1e6  # of tables in all: projecting more takes minutes
Progress = Callable[[int, float], object]
UNITS: dict[Metric, str] = {
    "margins": mark("standard deviations, small tables weighing more"),
    "covariance": mark("standard deviations"),
    "plain": mark("counts"),
}


@dataclass(frozen=True, eq=False)
class Terms:
    """What the projected tables must meet, and in which sense they are nearest.

    Args:
        nonnegative: whether no cell may be negative.
        facts: public marginals to be met exactly, the total among them.
        metric: "covariance", the release's own (each direction by its precision); "margins", the same with small tables
            weighing more; or "plain", squared differences summed over all that was asked.
        tolerance: how small the gap must be, relative to the squared distance.
        total_stddev: the standard deviation of the total among the facts, if it was taken from the release.
        shrunk: whether interactions are shrunk by their noise before the nearest tables are looked for.
        realisable: whether they must be those of some dataset.
        own_totals: whether each group keeps its released total where that is clear, or one estimated from it.
    """

    nonnegative: bool = True
    facts: tuple[Fact, ...] = ()
    metric: Metric = "covariance"
    tolerance: float = 1e-6
    total_stddev: float = 0.0
    shrunk: bool = False
    realisable: bool = False
    own_totals: bool = False

    @property
    def public(self) -> tuple[Fact, ...]:
        """The facts that are known to be true: all but a total that was taken from the release."""
        return tuple(fact for fact in self.facts if fact.members or not self.total_stddev)


@dataclass(frozen=True, eq=False)
class Nearest:
    """What a solver found: tables as their coordinates, or the cells of a histogram.

    Guarantee: no feasible tables have a squared distance below `distance − gap`, to within rounding.

    Args:
        coordinates: y_S of every set, in the order in which they came, (cells,); or the histogram.
        gap: proven bound on how far `distance` is above the least possible.
        distance: squared, in the metric: `Σ_S w_S ‖y_S − ŷ_S‖²`, or `‖F h − t‖²`.
        infeasibility: the largest violation of non-negativity, of a zero or of an equation, in counts.
        rounds: how many steps were made.
        converged: whether the gap and the violation are within what was asked; None where nobody looked.
    """

    coordinates: Floats
    gap: float
    distance: float
    infeasibility: float
    rounds: int
    converged: bool | None = None

    def __post_init__(self) -> None:
        self.coordinates.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Fit(ABC):
    """Tables that agree with each other, the nearest ones to a release.

    Args:
        array: what a saved projection keeps.
        gap: how far the squared distance to the release is from the least possible, proven, in the metric's unit;
            infinite where nothing is.
        infeasibility: the largest violation of non-negativity, of a zero or of a fact, in counts.
    """

    fills: ClassVar[bool] = False  # whether it has numbers for cells that the release may tell nothing of

    array: Floats
    gap: float
    infeasibility: float

    def __post_init__(self) -> None:
        self.array.setflags(write=False)

    @abstractmethod
    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes (positions, increasing) can be read off."""

    @abstractmethod
    def marginal(self, members: Sequence[int]) -> Floats:
        """The marginal on these attributes (positions, increasing)."""

    @property
    def largest(self) -> tuple[tuple[int, ...], ...]:
        """The sets of attributes whose tables hold all others, none within another; empty where it has no tables."""
        return ()

    @property
    def histogram(self) -> Floats:
        """The counts of all cells of its attributes, one axis each.

        Raises:
            PlanError: no histogram was formed.
        """
        raise PlanError("only dense releases have a histogram; ask for tables, or hand over to mbi for rows.")

    def of_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Floats | None:
        """What a product asks, (rows, …), where it is told without the marginal; None where that tells it."""
        return None

    def of_queries(self, workload: Workload) -> Floats | None:
        """The answers to queries of some attributes, (queries,), where they are told without their marginal."""
        return None


@dataclass(frozen=True, eq=False)
class Histogram(Fit):
    """Counts of all cells of some attributes, one axis per attribute.

    Args:
        attributes: positions of the attributes whose cells are counted, increasing.
        untold: which cells nothing was measured of, and whose count no total limits; None for none.
        Others as for `Fit`.
    """

    fills: ClassVar[bool] = True

    attributes: tuple[int, ...]
    untold: Booleans | None = None

    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes can be read off."""
        return self.untold is None and set(members) <= set(self.attributes)

    def of_queries(self, workload: Workload) -> Floats | None:
        """Where some cells are not told: of queries that ask for none of them."""
        if self.untold is None:
            return None
        names = workload.domain.positions(workload.names)
        rest = tuple(axis for axis, i in enumerate(self.attributes) if i not in names)
        if not set(names) <= set(self.attributes) or (abs(workload.matrix) @ self.untold.any(axis=rest).ravel()).any():
            raise PlanError(
                "a query asks for cells of which nothing was measured; project with total=…, or leave it out."
            )
        return np.asarray(workload.matrix @ self.array.sum(axis=rest).ravel())

    def marginal(self, members: Sequence[int]) -> Floats:
        """The marginal on these attributes (positions, increasing)."""
        rest = tuple(axis for axis, i in enumerate(self.attributes) if i not in members)
        return np.asarray(self.array.sum(axis=rest))

    @property
    def largest(self) -> tuple[tuple[int, ...], ...]:
        """The one table that it is."""
        return (self.attributes,) if self.untold is None else ()

    @property
    def histogram(self) -> Floats:
        """The counts."""
        return self.array if self.untold is None else super().histogram


@dataclass(frozen=True, eq=False)
class ProjectionProblem(ABC):
    """The projection of releases of one plan under some terms; `observed` are such a release's estimates, flat.

    Args:
        plan: the plan, with the precisions really measured.
        terms: what the tables must meet.
    """

    plan: Any
    terms: Terms
    bounded: ClassVar[bool] = True  # whether the error can be bounded, with normal noise around unbiased answers
    by_strata: ClassVar[bool] = False  # whether each stratum has a total of its own
    in_metrics: ClassVar[tuple[Metric, ...]] = ("plain",)  # those that there are, the usual one first
    no_other: ClassVar[str] = "leave metric out."  # why there is no other

    def __post_init__(self) -> None:  # noqa: B027 – most plans meet all terms
        """Refuses terms that releases of the plan cannot meet."""

    # ---- what is known of a plan before there is a problem

    @classmethod
    def posed(cls, plan: Any, terms: Terms) -> ProjectionProblem:
        """The problem that releases of a plan pose.

        Raises:
            PlanError: the terms are about tables the plan lacks, or the plan is too large.
        """
        return cls(plan, terms)

    @classmethod
    def metrics(cls, plan: Any) -> tuple[tuple[Metric, ...], str]:
        """The metrics that there are for a plan, the usual one first, and why there is no other."""
        return cls.in_metrics, cls.no_other

    @classmethod
    def is_small(cls, plan: Any) -> bool:
        """Whether projecting releases of a plan takes seconds rather than minutes."""
        return True

    @property
    def unit(self) -> str:
        """What distances are measured in."""
        return UNITS[self.terms.metric]

    @property
    def left_out(self) -> tuple[tuple[int, ...], ...]:
        """The attributes of tables that the release is about without telling all their cells."""
        return ()

    # ---- the work

    def observed(self, release: Release) -> Floats:
        """A release's unbiased estimates in the form the problem takes."""
        return self.read(release.estimator)

    @abstractmethod
    def read(self, estimator: Any) -> Floats:
        """The same from what reads estimates off measurements: linear in these, but for `NoisePerSetProblem`."""

    @abstractmethod
    def solve(self, observed: Floats, progress: Progress | None = None) -> Fit:
        """The nearest tables that meet the terms."""

    @abstractmethod
    def unprojected(self, observed: Floats) -> Fit:
        """The observed estimates themselves, as tables."""

    @abstractmethod
    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Fit:
        """The fit that a saved projection keeps."""

    # ---- the metric

    @abstractmethod
    def seen(self, fit: Fit) -> Floats:
        """What would be observed of a fit without noise."""

    def squared(self, observed: Floats) -> float:
        """The squared length in the metric of what was observed, or of a difference of two such."""
        return float(observed @ observed)

    def moved(self, observed: Floats, fit: Fit) -> float:
        """The squared distance of a fit from what was observed, in the metric."""
        return self.squared(observed - self.seen(fit))

    def size(self, fit: Fit) -> float:
        """The squared length of a fit in the metric."""
        return self.squared(self.seen(fit))

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """Of the variances of the noise along orthogonal directions of the metric: the sum, the sum of squares, and
        the largest; or bounds on them from above. By default of independent noise of variance one."""
        return self.cells, self.cells, 1.0

    @property
    def total_sums(self) -> tuple[float, float, float]:
        """The same of how far the truth is, at the most, from tables that have the released totals of groups."""
        return 0.0, 0.0, 0.0

    @property
    @abstractmethod
    def cells(self) -> float:
        """How many numbers a squared distance is spread over."""

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        return np.asarray(self.seen(fit) + self.noise(random))

    def noise(self, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe of nobody."""
        return self.read(noise_alone(self.plan, random))

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over all asked queries that are answered; without any, over what is seen."""
        workload, total, queries = self.plan.workload, 0.0, 0
        for term in () if workload is None else map(self.metric_term, workload.terms()):
            members = tuple(i for i, _ in term)
            if fit.supports(members):
                apart = applied(term, fit.marginal(members) - truth.marginal(members))
                told = np.isfinite(apart)  # of groups that measured nothing, nothing is
                total, queries = total + float(np.abs(apart[told]).sum()), queries + int(told.sum())
        return total / queries if queries else float(np.abs(self.seen(fit) - self.seen(truth)).mean())

    def metric_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Sequence[tuple[int, AttributeQueries]]:
        """A term as the metric counts it."""
        return term

    def only_total(self, where: str) -> None:
        """Refuses facts other than the total.

        Raises:
            PlanError: there are some.
        """
        for fact in self.terms.facts:
            if fact.members:
                raise PlanError(
                    f"known: {where} only the total can be given, not {shown(self.plan.domain, fact.members)}; "
                    "leave it out."
                )


def noise_alone(plan: Plan, random: np.random.Generator) -> Estimator:
    """What a release of a plan would tell of nobody: the estimates of simulated noise."""
    measurements: Any = plan.compile()  # the precisions are those measured, the rounding of noise included
    return plan.estimator(measurements, measurements.simulated(random))


def spectral_sums(variances: Floats, often: Floats | float = 1.0) -> tuple[float, float, float]:
    """The sum of variances, of their squares, and the largest, each as often as it is there."""
    counts = np.broadcast_to(often, variances.shape)
    return float(variances @ counts), float((variances * variances) @ counts), float(variances.max(initial=0.0))
