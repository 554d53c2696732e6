"""The one door to data: verify, debit, count, add noise. Nothing else in residua sees a true count."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from residua.domain import Domain
from residua.errors import FileError, LedgerError, PlanError, ResiduaError, SourceError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import Layout
from residua.measurement.aside import Aside, aside_of, left_out_receipt
from residua.measurement.ledger import Entry, Ledger
from residua.measurement.noisy import noisy_in_portions, portions_of, rehearse, secure_memory
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements, Portion
from residua.plans.noise import Currency
from residua.plans.verifier import WORD, priced, require_plan
from residua.privacy import Guarantee, Person, Unit
from residua.privacy.exact import round_up
from residua.release import Release, reserve
from residua.showing import with_bar
from residua.source import Source, source_of
from residua.source.bound import KEY_BYTES, PersonBound, bound_of
from residua.source.checking import Checked, SomeGroups
from residua.source.options import Options, Tallies

if TYPE_CHECKING:
    from residua.source.spark import SparkSource


Progress = Callable[[str, int, int | None], None]
Notice = Callable[[Tallies], None]
Pay = Callable[[str], tuple[Entry, Ledger]]  # of the data's fingerprint


@with_bar("measuring")
def measure(
    plan: Plan,
    source: Any,
    *,
    ledger: Ledger | str | Path,
    purpose: str = "release",
    out: str | Path | None = None,
    progress: Progress | bool | None = None,
    notice: Callable[[Tallies], None] | None = None,
    left_out: Guarantee | None = None,
    left_out_most: int | None = None,
) -> Release:
    """Measures a plan on data, once.

    In this order: the plan is compiled to integer measurements and priced by the verifier; the data is checked
    against the domain, so that a value outside it stops here; the memory that measuring takes is secured, and what it
    needs is tried on nothing; the ledger is debited; the records that were checked are counted; exact noise is added;
    the counts are forgotten.

    Guarantee: the release satisfies the plan's guarantee for its unit (under `rs.Person`, no more records of a person
    are counted than it says, in any table), and the ledger was debited before any table was
    counted (the check before it counts the records, to see that 64 bits suffice, and forgets them). The release holds
    no true count.

    Args:
        plan: what to measure.
        source: a path to CSV or Parquet, a pandas, Polars or Arrow frame, or an `rs.Source`.
        ledger: the dataset's ledger, or the path of one that exists.
        purpose: what the ledger notes.
        out: a folder to write the release to, which must not exist; what is returned is read from there when asked for.
            With a Spark frame, executors measure and write it, part by part, so that it may be larger than any
            machine's memory; they must share the folder (docs/spark.md).
        progress: `True` draws a bar on a terminal or in a notebook; or a function, called
            with the step, how much is done, and of how much if known.
        notice: called once, with how many records followed a policy for unknown or missing values. For the
            curator's eyes only: these are true counts.
        left_out: under `rs.Person`: what to spend, beside the plan's cost, on an estimate of how many records the
            bound leaves out (`release.left_out`), with normal noise, or Laplace noise where the plan has such.
        left_out_most: the most records of one person that the estimate counts; ten times the bound if left out.

    Raises:
        VerificationError: what would be measured costs more than promised, or a library that measuring needs does not
            work here. Nothing is spent.
        SourceError: the data does not fit the domain. Nothing is spent, unless the message says that the debit
            stands, because the data changed after it was checked.
        LedgerError: the budget does not allow it. Nothing is spent.
        PlanError: there is not enough memory to measure the plan. Nothing is spent.

    Reference: residual-planner, Algorithm 1.

    Example:
        >>> import residua as rs, pyarrow as pa, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes"]})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
        >>> data = pa.table({"sex": ["F", "M", "M"] * 500, "answer": ["no", "yes", "no"] * 500})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = rs.Ledger(f"{folder}/survey.ledger", rs.ZCDP(rho=0.5))
        ...     release = rs.measure(plan, data, ledger=ledger)
        >>> abs(release.count({"sex": "M"}).estimate - 1000) < 20
        True
    """
    require_plan(plan)  # says so if it is no plan, before the ledger is looked for
    steps = None if isinstance(progress, bool) else progress  # a bar has become a function
    account = account_of(ledger, plan.unit)
    data = source_of(source)
    require_agreement(data.options, plan.unit, plan.domain)
    measurements, cost = priced(plan)
    aside = None if left_out is None else aside_of(plan, left_out, left_out_most)
    cost += 0 if aside is None else aside.cost

    def pay(fingerprint: str) -> tuple[Entry, Ledger]:
        entry = account.debit(
            cost, purpose=purpose, dataset=fingerprint, currency=measurements.currency, whose=data.options.whose
        )
        return entry, account

    carried_out = partial(carry_out, plan, measurements, cost, data, pay, progress=steps, notice=notice, aside=aside)
    if out is None:
        return carried_out()
    if not isinstance(out, str | Path):
        raise FileError(f"out={out!r} is no path; name a folder to write the release to.")
    if data.has_executors:
        return _on_executors(plan, measurements, cost, data, pay, Path(out), steps, _teller(notice, aside))
    with reserve(Path(out), plan, measurements) as room:
        room.commit(carried_out())
    return Release.load(out)


def carry_out(
    plan: Plan,
    measurements: Measurements,
    cost: Fraction,
    data: Source,
    pay: Pay,
    *,
    progress: Progress | None = None,
    notice: Notice | None = None,
    aside: Aside | None = None,
) -> Release:
    """Check, pay, count, add noise, forget: what `measure` does once it knows the price, and a session too.

    Args:
        plan: what to measure.
        measurements: what that comes down to, as priced.
        cost: what the measurements cost alone, by the verifier; the release states it.
        data: where the records are.
        pay: called with the data's fingerprint once the data is known to fit; debits a ledger, or raises; returns the
            receipt and the ledger.
        progress: called with the step, how much is done, and of how much if known.
        notice: called once, with how many records followed a policy.
        aside: the noise for the number of records that a bound leaves out, where that is wanted; its cost is included.
    """
    left_out: dict[str, Any] = {}
    tell = _teller(notice, aside)
    noisy, entry, ledger = measured_once(
        measurements, plan.domain, plan.unit, data, pay, progress, lambda tallies: left_out.update(tell(tallies))
    )
    receipt = _receipt(entry, ledger, data.options, cost, measurements.currency)
    return Release(plan, measurements, noisy, {**receipt, **left_out})


def measured_once(
    measurements: Measurements,
    domain: Domain,
    unit: Unit,
    data: Source,
    pay: Pay,
    progress: Progress | None = None,
    notice: Notice = lambda tallies: None,
) -> tuple[Integers, Entry, Ledger]:
    """The noisy integers of measurements that were priced for a unit, the debit that paid for them, and of whom."""
    require_agreement(data.options, unit, domain)
    # Any key shows whether the records can be chosen among; the ledger's own may not exist yet.
    trial = _bound(unit, domain, secrets.token_bytes(KEY_BYTES))
    with data.snapshot() as still:
        checked = checked_data(still, domain, measurements.most_records, progress, trial)
        try:
            portions = portions_of(measurements, kept=checked.kept)
            secure_memory(measurements, portions)
            for each in {portion.kind: portion.measurements for portion in portions}.values():
                rehearse(each, still.rows_hint())
            entry, ledger = _paid(pay, checked.fingerprint)
            bound = _bound(unit, domain, ledger.choosing_key)
            work = partial(_measured, measurements, portions, checked, domain, bound, progress, notice)
            return told_of_debit(work, entry), entry, ledger
        finally:
            checked.forget()


def _measured(
    measurements: Measurements,
    portions: Sequence[Portion],
    checked: Checked,
    domain: Domain,
    bound: PersonBound | None,
    progress: Progress | None,
    notice: Notice,
) -> Integers:
    """Counts the records that were checked, and adds noise, portion by portion; after the last they are forgotten."""
    tallies: list[Tallies] = []

    def count(portion: Portion, layout: Layout) -> Integers:
        only = None if portion.groups is None else SomeGroups(domain.sizes, portion.by, portion.groups)
        counted = checked.count(layout, step_of("counting", progress), bound, only)
        tallies[:] = [counted.tallies]  # every portion reads all records, and says the same of them
        if portion is portions[-1]:
            checked.forget()
        return counted.tables

    noisy = noisy_in_portions(measurements, portions, count, step_of("adding noise", progress))
    notice(*tallies)
    return noisy


def _teller(notice: Notice | None, aside: Aside | None) -> Callable[[Tallies], dict[str, Any]]:
    """Tells the curator what followed a policy, and returns what the receipt says of it, with noise."""

    def tell(tallies: Tallies) -> dict[str, Any]:
        if notice is not None:
            notice(tallies)
        return {} if aside is None or tallies.loss is None else left_out_receipt(tallies.loss, aside)

    return tell


def _on_executors(
    plan: Plan,
    measurements: Measurements,
    cost: Fraction,
    data: Source,
    pay: Pay,
    out: Path,
    progress: Progress | None,
    tell: Callable[[Tallies], dict[str, Any]],
) -> Release:
    """What `carry_out` does, into a folder that executors write."""
    from residua.measurement.on_spark import measured_on_executors, place_on_executors

    spark = cast("SparkSource", data)
    trial = _bound(plan.unit, plan.domain, secrets.token_bytes(KEY_BYTES))
    with place_on_executors(out, plan, measurements, spark) as place:
        fingerprint = checked_data(data, plan.domain, measurements.most_records, progress, trial).fingerprint
        entry, ledger = _paid(pay, fingerprint)
        bound = _bound(plan.unit, plan.domain, ledger.choosing_key)
        receipt = _receipt(entry, ledger, data.options, cost, measurements.currency)
        step = step_of("measuring", progress)
        return told_of_debit(
            lambda: measured_on_executors(plan, measurements, spark, fingerprint, bound, place, receipt, tell, step),
            entry,
        )


def _bound(unit: Unit, domain: Domain, key: bytes) -> PersonBound | None:
    """How many records of each person are counted; of no person where the unit is none."""
    return bound_of(unit, domain, key) if isinstance(unit, Person) else None


def _paid(pay: Pay, fingerprint: str) -> tuple[Entry, Ledger]:
    entry, ledger = pay(fingerprint)
    if not isinstance(entry, Entry):
        raise LedgerError("no debit was made; nothing was measured.")
    return entry, ledger


def account_of(ledger: Ledger | str | Path, unit: Unit) -> Ledger:
    """The ledger that is meant, if it protects what is measured for; a bound on persons' records is a plan's own.

    Raises:
        LedgerError: it is none, or protects another unit.
    """
    if not isinstance(ledger, Ledger | str | Path):
        raise LedgerError(f"ledger is a {type(ledger).__name__}, not a ledger; make one with rs.Ledger.")
    account = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if account.unit != unit and not (isinstance(account.unit, Person) and isinstance(unit, Person)):
        raise LedgerError(
            f"the ledger protects {account.unit}, what is measured {unit}; plan with unit={account.unit!r}, or make "
            f"a ledger with unit={unit!r}."
        )
    return account


def require_agreement(options: Options, unit: Unit, domain: Domain | None = None) -> None:
    """Refuses data whose records belong to persons under a unit that bounds none, and the other way round.

    Args:
        options: what is said of the records.
        unit: whom the budget protects.
        domain: what is counted, if that is known already: the person is not in it.

    Raises:
        SourceError: they do not agree.
    """
    named = ", ".join(map(repr, options.person))
    if options.person and not isinstance(unit, Person):
        raise SourceError(
            f"the data names a person column, {named}, but what is protected is {unit}, which bounds no person's "
            "records; plan with unit=rs.Person(records=…), or leave person out."
        )
    if isinstance(unit, Person) and not options.person:
        raise SourceError(
            f"what is protected is {unit}, but the data does not say whose each record is; name the column with "
            "person=…, or declare a bound that the data are known to keep with unit=rs.AddRemove(records=…)."
        )
    if domain is not None and options.person and all(name in domain for name in options.person):
        raise SourceError(f"column {named} says who the person is and cannot be counted as well; leave it out.")


def checked_data(
    data: Source, domain: Domain, most: int = WORD, progress: Progress | None = None, bound: PersonBound | None = None
) -> Checked:
    """Reads the data once to see that it fits the domain, before anything is spent."""

    def read() -> Checked:
        checked = data.checked(domain, step_of("checking", progress), bound)
        if checked.records > most:
            raise SourceError("there are more records than 64-bit measurements can hold; split the data.")
        return checked

    return without_records(read)


def _receipt(entry: Entry, ledger: Ledger, options: Options, cost: Fraction, currency: Currency) -> dict[str, Any]:
    """What a release says of its debit and of the data, which is public."""
    receipt: dict[str, Any] = {"sequence": entry.sequence, "time": entry.time, "digest": entry.digest}
    receipt["ledger"] = ledger.identity
    if options.counts is not None:
        receipt["counts"] = options.counts
    if "whose" in entry.detail:
        receipt["person"] = ", ".join(entry.detail["whose"]["person"])
    if currency == "epsilon":
        return {**receipt, "epsilon": round_up(cost), "pcost": round_up(cost * cost)}
    return {**receipt, "pcost": round_up(cost)}


def step_of(name: str, progress: Progress | None) -> Callable[[int, int | None], None] | None:
    """What a step tells of its progress; None if nobody asks."""
    if progress is None:
        return None
    return lambda done, total: progress(name, done, total)


T = TypeVar("T")


def without_records(work: Callable[[], T]) -> T:
    """Reads records; an error report that shows local variables must not show any."""
    try:
        return work()
    except BaseException as problem:
        clear(problem)
        raise


def clear(problem: BaseException) -> None:
    """Makes an error hold no records: neither in the variables of its frames, nor in an engine's error behind it.

    `raise … from None` hides that from people who read a traceback, and keeps it for programs that report errors.
    """
    traceback.clear_frames(problem.__traceback__)
    suppressed = problem.__suppress_context__
    problem.__cause__ = problem.__context__ = None
    problem.__suppress_context__ = suppressed


def told_of_debit(work: Callable[[], T], entry: Entry) -> T:
    """Does what was paid for; an error says that the debit stands, and keeps no true count alive."""
    stands = f"Debit {entry.sequence} of the ledger stands"
    failure: ResiduaError
    try:
        return work()
    except SourceError as problem:
        traceback.clear_frames(problem.__traceback__)
        failure = SourceError(f"{problem} {stands}; plan again.")
    except MemoryError as problem:
        traceback.clear_frames(problem.__traceback__)
        failure = PlanError(f"there is not enough memory to measure this plan; {stands}: ask for smaller tables.")
    except BaseException as problem:
        clear(problem)  # an error report that shows local variables must not show counts
        problem.add_note(f"{stands}: this went wrong while measuring.")
        raise
    raise failure  # outside the handlers, so that it carries no context
