"""A session: look at the data adaptively without wasting budget, and top up releases for the difference only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from residua.errors import SessionError
from residua.measurement import Ledger
from residua.measurement.ledger_entries import affordable, stated
from residua.measurement.measure import Progress, require_agreement
from residua.plans.contract import Plan
from residua.privacy import AddRemove, Guarantee, Unit
from residua.quoting import Answering, Quotable
from residua.release import Release
from residua.session.accounts import Account, Status
from residua.session.adapting import Adaptive
from residua.session.choosing import LOST, Choosing
from residua.session.opening import (
    beside,
    check_place,
    existing_ledger,
    ledger_for,
    open_folder,
    require_gaussian,
    require_its_ledger,
)
from residua.showing import Reported, lasting_bar
from residua.source import source_of
from residua.source.options import Tallies
from residua.workload import Workload


class Session(Adaptive, Choosing, Reported, Quotable):
    """Adaptive use of one dataset: choices that waste nothing, and releases that pay only for what is missing.

    Everything measured in a session is kept, and every answer is the best linear unbiased estimate from all of it.
    The ledger is debited the increment of what everything together costs, `max diag (Γ_1 + … + Γ_k)`, in fractions:
    asking again for something answered costs nothing, and what is measured in cells that have budget left is free.

    Guarantee: each cost is fixed before its measurement runs, is on disk before the data is counted, and the sum of
    all Γ never exceeds what was debited on any cell; so all that a session releases, however adaptively chosen, is
    within the ledger's budget. Killed at any moment, a session goes on from its folder: what was measured is there or
    was lost, and what was debited stays spent.

    Args:
        source: the data, as for `rs.measure`.
        budget: what may be spent in all; needed to create a ledger, and a limit of the session's own within a larger
            ledger that is given as such.
        ledger: the dataset's ledger, or its path.
        state: the session's folder, created or opened again; beside the ledger, named after it, if left out.
        unit: whom the budget protects, for a ledger that is to be created.
        progress: `True` draws a bar on a terminal or in a notebook; or a function, called
            with the step, how much is done, and of how much if known.
        notice: called with how many records followed a policy, for the curator's eyes only.

    Raises:
        SessionError: the folder belongs to another dataset, ledger or budget, or is in use.
        LedgerError, FileError, SourceError: as for a ledger and for data.

    Reference: common-mechanism; docs/privacy.md, Adaptive use. Adaptivity: Smith and Thakurta (2022); Whitehouse et
        al. (2023); Feldman and Zrnic (2021) for the per-cell form.

    Example:
        >>> import residua as rs, pyarrow as pa, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes", "unsure"]})
        >>> one = rs.independent(rs.marginals(domain, ways=1), rs.ZCDP(0.5))
        >>> two = rs.independent(rs.marginals(domain, ways=2), rs.ZCDP(0.5))
        >>> data = pa.table({"sex": ["F", "M", "M"] * 500, "answer": ["no", "yes", "no"] * 500})
        >>> folder = tempfile.TemporaryDirectory()
        >>> session = rs.Session(data, rs.ZCDP(0.5), ledger=f"{folder.name}/survey.ledger")
        >>> choice = session.choose({"one": one, "two": two})
        >>> choice.recommend(share=0.8, snr=20).candidate
        'two'
        >>> release = choice.finish("two")
        >>> abs(release.count({"sex": "M"}).estimate - 1000) < 20
        True
        >>> folder.cleanup()
    """

    def __init__(
        self,
        source: Any,
        budget: Guarantee | None = None,
        *,
        ledger: Ledger | str | Path,
        state: str | Path | None = None,
        unit: Unit | None = None,
        progress: Progress | bool | None = None,
        notice: Callable[[Tallies], None] | None = None,
    ) -> None:
        there = existing_ledger(ledger)
        require_gaussian(budget, None if there is None else there.budget)
        data = source_of(source)
        path = Path(state) if state is not None else beside(ledger.path if isinstance(ledger, Ledger) else Path(ledger))
        if not isinstance(ledger, Ledger):
            require_its_ledger(Path(ledger), path)
            check_place(path)
        require_agreement(data.options, unit or AddRemove() if there is None else there.unit)
        fingerprint = data.fingerprint()
        own = ledger_for(ledger, budget, unit, fingerprint)
        folder = open_folder(path.absolute(), fingerprint, own, budget, data.options)
        limit = folder.identity.budget
        allowed = None if limit is None else limit.pcost_allowed()
        super().__init__(Account(folder, own, allowed), data, lasting_bar(progress), notice)
        folder.settle()
        self._standing()  # refuses a ledger that lacks a debit of the session

    @property
    def ledger(self) -> Ledger:
        """The dataset's ledger."""
        return self._ledger

    @property
    def path(self) -> Path:
        """The session's folder."""
        return self._folder.path

    @property
    def status(self) -> Status:
        """Where the session stands."""
        at = self._standing()
        choices = self._folder.choices().items()
        ends = {n: (tuple(c.candidates), c.end or ("open" if self._seen(c, at) else LOST)) for n, c in choices}
        parts = {number: f"{at.debits[number].purpose}: {part.summary}" for number, part in at.parts.items()}
        lost = tuple(number for number in at.debits if number not in at.parts)
        budget, left = self._ledger.budget, self._account.left(at)
        spent = at.spent + at.aside
        return Status(parts, lost, stated(budget, spent), affordable(budget, left), ends, spent, left)

    @property
    def known(self) -> Release | None:
        """Everything released so far, pooled, with the tables that its parts were asked for; None if nothing was.

        A top-up of one kind of plan with another (tables after queries) does not keep what it was asked for.
        """
        at = self._standing()
        return self._pooled(at, _asked(at.plans)) if at.parts else None

    def _answering(self) -> Answering:
        known = self.known
        if known is None:
            raise SessionError("nothing was released yet, so that nothing can be quoted; release a plan first.")
        return known._answering()

    def price(self, plan: Plan) -> Fraction:
        """What `release(plan)` would debit now, a pcost, exactly. Reads no data."""
        at = self._standing()
        return self._price(self._missing(self._checked(plan), at), at)

    def release(self, plan: Plan, *, purpose: str = "release") -> Release:
        """Measures what is missing of a plan and answers it from everything the session has measured.

        Guarantee: every query of the plan is at least as accurate as the plan says, and no linear unbiased estimate
        from what was measured is more accurate. What is answered already is not debited and not measured.

        Raises:
            PlanError: a plan of another domain or unit, or of a kind that cannot be pooled (pure DP).
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        with self._folder.locked():
            at, wanted = self._standing(), self._checked(plan)
            return self._pooled(self._finished(wanted, at, purpose, "the plan"), wanted.workload)

    def __repr__(self) -> str:
        return f"Session({str(self._folder.path)!r}, {self._ledger!r})"


def _asked(plans: Sequence[Plan]) -> Workload | None:
    """All that was asked for in the parts of a session, each table once."""
    workloads = [plan.workload for plan in plans if plan.workload is not None]
    return reduce(add, workloads) if workloads else None
