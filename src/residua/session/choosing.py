"""Choices of a session: a look at candidates, what each would cost, and one finished, or one for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import overload

from residua.errors import SessionError
from residua.plans.contract import Plan
from residua.plans.strata.making import by_group
from residua.release import Release
from residua.session.accounts import SessionStanding
from residua.session.choice import Choice, GroupChoice
from residua.session.measuring import Measuring
from residua.session.missing import by_name, look_at, require_domain, require_telling, was_taken
from residua.session.state import Stored, digest_of_measured

LOST = "lost its look in a crash"


class Choosing(Measuring):
    """What a session can do with candidates."""

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
        return (GroupChoice if groups else Choice)(self, stored, self._pooled(at, None))
