"""The planner of precisions on sets of attributes: for marginals and products, over any number of attributes.

A plan for several workloads together: plans like it share strategies, and combine over any number of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from residua.errors import PlanError
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.objectives import Effort, MaxVariance, TotalVariance, check_objective
from residua.plans.planners.blockwise import Blockwise, blockwise_if_better, plan_joint
from residua.plans.planners.crossed import plan_crossed
from residua.plans.planners.forecast import Forecast, forecast, side_of
from residua.plans.planners.laplace import plan_pure
from residua.plans.planners.marginals import plan_marginals
from residua.plans.planners.offers import Declared, Offer, Planner, Proof, Task
from residua.plans.planners.products import like_strategies, plan_products
from residua.plans.planners.tables import plan_pure_marginals
from residua.plans.strategy import Strategy
from residua.privacy import ZCDP, AddRemove
from residua.workload import Workload, added


@dataclass(frozen=True)
class Lattice(Planner[Plan]):
    """A plan of precisions on sets of attributes: for marginals and products, over any number of attributes.

    Args:
        like: a lattice plan whose strategies to use, attribute by attribute, so that `common`, `residual`, `top_up`
            and sessions combine the two exactly over any number of cells. The plan's `gap` counts what its strategies
            cost; where that is much, plan the sum of the workloads first, and then each of them like that.
        limit: most rounds of an iterative objective.
    """

    declares = (
        Declared("marginals", "any objective", "normal", Proof.EVERY, "in proportion to the sets of attributes"),
        Declared(
            "products: prefixes, ranges, levels, any rows of each attribute",
            "total, largest",
            "normal",
            Proof.CLASS,
            "with the cube of the values of an attribute",
        ),
        Declared(
            "marginals",
            "total, largest",
            "laplace",
            Proof.LOOSE,
            "in proportion to the sets, times tries",
        ),
    )

    like: Plan | None = None
    limit: int = 10_000

    def __post_init__(self) -> None:
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise PlanError(f"limit={self.limit!r} is not a positive whole number of rounds.")

    def offer(self, task: Task) -> Offer | None:
        """For marginals and products; with Laplace noise, for marginals."""
        workload = task.workload
        if not task.requested and (not workload.tabular or (task.laplace and workload.with_rows)):
            return None
        exact = workload.plain and self.like is None
        proof = Proof.LOOSE if task.laplace else Proof.EVERY if exact else Proof.CLASS
        by_matrix = (task.laplace or workload.with_rows) and not isinstance(self.like, BlockwisePlan)
        ahead = Forecast(0.0, 0.0, "marginals")
        if by_matrix:
            ahead = forecast(workload, pure=task.laplace, maximum=isinstance(task.objective, MaxVariance))
        return Offer(proof, ahead, task.within(self.limit), side_of(workload), attended=True)

    def plan(self, task: Task) -> Plan:
        """The plan; block by block where that is better, and what is like a blockwise plan always.

        Raises:
            PlanError: an objective, or strategies to use, that do not fit the workload.
        """
        workload = task.workload
        if task.laplace:
            return self._laplace(task)
        if isinstance(self.like, BlockwisePlan):
            return Blockwise(self.like).plan(task)
        check_objective(task.objective, workload, laplace=False, matrix=False)
        if not workload.tabular:
            return plan_joint(workload, task)
        given = self._given(workload)
        axes = [i for i, strategy in enumerate(given or ()) if strategy is not None and strategy.tells]
        if axes:
            return plan_crossed(workload, task, axes, given)
        if workload.plain and given is None:
            return plan_marginals(workload, task)
        made = plan_products(workload, task, given)
        return made if task.requested else blockwise_if_better(made, task)

    def _laplace(self, task: Task) -> Plan:
        if self.like is not None:
            raise PlanError("refined, bias and like are for Gaussian noise; leave them out, or give another guarantee.")
        check_objective(task.objective, task.workload, laplace=True, matrix=False)
        if task.workload.plain:
            return plan_pure_marginals(task.workload, task)
        return plan_pure(task.workload.listed(), task)

    def _given(self, workload: Workload) -> tuple[Strategy | None, ...] | None:
        """The strategies to measure by; None if they are to be chosen, or those of every plan for marginals."""
        if self.like is None:
            return None
        given = like_strategies(self.like, workload)
        plain = workload.plain and all(strategy is None or strategy.plain for strategy in given)
        return None if plain else given


_RECORD = AddRemove()


def common_ground(workloads: Sequence[Workload]) -> Plan | None:
    """A plan for all these workloads of one domain together: plans like it can be combined.

    None where none is needed: for marginals alone, whose plans share strategies, and for few cells, over which plans of
    all kinds are combined.
    """
    if len(workloads) > 1 and any(workload.in_parts for workload in workloads):
        whole = added(workloads)
        return None if math.prod(whole.shape) <= MOST_COLUMNS else plan_joint(*_task(whole))
    tables = [workload for workload in workloads if workload.tabular]
    if len(tables) < 2 or not any(workload.with_rows for workload in tables):
        return None
    total = added(tables)
    if math.prod(total.shape) <= MOST_COLUMNS:
        return None
    return plan_products(total, _task(total)[1])


def _task(workload: Workload) -> tuple[Workload, Task]:
    effort = Effort(tolerance=1e-3)
    return workload, Task(workload, ZCDP(0.5), TotalVariance(), 1.0, _RECORD, None, effort)
