"""`residua compare A B`: two plans side by side, what each spends and how accurate every table is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from residua.analysis import compare
from residua.cli.places import is_plan
from residua.cli.show import ROWS_SHOWN, out, plain_table, print_json
from residua.cli.spec import Spec, read_spec
from residua.cli.steps import make_plan
from residua.errors import PlanError, SpecError
from residua.plans.contract import Plan
from residua.privacy import ZCDP, PureDP
from residua.release.queried import single, term_title
from residua.workload import Explicit, Identity, Marginals, Products, as_explicit, as_products, marginals


def print_comparison(spec: Spec, *, as_json: bool) -> None:
    """Baselines, least total variance and fitness for use at the specification's budget (rho = 0.5 without one)."""
    if spec.least_epsilon:
        raise SpecError('comparing is for Gaussian noise; leave [privacy] epsilon = "least" out.')
    budget = spec.guarantee or ZCDP(0.5)
    asked = spec.workload
    workload = as_explicit(asked) if isinstance(asked, Products) else asked
    found = compare(workload, budget, spec.targets, unit=spec.unit)
    if as_json:
        figures = ("name", "max_ratio", "rmse", "pcost_for_targets")
        print_json([{key: getattr(one, key) for key in figures} for one in found])
        return
    best = min(one.pcost_for_targets for one in found)
    table = plain_table(
        ("plan", "left"),
        ("largest variance / target", "right"),
        ("root mean square error", "right"),
        ("rho to meet all targets", "right"),
        ("× the least", "right"),
    )
    for one in found:
        times = f"{one.pcost_for_targets / best:,.2f}×"
        table.add_row(one.name, f"{one.max_ratio:,.4g}", f"{one.rmse:,.4g}", f"{one.pcost_for_targets / 2:,.4g}", times)
    out.print(
        f"At {budget!r}, for {spec.unit}; targets: {'as specified' if spec.targets is not None else '1 / weight'}"
    )
    out.print(table)


_MOST_QUERIES = 2**24  # of one table


@dataclass(frozen=True)
class Asked:
    """A table or query that one of the plans was made for: its title, and how to ask any plan for it."""

    title: str
    workload: Marginals | Products | Explicit


def print_side_by_side(first: Path, second: Path, *, as_json: bool, everything: bool) -> None:
    """Two plans, each saved or made from a specification: privacy, errors, and what only one of them answers."""
    paths, plans = (first, second), tuple(_plan_of(path) for path in (first, second))
    same = plans[0].domain == plans[1].domain
    limit = None if everything or as_json else ROWS_SHOWN
    rows = list(islice(_rows(*plans, same=same), None if limit is None else limit + 1))
    if as_json:
        print_json({"plans": [_facts(*pair) for pair in zip(paths, plans, strict=True)], "tables": rows})
        return
    facts = plain_table(("", "left"), ("A", "left"), ("B", "left"))
    facts.add_row("plan", *map(str, paths))
    for title in ("guarantee", "protects", "objective", "gap"):
        facts.add_row(title, *(_promises(plan)[title] for plan in plans))
    out.print(facts)
    _print_changes(*plans, same=same)
    table = plain_table(
        ("table", "left"), ("queries", "right"), ("A stddev", "right"), ("B stddev", "right"), ("B / A", "right")
    )
    for row in rows[:limit]:
        a, b = row["A"], row["B"]
        ratio = f"{b / a:,.3f}" if a and b else ""
        shown = ("—" if one is None else f"{one:,.3f}" for one in (a, b))
        table.add_row(row["table"], f"{row['queries']:,}", *shown, ratio)
    out.print()
    out.print(table)
    if limit is not None and len(rows) > limit:
        out.print("… more tables (--all shows them)")
    out.print("(stddev: the root mean square over a table's numbers; —: the plan does not tell this table)")


def _plan_of(path: Path) -> Plan:
    return Plan.load(path) if is_plan(path) else make_plan(read_spec(path))


def _rows(first: Plan, second: Plan, *, same: bool) -> Iterator[dict[str, Any]]:
    """Every table that either plan was made for, once."""
    seen: set[str] = set()
    for plan in (first, second):
        for asked in _asked(plan):
            if asked.title in seen:
                continue
            seen.add(asked.title)
            answers = [_stddev(one, asked) if same or one is plan else None for one in (first, second)]
            yield {"table": asked.title, "queries": int(asked.workload.queries), "A": answers[0], "B": answers[1]}


def _asked(plan: Plan) -> Iterator[Asked]:
    workload = plan.workload
    if isinstance(workload, Explicit):
        for i, label in enumerate(workload.labels):
            one = Explicit(workload.domain, workload.attributes, workload.matrix[[i]], (label,), workload.weights[[i]])
            yield Asked(label, one)
    elif workload is not None:
        whole = as_products(workload)
        for term in whole.terms():
            names = tuple(plan.domain.names[i] for i, _ in term)
            plain = all(isinstance(rows, Identity) for _, rows in term)
            asked = marginals(plan.domain, [names]) if plain else single(whole, term)
            yield Asked(term_title(plan.domain, term), asked)


def _stddev(plan: Plan, asked: Asked) -> float | None:
    """The root mean square error of a table, None where the plan does not tell it."""
    if asked.workload.queries > _MOST_QUERIES:
        return None
    known: Any = plan
    try:
        mean = float(np.mean(known.variances(asked.workload)))
    except PlanError:
        return None
    return math.sqrt(mean) if math.isfinite(mean) else None


def _promises(plan: Plan) -> dict[str, str]:
    proven = f"within {plan.gap:.2g} of {plan.rival}" if math.isfinite(plan.gap) else "not compared"
    noise = "" if isinstance(plan.guarantee, PureDP | ZCDP) else f" (rho {plan.unit_pcost / 2:.5g})"
    return {
        "guarantee": f"{plan.guarantee!r}{noise}",
        "protects": str(plan.unit),
        "objective": plan.objective,
        "gap": f"proven {plan.rival}" if plan.gap == 0 else proven,
    }


def _facts(path: Path, plan: Plan) -> dict[str, Any]:
    return {"plan": str(path), **_promises(plan)}


def _print_changes(first: Plan, second: Plan, *, same: bool) -> None:
    """What the figures do not show."""
    if not same:
        ours, theirs = set(first.domain.names), set(second.domain.names)
        gone, new = sorted(ours - theirs), sorted(theirs - ours)
        both = [name for name in first.domain.names if name in theirs and first.domain[name] != second.domain[name]]
        parts = (("only in A", gone), ("only in B", new), ("declared differently", both))
        words = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names) or "order or rules differ"
        out.print(f"The domains differ ({words}): each plan tells its own tables only.")
    if first.unit != second.unit:
        out.print("The two protect different things: their guarantees cannot be compared as figures.")
