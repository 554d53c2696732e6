"""What the command says of a plan: every table's or query's expected error, the privacy, and the gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.cli.products import print_terms, term_facts
from residua.cli.show import ROWS_SHOWN, out, plain_table
from residua.plans.bodies import guarantee_to_body, unit_to_body
from residua.plans.contract import Plan
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.matrix.pure_plan import PurePlan
from residua.plans.matrix.strategy_plan import StrategyPlan
from residua.plans.tables.plan import PureMarginalPlan
from residua.privacy import PureDP, describe, pure_to_zcdp

Floats = NDArray[np.float64]
_TRIED_SHOWN = 4


def plan_facts(plan: Plan) -> dict[str, Any]:
    """A plan's facts as plain values, for `--json`."""
    return {
        "objective": plan.objective,
        "gap": plan.gap if math.isfinite(plan.gap) else None,
        "unit": unit_to_body(plan.unit),
        "guarantee": guarantee_to_body(plan.guarantee),
        "privacy": _privacy_facts(plan),
        **({"bias": plan.bias} if plan.bias else {}),
        **_listed(plan),
    }


def print_plan(plan: Plan, *, everything: bool = False) -> None:
    """A plan's marginals or queries with their expected errors, then its privacy and its gap."""
    if isinstance(plan, StrategyPlan):
        _print_queries(plan, everything)
    elif isinstance(plan, ResidualPlan | PureMarginalPlan):
        _print_marginals(plan, everything)
    elif isinstance(plan, ProductPlan):
        print_terms(plan, everything)
    print_privacy(plan)


def print_privacy(plan: Plan) -> None:
    """What a plan guarantees, in every currency, and how far from optimal it can be."""
    out.print(f"Guarantee   {plan.guarantee!r}, for {plan.unit}")
    if not isinstance(plan.guarantee, PureDP):
        out.print(f"            {describe(plan.unit_pcost)}")
    proven = f"proven within {plan.gap:.2g} of {plan.rival}" if math.isfinite(plan.gap) else "not compared"
    proven = f"proven {plan.rival}" if plan.gap == 0 else proven
    out.print(f"Objective   {plan.objective}: {proven}")
    if isinstance(plan, ProductPlan) and plan.advice:
        out.print(f"Better?     {plan.advice}, or [objective] dense = true")
    if isinstance(plan, PurePlan | PureMarginalPlan):
        _print_candidates(plan)
    if plan.bias:
        out.print(f"Bias        answers may be off systematically by up to {plan.bias:.4g} a record (root mean square)")


def _privacy_facts(plan: Plan) -> dict[str, Any]:
    if isinstance(plan.guarantee, PureDP):
        return {"epsilon": plan.guarantee.epsilon, "rho": pure_to_zcdp(plan.guarantee).rho}
    return describe(plan.unit_pcost).to_dict()


def _print_candidates(plan: PurePlan | PureMarginalPlan) -> None:
    """The strategies that were tried, by their loss beside the best."""
    tried = [f"{each.name} {each.loss / plan.candidates[0].loss - 1:+.0%}" for each in plan.candidates[1:]]
    shown = "; ".join(tried[:_TRIED_SHOWN]) or "none"
    rest = f"; {len(tried) - _TRIED_SHOWN} more are worse" if len(tried) > _TRIED_SHOWN else ""
    if isinstance(plan, PureMarginalPlan):
        out.print(f"Measured    {len(plan.measured):,} marginals, at epsilon {_shares(plan)} each")
    out.print(f"Strategy    {plan.candidates[0].name}. Others by their loss: {shown}{rest}")
    if math.isfinite(plan.gap):
        out.print("            the bound behind the gap holds for every strategy, and is loose")


def _shares(plan: PureMarginalPlan) -> str:
    shares = plan.shares[plan.measured]
    low, high = f"{shares.min():.3g}", f"{shares.max():.3g}"
    return low if low == high else f"{low} to {high}"


