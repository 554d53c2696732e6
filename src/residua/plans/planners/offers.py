"""What a planner is: it says what it accepts, how good its proof and how slow it will be, and makes the plan.

`rs.plan` asks all planners that are registered for an offer, and takes the best: the strongest proof, and among equals
the quickest. A planner of your own is one class, given to `rs.plan` as its `form` or registered for every call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import ClassVar, Generic, TypeVar

from residua.plans.contract import Plan
from residua.plans.objectives import Effort, Objective
from residua.plans.planners.forecast import Forecast
from residua.privacy import Guarantee, Unit
from residua.workload import Workload

P = TypeVar("P", bound=Plan, covariant=True)


@dataclass(frozen=True, eq=False)
class Task:
    """What a plan is to be made for, checked.

    Args:
        workload: what is asked.
        guarantee: the budget; None for the least privacy at which the loss is acceptable.
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
    objective: Objective
    loss: float
    unit: Unit
    tolerance: float | None
    effort: Effort
    laplace: bool = False
    requested: bool = False

    @property
    def allowed(self) -> float | None:
        """The privacy cost that the budget allows the unit, if there is one."""
        return None if self.guarantee is None else float(self.guarantee.pcost_allowed())

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
        return (
            "against every plan",
            "against every plan of its class",
            "against a loose bound on every plan",
            "none",
        )[self]


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


@dataclass(frozen=True, eq=False)
class Offer:
    """What a planner offers for a task.

    Args:
        proof: how good the plan will be proven to be.
        forecast: how long it takes and how much memory; refused before it starts where that does not fit.
        task: the task as the planner takes it, such as with its queries written out.
        side: how many rows the matrices have that are decomposed, about.
        attended: whether the work is done beside the caller where it takes long, so that it can be stopped.
    """

    proof: Proof
    forecast: Forecast
    task: Task
    side: float = 1.0
    attended: bool = False

    @property
    def order(self) -> tuple[int, float]:
        """The best offer has the least."""
        return self.proof, self.forecast.seconds


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


def planner_table() -> str:
    """What all planners declare, as a table in Markdown."""
    head = "| form | asked | minimises | noise | proof | time |\n|---|---|---|---|---|---|\n"
    rows = [
        f"| `rs.{type(planner).__name__}` | {row.asked} | {row.objectives} | {row.noise} | {row.proof.words} "
        f"| {row.takes} |\n"
        for planner in registered()
        for row in planner.declares
    ]
    return head + "".join(rows)
