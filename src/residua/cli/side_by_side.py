"""`residua compare A B`: two plans side by side, what each spends and how accurate every table is."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from residua.analysis import compare
from residua.cli.places import is_plan
from residua.cli.show import ROWS_SHOWN, out, plain_table, print_json
from residua.cli.spec import Spec, read_spec
from residua.cli.steps import make_plan
from residua.errors import SpecError
from residua.plans.contract import Plan
from residua.privacy import ZCDP
from residua.report.comparing import changes, compared, promises


def print_comparison(spec: Spec, *, as_json: bool) -> None:
    """Baselines, least total variance and fitness for use at the specification's budget (rho = 0.5 without one)."""
    if spec.least_epsilon:
        raise SpecError('comparing is for Gaussian noise; leave [privacy] epsilon = "least" out.')
    budget = spec.guarantee or ZCDP(0.5)
    asked = spec.workload
    workload = asked.listed() if asked.with_rows else asked
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


def print_side_by_side(first: Path, second: Path, *, as_json: bool, everything: bool) -> None:
    """Two plans, each saved or made from a specification: privacy, errors, and what only one of them answers."""
    paths, plans = (first, second), tuple(_plan_of(path) for path in (first, second))
    limit = None if everything or as_json else ROWS_SHOWN
    rows = list(islice(compared(*plans), None if limit is None else limit + 1))
    if as_json:
        print_json({"plans": [_facts(*pair) for pair in zip(paths, plans, strict=True)], "tables": rows})
        return
    facts = plain_table(("", "left"), ("A", "left"), ("B", "left"))
    facts.add_row("plan", *map(str, paths))
    for title in ("guarantee", "protects", "objective", "gap"):
        facts.add_row(title, *(promises(plan)[title] for plan in plans))
    out.print(facts)
    for sentence in changes(*plans):
        out.print(sentence)
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


def _facts(path: Path, plan: Plan) -> dict[str, Any]:
    return {"plan": str(path), **promises(plan)}
