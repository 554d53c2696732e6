"""A release as the command makes it: what is named is checked, planned, measured, written; ledgers; continual ones."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from residua.cli.accounts import ledger_options
from residua.cli.log import WRITTEN
from residua.cli.planning import make_plan
from residua.cli.show import err, out, print_json, print_table, print_written, progress_bar
from residua.cli.sources import notice, open_source
from residua.cli.spec import Spec
from residua.errors import FileError, LedgerError, SpecError
from residua.folders import require_free
from residua.measurement import Continual, Entry, Ledger, measure, measure_survey
from residua.measurement.continual import require_period
from residua.measurement.job import require_agreement
from residua.plans.contract import Plan
from residua.plans.statements import unit_to_body
from residua.privacy.costs import stated
from residua.privacy.guarantees import guarantee_to_body
from residua.release import Release, reserve, squares_folder
from residua.release.folder import Reserved
from residua.report.plan_text import privacy_lines
from residua.source import Source
from residua.source.counting import columns_needed


def run_release(
    spec: Spec, folder: Path, saved: Path | None, *, show_values: bool, on_executors: bool, as_json: bool
) -> Release:
    """Checks all that is named, plans, makes sure that the release can be written, measures, and writes it.

    Args:
        spec: the data, the ledger, and what to measure.
        folder: the release to write.
        saved: a saved plan to measure, in place of what the specification asks and spends.
        show_values: whether messages may hold values of the data.
        on_executors: whether Spark's executors measure and write the release, part by part.
        as_json: whether what was done is said for machines.
    """
    require_free(folder)
    if on_executors and "spark" not in spec.source:
        raise SpecError("--on-executors is for data on Spark; name it with [source] spark, or leave the option out.")
    data = checked_source(spec, show_values=show_values)
    ledger = open_ledger(spec)
    plan = make_plan(spec) if saved is None else fitting_plan(saved, spec)
    try:
        writes = on_executors or spec.sampling > 0
        with nullcontext() if writes else reserve(folder, plan, plan.measurements) as place:
            with progress_bar() as show:
                how = {"out": folder if writes else None, "notice": partial(notice, show_values=show_values)}
                purpose = f"released as {folder.name}"
                release = _measured(spec, plan, data, ledger=ledger, purpose=purpose, progress=show, **how)
            if place is not None:
                _commit(place, release)
    except KeyboardInterrupt:
        err.print(f"residua: interrupted; a debit already made stands, see: residua ledger {spec.ledger_path}")
        raise
    if as_json:
        WRITTEN.append(str(folder))
        print_json({"release": str(folder), "ledger": str(spec.ledger_path), "receipt": release.receipt})
        return release
    print_written(folder, f": {release.summary}")
    for line in filter(None, [release.advice, *privacy_lines(plan)]):
        out.print(line)
    if release.left_out is not None:
        in_all = stated(plan.guarantee, release.receipt)
        out.print(f"In all      {in_all}, with the estimate of how many records are not counted")
    if spec.sampling:
        print_written(squares_folder(folder), f": squares of the weights, for {100 * spec.sampling:g} % of the cost.")
        out.print(f"Totals of the population, with sampling error: residua weighted {folder}")
    out.print(f"Ledger      {spec.ledger_path} debited; see: residua ledger {spec.ledger_path}")
    return release


def _measured(spec: Spec, plan: Plan, data: Source, **how: Any) -> Release:
    """The release, and beside it the squares of survey weights, if there are any."""
    if spec.sampling:
        return measure_survey(plan, data, sampling=spec.sampling, **how).release
    return measure(plan, data, left_out=spec.left_out, left_out_most=spec.left_out_most, **how)


class Rehearsed(Exception):  # noqa: N818 – nothing is wrong
    """Nothing stood in the way of a release, which ends here."""


class RehearsedLedger(Ledger):
    """A ledger that refuses what it would refuse, and ends a release before anything is spent."""

    def debit(self, cost: Fraction | int, **asked: Any) -> Entry:
        """Spends nothing.

        Raises:
            LedgerError: what a debit would raise.
            Rehearsed: it would raise nothing.
        """
        self.require(cost, **{name: asked[name] for name in ("dataset", "currency", "whose") if name in asked})
        raise Rehearsed


def check_release(spec: Spec, folder: Path | None, saved: Path | None, *, show_values: bool, as_json: bool) -> None:
    """Refuses what `run_release` would refuse before its debit. Nothing is spent, written, or counted."""
    if folder is not None:
        require_free(folder)
    data = checked_source(spec, show_values=show_values)
    ledger = open_ledger(spec, RehearsedLedger)
    plan = make_plan(spec) if saved is None else fitting_plan(saved, spec)
    with nullcontext() if folder is None else reserve(folder, plan, plan.measurements):  # noqa: SIM117
        with progress_bar() as show, suppress(Rehearsed):
            _measured(spec, plan, data, ledger=ledger, progress=show)
    if as_json:
        print_json({"refused": False, "guarantee": guarantee_to_body(plan.guarantee), "unit": unit_to_body(plan.unit)})
        return
    out.print("Nothing stands in the way of this release; nothing was spent.")
    for line in privacy_lines(plan):
        out.print(line)


def fitting_plan(path: Path, spec: Spec) -> Plan:
    """A saved plan for the specification's data.

    Raises:
        FileError: it cannot be read.
        SpecError: it was made for another domain or unit of protection.
    """
    plan = Plan.load(path)
    if plan.domain != spec.domain:
        raise SpecError(
            f"the plan {str(path)!r} was made for another domain than the specification's; plan again: residua plan."
        )
    if plan.unit != spec.unit:
        raise SpecError(f"the plan {str(path)!r} protects {plan.unit}, [privacy] says {spec.unit}; plan again.")
    return plan


def _commit(place: Reserved, release: Release) -> None:
    try:
        place.commit(release)
    except FileError as problem:
        raise FileError(f"{problem} The budget is spent: debit {release.receipt['sequence']} stands.") from None


def checked_source(spec: Spec, *, show_values: bool = False) -> Source:
    """The data a specification names, once it is known to be there and to have every column. Only names are read.

    Raises:
        SourceError: no such data, or a column is missing; said before the planning.
    """
    data = open_source(spec, show_values=show_values)
    require_agreement(data.options, spec.unit, spec.domain)
    data.check(columns_needed(data, spec.domain, bounded=bool(data.options.person)))
    return data


def open_ledger(spec: Spec, kind: type[Ledger] = Ledger) -> Ledger:
    """The dataset's ledger.

    Raises:
        LedgerError: there is none, or it has another budget or unit.
    """
    if not spec.ledger_path.exists():
        raise LedgerError(
            f"there is no ledger {str(spec.ledger_path)!r}; make it, once: residua ledger create {spec.path}. If it "
            "was lost, restore it: what was spent of the budget is in it."
        )
    return kind(spec.ledger_path, spec.ledger_budget, unit=spec.unit, **ledger_options(spec))


def create_ledger(spec: Spec, population: str | None = None) -> Ledger:
    """Makes the dataset's ledger, with the budget that [ledger] states, or that of [privacy].

    Raises:
        LedgerError: it is there already.
        SpecError: no budget is stated.
    """
    budget = spec.ledger_budget or spec.guarantee
    if budget is None:
        raise SpecError("say what may be spent in all: [ledger] rho = 1.0, for example.")
    return Ledger.create(spec.ledger_path, budget, unit=spec.unit, population=population, **ledger_options(spec))


def run_continual(
    folder: Path, ledger: Path, plan: Path | None, append: Path | None, period: str | None, *, as_json: bool
) -> None:
    """Begins a release that grows or appends a period to it, and prints how many records there were up to each."""
    if period is not None and append is None:
        raise SpecError("--period says which period --append means; give both, or neither.")
    begun = None if plan is None else Plan.load(plan)
    if period is not None and begun is not None and begun.correlated is not None and not folder.exists():
        # before the plan is paid for
        require_period(period, begun.domain[begun.domain.names[begun.measured_attributes[0]]].labels[0])
    fresh = begun is not None and not ledger.exists()
    account = Ledger(ledger, begun.guarantee, unit=begun.unit) if fresh and begun else Ledger(ledger)
    stream = Continual(folder, ledger=account, plan=begun)
    if append is not None:
        stream.append(append, period=period)
    if as_json:
        print_json({"periods": stream.periods, "horizon": stream.horizon, "cumulative": stream.cumulative().columns})
        return
    if stream.periods:
        print_table(stream.cumulative())
    then = f"next: {stream.next_period}" if stream.periods < stream.horizon else "all periods are released"
    out.print(f"{stream.periods} of {stream.horizon} periods, {stream.plan.guarantee!r} paid for all of them; {then}")