def _listed(plan: Plan) -> dict[str, Any]:
    if isinstance(plan, StrategyPlan):
        assert plan.workload is not None
        queries = zip(
            plan.workload.labels, plan.variances(plan.workload).tolist(), plan.workload.weights.tolist(), strict=True
        )
        tried = [{"name": each.name, "loss": each.loss} for each in getattr(plan, "candidates", ())]
        listed = [{"query": q, "variance": v, "stddev": math.sqrt(v), "weight": w} for q, v, w in queries]
        return {"queries": listed, **({"candidates": tried} if tried else {})}
    if isinstance(plan, ProductPlan):
        return {"terms": term_facts(plan)}
    assert isinstance(plan, ResidualPlan | PureMarginalPlan)
    assert plan.workload is not None
    workload = plan.workload
    variances = plan.marginal_variances(workload).tolist()
    marginals = zip(workload.sets, workload.cells, variances, workload.weights.tolist(), strict=True)
    tried = [{"name": each.name, "loss": each.loss} for each in getattr(plan, "candidates", ())]
    return {
        **({"candidates": tried, "measured": _measured(plan)} if isinstance(plan, PureMarginalPlan) else {}),
        "marginals": [
            {"attributes": list(names), "cells": int(cells), "variance": v, "stddev": math.sqrt(v), "weight": weight}
            for names, cells, v, weight in marginals
        ],
    }


def _measured(plan: PureMarginalPlan) -> list[dict[str, Any]]:
    pairs = zip(plan.measured_sets, plan.shares[plan.measured].tolist(), strict=True)
    return [{"attributes": list(names), "epsilon": share} for names, share in pairs]


def _print_marginals(plan: ResidualPlan | PureMarginalPlan, everything: bool) -> None:
    workload = plan.workload
    assert workload is not None
    variances = plan.marginal_variances(workload)
    relative = workload.weights / workload.weights.max()
    shown = len(workload) if everything else min(len(workload), ROWS_SHOWN)
    table = plain_table(("marginal", "left"), ("cells", "right"), ("stddev", "right"), ("weight", "right"))
    for i in range(shown):
        names = " × ".join(workload.sets[i]) or "(total)"
        table.add_row(names, f"{int(workload.cells[i]):,}", f"{math.sqrt(variances[i]):,.3f}", f"{relative[i]:.3g}")
    out.print(table)
    _print_rest(shown, len(workload), "marginals")
    _print_range(f"{len(workload):,} marginals, {workload.queries:,} cells", variances, workload.cells)


def _print_queries(plan: StrategyPlan, everything: bool) -> None:
    workload = plan.workload
    assert workload is not None
    variances = plan.variances(workload)
    relative = workload.weights / workload.weights.max()
    shown = workload.queries if everything else min(workload.queries, ROWS_SHOWN)
    table = plain_table(("query", "left"), ("stddev", "right"), ("weight", "right"))
    for i in range(shown):
        table.add_row(workload.labels[i], f"{math.sqrt(variances[i]):,.3f}", f"{relative[i]:.3g}")
    out.print(table)
    _print_rest(shown, workload.queries, "queries")
    rows, columns = plan.strategy.shape
    _print_range(f"{workload.queries:,} queries, {rows:,} measurements of {columns:,} groups of cells", variances)


def _print_rest(shown: int, count: int, what: str) -> None:
    if shown < count:
        out.print(f"… {count - shown:,} more {what} (--all shows them)")


def _print_range(what: str, variances: Floats, masses: Floats | Sequence[float] = (1.0,)) -> None:
    stddevs = np.sqrt(variances)
    mean = float(np.average(variances, weights=np.broadcast_to(masses, variances.shape)))
    spread = f"stddev {stddevs.min():,.3f} to {stddevs.max():,.3f}"
    out.print(f"\n{what}; {spread}, root mean square {math.sqrt(mean):,.3f}")
