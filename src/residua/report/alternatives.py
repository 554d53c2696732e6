"""What another choice would give: plans beside a plan, made when it is shown, and where that is quick."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np

from residua.errors import ResiduaError
from residua.plans import MaxVariance, TotalVariance
from residua.plans import plan as best_plan
from residua.plans.contract import Plan
from residua.plans.objectives import Objective
from residua.plans.planners.forecast import forecast
from residua.privacy import ApproxDP, Guarantee, PureDP
from residua.workload import Workload

_OBJECTIVES: dict[str, Objective] = {"TotalVariance": TotalVariance(), "MaxVariance": MaxVariance()}
_DELTA = 1e-6
_UNEVEN = 1.1  # times the least standard deviation: below, tables are alike
_TOLERANCE = 1e-2  # of figures that are shown with three digits
_MOST_TABLES, _MOST_QUERIES, _SECONDS = 20_000, 4_096, 0.3  # what is planned at once


def alternatives(plan: Plan) -> Iterator[tuple[str, str]]:
    """What the plan's objective and its noise do that people may not expect, with what others would give; each with a
    heading."""
    if plan.workload is None:
        return
    if plan.objective.startswith("TotalVariance") and len(plan.workload) > 1 and plan.workload.tabular:
        yield from _of_sizes(plan, plan.workload)
    if isinstance(plan.guarantee, PureDP):
        yield "Noise", _of_delta(plan, plan.workload, plan.guarantee)


def _of_sizes(plan: Plan, workload: Workload) -> Iterator[tuple[str, str]]:
    """Where small tables have larger errors than large ones: why, and what would change that."""
    stddevs, cells = np.sqrt(plan.variances(workload, per="term")), workload.cells
    worst, best = int(stddevs.argmax()), int(stddevs.argmin())
    if not (cells[worst] < cells[best] and _UNEVEN * stddevs[best] < stddevs[worst] < math.inf):
        return
    why = " and ".join(f"{stddevs[i]:,.3g} in a table of {cells[i]:,.0f}" for i in (worst, best))
    yield "Sizes", f"small tables have the largest errors ({why}): a total over all cells weighs large tables most"
    choices: dict[str, tuple[Workload, Objective]] = {"MaxVariance": (workload, MaxVariance())}
    if workload.plain:
        choices['weight="1/cells"'] = (workload.with_weights(workload.weights / cells), TotalVariance())
    others = {name: _normal(plan, asked, goal, plan.guarantee) for name, (asked, goal) in choices.items()}
    figures = [f"{_figures(other, workload)} with {name}" for name, other in others.items() if other is not None]
    if figures:
        yield "", f"largest standard deviation {' or '.join(figures)}, instead of {_figures(plan, workload)}"
    else:
        yield "", f"{' or '.join(choices)} would weigh small tables more"


def _of_delta(plan: Plan, workload: Workload, guarantee: PureDP) -> str:
    """That an epsilon alone means Laplace noise, and what normal noise would give."""
    words, goal = "Laplace, because epsilon comes without a delta", _OBJECTIVES.get(plan.objective)
    other = None if goal is None else _normal(plan, workload, goal, ApproxDP(guarantee.epsilon, _DELTA))
    if other is None:
        return f"{words}; with a delta the noise would be normal"
    own, normal = (f"{_rms(each, workload):,.3g}" for each in (plan, other))
    return f"{words}: root mean square {own}; normal noise with a delta of {_DELTA:g} would have {normal}"


def _normal(plan: Plan, workload: Workload, objective: Objective, guarantee: Guarantee | None) -> Plan | None:
    """The best plan with normal noise for the same unit; None where planning takes long, or fails."""
    if guarantee is None or isinstance(guarantee, PureDP) or not _quick(workload):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            return best_plan(workload, guarantee, minimise=objective, unit=plan.unit, tolerance=_TOLERANCE)
    except ResiduaError:
        return None


def _quick(workload: Workload) -> bool:
    if workload.plain:
        return len(workload) <= _MOST_TABLES
    return workload.queries <= _MOST_QUERIES and forecast(workload, maximum=True).seconds <= _SECONDS


def _figures(plan: Plan, workload: Workload) -> str:
    """The largest standard deviation of a number, and the root mean square of all."""
    variances = plan.variances(workload, per="term") if workload.plain else plan.largest_variances(workload)
    return f"{math.sqrt(float(variances.max())):,.3g} (root mean square {_rms(plan, workload):,.3g})"


def _rms(plan: Plan, workload: Workload) -> float:
    return math.sqrt(float(np.average(plan.variances(workload, per="term"), weights=workload.cells)))
