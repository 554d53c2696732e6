"""What a planner is: it says what it accepts, how good its proof and how slow it will be, and makes the plan.

`rs.plan` asks all planners that are registered for an offer, and takes the best: the strongest proof, and among equals
the quickest. A planner of your own is one class, given to `rs.plan` as its `form` or registered for every call. All
end alike, by `finished`: scaled to the budget, or to the loss that was asked for, with what that guarantees.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar

from residua.domain import Domain
from residua.errors import PlanError, named
from residua.linalg.arrays import Floats, Integers
from residua.machine import free_bytes
from residua.plans.contract import Plan
from residua.plans.noise import guarantee_like
from residua.plans.objectives import Objective, Sloped, TotalVariance, described, of_single_queries
from residua.plans.saddle import Effort
from residua.plans.statements import Candidate
from residua.plans.targets import targets_in_words
from residua.plans.tolerances import BUDGET_SLACK, PROOF_SLACK
from residua.privacy import ZCDP, AddRemove, Guarantee, PureDP, Unit
from residua.privacy.costs import Reach, by_cells, reach_of
from residua.workload import Workload

P = TypeVar("P", bound=Plan, covariant=True)
Q = TypeVar("Q", bound=Plan)


@dataclass(frozen=True, eq=False)
class Task:
    """What a plan is to be made for, checked.

    Args:
        workload: what is asked.
        guarantee: the budget; None for the smallest budget at which the loss is acceptable.
        objective: what is to be small.
        loss: the largest acceptable loss, without a budget.
        unit: whom to protect.
        tolerance: the gap at which to stop, if one was given.
        effort: when to stop, and where to report progress.
        laplace: whether the noise is Laplace, and privacy counted in epsilon.
        requested: whether one planner was asked for by name: it then plans whatever it can, or says why it cannot.
    """

    workload: Workload
    guarantee: Guarantee | None
    objective: Objective = field(default_factory=TotalVariance)
    loss: float = 1.0
    unit: Unit = field(default_factory=AddRemove)
    tolerance: float | None = None
    effort: Effort = field(default_factory=Effort)
    laplace: bool = False
    requested: bool = False

    @property
    def stated(self) -> dict[str, Any]:
        """What every plan keeps of its task."""
        name, targets = described(self.objective), getattr(self.objective, "targets", None)
        name += "" if targets is None else f" ({targets_in_words(targets)})"
        return {"guarantee": self.guarantee, "unit": self.unit, "workload": self.workload, "objective": name}

    @property
    def allowed(self) -> float | None:
        """The privacy cost that the budget allows the unit, if there is one."""
        return None if self.guarantee is None else float(self.guarantee.pcost_allowed())

    @property
    def by_cells(self) -> bool:
        """Whether the unit pays what its most expensive cell costs, times a number: then gaps can be proven."""
        return by_cells(self.unit)

    @property
    def reach(self) -> Reach | None:
        """What a person can have in the tables of the domain; None if records change instead."""
        return reach_of(self.unit, self.workload.domain.names, self.workload.domain.sizes)

    def within(self, limit: int) -> Task:
        """The same task with at most so many rounds."""
        return replace(self, effort=replace(self.effort, limit=limit))


class Proof(IntEnum):
    """What a plan's gap is about, the strongest first."""

    EVERY = 0
    CLASS = 1
    LOOSE = 2
    NONE = 3

    @property
    def words(self) -> str:
        """What people are told."""
        return ("against every plan", "against every plan of its class", "against a loose bound on every plan", "none")[
            self
        ]


@dataclass(frozen=True)
class Declared:
    """What a planner says of itself: a row of the table in `docs/choosing.md`.

    Args:
        asked: what is asked.
        objectives: what can be minimised.
        noise: `"normal"`, `"laplace"`, or both.
        proof: what the gap is about.
        takes: how the time grows.
    """

    asked: str
    objectives: str
    noise: str
    proof: Proof
    takes: str


