"""What to read instead of a release's own tables where these are mostly noise, with a figure from the release alone.

A cell's noise of standard deviation s is `s √(2/π)` in absolute value, on average. Half the sum over the cells of a
table, over the number of records, is the share of the records that noise moves to other cells: an expected distance in
total variation from the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from residua.errors import PlanError
from residua.language import mark, say, say_many
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan

_MUCH = 0.1  # of the records: below, tables are read as they are


def moved_by_noise(plan: Plan, total: float) -> dict[int, float]:
    """The share of the records that noise moves in the marginals asked for, the mean by their number of attributes."""
    workload = plan.workload
    if workload is None or not workload.plain:
        return {}
    try:
        stddevs = np.sqrt(plan.variances(workload, per="term"))
    except PlanError:
        return {}
    moved: Floats = math.sqrt(2.0 / math.pi) * stddevs * workload.cells / (2.0 * max(total, 1.0))
    sizes = workload.lattice.set_sizes[workload.numbers]
    shares = {int(size): float(moved[sizes == size].mean()) for size in np.unique(sizes)}
    return {size: share for size, share in shares.items() if math.isfinite(share)}  # some groups may not have a table


def advice_on(moved: Mapping[int, float]) -> str:
    """A sentence where noise moves much in some tables; nothing where it does not."""
    size = max(moved, key=lambda one: moved[one], default=0)
    if not moved or moved[size] <= _MUCH:
        return ""
    percent = min(round(100 * moved[size]), 100)
    return say_many(
        "Noise moves {percent}% of the records of a table of one attribute to other cells, on average: to look at "
        "tables, estimates or a projection made from this release are nearer to the truth; for numbers "
        "with exact intervals, read these.",
        "Noise moves {percent}% of the records of a table of {n} attributes to other cells, on average: to look at "
        "tables, estimates or a projection made from this release are nearer to the truth; for numbers "
        "with exact intervals, read these.",
        size,
        percent=percent,
    )


def with_commands(advice: str) -> str:
    """The same for whoever publishes: by which commands."""
    commands = mark("By residua estimate (rs.estimate) or project (rs.project).")
    return f"{advice} {say(commands)}" if advice else ""
