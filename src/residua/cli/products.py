"""What the command says of a product plan: every term's expected error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from residua.cli.show import ROWS_SHOWN, out, plain_table
from residua.plans.lattice.plan import ProductPlan
from residua.release.queried import term_title
from residua.workload import Products

_MOST_LISTED = 2**24  # queries: beyond, the largest variance of a term is not sought


def term_facts(plan: ProductPlan) -> list[dict[str, Any]]:
    """Every term with its expected errors, as plain values."""
    workload = _asked(plan)
    means, largest = plan.term_variances(workload).tolist(), _largest(plan, workload)
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


def print_terms(plan: ProductPlan, everything: bool) -> None:
    """Every term with its expected errors, for people."""
    workload, facts = _asked(plan), term_facts(plan)
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
    if len(shown) < len(facts):
        out.print(f"… {len(facts) - len(shown):,} more terms (--all shows them)")
    rms = np.average(plan.term_variances(workload), weights=workload.cells) ** 0.5
    blocks = int((plan.precisions > 0).sum())
    what = f"{len(facts):,} terms, {workload.queries:,} queries, {blocks:,} measured blocks"
    out.print(f"\n{what}; root mean square {rms:,.3f}")


def _asked(plan: ProductPlan) -> Products:
    assert plan.workload is not None
    return plan.workload


def _largest(plan: ProductPlan, workload: Products) -> list[float]:
    """The largest variance of each term's queries, infinite where there are too many to look at."""
    if workload.queries > _MOST_LISTED:
        return [math.inf] * len(workload)
    ends = np.cumsum(workload.cells.astype(np.int64))
    return [float(part.max()) for part in np.split(plan.variances(workload), ends[:-1])]