@dataclass(frozen=True)
class Forecast:
    """What planning will take.

    Args:
        seconds: about how long.
        bytes: about how much memory.
        what: of what, in words.
        values: how many values the longest axis has whose matrix is written out; 0 if there is none.
        sooner: what would take less, in a sentence; nothing if that is not known.
    """

    seconds: float
    bytes: float
    what: str
    values: float = 0.0
    sooner: str = ""

    def __str__(self) -> str:
        return (
            f"planning {self.what} takes about {_duration(self.seconds)} and {_size(self.bytes)} of memory{self.sooner}"
        )

    def check(self) -> None:
        """Refuses what does not fit into memory.

        Raises:
            PlanError: it does not.
        """
        free = free_bytes()
        if free is not None and self.bytes > free:
            raise PlanError(
                f"planning {self.what} needs about {_size(self.bytes)} of memory, and {_size(free)} are free; ask for "
                "fewer queries, group values (rs.Bins, levels), or ask for marginals."
                f"{self._fitting(free)}{self.sooner}"
            )

    def _fitting(self, free: int) -> str:
        """The size that would work, in words."""
        if not self.values:
            return ""
        most = int(self.values * math.sqrt(free / self.bytes))
        return (
            f" Such rows take matrices over values, which fit for up to about {most:,} of them; prefixes, ranges, and "
            "levels of one attribute are planned without, and so are a few rows as a list of queries (rs.explicit)."
        )


@dataclass(frozen=True, eq=False)
class Offer:
    """What a planner offers for a task.

    Args:
        proof: how good the plan will be proven to be.
        forecast: how long it takes and how much memory; refused before it starts where that does not fit.
        task: the task as the planner takes it, such as with its queries written out.
        side: how many rows the matrices have that are decomposed, about; 1 where there are none.
        attended: whether the work is done beside the caller where it takes long, so that it can be stopped.
    """

    proof: Proof
    forecast: Forecast
    task: Task
    side: float = 2.0
    attended: bool = False

    @property
    def order(self) -> tuple[int, float]:
        """The best offer has the least."""
        return self.proof, self.forecast.seconds


UNBEATABLE = (Proof.EVERY, 0.0)  # an order: proven against every plan, at once


def _duration(seconds: float) -> str:
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(seconds, 1.0):,.0f} seconds"


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{max(count / 2**20, 1.0):,.0f} MB"


class Planner(ABC, Generic[P]):
    """A way to plan, with its options."""

    declares: ClassVar[tuple[Declared, ...]] = ()

    @abstractmethod
    def offer(self, task: Task) -> Offer | None:
        """What it offers for a task; None where it does not accept it, or others are known to be better.

        A planner that was asked for by name (`task.requested`) offers in any case, and says in `plan` why it cannot.
        """

    @abstractmethod
    def plan(self, task: Task) -> P | None:
        """The plan; None where it turns out that others are better.

        Raises:
            PlanError: a task that it cannot plan.
        """


_PLANNERS: dict[str, Planner[Plan]] = {}


def register(planner: Planner[Plan]) -> None:
    """Has `rs.plan` ask this planner too; one of the same class takes the place of the one before."""
    kind = type(planner)
    _PLANNERS[f"{kind.__module__}.{kind.__qualname__}"] = planner


def registered() -> tuple[Planner[Plan], ...]:
    """All planners that are asked."""
    return tuple(_PLANNERS.values())


# ---- how every planner ends: scaled to the budget, or to the loss that was asked for, with gap and guarantee


def relative_gap(achieved: float, bound: float) -> float:
    """How far what is achieved is from what is proven, relatively; infinite where nothing is."""
    return max(achieved / bound - 1.0, 0.0) if bound > 0 else math.inf


def proven_gap(task: Task, achieved: float, bound: float, rounding: float = 0.0) -> float:
    """The gap of a plan along an axis, a tree or blocks; infinite where a unit does not pay cell by cell.

    Args:
        task: whom to protect.
        achieved: the plan's loss times what one record costs.
        bound: what no plan's is below.
        rounding: what rounding to integers adds to a loss, relatively.
    """
    return relative_gap(achieved, bound) + rounding if task.by_cells else math.inf


def checked_like(like: Any, shared: str, form: str, domain: Domain) -> Any:
    """The plan that another is to be like.

    Raises:
        PlanError: it does not share what the form takes from it, or is a plan over another domain.
    """
    if getattr(like, "shared", "") != shared:
        raise PlanError(f"like={named(like)} is not {form}, whose {shared} another plan could share; plan one first.")
    if like.domain != domain:
        raise PlanError("like is a plan over another domain; plan over one domain.")
    return like


def sees_too_little(names: str) -> PlanError:
    """What is said of a plan that does not measure all that another, like it, is asked."""
    return PlanError(
        f"like sees too little of {names} for what is asked here; plan the sum of the workloads first, and then each "
        "of them like that."
    )


