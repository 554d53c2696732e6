"""What the command says of a plan: every table's or query's expected error, the privacy, and the gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from residua.cli.show import ROWS_SHOWN, out, plain_table
from residua.linalg.arrays import Floats
from residua.plans.bodies import guarantee_to_body, unit_to_body
from residua.plans.contract import Plan
from residua.privacy import PureDP, describe, pure_to_zcdp
from residua.release.queried import term_title
from residua.workload import Explicit, Marginals, Products

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


def print_plan(plan: Plan, *, everything: bool = False) -> None:
    """What was asked with its expected errors, then the plan's privacy and its gap."""
    workload = plan.workload
    if isinstance(workload, Explicit):
        _print_queries(plan, workload, everything)
    elif isinstance(workload, Marginals):
        _print_marginals(plan, workload, everything)
    elif isinstance(workload, Products):
        _print_terms(plan, workload, everything)
    print_privacy(plan)


def print_privacy(plan: Plan) -> None:
    """What a plan guarantees, in every currency, and how far from optimal it can be."""
    out.print(f"Guarantee   {plan.guarantee!r}, for {plan.unit}")
    if not isinstance(plan.guarantee, PureDP):
        out.print(f"            {describe(plan.unit_pcost)}")
    proven = f"proven within {plan.gap:.2g} of {plan.rival}" if math.isfinite(plan.gap) else "not compared"
    proven = f"proven {plan.rival}" if plan.gap == 0 else proven
    out.print(f"Objective   {plan.objective}: {proven}")
    for word, remark in plan.remarks:
        out.print(f"{word:<12}{remark}")
    if plan.bias:
        out.print(
            f"Bias        answers may be off systematically by up to {plan.bias:.4g} per record (root mean square)"
        )


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


def _print_marginals(plan: Plan, workload: Marginals, everything: bool) -> None:
    variances = plan.variances(workload, per="term")
    relative = workload.weights / workload.weights.max()
    shown = len(workload) if everything else min(len(workload), ROWS_SHOWN)
    table = plain_table(("marginal", "left"), ("cells", "right"), ("stddev", "right"), ("weight", "right"))
    for i in range(shown):
        names = " × ".join(workload.sets[i]) or "(total)"
        table.add_row(names, f"{int(workload.cells[i]):,}", f"{math.sqrt(variances[i]):,.3f}", f"{relative[i]:.3g}")
    out.print(table)
    _print_rest(shown, len(workload), "marginals")
    _print_range(f"{len(workload):,} marginals, {workload.queries:,} cells", variances, workload.cells)


def _print_queries(plan: Plan, workload: Explicit, everything: bool) -> None:
    variances = plan.variances(workload)
    relative = workload.weights / workload.weights.max()
    shown = workload.queries if everything else min(workload.queries, ROWS_SHOWN)
    table = plain_table(("query", "left"), ("stddev", "right"), ("weight", "right"))
    for i in range(shown):
        table.add_row(workload.labels[i], f"{math.sqrt(variances[i]):,.3f}", f"{relative[i]:.3g}")
    out.print(table)
    _print_rest(shown, workload.queries, "queries")
    _print_range(f"{workload.queries:,} queries, {plan.blocks.cells:,} measurements", variances)


def _print_terms(plan: Plan, workload: Products, everything: bool) -> None:
    facts = _term_facts(plan, workload)
    shown = facts if everything else facts[:ROWS_SHOWN]
    table = plain_table(
        ("term", "left"), ("queries", "right"), ("rms stddev", "right"), ("largest", "right"), ("weight", "right")
    )
    heaviest = float(workload.weights.max())
    for one in shown:
        worst = "" if one["largest_stddev"] is None else f"{one['largest_stddev']:,.3f}"
        weight = f"{one['weight'] / heaviest:.3g}"
        table.add_row(one["term"], f"{one['queries']:,}", f"{one['rms_stddev']:,.3f}", worst, weight)
    out.print(table)
    _print_rest(len(shown), len(facts), "terms")
    rms = np.average(plan.variances(workload, per="term"), weights=workload.cells) ** 0.5
    what = f"{len(facts):,} terms, {workload.queries:,} queries, {plan.blocks.cells:,} measurements"
    out.print(f"\n{what}; root mean square {rms:,.3f}")


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
    if workload.queries > _MOST_LISTED:
        return [math.inf] * len(workload)
    ends = np.cumsum(workload.cells.astype(np.int64))
    return [float(part.max()) for part in np.split(plan.variances(workload), ends[:-1])]


def _print_rest(shown: int, count: int, what: str) -> None:
    if shown < count:
        out.print(f"… {count - shown:,} more {what} (--all shows them)")


def _print_range(what: str, variances: Floats, masses: Floats | Sequence[float] = (1.0,)) -> None:
    stddevs = np.sqrt(variances)
    mean = float(np.average(variances, weights=np.broadcast_to(masses, variances.shape)))
    spread = f"stddev {stddevs.min():,.3f} to {stddevs.max():,.3f}"
    out.print(f"\n{what}; {spread}, root mean square {math.sqrt(mean):,.3f}")
