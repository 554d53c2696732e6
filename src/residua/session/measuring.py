"""How a session measures: it pays for what is missing of a plan, counts, keeps the part, and pools all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from residua.errors import SessionError
from residua.measurement.measure import Progress, carry_out
from residua.plans.composition import composed_cost
from residua.plans.contract import Plan
from residua.release import Release, reserve
from residua.release.pooled import pool_of, require_poolable
from residua.session.accounts import Account, SessionStanding
from residua.session.missing import Memory, Missing, poolable, require_domain
from residua.session.state import digest_of_measured
from residua.source import Source
from residua.source.options import Tallies
from residua.workload import Workload


class Measuring:
    """What choices, top-ups and adaptations share.

    Args:
        account: what may be spent, and all that was.
        data: where the records are.
        progress: called with the step, how much is done, and of how much if known.
        notice: called with how many records followed a policy.
    """

    def __init__(
        self, account: Account, data: Source, progress: Progress | None, notice: Callable[[Tallies], None] | None
    ) -> None:
        self._account, self._data, self._progress, self._notice = account, data, progress, notice
        self._folder, self._ledger, self._memory = account.folder, account.ledger, Memory()

    def _standing(self) -> SessionStanding:
        return self._account.standing()

    def _checked(self, plan: Plan) -> Plan:
        return poolable(plan, self._ledger.unit)

    def _tell(self, step: str, done: int, total: int | None) -> None:
        if self._progress is not None:
            self._progress(step, done, total)

    def _missing(self, plan: Plan, at: SessionStanding) -> Missing | None:
        require_domain(plan, at.plans)
        return self._memory.find(plan, tuple(at.parts), at.plans, lambda: self._tell("pricing", 0, None))

    def _price(self, missing: Missing | None, at: SessionStanding) -> Fraction:
        """What measuring what is missing would debit."""
        return Fraction(0) if missing is None else at.increment(missing.together)

    def _measured(
        self, missing: Missing, at: SessionStanding, purpose: str, what: str, step: Mapping[str, Any] | None = None
    ) -> SessionStanding:
        """Pays for a measurement, makes it, and keeps it."""
        assert missing.measurements.currency == "pcost"  # the increment is one of Γ
        if at.parts and composed_cost([*at.plans, missing.plan]) > missing.together:  # it may be known for a while
            raise SessionError("the measurement costs more than was worked out; this is a defect, nothing was spent.")
        self._account.require(at, self._price(missing, at), what)
        if at.parts:
            require_poolable(list(at.parts.values()), missing.plan, missing.measurements)
        number, digest = at.next_part, digest_of_measured(missing.plan, missing.measurements)

        def cost(now: SessionStanding) -> Fraction:
            if now.next_part != number:
                raise SessionError("another copy of the session is in use; nothing was spent: use the latest copy.")
            return now.increment(missing.together)

        detail = {"session": self._folder.identity.key, "part": number, "measures": digest}
        detail |= {"alone": str(missing.alone), **(step or {})}
        pay = self._account.paying(cost, purpose, what, detail, self._data.options.whose)
        with reserve(self._folder.place(number), missing.plan, missing.measurements) as room:
            # What cannot be read back would be paid for and lost: seen before the debit.
            if digest_of_measured(Plan.load(room.partial / "plan.json"), missing.measurements) != digest:
                raise SessionError("the measurement cannot be kept as it is; this is a defect, nothing was spent.")
            release = carry_out(
                missing.plan,
                missing.measurements,
                missing.alone,
                self._data,
                pay,
                progress=self._progress,
                notice=self._notice,
            )
            room.commit(release)
        return self._standing()

    def _finished(
        self, plan: Plan, at: SessionStanding, purpose: str, what: str, step: Mapping[str, Any] | None = None
    ) -> SessionStanding:
        """Where the session stands once what is missing of a plan was measured."""
        missing = self._missing(plan, at)
        return at if missing is None else self._measured(missing, at, purpose, what, step)

    def _pooled(self, at: SessionStanding, workload: Workload | None) -> Release:
        """Everything measured, as one release; its receipt names the latest debit, which stands for all before it."""
        pooled = pool_of(list(at.parts.values()), workload, same_records=True)
        last = at.debits[max(at.parts)]
        latest = {"sequence": last.sequence, "time": last.time, "digest": last.digest}
        return Release(pooled.planned, pooled.measurements, pooled.noisy, {**latest, **pooled.receipt})