def finished(plan: Q, task: Task, loss: float, *, slack: float = BUDGET_SLACK, cost: float | None = None) -> Q:
    """A plan with normal noise, scaled to the budget; or without one to the acceptable loss, with what it guarantees.

    Args:
        plan: any precisions; what its unit pays, and its loss, are in proportion and in inverse proportion to them.
        task: the budget, or the acceptable loss.
        loss: the plan's own.
        slack: the share of the budget that is spent, for rounding.
        cost: what its unit pays, where that is known.

    Raises:
        PlanError: the unit pays nothing.
    """
    if task.allowed is None:
        plan = plan.scaled(loss / task.loss / slack)
    paid = plan.unit_pcost if cost is None or task.allowed is None else cost
    if paid <= 0:
        raise PlanError("replacing a record changes none of these tables; they can be published without noise.")
    if task.allowed is None:
        return plan.replaced(guarantee=guarantee_like(ZCDP(1.0), paid))
    return plan.scaled(task.allowed / paid * slack)


def finished_pure(
    plan: Q, task: Task, loss: float, bound: float, attributes: Collection[int], tried: Sequence[tuple[str, float]]
) -> Q:
    """The same for Laplace noise, with what was tried and the gap to what no strategy goes below.

    Args:
        plan: any noise; losses go as 1/ε².
        task: the budget, or the acceptable loss.
        loss: the plan's own.
        bound: the least loss of normal noise of pcost 1; Laplace noise of epsilon 1 has twice that, at least. Of a loss
            that does not go as 1/ε², the least loss of normal noise of half the square of `laplace_epsilon`.
        attributes: positions of those that are asked: a person can have so many records alike in them.
        tried: the names and losses of all strategies, the plan's own first.
    """
    if isinstance(task.guarantee, PureDP):
        factor = task.guarantee.epsilon / plan.unit_epsilon * BUDGET_SLACK
    else:
        factor = math.sqrt(loss / task.loss) / BUDGET_SLACK
    plan, loss = plan.scaled(factor**2), loss / factor**2
    alike = most_alike(task.unit, plan.domain.names, plan.domain.sizes, attributes)
    proven = 2 * bound * (alike / plan.unit_epsilon) ** 2 * PROOF_SLACK
    if not task.objective.homogeneous:
        loss = task.objective.loss(task.workload, plan.variances(task.workload, per="term"))
        proven = bound * PROOF_SLACK if alike else 0.0
    candidates = tuple(Candidate(name, value * loss / tried[0][1]) for name, value in tried)
    plan = plan.replaced(gap=relative_gap(loss, proven), candidates=candidates, lower_bound=proven)
    return plan if task.guarantee is not None else plan.replaced(guarantee=PureDP(plan.unit_epsilon / BUDGET_SLACK))


def laplace_epsilon(task: Task, attributes: Collection[int]) -> float:
    """The epsilon of one record of those that a person has alike, by which a loss that does not go as 1/ε² is judged.

    Raises:
        PlanError: there is no budget.
    """
    if not isinstance(task.guarantee, PureDP):
        raise PlanError(
            f"{type(task.objective).__name__} does not go as 1/epsilon²; give PureDP(epsilon=…), or another objective."
        )
    domain = task.workload.domain
    return task.guarantee.epsilon / (most_alike(task.unit, domain.names, domain.sizes, attributes) or 2)


def laplace_slopes(task: Task, attributes: Collection[int]) -> Callable[[Floats], tuple[float, Floats]] | None:
    """The loss of variances at epsilon 1, and its slopes; None of a total or a largest one, which need none.

    Raises:
        PlanError: an objective that has no slopes.
    """
    objective, workload = task.objective, task.workload
    if of_single_queries(objective):
        return None
    if not isinstance(objective, Sloped):
        raise PlanError(
            f"{type(objective).__name__} has no slopes(…), which PureDP asks for; see the objectives of residua."
        )
    scale = 1.0 if objective.homogeneous else laplace_epsilon(task, attributes) ** -2.0

    def slopes(variances: Floats) -> tuple[float, Floats]:
        value, each = objective.slopes(workload, variances * scale)
        return value, each * scale

    return slopes


def most_alike(unit: Unit, names: Sequence[str], sizes: Integers, attributes: Iterable[int]) -> int:
    """How many records of a person can have the same values of all these attributes; 0 if a record is replaced.

    So many count alike in every table of them, which no mechanism with pure DP can pay less for: what a bound rests on.
    """
    reach = reach_of(unit, names, sizes)
    return 0 if reach is None else min([reach.records, *(reach.limits.get(i, reach.records) for i in attributes)])
