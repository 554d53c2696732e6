"""The steps of the pipeline as the command runs them: read, plan, release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from residua.cli.show import err, out, print_privacy, progress_bar
from residua.cli.spec import Spec, read_spec
from residua.errors import SpecError
from residua.measure import Ledger, measure
from residua.plan import plan as best_plan
from residua.plan.blocks import compile_blocks
from residua.plan.residual import ResidualPlan
from residua.plan.verify import verified_cost
from residua.release import Release, reserve
from residua.source import Source, source_of

if TYPE_CHECKING:
    from residua.source.counting import Counted

read = read_spec


def make_plan(spec: Spec) -> ResidualPlan:
    """The best plan for a specification."""
    with progress_bar() as show:
        return best_plan(
            spec.workload,
            spec.guarantee,
            minimise=spec.minimise,
            targets=spec.targets,
            unit=spec.unit,
            tolerance=spec.tolerance,
            progress=lambda rounds, gap: show(f"planning (gap {gap:.1e})"[:20], rounds, None),
        )


def run_release(spec: Spec, folder: Path) -> Release:
    """Plans, makes sure that the release can be written, measures, and writes it."""
    plan = make_plan(spec)
    blocks = compile_blocks(plan)
    verified_cost(blocks, plan.guarantee, plan.unit)
    data = open_source(spec)
    with reserve(folder, plan, blocks) as place:
        ledger = open_ledger(spec, plan)
        with progress_bar() as show:
            release = measure(
                plan, data, ledger=ledger, purpose=f"release {folder.name}", progress=show, notice=_notice
            )
        place.commit(release)
    out.print(f"Wrote {len(release.sets):,} tables to {folder}", markup=False)
    print_privacy(plan)
    out.print(f"Ledger      {spec.ledger_path} debited; see: residua ledger {spec.ledger_path}", markup=False)
    return release


def open_source(spec: Spec) -> Source:
    """The data a specification names; nothing is read yet."""
    settings = spec.source
    weight = settings.get("weight")
    if "path" in settings and "database" not in settings and "query" not in settings:
        return source_of(_located(spec.folder, settings["path"]), weight=weight)
    if "database" in settings and "query" in settings and "path" not in settings:
        return Source.duckdb(str(spec.folder / settings["database"]), settings["query"], weight=weight)
    raise SpecError("[source] needs path, or database and query.")


def open_ledger(spec: Spec, plan: ResidualPlan) -> Ledger:
    """The dataset's ledger, made with the stated budget (or else the plan's own) if it does not exist yet."""
    path, budget = spec.ledger_path, spec.ledger_budget
    if budget is None and not path.exists():
        budget = plan.guarantee
    return Ledger(path, budget, unit=spec.unit)


def _located(folder: Path, paths: Any) -> list[str]:
    listed = [paths] if isinstance(paths, str) else paths
    if not isinstance(listed, list) or not listed or not all(isinstance(path, str) for path in listed):
        raise SpecError(f"[source] path = {paths!r} is not a path or a list of paths.")
    return [str(folder / path) for path in listed]


def _notice(counted: Counted) -> None:
    """For the curator's terminal only: these are true counts and stay out of the release."""
    for what, tally in (("left out for", counted.dropped), ("counted as other in", counted.other)):
        for name, records in tally.items():
            if records:
                err.print(f"for your eyes only, not published: {records:,} records {what} {name!r}", markup=False)
