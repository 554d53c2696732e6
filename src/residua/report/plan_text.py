"""Plans as text: every table's expected error, the privacy and the gap; and two plans side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.language import mark, say
from residua.plans.contract import Plan
from residua.plans.statements import unit_to_body
from residua.plans.tolerances import nearness
from residua.privacy import ZCDP, PureDP, describe
from residua.privacy.costs import brief
from residua.privacy.guarantees import guarantee_to_body
from residua.report.alternatives import alternatives
from residua.report.odds import secret
from residua.screen import PlainTable, text_of
from residua.workload import Workload, term_title

Parts = Iterator[str | PlainTable]
ROWS_SHOWN = 40
_OBJECTIVES = {
    "TotalVariance": mark("the least total variance"),
    "MaxVariance": mark("the least maximum variance"),
    "LargestVariances": mark("the least sum of the largest variances"),
}
_NOUNS = {"tables": "marginals"}
_HEADS = {"marginals": ("marginal", "cells"), "terms": ("term", "queries"), "queries": ("query", "")}
_MOST_COMPARED = 2**24  # queries of one table


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
    if plan.workload is not None:
        yield from _error_lines(plan, plan.workload.as_read, everything, hint)
    yield from privacy_lines(plan)
    yield from (f"{word:<12}{remark}" for word, remark in alternatives(plan))


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
        return say("proven {best}", best=say(plan.comparison_class))
    if not math.isfinite(plan.gap):
        return say("not compared with {best}", best=say(plan.comparison_class))
    return nearness(plan.gap, plan.comparison_class)


def objective(plan: Plan) -> str:
    """What a plan was made for, in words."""
    return say(_OBJECTIVES.get(plan.objective, plan.objective)) or say("no objective")


def _privacy_facts(plan: Plan) -> dict[str, Any]:
    if isinstance(plan.guarantee, PureDP):
        return {"epsilon": plan.guarantee.epsilon, "rho": plan.guarantee.rho}
    return describe(plan.unit_pcost).to_dict()


def _listed(plan: Plan) -> dict[str, Any]:
    """Everything that was asked with its expected errors, as plain values."""
    if plan.workload is None:
        return {}
    workload: Any = plan.workload.as_read
    variances, weights = plan.variances(workload, per="term").tolist(), workload.weights.tolist()
    errors = [{"variance": v, "stddev": math.sqrt(v), "weight": w} for v, w in zip(variances, weights, strict=True)]
    if workload.noun == "queries":
        named: Any = ({"query": title} for title in workload.titles())
    elif workload.plain:
        pairs = zip(workload.sets, workload.cells, strict=True)
        named = ({"attributes": list(names), "cells": int(cells)} for names, cells in pairs)
    else:
        return {"terms": _term_facts(plan, workload, variances)}
    return {_NOUNS.get(workload.noun, workload.noun): [name | error for name, error in zip(named, errors, strict=True)]}


def _error_lines(plan: Plan, workload: Any, everything: bool, hint: str) -> Parts:
    """One row per marginal, query or term; then how many there are, and the range of their errors."""
    noun, count = _NOUNS.get(workload.noun, workload.noun), len(workload)
    shown = count if everything else min(count, ROWS_SHOWN)
    variances = plan.variances(workload, per="term")
    stddevs, relative = np.sqrt(variances), workload.weights / workload.weights.max()
    sized, ranged = noun != "queries", noun == "terms"
    heads = [_HEADS[noun][0], *([_HEADS[noun][1]] if sized else []), "rms stddev" if ranged else "stddev"]
    heads += [*(["largest"] if ranged else []), "weight"]
    table = PlainTable(heads[:1], heads[1:])
    largest = plan.largest_variances(workload) if ranged else stddevs
    for i, title in enumerate(islice(workload.titles(), shown)):
        sizes = [f"{int(workload.cells[i]):,}"] if sized else []
        worst = [f"{math.sqrt(largest[i]):,.3f}" if math.isfinite(largest[i]) else ""] if ranged else []
        table.add_row(title, *sizes, f"{stddevs[i]:,.3f}", *worst, f"{relative[i]:.3g}")
    yield table
    if shown < count:
        yield f"… {count - shown:,} more {noun} ({hint})"
    what = f"{count:,} {noun}" + (f", {workload.queries:,} {_HEADS[noun][1]}" if sized else "")
    what += "" if workload.plain else f", {plan.measurements.cells:,} measurements"
    spread = "" if ranged else f"stddev {stddevs.min():,.3f} to {stddevs.max():,.3f}, "
    if workload.domain.amounts:  # counts and sums have no error in common
        yield f"\n{what}"
        return
    rms = math.sqrt(float(np.average(variances, weights=workload.cells)))
    yield f"\n{what}; {spread}root mean square {rms:,.3f}"


def _term_facts(plan: Plan, workload: Workload, variances: list[float]) -> list[dict[str, Any]]:
    """Every term with its expected errors, as plain values."""
    terms, largest = workload.terms(), plan.largest_variances(workload)
    rows = zip(terms, workload.cells.tolist(), variances, largest, workload.weights.tolist(), strict=True)
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


# ---- two plans side by side


def compared(first: Plan, second: Plan) -> Iterator[dict[str, Any]]:
    """Every table that either plan was made for, once: title, number of queries, both root mean square errors."""
    for title, queries, (a, b) in side_by_side((first, second)):
        yield {"table": title, "queries": queries, "A": a, "B": b}


def side_by_side(plans: Sequence[Plan]) -> Iterator[tuple[str, int, list[float | None]]]:
    """Every table or query that one of the plans was made for, once: its title, how many numbers it has, and the error
    of each plan, None where it tells none."""
    seen: set[str] = set()
    for plan in plans:
        asked = () if plan.workload is None else zip(plan.workload.titles(), plan.workload.each(), strict=True)
        for title, workload in asked:
            if title not in seen:
                seen.add(title)
                errors = [_stddev(one, workload) if one.domain == plan.domain else None for one in plans]
                yield title, int(workload.queries), errors


def promises(plan: Plan) -> dict[str, str]:
    """What a plan promises, in words."""
    noise = "" if isinstance(plan.guarantee, PureDP | ZCDP) else f" (rho {plan.unit_pcost / 2:.5g})"
    return {
        mark("guarantee"): f"{brief(plan.guarantee)}{noise}",
        mark("hides"): secret(plan.unit),
        mark("objective"): plan.objective,
        mark("gap"): proof(plan).removeprefix("proven ") if plan.gap else proof(plan),
    }


def changes(first: Plan, second: Plan) -> list[str]:
    """What the figures do not show, a sentence each."""
    sentences = []
    if first.domain != second.domain:
        ours, theirs = set(first.domain.names), set(second.domain.names)
        gone, new = sorted(ours - theirs), sorted(theirs - ours)
        both = [name for name in first.domain.names if name in theirs and first.domain[name] != second.domain[name]]
        parts = ((say("only in A"), gone), (say("only in B"), new), (say("declared differently"), both))
        words = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
        differ = mark("The domains differ ({how}): each plan answers its own tables only.")
        sentences.append(say(differ, how=words or say("order or rules differ")))
    if first.unit != second.unit:
        sentences.append(say("The two protect different things: their guarantees cannot be compared as figures."))
    return sentences


def _stddev(plan: Plan, workload: Workload) -> float | None:
    """The root mean square error of a table, None where the plan does not tell it."""
    if workload.queries > _MOST_COMPARED:
        return None
    try:
        mean = float(np.mean(plan.variances(workload)))
    except PlanError:
        return None
    return math.sqrt(mean) if math.isfinite(mean) else None
