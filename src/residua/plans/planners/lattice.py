"""The planner of precisions on sets of attributes: for marginals and products, over any number of attributes.

A plan for several workloads together: plans like it share strategies, and combine over any number of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from residua.errors import PlanError
from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.objectives import Effort, MaxVariance, check_objective
from residua.plans.planners.blockwise import Blockwise, blockwise_if_better, plan_blockwise
from residua.plans.planners.crossed import plan_crossed
from residua.plans.planners.forecast import forecast, side_of
from residua.plans.planners.marginals import plan_marginals, plan_pure_marginals
from residua.plans.planners.matrix import plan_pure
from residua.plans.planners.offers import Declared, Forecast, Offer, Planner, Proof, Task
from residua.plans.planners.products import like_strategies, plan_products
from residua.plans.strategy import Strategy
from residua.privacy import ZCDP
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
        Declared("marginals", "total, largest", "laplace", Proof.LOOSE, "in proportion to the sets, times tries"),
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
        task, at_once = task.within(self.limit), Forecast(0.0, 0.0, "marginals")
        if workload.plain and self.like is None and not task.laplace:
            return Offer(Proof.EVERY, at_once, task)
        proof = Proof.LOOSE if task.laplace else Proof.CLASS
        ahead = at_once
        if (task.laplace or workload.with_rows) and not self._by_rows:
            ahead = forecast(workload, pure=task.laplace, maximum=isinstance(task.objective, MaxVariance))
        return Offer(proof, ahead, task, side_of(workload), attended=True)

    def plan(self, task: Task) -> Plan:
        """The plan; block by block where that is better, and what is like a blockwise plan always.

        Raises:
            PlanError: an objective, or strategies to use, that do not fit the workload.
        """
        workload = task.workload
        if task.laplace:
            return self._laplace(task)
        if self._by_rows:
            return Blockwise(self.like).plan(task)
        check_objective(task.objective, workload, laplace=False, matrix=False)
        if not workload.tabular:
            return plan_blockwise(task)
        given = self._given(workload)
        axes = [i for i, strategy in enumerate(given or ()) if strategy is not None and strategy.tells]
        if axes:
            return plan_crossed(task, axes, given)
        if workload.plain and given is None:
            return plan_marginals(task)
        plan = plan_products(task, given)
        return plan if task.requested else blockwise_if_better(plan, task)

    @property
    def _by_rows(self) -> bool:
        """Whether the plan to be like is blockwise, whose rows are shared."""
        return getattr(self.like, "shared", "") == "rows"

    def _laplace(self, task: Task) -> Plan:
        if self.like is not None:
            raise PlanError("refined, bias and like are for Gaussian noise; leave them out, or give another guarantee.")
        check_objective(task.objective, task.workload, laplace=True, matrix=False)
        return plan_pure_marginals(task) if task.workload.plain else plan_pure(task)

    def _given(self, workload: Workload) -> tuple[Strategy | None, ...] | None:
        """The strategies to measure by; None if they are to be chosen, or those of every plan for marginals."""
        if self.like is None:
            return None
        given = like_strategies(self.like, workload)
        plain = workload.plain and all(strategy is None or strategy.plain for strategy in given)
        return None if plain else given


def common_ground(workloads: Sequence[Workload]) -> Plan | None:
    """A plan for all these workloads of one domain together: plans like it can be combined.

    None where none is needed: for marginals alone, whose plans share strategies, and for few cells, over which plans of
    all kinds are combined.
    """
    listed = len(workloads) > 1 and any(workload.in_parts for workload in workloads)
    together = [workload for workload in workloads if listed or workload.tabular]
    if len(together) < 2 or not (listed or any(workload.with_rows for workload in together)):
        return None
    task = Task(added(together), ZCDP(0.5), effort=Effort(tolerance=1e-3))
    if math.prod(task.workload.shape) <= MOST_COLUMNS:
        return None
    return plan_blockwise(task) if listed else plan_products(task)
