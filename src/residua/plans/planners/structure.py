"""Forms that a workload's structure calls for, whatever its size: ordered axes, trees, and both crossed with others."""

from __future__ import annotations

from residua.linalg.threads import threads_for
from residua.plans.contract import Plan
from residua.plans.forms import Task
from residua.plans.planners.axis import by_itself, plan_axis
from residua.plans.planners.crossed import crossed_by_itself
from residua.plans.planners.pure_runs import pure_runs
from residua.plans.planners.tree import plan_tree, tree_by_itself


def by_structure(task: Task) -> Plan | None:
    """The plan along a long ordered axis, over a tree of many leaves, or of one such crossed with others; else None."""
    with threads_for(1):  # however many values there are, only small matrices are decomposed
        if task.laplace:
            return pure_runs(task)
        if by_itself(task) and (along := plan_axis(task)) is not None:
            return along
        nested = tree_by_itself(task)
        if nested is not None and (over := plan_tree(task, nested)) is not None:
            return over
        return crossed_by_itself(task)
