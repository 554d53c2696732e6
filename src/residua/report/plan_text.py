"""What the command, and `print(plan)`, say of a plan: every table's expected error, the privacy, and the gap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.axis import AxisPlan
from residua.plans.bodies import guarantee_to_body, unit_to_body
from residua.plans.contract import Plan
from residua.plans.tolerances import nearness
from residua.privacy import PureDP, describe, pure_to_zcdp
from residua.privacy.currencies import brief
from residua.release.queried import term_title
from residua.screen import PlainTable, text_of
from residua.workload import Explicit, Marginals, Products

Parts = Iterator[str | PlainTable]
ROWS_SHOWN = 40
_OBJECTIVES = {
    "TotalVariance": "the least total variance",
    "MaxVariance": "the least maximum variance",
    "LargestVariances": "the least sum of the largest variances",
}
_MOST_LISTED = 2**24  # queries: beyond this, the largest variance of a term is not searched for


def plan_facts(plan: Plan) -> dict[str, Any]:
    """A plan's facts as plain values, for `--json`."""
    return {
        "objective": plan.objective,
        "gap": plan.gap if math.isfinite(plan.gap) else None,
        "unit": unit_to_body(plan.unit),
        "guarantee": guarantee_to_body(plan.guarantee),
        "privacy": _privacy_facts(plan),
        **({"bias": plan.bias} if plan.bias else {}),
        **plan.details,
        **_listed(plan),
    }


def plan_text(plan: Plan) -> str:
    """A plan as `print(plan)` shows it."""
    return text_of(plan_lines(plan, hint="plan.variances(plan.workload, per='term') has them all"))


def plan_lines(plan: Plan, *, everything: bool = False, hint: str = "--all shows them") -> Parts:
    """What was asked with its expected errors, then the plan's privacy and its gap."""
    workload = plan.workload
    if isinstance(workload, Explicit):
        yield from _query_lines(plan, workload, everything, hint)
    elif isinstance(workload, Marginals):
        yield from _marginal_lines(plan, workload, everything, hint)
    elif isinstance(workload, Products):
        yield from _term_lines(plan, workload, everything, hint)
    yield from privacy_lines(plan)


def privacy_lines(plan: Plan) -> Iterator[str]:
    """What a plan guarantees, in every currency, and how far from optimal it can be."""
    yield f"Guarantee   {brief(plan.guarantee)}, for {plan.unit}"
    if not isinstance(plan.guarantee, PureDP):
        yield f"            {describe(plan.unit_pcost)}"
    yield f"Objective   {plan.objective}: {proof(plan)}"
    for word, remark in plan.remarks:
        yield f"{word:<12}{remark}"
    if plan.bias:
        yield f"Bias        answers may be off systematically by up to {plan.bias:.4g} per record (root mean square)"


def proof(plan: Plan) -> str:
    """How far from optimal a plan can be, in words."""
    if plan.gap == 0:
        return f"proven {plan.comparison_class}"
    return (
        f"proven {nearness(plan.gap, plan.comparison_class)}"
        if math.isfinite(plan.gap)
        else f"not compared with {plan.comparison_class}"
    )


def objective(plan: Plan) -> str:
    """What a plan was made for, in words."""
    return _OBJECTIVES.get(plan.objective, plan.objective) or "no objective"


def _privacy_facts(plan: Plan) -> dict[str, Any]:
    if isinstance(plan.guarantee, PureDP):
        return {"epsilon": plan.guarantee.epsilon, "rho": pure_to_zcdp(plan.guarantee).rho}
    return describe(plan.unit_pcost).to_dict()


def _listed(plan: Plan) -> dict[str, Any]:
    workload = plan.workload
    if workload is None:
        return {}
    if isinstance(workload, Products):
        return {"terms": _term_facts(plan, workload)}
    variances, weights = plan.variances(workload, per="term").tolist(), workload.weights.tolist()
    if isinstance(workload, Explicit):
        queries = zip(workload.labels, variances, weights, strict=True)
        return {"queries": [{"query": q, "variance": v, "stddev": math.sqrt(v), "weight": w} for q, v, w in queries]}
    marginals = zip(workload.sets, workload.cells, variances, weights, strict=True)
    return {
        "marginals": [
            {"attributes": list(names), "cells": int(cells), "variance": v, "stddev": math.sqrt(v), "weight": weight}
            for names, cells, v, weight in marginals
        ],
    }


