"""A time axis released as it grows: planned and paid for its whole horizon once, counted period by period.

What is released of period k is a running sum on a grid, `y_k = y_{k−1} + t x_k + r_k − r_{k−1}`, with x_k the records
of that period and r the rounded running sums of the plan's noise (`noise/correlated.py`). All of them together have the
law of one release of the plan, so that the cost is the plan's own, paid once; and because the noise is normal and its
law does not depend on the data, later records may depend on what was released before (Denisov et al. 2022).

A folder holds the plan and what was released, which are public, and the normals drawn so far, which are confidential:
beside a release they tell the true running sums. Each step is on disk before the next begins. Whatever is interrupted
is taken up again with the same noise and the same data, or not at all: the ledger decides who may go on
(`continual_folder.py`).
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from residua.disk import require_locks
from residua.domain import Label
from residua.errors import FileError, LedgerError, LedgerMovedError, PlanError, VerificationError, named
from residua.linalg.arrays import Floats, Integers
from residua.linalg.path import OrderedNoise
from residua.machine import csr_array
from residua.measurement.continual_folder import (
    ContinualFolder,
    ContinualStanding,
    claimed,
    paid,
    plan_mark,
    require_same_data,
    standing,
)
from residua.measurement.job import checked_data, require_agreement, told_of_debit
from residua.measurement.ledger import Ledger
from residua.noise.correlated import begun, rounded_so_far
from residua.plans.contract import Plan
from residua.plans.tails import width
from residua.plans.verifier import priced
from residua.privacy import AddRemove, ReplaceOne
from residua.published import Table
from residua.release.base import Estimate
from residua.source import Source, source_of


class Continual:
    """A time axis released as it grows, in a folder that survives interruptions.

    Guarantee: all that is ever released satisfies the plan's guarantee for its unit, which is paid once, when the
    folder is made; of each period one number is released, once; every running sum has the variance that the plan
    states.

    Args:
        folder: where the plan, what was released and the noise are kept. It is made with a plan, and opened without.
        ledger: the ledger of these records, or the path of one that exists.
        plan: prefixes of the time axis up to the horizon: `rs.plan(rs.prefixes(domain, "month"), …, form=rs.Axis())`.

    Raises:
        PlanError: no plan along one axis, or for persons, whose records of earlier periods are not known any more.
        LedgerError: the budget does not allow it (nothing is spent), or the folder is older than the ledger.
        FileError: no such folder, or it holds something else.

    Reference: Denisov, McMahan, Rush, Smith and Thakurta (2022), "Improved differential privacy for SGD via optimal
        private linear operators on adaptive streams"; docs/long-axes.md.

    Example:
        >>> import residua as rs, pyarrow as pa, tempfile
        >>> domain = rs.Domain({"month": rs.Integers(1, 36)})
        >>> plan = rs.plan(rs.prefixes(domain, "month"), rs.ZCDP(0.5), form=rs.Axis())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = rs.Ledger(f"{folder}/visits.ledger", rs.ZCDP(0.5))
        ...     visits = rs.Continual(f"{folder}/visits", ledger=ledger, plan=plan)
        ...     january = visits.append(pa.table({"month": [1] * 400}))
        ...     february = visits.append(pa.table({"month": [2] * 500}))
        ...     periods = visits.periods
        >>> abs(february.estimate - 900) < 6 * february.stddev, periods
        (True, 2)
    """

    def __init__(self, folder: str | Path, *, ledger: Ledger | str | Path, plan: Plan | None = None) -> None:
        require_locks()
        self._folder = ContinualFolder(Path(folder))
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        if plan is not None:
            self._begin(plan)
        elif not self._folder.exists:
            raise FileError(f"{str(folder)!r} holds no continual release; make it with plan=….")
        else:
            self._folder.make()
        kept = self._folder.plan()
        if kept.correlated is None:
            raise FileError(f"the plan in {str(folder)!r} is not along one axis; it is not the one that was paid for.")
        self._plan: Any = kept
        self._mark = plan_mark(kept)
        standing(self._folder, self._ledger, self._mark)

    # ---- what people are shown

    @property
    def plan(self) -> Plan:
        """What was planned, and paid, for the whole horizon."""
        kept: Plan = self._plan
        return kept

    @property
    def ledger(self) -> Ledger:
        """Where it was paid."""
        return self._ledger

    @property
    def periods(self) -> int:
        """How many periods were released."""
        return len(self._folder.released()[1])

    @property
    def horizon(self) -> int:
        """How many periods can be."""
        return int(self._plan.size)

    @property
    def next_period(self) -> Label | None:
        """The label of the period that comes next; None at the horizon."""
        k = self.periods
        return self._labels[k] if k < self.horizon else None

    def cumulative(self, *, confidence: float = 0.95) -> Table:
        """How many records there were up to each period, with error bars."""
        return self._table(csr_array(np.eye(self.periods, self.horizon)), "up to each period", confidence)

    def counts(self, *, confidence: float = 0.95) -> Table:
        """How many records there were in each period, with error bars."""
        k = self.periods
        rows = np.eye(k, self.horizon) - np.eye(k, self.horizon, -1)
        return self._table(csr_array(rows), "in each period", confidence)

    def count(self, first: Label, last: Label, *, confidence: float = 0.95) -> Estimate:
        """How many records there were from one period to another, both included.

        Raises:
            PlanError: a period that is unknown, or was not released yet.
        """
        places = [self._place(label) for label in (first, last)]
        if not places[0] <= places[1] < self.periods:
            raise PlanError(f"{named(first)} to {named(last)} are not periods that were released, in their order.")
        row = np.zeros((1, self.horizon))
        row[0, places[1]] = 1.0
        if places[0]:
            row[0, places[0] - 1] = -1.0
        return self._estimate(csr_array(row), confidence)

    # ---- measuring

    def append(self, source: Any, *, period: Label | date | None = None, confidence: float = 0.95) -> Estimate:
        """Counts the records of the next period, and releases how many there were up to it.

        Records of other periods are not counted: the source may hold all that there is so far. What comes in later
        for a period that was released is lost; close a period before it is appended. A source without records of the
        next period uses that period up: name the period, so that another one's data is not taken for it.

        Args:
            source: a path to CSV or Parquet, a pandas, Polars or Arrow frame, or an `rs.Source`.
            period: the label of the period that is meant; any other than the next is refused before data is read.
            confidence: of the interval.

        Returns:
            The running sum of all periods so far.

        Raises:
            SourceError: the data does not fit the domain. Nothing is released.
            PlanError: the horizon is reached, or `period` is not the next one. Nothing is read.
        """
        with self._folder.held():
            at = standing(self._folder, self._ledger, self._mark)
            k = len(at.sums)
            if k >= self.horizon:
                raise PlanError(f"all {self.horizon} periods of the plan were released; plan for what comes after.")
            if period is not None:
                require_period(period, self._labels[k])
            with source_of(source).snapshot() as still:
                value = self._released(still, at)
            self._folder.release(at.token, [*at.sums, value])
        return self._estimate(csr_array((np.ones(1), ([0], [k])), shape=(1, self.horizon)), confidence)

    def _released(self, data: Source, at: ContinualStanding) -> int:
        """The released running sum of the next period. The true count ends here."""
        measurements, plan, k = self._plan.compile(), self._plan, len(at.sums)
        require_agreement(data.options, plan.unit, plan.domain)
        checked = checked_data(data, plan.domain, measurements.most_records // 4)
        try:
            at = self._begun(at, checked.fingerprint)

            def measured() -> int:
                counts: Integers = checked.count(measurements.counted, None, None).tables
                rounded, drawn = rounded_so_far(_forward(plan), _grid(plan), at.drawn)
                if drawn.more != at.drawn.more:  # bits that the ledger's line does not cover
                    raise VerificationError("the noise was not settled before the period was begun; this is a defect.")
                before = (at.sums[-1], int(rounded[k - 1])) if k else (0, 0)
                return before[0] + _grid(plan) * int(counts[k]) + int(rounded[k]) - before[1]

            return told_of_debit(measured, at.line)
        finally:
            checked.forget()

    def _begun(self, at: ContinualStanding, fingerprint: str) -> ContinualStanding:
        """The next period, begun in the ledger with noise that is drawn to its last bit, or taken up again."""
        if at.is_begun:
            require_same_data(self._ledger, at, fingerprint)
            self._ledger.confirm()
        while not at.is_begun:
            _, drawn = rounded_so_far(_forward(self._plan), _grid(self._plan), at.drawn.extended())
            try:
                return claimed(self._folder, self._ledger, drawn, at, fingerprint)
            except LedgerMovedError:
                at = standing(self._folder, self._ledger, self._mark)
        return at

    # ---- the folder

    def _begin(self, plan: Plan) -> None:
        """Makes the folder and pays, or takes up where that was interrupted."""
        if plan.correlated is None:
            raise PlanError(
                "plan is not along one axis alone; give rs.plan(rs.prefixes(domain, attribute), …, form=rs.Axis()), "
                "where records are replaced form=rs.Axis(apart=True), or plan a specification of prefixes with "
                "[objective] axis = true."
            )
        if plan.domain.amounts:
            raise PlanError("plan has amounts, whose sums are not released as they grow; leave them out of the domain.")
        noise = _forward(plan)
        if not isinstance(plan.unit, AddRemove | ReplaceOne):
            raise PlanError(
                f"the plan protects {plan.unit}; which records of a person were counted in earlier periods is not "
                "kept: plan for unit=rs.AddRemove(records=k), with the most records that a person has in all periods."
            )
        if self._ledger.unit != plan.unit:
            raise LedgerError(f"the ledger protects {self._ledger.unit}, the plan {plan.unit}; plan for that unit.")
        measurements, cost = priced(plan)
        self._folder.make()
        with self._folder.held():
            if not self._folder.exists:
                self._folder.begin(plan, begun(noise))
            elif self._folder.plan().to_body() != plan.to_body():
                where = str(self._folder.path)
                raise FileError(f"{where!r} holds another continual release; choose another folder.")
            paid(self._folder, self._ledger, plan, cost, measurements.currency)

    @property
    def _labels(self) -> tuple[Label, ...]:
        return tuple(self._plan.domain[self._plan.name].labels)

    # ---- estimates

    def _place(self, label: Label) -> int:
        if label not in self._labels:
            raise PlanError(f"{label!r} is no period of {self._plan.name!r}; the first is {self._labels[0]!r}.")
        return self._labels.index(label)

    def _answered(self, rows: csr_array) -> tuple[Floats, Floats]:
        sums = np.array(self._folder.released()[1], dtype=np.float64) / _grid(self._plan)
        return np.asarray(rows[:, : len(sums)] @ sums), np.sqrt(self._plan.correlated.prefix_variances(rows))

    def _estimate(self, rows: csr_array, confidence: float) -> Estimate:
        (estimate,), (stddev,) = self._answered(rows)
        reach = width(confidence) * stddev
        return Estimate(float(estimate), float(stddev), float(estimate - reach), float(estimate + reach))

    def _table(self, rows: csr_array, what: str, confidence: float) -> Table:
        estimates, stddev = self._answered(rows)
        labels = (self._labels[: len(estimates)],)
        title = f"records {what} of {self._plan.name!r}"
        return Table(
            self._plan.domain, (self._plan.name,), estimates, stddev, width(confidence), labels, title, confidence
        )

    def __repr__(self) -> str:
        return f"Continual({str(self._folder.path)!r}, {self.periods} of {self.horizon} periods)"


def require_period(period: Label | date, label: Label) -> None:
    """Refuses a period that is not the one that comes next; dates and numbers may be written as text.

    Raises:
        PlanError: it is another.
    """
    if str(period) != str(label):
        raise PlanError(
            f"period={str(period)!r} is not the next one, which is {str(label)!r}; nothing was read: give the data of "
            "that period, and its label."
        )


def _grid(plan: Plan) -> int:
    """What prefix sums are multiplied by before they are rounded."""
    (piece,) = plan.measurements.pieces  # type: ignore[attr-defined]
    return int(piece.grid)


def _forward(plan: Plan) -> OrderedNoise:
    """The plan's noise, if it can be drawn period by period.

    Raises:
        PlanError: it is shaped for groups of periods, and drawn from their ends inwards.
    """
    (piece,) = plan.measurements.pieces  # type: ignore[attr-defined]
    if isinstance(piece.sampled, OrderedNoise):
        return piece.sampled
    raise PlanError(
        "plan has noise that is shaped for groups of periods, and not drawn in their order; plan for rs.prefixes "
        "alone: groups can be read off its release as well."
    )
