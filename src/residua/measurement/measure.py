"""The one door to data: verify, debit, count, add noise. Nothing else in residua sees a true count."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from residua.errors import FileError, named
from residua.measurement.job import Job, Notice, Progress, account_of, paying, require_agreement
from residua.measurement.ledger import Ledger
from residua.measurement.left_out import left_out_of
from residua.plans.contract import Plan
from residua.plans.verifier import priced, require_plan
from residua.privacy import Person
from residua.privacy.guarantees import LEFT_OUT_SHARE
from residua.release import Release, reserve
from residua.showing import with_bar
from residua.source import source_of


@with_bar("measuring")
def measure(
    plan: Plan,
    source: Any,
    *,
    ledger: Ledger | str | Path,
    purpose: str = "release",
    out: str | Path | None = None,
    progress: Progress | bool | None = None,
    notice: Notice | None = None,
    left_out: float = LEFT_OUT_SHARE,
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
        left_out: under `rs.Person`: which share of all that is spent goes to counting, with noise, the records that
            the bound leaves out, in all and in each asked one-way table (`release.left_out`). With 0 none does, and
            the release says that its bias is unknown.
        left_out_most: the most records of one person that are counted as left out; ten times the bound if not given.

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
    asked = isinstance(plan.unit, Person) or left_out_most is not None or left_out != LEFT_OUT_SHARE
    beside = left_out_of(plan, cost, left_out, left_out_most) if asked else None
    cost += 0 if beside is None else beside.cost
    pay = paying(account, cost, purpose, data, measurements.currency)
    job = Job(measurements, plan.domain, plan.unit, data, pay, steps, notice, beside)
    if out is None:
        return carry_out(plan, job, cost)
    if not isinstance(out, str | Path):
        raise FileError(f"out={named(out)} is no path; name a folder to write the release to.")
    if data.has_executors:
        from residua.measurement.on_spark import release_by_executors

        return release_by_executors(plan, job, cost, Path(out))
    with reserve(Path(out), plan, measurements) as room:
        room.commit(carry_out(plan, job, cost))
    return Release.load(out)


def carry_out(plan: Plan, job: Job, cost: Fraction) -> Release:
    """What `measure` does once it knows the price, and a session too.

    Args:
        plan: what to measure.
        job: what that comes down to, as priced.
        cost: what all of it costs, by the verifier; the release states it.
    """
    noisy, left_out, entry, ledger = job.measured()
    return Release(plan, job.measurements, noisy, job.receipt(entry, ledger, cost), left_out)
