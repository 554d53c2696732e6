"""What another choice would give: plans beside a plan, made when it is shown, and where that is quick."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np

from residua.errors import ResiduaError
from residua.language import mark, say
from residua.plans import MaxVariance, TotalVariance, plan as best_plan
from residua.plans.contract import Plan
from residua.plans.objectives import Objective
from residua.plans.planners.forecast import forecast
from residua.plans.planners.lattice import Lattice
from residua.privacy import ApproxDP, Guarantee, PureDP
from residua.workload import Workload

_OBJECTIVES: dict[str, Objective] = {"TotalVariance": TotalVariance(), "MaxVariance": MaxVariance()}
_DELTA = 1e-6
_UNEVEN = 1.1  # times the least standard deviation: below, tables are alike
_TOLERANCE = 1e-2  # of figures that are shown with three digits
_MOST_TABLES, _MOST_QUERIES, _SECONDS = 20_000, 4_096, 0.3  # what is planned at once
_MOST_SPLIT, _EXCHANGES = 64, 8  # tables between which an epsilon is split, and how long


def alternatives(plan: Plan) -> Iterator[tuple[str, str]]:
    """What the plan's objective and its noise do that people may not expect, with what others would give; each with a
    heading."""
    if plan.workload is None:
        return
    if plan.objective.startswith("TotalVariance") and len(plan.workload) > 1 and plan.workload.tabular:
        yield from _of_sizes(plan, plan.workload)
    if isinstance(plan.guarantee, PureDP):
        yield say("Noise"), _of_delta(plan, plan.workload, plan.guarantee)


def _of_sizes(plan: Plan, workload: Workload) -> Iterator[tuple[str, str]]:
    """Where small tables have larger errors than large ones: why, and what would change that."""
    amounts = set(workload.domain.positions(workload.domain.amounts))  # whose sums have no error in common with counts
    stddevs, cells = np.sqrt(plan.variances(workload, per="term")), workload.cells
    if amounts:
        counts = np.array([amounts.isdisjoint(i for i, _ in term) for term in workload.terms()])
        if not counts.any():
            return
        stddevs, cells = stddevs[counts], cells[counts]
    worst, best = int(stddevs.argmax()), int(stddevs.argmin())
    if not (cells[worst] < cells[best] and _UNEVEN * stddevs[best] < stddevs[worst] < math.inf):
        return
    words = mark(
        "small tables have the largest errors ({worst:,.3g} in a table of {few:,.0f} and {best:,.3g} in a table of "
        "{many:,.0f}): a total over all cells weighs large tables most"
    )
    sizes = {"few": float(cells[worst]), "many": float(cells[best])}
    yield say("Sizes"), say(words, worst=float(stddevs[worst]), best=float(stddevs[best]), **sizes)
    choices: dict[str, tuple[Workload, Objective]] = {"MaxVariance": (workload, MaxVariance())}
    if workload.plain:
        choices['weight="1/cells"'] = (workload.with_weights(workload.weights / workload.cells), TotalVariance())
    others = {name: _best(plan, asked, goal, plan.guarantee) for name, (asked, goal) in choices.items() if not amounts}
    figures = [
        say("{figures} with {name}", figures=_figures(other, workload), name=name)
        for name, other in others.items()
        if other is not None
    ]
    if figures:
        instead = mark("largest standard deviation {others}, instead of {own}")
        yield "", say(instead, others=say(" or ").join(figures), own=_figures(plan, workload))
    else:
        yield "", say("{others} would weigh small tables more", others=say(" or ").join(choices))


def _of_delta(plan: Plan, workload: Workload, guarantee: PureDP) -> str:
    """That an epsilon alone means Laplace noise, and what normal noise would give."""
    goal = _OBJECTIVES.get(plan.objective)
    other = None if goal is None else _best(plan, workload, goal, ApproxDP(guarantee.epsilon, _DELTA))
    if other is None:
        return say("Laplace, because epsilon comes without a delta; with a delta the noise would be normal")
    words = mark(
        "Laplace, because epsilon comes without a delta: root mean square {own:,.3g}; normal noise with a delta of "
        "{delta} would have {normal:,.3g}"
    )
    return say(words, own=_rms(plan, workload), delta=f"{_DELTA:g}", normal=_rms(other, workload))


def _best(plan: Plan, workload: Workload, objective: Objective, guarantee: Guarantee | None) -> Plan | None:
    """The best plan for the same unit, with Laplace noise the best of a short search; None where planning takes long,
    or fails."""
    pure = isinstance(guarantee, PureDP)
    if guarantee is None or not _quick(workload, pure):
        return None
    form = Lattice(limit=_EXCHANGES) if pure and workload.plain else None
    try:
        with warnings.catch_warnings(action="ignore"):
            return best_plan(workload, guarantee, form=form, minimise=objective, unit=plan.unit, tolerance=_TOLERANCE)
    except ResiduaError:
        return None


def _quick(workload: Workload, pure: bool) -> bool:
    if workload.plain:
        return len(workload) <= (_MOST_SPLIT if pure else _MOST_TABLES)
    return workload.queries <= _MOST_QUERIES and forecast(workload, pure=pure, maximum=True).seconds <= _SECONDS


def _figures(plan: Plan, workload: Workload) -> str:
    """The largest standard deviation of a number, and the root mean square of all."""
    variances = plan.variances(workload, per="term") if workload.plain else plan.largest_variances(workload)
    largest = math.sqrt(float(variances.max()))
    return say("{largest:,.3g} (root mean square {mean:,.3g})", largest=largest, mean=_rms(plan, workload))


def _rms(plan: Plan, workload: Workload) -> float:
    return math.sqrt(float(np.average(plan.variances(workload, per="term"), weights=workload.cells)))
