"""The options of each form of plan, and what a form of your own must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from residua.plans.contract import Plan
from residua.plans.objectives import Effort, Objective
from residua.privacy import Guarantee, Unit
from residua.workload import Workload


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
    """

    workload: Workload
    guarantee: Guarantee | None
    objective: Objective
    loss: float
    unit: Unit
    tolerance: float | None
    effort: Effort
    laplace: bool = False

    @property
    def allowed(self) -> float | None:
        """The privacy cost that the budget allows the unit, if there is one."""
        return None if self.guarantee is None else float(self.guarantee.pcost_allowed())


class Form(ABC):
    """The form that a plan is to have. A form of your own is a subclass that makes its plans itself."""

    @abstractmethod
    def plan(self, task: Task) -> Plan | None:
        """A plan for the task; None to leave it to residua's own planners."""


@dataclass(frozen=True)
class Lattice(Form):
    """A plan of precisions on sets of attributes: for marginals and products, over any number of attributes.

    Args:
        like: a lattice plan whose strategies to use, attribute by attribute, so that `common`, `residual`, `top_up`
            and sessions combine the two exactly over any number of cells. The plan's `gap` counts what its strategies
            cost; where that is much, plan the sum of the workloads first, and then each of them like that.
        limit: most rounds of an iterative objective.
    """

    like: Plan | None = None
    limit: int = 10_000

    def plan(self, task: Task) -> None:
        """Made by residua's own planners."""


@dataclass(frozen=True)
class Matrix(Form):
    """A plan of one matrix over cells: for any queries, on few cells; marginals and products are listed query by query.

    Args:
        refined: among plans that meet explicit targets equally well, the one with the lexicographically least privacy
            profile.
        bias: how far off answers may be systematically, per record, as a root mean square over the queries; 0 for
            unbiased answers. See `plan.bias` and `plan.workload` of the result.
    """

    refined: bool = False
    bias: float = 0.0

    def plan(self, task: Task) -> None:
        """Made by residua's own planners."""
