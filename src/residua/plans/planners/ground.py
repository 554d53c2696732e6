"""A plan for several workloads together: plans like it share strategies, and combine over any number of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.forms import Task
from residua.plans.objectives import Effort, TotalVariance
from residua.plans.planners.joint import plan_joint
from residua.plans.planners.products import plan_products
from residua.plans.questions import Workload
from residua.privacy import ZCDP, AddRemove
from residua.workload import Explicit, Joint, Marginals, Products, as_products

_RECORD = AddRemove()


def common_ground(workloads: Sequence[Workload]) -> Plan | None:
    """A plan for all these workloads of one domain together: plans like it can be combined.

    None where none is needed: for marginals alone, whose plans share strategies, and for few cells, over which plans of
    all kinds are combined.
    """
    if len(workloads) > 1 and any(isinstance(workload, Joint) for workload in workloads):
        used = {i for workload in workloads for i in _used(workload)}
        few = math.prod(int(workloads[0].domain.sizes[i]) for i in used) <= MOST_COLUMNS
        return None if few else plan_joint(*_task(reduce(_joint_sum, workloads)))
    listed = [workload for workload in workloads if isinstance(workload, Marginals | Products)]
    if len(listed) < 2 or not any(isinstance(workload, Products) for workload in listed):
        return None
    products = [as_products(workload) for workload in listed]
    used = {i for workload in products for family in workload.families for i in family.used}
    if math.prod(int(products[0].domain.sizes[i]) for i in used) <= MOST_COLUMNS:
        return None
    total = as_products(reduce(_sum, listed))
    return plan_products(total, _task(total)[1])


def _task(workload: Workload) -> tuple[Workload, Task]:
    effort = Effort(tolerance=1e-3)
    return workload, Task(workload, ZCDP(0.5), TotalVariance(), 1.0, _RECORD, None, effort)


def _used(workload: Workload) -> set[int]:
    if isinstance(workload, Explicit):
        return set(workload.attributes)
    return {i for family in as_products(workload).families for i in family.used}


def _joint_sum(first: Workload, second: Workload) -> Workload:
    return first + second


def _sum(first: Marginals | Products, second: Marginals | Products) -> Marginals | Products:
    both = first + second
    assert isinstance(both, Marginals | Products)  # neither was explicit
    return both