def _marginal_lines(plan: Plan, workload: Marginals, everything: bool, hint: str) -> Parts:
    variances = plan.variances(workload, per="term")
    relative = workload.weights / workload.weights.max()
    shown = len(workload) if everything else min(len(workload), ROWS_SHOWN)
    table = PlainTable(("marginal", "left"), ("cells", "right"), ("stddev", "right"), ("weight", "right"))
    for i in range(shown):
        names = " × ".join(workload.sets[i]) or "(total)"
        table.add_row(names, f"{int(workload.cells[i]):,}", f"{math.sqrt(variances[i]):,.3f}", f"{relative[i]:.3g}")
    yield table
    yield from _rest_lines(shown, len(workload), "marginals", hint)
    yield _range_line(f"{len(workload):,} marginals, {workload.queries:,} cells", variances, workload.cells)


def _query_lines(plan: Plan, workload: Explicit, everything: bool, hint: str) -> Parts:
    variances = plan.variances(workload)
    relative = workload.weights / workload.weights.max()
    shown = workload.queries if everything else min(workload.queries, ROWS_SHOWN)
    table = PlainTable(("query", "left"), ("stddev", "right"), ("weight", "right"))
    for i in range(shown):
        table.add_row(workload.labels[i], f"{math.sqrt(variances[i]):,.3f}", f"{relative[i]:.3g}")
    yield table
    yield from _rest_lines(shown, workload.queries, "queries", hint)
    yield _range_line(f"{workload.queries:,} queries, {plan.blocks.cells:,} measurements", variances)


def _term_lines(plan: Plan, workload: Products, everything: bool, hint: str) -> Parts:
    facts = _term_facts(plan, workload)
    shown = facts if everything else facts[:ROWS_SHOWN]
    table = PlainTable(
        ("term", "left"), ("queries", "right"), ("rms stddev", "right"), ("largest", "right"), ("weight", "right")
    )
    heaviest = float(workload.weights.max())
    for one in shown:
        worst = "" if one["largest_stddev"] is None else f"{one['largest_stddev']:,.3f}"
        weight = f"{one['weight'] / heaviest:.3g}"
        table.add_row(one["term"], f"{one['queries']:,}", f"{one['rms_stddev']:,.3f}", worst, weight)
    yield table
    yield from _rest_lines(len(shown), len(facts), "terms", hint)
    rms = np.average(plan.variances(workload, per="term"), weights=workload.cells) ** 0.5
    what = f"{len(facts):,} terms, {workload.queries:,} queries, {plan.blocks.cells:,} measurements"
    yield f"\n{what}; root mean square {rms:,.3f}"


def _term_facts(plan: Plan, workload: Products) -> list[dict[str, Any]]:
    """Every term with its expected errors, as plain values."""
    means, largest = plan.variances(workload, per="term").tolist(), _largest(plan, workload)
    rows = zip(workload.terms(), workload.cells.tolist(), means, largest, workload.weights.tolist(), strict=True)
    return [
        {
            "term": term_title(workload.domain, term),
            "attributes": {workload.domain.names[i]: asked.kind for i, asked in term},
            "queries": int(queries),
            "rms_stddev": math.sqrt(mean),
            "largest_stddev": math.sqrt(worst) if math.isfinite(worst) else None,
            "weight": weight,
        }
        for term, queries, mean, worst, weight in rows
    ]


def _largest(plan: Plan, workload: Products) -> list[float]:
    """The largest variance of each term's queries, infinite where there are too many to look at."""
    if isinstance(plan, AxisPlan):
        return [float(each) for each in plan.largest_variances(workload)]
    if workload.queries > _MOST_LISTED:
        return [math.inf] * len(workload)
    ends = np.cumsum(workload.cells.astype(np.int64))
    return [float(part.max()) for part in np.split(plan.variances(workload), ends[:-1])]


def _rest_lines(shown: int, count: int, what: str, hint: str) -> Iterator[str]:
    if shown < count:
        yield f"… {count - shown:,} more {what} ({hint})"


def _range_line(what: str, variances: Floats, masses: Floats | Sequence[float] = (1.0,)) -> str:
    stddevs = np.sqrt(variances)
    mean = float(np.average(variances, weights=np.broadcast_to(masses, variances.shape)))
    spread = f"stddev {stddevs.min():,.3f} to {stddevs.max():,.3f}"
    return f"\n{what}; {spread}, root mean square {math.sqrt(mean):,.3f}"
