"""Two plans side by side: what each promises, every table that either was made for, and what only one of them tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.privacy import ZCDP, PureDP
from residua.privacy.currencies import brief
from residua.report.plan_text import proof
from residua.workload import Workload

_MOST_QUERIES = 2**24  # of one table


@dataclass(frozen=True)
class ComparedTable:
    """A table or query that one of the plans was made for: its title, and how to ask any plan for it."""

    title: str
    workload: Workload


def compared(first: Plan, second: Plan) -> Iterator[dict[str, Any]]:
    """Every table that either plan was made for, once: title, number of queries, both root mean square errors."""
    for asked, stddevs in side_by_side((first, second)):
        yield {"table": asked.title, "queries": int(asked.workload.queries), "A": stddevs[0], "B": stddevs[1]}


def side_by_side(plans: Sequence[Plan]) -> Iterator[tuple[ComparedTable, list[float | None]]]:
    """Every table that one of the plans was made for, once, with the error of each plan, None where it tells none."""
    seen: set[str] = set()
    for plan in plans:
        for asked in _asked(plan):
            if asked.title not in seen:
                seen.add(asked.title)
                yield asked, [_stddev(one, asked) if one.domain == plan.domain else None for one in plans]


def promises(plan: Plan) -> dict[str, str]:
    """What a plan promises, in words."""
    noise = "" if isinstance(plan.guarantee, PureDP | ZCDP) else f" (rho {plan.unit_pcost / 2:.5g})"
    return {
        "guarantee": f"{brief(plan.guarantee)}{noise}",
        "protects": str(plan.unit),
        "objective": plan.objective,
        "gap": proof(plan).removeprefix("proven ") if plan.gap else proof(plan),
    }


def changes(first: Plan, second: Plan) -> list[str]:
    """What the figures do not show, a sentence each."""
    sentences = []
    if first.domain != second.domain:
        ours, theirs = set(first.domain.names), set(second.domain.names)
        gone, new = sorted(ours - theirs), sorted(theirs - ours)
        both = [name for name in first.domain.names if name in theirs and first.domain[name] != second.domain[name]]
        parts = (("only in A", gone), ("only in B", new), ("declared differently", both))
        words = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names) or "order or rules differ"
        sentences.append(f"The domains differ ({words}): each plan tells its own tables only.")
    if first.unit != second.unit:
        sentences.append("The two protect different things: their guarantees cannot be compared as figures.")
    return sentences


def _asked(plan: Plan) -> Iterator[ComparedTable]:
    if plan.workload is not None:
        for title, one in zip(plan.workload.titles(), plan.workload.each(), strict=True):
            yield ComparedTable(title, one)


def _stddev(plan: Plan, asked: ComparedTable) -> float | None:
    """The root mean square error of a table, None where the plan does not tell it."""
    if asked.workload.queries > _MOST_QUERIES:
        return None
    try:
        mean = float(np.mean(plan.variances(asked.workload)))
    except PlanError:
        return None
    return math.sqrt(mean) if math.isfinite(mean) else None
