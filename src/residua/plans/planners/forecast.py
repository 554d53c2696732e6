"""What planning with matrices will take, said before it starts: seconds and memory, from sizes alone.

The work of a planner is that of so many eigenvalue problems. How long one takes on this machine is measured once, on a
small one; constants are from measured plans, and a single workload may take several times as long, or a fraction of it.
"""

from __future__ import annotations

import math
import time
from functools import cache

import numpy as np

from residua.plans.planners.offers import Forecast
from residua.workload import Workload

_USUAL = 1e-9  # seconds per n³ of an n × n eigenvalue problem: enough to tell what is short for certain
_SHORT = 1.0
_TALL = 8  # times as many queries as cells: then only their Gram matrix counts
_LONG = 512  # values from which noise is correlated along an axis
_NEWTON = 6000  # queries and cells up to which a Newton system is written out


def forecast(workload: Workload, *, pure: bool = False, maximum: bool = False) -> Forecast:
    """What planning for a workload will take.

    Args:
        workload: what is asked.
        pure: whether for Laplace noise.
        maximum: whether the largest variance counts, not their sum.
    """
    if workload.plain:
        return Forecast(0.0, 0.0, "marginals")
    if workload.with_rows and not pure:
        sizes = _searched(workload)
        work = float(sum(n**3 for n in sizes)) * (400.0 if maximum else 100.0)
        longest = max(sizes, default=0.0)
        what = f"products over up to {longest:,.0f} values"
        return Forecast(_seconds(work), 30 * 8.0 * longest**2, what, longest, _without_others(workload))
    cells, queries = _shape(workload)
    if pure:
        work = 8e5 * cells**2 + 800.0 * cells**3
    else:
        work = (30.0 if maximum else 15.0) * min(queries, _TALL * cells) * cells * min(queries, cells)
    written = queries + cells if queries + cells <= _NEWTON else 0.0
    needed = 8.0 * (16 * queries * cells + 3 * written**2)
    return Forecast(_seconds(work), needed, f"{queries:,.0f} queries over {cells:,.0f} cells")


def side_of(workload: Workload) -> float:
    """How many rows the matrices have that are decomposed to plan a workload, about."""
    if not workload.tabular:
        return float(math.prod(workload.shape))
    return 1.0 if workload.plain else float(max(workload.shape, default=1))


def _searched(workload: Workload) -> list[float]:
    """The sizes of attributes whose strategy is searched for; those asked alike share one search."""
    sizes = {}
    for i, n in enumerate(workload.domain.sizes.tolist()):
        asked = frozenset(family.queries[i] for family in workload.families if i in family.used)
        if not all(one.plain for one in asked):
            sizes[asked] = float(n)
    return list(sizes.values())


def _without_others(workload: Workload) -> str:
    """What is said of long ordered attributes that are planned by matrices for their cell of other values alone."""
    domain = workload.domain
    for i, name in enumerate(domain.names):
        asked = [family.queries[i] for family in workload.families if i in family.used]
        ordered = any(each.kind in ("prefixes", "ranges") for each in asked)
        if ordered and domain[name].has_other and int(domain.sizes[i]) > _LONG:
            return (
                f" ({name!r} has a cell for other values, which takes matrices; with unknown and missing values "
                "refused or dropped instead, its order is planned in seconds)"
            )
    return ""


def _shape(workload: Workload) -> tuple[float, float]:
    """How many distinct cells and how many queries."""
    if workload.with_rows:
        return math.prod(map(float, workload.shape)), float(workload.queries)
    return float(distinct_cells(workload)), float(workload.queries)


def distinct_cells(workload: Workload) -> int:
    """How many cells listed queries distinguish, about."""
    probe = np.random.default_rng(0).standard_normal(workload.queries)
    return len(np.unique(workload.matrix.T @ probe))  # equal columns, equal sums


def _seconds(work: float) -> float:
    return work * (_unit() if work * _USUAL > _SHORT else _USUAL)


@cache
def _unit() -> float:
    """Seconds per n³ of an eigenvalue problem on this machine."""
    n = 300
    A = np.random.default_rng(0).standard_normal((n, n))
    A, times = A + A.T, []
    for _ in range(3):
        start = time.perf_counter()
        np.linalg.eigh(A)
        times.append(time.perf_counter() - start)
    return min(times) / n**3
