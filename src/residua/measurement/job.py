"""What is measured once its price is known: check, pay, count, add noise, forget. Here true counts are seen."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from residua.domain import Domain
from residua.errors import LedgerError, PlanError, ResiduaError, SourceError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import Layout
from residua.measurement.ledger import Entry, Ledger
from residua.measurement.left_out import LeftOut
from residua.measurement.noisy import noisy_in_portions, portions_of, rehearse, secure_memory
from residua.measurement.parts import require_parts
from residua.plans.measurements import Measurements, Portion
from residua.plans.noise import Currency
from residua.plans.verifier import WORD
from residua.privacy import AddRemove, Person, Unit
from residua.privacy.exact import round_up
from residua.release import Release
from residua.source import Source
from residua.source.accumulate import tables_of_layout
from residua.source.bound import KEY_BYTES, PersonBound, bound_of
from residua.source.checking import Checked, SomeGroups
from residua.source.options import Options, Tallies

Progress = Callable[[str, int, int | None], None]
Notice = Callable[[Tallies], None]
Pay = Callable[[str], tuple[Entry, Ledger]]  # of the data's fingerprint


@dataclass(frozen=True, eq=False, repr=False)
class Job:
    """Measurements whose price is known: check, pay, count, add noise, forget.

    Args:
        measurements: what is measured, as priced.
        domain: what the records may hold.
        unit: whom the price protects.
        data: where the records are.
        pay: called with the data's fingerprint once the data is known to fit; debits a ledger, or raises; returns the
            receipt and the ledger.
        progress: called with the step, how much is done, and of how much if known.
        notice: called once, with how many records followed a policy.
        left_out: what is measured of the records that a bound leaves out, if anything.
    """

    measurements: Measurements
    domain: Domain
    unit: Unit
    data: Source
    pay: Pay
    progress: Progress | None = None
    notice: Notice | None = None
    left_out: LeftOut | None = None

    def measured(self) -> tuple[Integers, Release | None, Entry, Ledger]:
        """The noisy integers, what was left out, the debit that paid for them, and of whom."""
        require_agreement(self.data.options, self.unit, self.domain)
        with self.data.snapshot() as still:
            checked = self.checked(still)
            try:
                portions = portions_of(self.measurements, kept=checked.kept)
                secure_memory(self.measurements, portions)
                for each in {portion.kind: portion.measurements for portion in portions}.values():
                    if self.domain.amounts:
                        require_parts(each, self.domain.parts)
                    rehearse(each, still.rows_hint())
                self.rehearse_left_out()
                entry, ledger = self.paid(checked.fingerprint)
                work = partial(self._counted, portions, checked, self.bound(ledger.choosing_key))
                return *told_of_debit(work, entry), entry, ledger
            finally:
                checked.forget()

    def rehearse_left_out(self) -> None:
        """Tries on nothing what will be measured of the records that a bound leaves out."""
        if self.left_out is not None:
            rehearse(self.left_out.measurements, 0)

    def checked(self, data: Source) -> Checked:
        """The data, read once to see that it fits, before anything is spent."""
        # Any key shows whether the records can be chosen among; the ledger's own may not exist yet.
        trial = self.bound(secrets.token_bytes(KEY_BYTES))
        return checked_data(data, self.domain, self.measurements.most_records, self.progress, trial)

    def paid(self, fingerprint: str) -> tuple[Entry, Ledger]:
        """The debit, which is on disk."""
        entry, ledger = self.pay(fingerprint)
        if not isinstance(entry, Entry):
            raise LedgerError("no debit was made; nothing was measured.")
        return entry, ledger

    def bound(self, key: bytes) -> PersonBound | None:
        """How many records of each person are counted; of no person where the unit is none."""
        if not isinstance(self.unit, Person):
            return None
        bound, beside = bound_of(self.unit, self.domain, key), self.left_out
        if beside is None:
            return bound
        spare = cast("Person", beside.plan.unit).records
        return replace(bound, spare=spare, left_out=tables_of_layout(beside.measurements.counted))

    def _counted(
        self, portions: Sequence[Portion], checked: Checked, bound: PersonBound | None
    ) -> tuple[Integers, Release | None]:
        """Counts the records that were checked, and adds noise, portion by portion; then they are forgotten."""
        tallies: list[Tallies] = []

        def count(portion: Portion, layout: Layout) -> Integers:
            only = None if portion.groups is None else SomeGroups(self.domain.sizes, portion.by, portion.groups)
            step = step_of("counting", self.progress)
            counted = checked.count(layout, step, bound, only, parts=self.domain.parts)
            tallies[:] = [counted.tallies]  # every portion reads all records, and says the same of them
            if portion is portions[-1]:
                checked.forget()
            return counted.tables

        step = step_of("adding noise", self.progress)
        return noisy_in_portions(self.measurements, portions, count, step, self.domain.parts), self.told(*tallies)

    def told(self, tallies: Tallies) -> Release | None:
        """Tells the curator what followed a policy, and measures what was left out."""
        if self.notice is not None:
            self.notice(tallies)
        return None if self.left_out is None or tallies.loss is None else self.left_out.measured(tallies.loss)

    def receipt(self, entry: Entry, ledger: Ledger, cost: Fraction) -> dict[str, Any]:
        """What a release says of its debit and of the data, which is public."""
        receipt: dict[str, Any] = {"sequence": entry.sequence, "time": entry.time, "digest": entry.digest}
        receipt["ledger"] = ledger.identity
        if self.data.options.counts is not None:
            receipt["counts"] = self.data.options.counts
        if (weights := self.data.options.weights) is not None:
            receipt |= {"weights": weights.column, "weights_most": weights.most, "weights_step": weights.step}
            receipt |= {"weights_squared": 1} if weights.squared else {}
        if "whose" in entry.detail:
            receipt["person"] = ", ".join(entry.detail["whose"]["person"])
        if self.left_out is not None:
            receipt["left_out_most"] = cast("Person", self.left_out.plan.unit).records
        if self.measurements.currency == "epsilon":
            return {**receipt, "epsilon": round_up(cost), "pcost": round_up(cost * cost)}
        return {**receipt, "pcost": round_up(cost)}


def paying(account: Ledger, cost: Fraction, purpose: str, data: Source, currency: Currency = "pcost") -> Pay:
    """What debits a cost for data with a given fingerprint; the arguments are those of `Ledger.debit`."""

    def pay(fingerprint: str) -> tuple[Entry, Ledger]:
        whose = data.options.whose
        return account.debit(cost, purpose=purpose, dataset=fingerprint, currency=currency, whose=whose), account

    return pay


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
    weights, named = options.weights, ", ".join(map(repr, options.person))
    if weights is not None and not (isinstance(unit, AddRemove) and unit.records >= weights.steps):
        raise SourceError(
            f"the data has survey weights up to {weights.most:g} in steps of {weights.step:g}, so that a respondent "
            f"changes tables by {weights.steps:,} steps, but what is protected is {unit}; plan with "
            f"unit={weights.protects!r}."
        )
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


def step_of(name: str, progress: Progress | None) -> Callable[[int, int | None], None] | None:
    """What a step tells of its progress; None if nobody asks."""
    return None if progress is None else lambda done, total: progress(name, done, total)


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
