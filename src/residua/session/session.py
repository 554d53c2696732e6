"""A session: look at the data adaptively without wasting budget, and top up releases for the difference only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

from residua.errors import SessionError, named
from residua.files import require_path
from residua.measurement import Ledger
from residua.measurement.job import Progress, require_agreement
from residua.measurement.ledger_entries import allowance, stated
from residua.plans.contract import Plan
from residua.plans.strata.making import by_group
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.guarantees import affordable
from residua.quoting import Answering, Quotable
from residua.release import Release
from residua.session.accounts import Account, SessionStanding, Status
from residua.session.adapting import Adaptive
from residua.session.choice import Choice, GroupChoice
from residua.session.measuring import by_name, look_at, require_domain, require_telling, was_taken
from residua.session.state import Stored, check_place, digest_of_measured, open_folder, require_one_currency
from residua.showing import Reported, lasting_bar
from residua.source import source_of
from residua.source.options import Tallies
from residua.workload import Workload

LOST = "lost its look in a crash"


class Session(Adaptive, Reported, Quotable):
    """Adaptive use of one dataset: choices that waste nothing, and releases that pay only for what is missing.

    Everything measured in a session is kept, and every answer is the best linear unbiased estimate from all of it.
    The ledger is debited the increment of what everything together costs, `max diag (Γ_1 + … + Γ_k)`, in fractions:
    asking again for something answered costs nothing, and what is measured in cells that have budget left is free.
    With a budget of `PureDP` plans have Laplace noise: epsilons add up, a top-up pays `√(ε'² − ε²)` for a row that is
    known with ε, and nothing is looked at to choose, which would waste budget.

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
        given = ledger if isinstance(ledger, Ledger) else None
        place = Path(ledger) if given is None else given.path  # type: ignore[arg-type]
        path = place.with_name(f"{place.name}.session") if state is None else Path(state)
        require_path(place)
        there = given or (Ledger(place) if place.exists() else None)
        require_one_currency(budget, None if there is None else there.budget)
        data = source_of(source)
        if given is None:
            if there is None and (path / "session.json").exists():
                raise SessionError(
                    f"the session {str(path)!r} is there, but its ledger {str(place)!r} is not; restore the ledger, "
                    "for what was spent is in it."
                )
            check_place(path)
        elif unit is not None and unit != given.unit:
            raise SessionError(f"the ledger protects against {given.unit}, not {named(unit)}; leave unit out.")
        require_agreement(data.options, unit or AddRemove() if there is None else there.unit)
        fingerprint = data.fingerprint()
        own = given or Ledger(place, budget, unit=unit, dataset=fingerprint)
        folder = open_folder(path.absolute(), fingerprint, own, budget, data.options)
        limit = folder.identity.budget
        allowed = None if limit is None else allowance(limit)
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
        """What `release(plan)` would debit now, a pcost or with Laplace noise an epsilon, exactly. Reads no data."""
        at = self._standing()
        return self._price(self._missing(self._checked(plan), at), at)

    def release(self, plan: Plan, *, purpose: str = "release") -> Release:
        """Measures what is missing of a plan and answers it from everything the session has measured.

        Guarantee: every query of the plan is at least as accurate as the plan says, and no linear unbiased estimate
        from what was measured is more accurate. What is answered already is not debited and not measured. (With
        Laplace noise, variances stated are up to a part in 10,000 larger, for pooling in integers.)

        Raises:
            PlanError: a plan of another domain or unit, or of a kind that cannot be pooled.
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        with self._folder.locked():
            at, wanted = self._standing(), self._checked(plan)
            return self._pooled(self._finished(wanted, at, purpose, "the plan"), wanted.workload)

    # ---- choices: a look at candidates, what each would cost, and one finished, or one for each group

    @property
    def choice(self) -> Choice | None:
        """The latest choice whose look is taken and that is not closed, as after a restart; None if there is none."""
        at = self._standing()
        for _, stored in sorted(self._folder.choices().items(), reverse=True):
            if stored.end is None and self._seen(stored, at):
                return self._chosen(stored, at)
        return None

    def resume(self, number: int) -> Choice:
        """The choice with this number, as after a restart.

        Raises:
            SessionError: there is no such choice, it is closed, or its look was lost.
        """
        at, stored = self._standing(), self._open(number)
        if not self._seen(stored, at):
            raise SessionError(f"choice {number} {LOST}; look at its candidates again.")
        return self._chosen(stored, at)

    def price_look(self, candidates: Sequence[Plan] | Mapping[str, Plan]) -> tuple[Fraction, dict[str, Fraction]]:
        """What `choose(candidates)` would debit now, and each candidate in all (that look included); exact pcosts.

        Reads no data and spends nothing.

        Raises:
            PlanError: candidates between which `choose` would refuse to choose.
        """
        self._require_normal("choose")
        named, at = by_name(candidates, self._ledger.unit), self._standing()
        require_domain(next(iter(named.values())), at.plans)
        look, left = look_at(named, at.plans, self._tell)
        price = self._price(look, at)
        return price, {name: self._price(left[name], at) if name in left else price for name in named}

    @overload
    def choose(
        self,
        candidates: Sequence[Plan] | Mapping[str, Plan],
        *,
        by: Sequence[str],
        purpose: str = ...,
        blind: bool = ...,
        origins: Mapping[str, str] | None = ...,
    ) -> GroupChoice: ...

    @overload
    def choose(
        self,
        candidates: Sequence[Plan] | Mapping[str, Plan],
        *,
        by: None = None,
        purpose: str = ...,
        blind: bool = ...,
        origins: Mapping[str, str] | None = ...,
    ) -> Choice: ...

    def choose(
        self,
        candidates: Sequence[Plan] | Mapping[str, Plan],
        *,
        by: Sequence[str] | None = None,
        purpose: str = "look",
        blind: bool = False,
        origins: Mapping[str, str] | None = None,
    ) -> Choice:
        """Measures what the candidates have in common, so that any of them can be finished without waste.

        Args:
            candidates: at least two plans over one domain, in order: the first is the primary analysis, later ones
                offer more; with names, or "plan 1", "plan 2", ….
            by: attributes that make groups of people: the candidates, which ask nothing of them, are looked at within
                each group, and each group may get another one (`GroupChoice`).
            purpose: what the ledger notes.
            blind: take even a look that answers no query of the first candidate, which is refused otherwise; what may
                still vary can then be sampled (`Choice.compatible`).
            origins: name → what a candidate was made from, such as a digest of its specification; kept with the choice.

        Raises:
            PlanError: fewer than two candidates, over different domains or units, with nothing in common, or a look
                that would tell nothing. Nothing is spent.
            LedgerError: a candidate costs more than the budget. Nothing is spent.
        """
        self._require_normal("choose")
        named = by_name(candidates, self._ledger.unit)
        if by is not None:
            named = {name: by_group(plan, by=by) for name, plan in named.items()}
        with self._folder.locked():
            return self._looked(named, origins or {}, purpose, blind=blind)

    def look_further(self, number: int, rest: Mapping[str, Plan], *, blind: bool) -> Choice:
        """For `Choice.step`: looks at what the rest of a choice's candidates have in common."""
        with self._folder.locked():
            noted = self._open(number).origins
            origins = {name: noted[name] for name in rest if name in noted}
            purpose = f"step to {', '.join(rest)}"
            following = self._looked(by_name(rest, self._ledger.unit), origins, purpose, blind=blind)
            self._folder.end_choice(number, f"went on as choice {following.number}")
            return following

    def look_in_groups(self, number: int, look: Plan, latest: Plan) -> Choice:
        """For `GroupChoice.step`: looks further in some groups, once it is known that the last candidate can follow."""
        with self._folder.locked():
            stored, at = self._open(number), self._standing()
            self._account.require(at, self._price(self._missing(latest, at), at), "the last candidate")
            return self._chosen(stored, self._finished(look, at, "step in groups", "the look"))

    def finish_choice(self, number: int, plan: Plan, words: str, what: str) -> Release:
        """For `Choice.finish`: measures what is left of a candidate, or of each group's."""
        with self._folder.locked():
            self._open(number)
            wanted, at = self._checked(plan), self._standing()
            at = self._finished(wanted, at, words.replace("'", ""), what)
            self._folder.end_choice(number, words)
            return self._pooled(at, wanted.workload)

    def stop_choice(self, number: int) -> None:
        """For `Choice.stop`: closes a choice."""
        with self._folder.locked():
            self._open(number)
            self._folder.end_choice(number, "stopped after the look")

    # ---- plumbing

    def _open(self, number: int) -> Stored:
        choices = self._folder.choices()
        if number not in choices:
            raise SessionError(f"there is no choice {number}; there are {', '.join(map(str, choices)) or 'none'}.")
        stored = choices[number]
        if stored.end is not None:
            raise SessionError(f"this choice is closed: it {stored.end}. Nothing was spent; begin another with choose.")
        return stored

    def _seen(self, stored: Stored, at: SessionStanding) -> bool:
        """Whether the look at a choice's candidates was taken, or something that holds it."""
        if not at.parts:
            return False
        if stored.look is not None and stored.look in self._folder.digests().values():
            return True
        return was_taken(list(stored.candidates.values()), at.plans)

    def _looked(self, named: Mapping[str, Plan], origins: Mapping[str, str], purpose: str, *, blind: bool) -> Choice:
        """Takes the look at these candidates, once it is known that each can be finished after it."""
        at = self._standing()
        require_domain(next(iter(named.values())), at.plans)
        look, left = look_at(named, at.plans, self._tell)
        for name, rest in left.items():
            self._account.require(at, self._price(rest, at), f"the candidate {name!r}")
        if not blind:
            name, primary = next(iter(named.items()))
            require_telling(name, primary, at.plans if look is None else [*at.plans, look.plan])
        digest = None if look is None else digest_of_measured(look.plan, look.measurements)
        stored = self._folder.begin_choice(named, origins, digest)
        if look is not None:
            try:
                at = self._measured(look, at, purpose, "the look")
            except BaseException:
                self._folder.drop_choice(stored.number)
                raise
        self._memory.note(tuple(at.parts), {plan: left.get(name) for name, plan in named.items()})
        return self._chosen(stored, at)

    def _chosen(self, stored: Stored, at: SessionStanding) -> Choice:
        """A choice as it stands; one for each group where its candidates are measured in groups."""
        groups = next(iter(stored.candidates.values())).by_names
        candidates, origins = MappingProxyType(stored.candidates), MappingProxyType(stored.origins)
        return (GroupChoice if groups else Choice)(self, stored.number, candidates, origins, self._pooled(at, None))

    def __repr__(self) -> str:
        return f"Session({str(self._folder.path)!r}, {self._ledger!r})"


def _asked(plans: Sequence[Plan]) -> Workload | None:
    """All that was asked for in the parts of a session, each table once."""
    workloads = [plan.workload for plan in plans if plan.workload is not None]
    return reduce(add, workloads) if workloads else None
