"""A plan for several workloads together: plans like it share strategies, and combine over any number of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.objectives import Effort, TotalVariance
from residua.plans.planners.joint import plan_joint
from residua.plans.planners.offers import Task
from residua.plans.planners.products import plan_products
from residua.privacy import ZCDP, AddRemove
from residua.workload import Workload, added

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
