"""`residua compare` and `residua report`: plans side by side, and a page about whatever a path holds."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from residua.analysis import compare
from residua.cli.opening import load_published, plan_at
from residua.cli.show import ROWS_SHOWN, out, print_json, print_written, progress_bar
from residua.cli.spec import Spec
from residua.errors import FileError, SpecError
from residua.plans.contract import Plan
from residua.privacy import ZCDP
from residua.report.contents import write_report
from residua.report.page import require_report_or_free
from residua.report.plan_text import changes, compared, promises
from residua.screen import PlainTable


def print_comparison(spec: Spec, *, as_json: bool) -> None:
    """Baselines, least total variance and fitness for use at the specification's budget (rho = 0.5 without one)."""
    if spec.least_epsilon:
        raise SpecError('comparing is for Gaussian noise; leave [privacy] epsilon = "least" out.')
    budget = spec.guarantee or ZCDP(0.5)
    asked = spec.workload
    figures = compare(asked.listed() if asked.with_rows else asked, budget, spec.targets, unit=spec.unit)
    if as_json:
        names = ("name", "max_ratio", "rmse", "pcost_for_targets")
        print_json([{name: getattr(one, name) for name in names} for one in figures])
        return
    best = min(one.pcost_for_targets for one in figures)
    heads = ("largest variance / target", "root mean square error", "rho to meet all targets", "× the least")
    table = PlainTable(["plan"], heads)
    for one in figures:
        times = f"{one.pcost_for_targets / best:,.2f}×"
        table.add_row(one.name, f"{one.max_ratio:,.4g}", f"{one.rmse:,.4g}", f"{one.pcost_for_targets / 2:,.4g}", times)
    targets = "as specified" if spec.targets is not None else "1 / weight"
    out.print(f"At {budget!r}, for {spec.unit}; targets: {targets}")
    out.print(table)


def print_side_by_side(first: Path, second: Path, *, as_json: bool, everything: bool) -> None:
    """Two plans, each saved or made from a specification: privacy, errors, and what only one of them answers."""
    paths, plans = (first, second), tuple(plan_at(path) for path in (first, second))
    limit = None if everything or as_json else ROWS_SHOWN
    rows = list(islice(compared(*plans), None if limit is None else limit + 1))
    if as_json:
        promised = [{"plan": str(path), **promises(plan)} for path, plan in zip(paths, plans, strict=True)]
        print_json({"plans": promised, "tables": rows})
        return
    facts = [["plan", *map(str, paths)]]
    facts += [[title, *(promises(p)[title] for p in plans)] for title in ("guarantee", "hides", "objective", "gap")]
    out.print(PlainTable(["", "A", "B"], [], facts))
    for sentence in changes(*plans):
        out.print(sentence)
    table = PlainTable(["table"], ["queries", "A stddev", "B stddev", "B / A"])
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


def write_report_of(subject: Path, beside: Path | None, target: Path, since: Path | None, **looks: Any) -> None:
    """Writes a page about a release, a projection, estimates, a saved plan, or the plan of a specification.

    Raises:
        FileError: nothing of the kind is there, or something else is where the page should go.
        PlanError: something beside what is not a plan.
    """
    require_report_or_free(target)
    if not subject.exists():
        raise FileError(f"there is no release folder, saved plan or specification {str(subject)!r}; check the path.")
    about = load_published(subject) if subject.is_dir() else plan_at(subject)
    other = None if beside is None else _plan_beside(beside)
    earlier = None if since is None else load_published(since)
    with progress_bar() as show:
        show("drawing", 0, None)
        write_report(about, target, beside=other, since=earlier, **looks)
    print_written(target, ": one page, to be opened in any browser or printed")


def _plan_beside(path: Path) -> Plan:
    if path.is_dir():
        raise FileError(
            f"{str(path)!r} is a folder, and plans stand side by side; give a saved plan or a specification."
        )
    return plan_at(path)
