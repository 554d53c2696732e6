"""The steps of the pipeline as the command runs them: read, plan, release."""

from __future__ import annotations

import glob
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from residua.cli.plans import print_privacy
from residua.cli.show import err, out, progress_bar
from residua.cli.spec import Spec, read_spec
from residua.errors import FileError, SpecError
from residua.measurement import Ledger, measure
from residua.measurement.ledger_amounts import allowance, converted
from residua.plans import plan as best_plan
from residua.plans.attended import watched
from residua.plans.base import Currency, Plan
from residua.plans.kinds import priced
from residua.privacy import PureDP
from residua.release import Release, reserve
from residua.release.folder import Reserved
from residua.source import Source, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from residua.source.counting import Tallies

read = read_spec


def make_plan(spec: Spec, like: Plan | None = None) -> Plan:
    """The best plan for a specification; with the strategies of another if one is given."""
    shares: list[float] = []  # of the time foretold, where that is long; then rounds tell nothing more

    def share_over(share: float) -> None:
        shares.append(share)
        show("planning", round(1000 * share), 1000)

    try:
        with progress_bar() as show, watched(share_over):
            return best_plan(
                spec.workload,
                PureDP if spec.least_epsilon else spec.guarantee,
                minimise=spec.minimise,
                targets=spec.targets,
                unit=spec.unit,
                tolerance=spec.tolerance,
                like=like,
                progress=lambda rounds, gap: None if shares else show("planning", rounds, None),
            )
    except KeyboardInterrupt:
        err.print("residua: interrupted while planning; nothing was written or spent.")
        raise


def run_release(spec: Spec, folder: Path) -> Release:
    """Plans, makes sure that the release can be written, measures, and writes it."""
    plan = make_plan(spec)
    blocks, cost = priced(plan)
    data = open_source(spec)
    try:
        with reserve(folder, plan, blocks) as place:
            ledger = open_ledger(spec, plan, cost, blocks.currency)
            with progress_bar() as show:
                release = measure(
                    plan, data, ledger=ledger, purpose=f"released as {folder.name}", progress=show, notice=notice
                )
            _commit(place, release)
    except KeyboardInterrupt:
        err.print(f"residua: interrupted; a debit already made stands, see: residua ledger {spec.ledger_path}")
        raise
    out.print(f"Wrote {folder}: {release.summary}")
    print_privacy(plan)
    made = "made and debited" if callable(ledger) else "debited"
    out.print(f"Ledger      {spec.ledger_path} {made}; see: residua ledger {spec.ledger_path}")
    return release


def _commit(place: Reserved, release: Release) -> None:
    try:
        place.commit(release)
    except FileError as problem:
        raise FileError(f"{problem} The budget is spent: debit {release.receipt['sequence']} stands.") from None


def open_source(spec: Spec) -> Source:
    """The data a specification names; nothing is read yet."""
    settings = spec.source
    weight = settings.get("weight")
    if "path" in settings and "database" not in settings and "query" not in settings:
        return source_of(_located(spec.folder, settings["path"]), weight=weight)
    if "database" in settings and "query" in settings and "path" not in settings:
        if not isinstance(settings["database"], str):
            raise SpecError(f"[source] database = {settings['database']!r} is not a path; name the database's file.")
        return Source.duckdb(str(spec.folder / settings["database"]), settings["query"], weight=weight)
    raise SpecError('[source] needs path, or database and query; write path = "data.csv", for example.')


def open_ledger(spec: Spec, plan: Plan, cost: Fraction, currency: Currency = "pcost") -> Ledger | Callable[[], Ledger]:
    """The dataset's ledger; if there is none yet, a function that makes it with the stated budget or the plan's own.

    So a first release that fails before its debit leaves no ledger behind, whose budget would be fixed already.
    """
    path, budget = spec.ledger_path, spec.ledger_budget
    if path.exists():
        return Ledger(path, budget, unit=spec.unit)
    if not path.parent.is_dir():
        raise SpecError(f"the folder of [ledger] path, {str(path.parent)!r}, does not exist; make it first.")
    budget = budget or plan.guarantee
    if budget is not None and converted(budget, cost, currency) > allowance(budget):
        raise SpecError(
            f"[ledger] allows {budget!r}, less than this release needs; raise that budget, or plan for less."
        )
    return partial(Ledger, path, budget, unit=spec.unit)


def _located(folder: Path, paths: Any) -> list[str]:
    listed = [paths] if isinstance(paths, str) else paths
    if not isinstance(listed, list) or not listed or not all(isinstance(path, str) for path in listed):
        raise SpecError(f"[source] path = {paths!r} is not a path or a list of paths; name the file.")
    return [_under(folder, path) for path in listed]


def _under(folder: Path, path: str) -> str:
    if Path(path).is_absolute() or not glob.has_magic(path) or (folder / path).is_file():
        return str(folder / path)
    return str(Path(glob.escape(str(folder)), path))  # the pattern is in the path only, not in the folder's name


def notice(counted: Tallies) -> None:
    """For the curator's terminal only: these are true counts and stay out of the release and out of logs."""
    if not err.is_terminal:
        if any(counted.dropped.values()) or any(counted.other.values()):
            err.print("some records were left out or counted as other; run in a terminal to see how many")
        return
    for what, tally in (("left out for", counted.dropped), ("counted as other in", counted.other)):
        for name, records in tally.items():
            if records:
                err.print(f"for your eyes only, not published: {records:,} records {what} {name!r}")
