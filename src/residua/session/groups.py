"""A choice for each group: one look at all groups, then a candidate for each, and one debit for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Integers
from residua.linalg.layout import batches
from residua.plans.contract import Plan
from residua.plans.groups.making import chosen_of, grouped, groups_of
from residua.plans.groups.plan import GroupPlan
from residua.plans.groups.reading import GroupReading
from residua.release import Release
from residua.session.candidates import workload_of
from residua.session.choice import Choice
from residua.session.missing import shared
from residua.session.recommend import By, check_rule
from residua.session.signal import REACH
from residua.session.verdicts import Shares, Verdicts, judged, shares_of
from residua.workload import Workload

_SOME_CELLS = 1 << 20  # estimates that are judged at once
_CLOSE = 2.0**-17  # a look is measured a little more coarsely than the most that candidates share


class GroupChoice(Choice):
    """Candidates after a look within each group. Made by `Session.choose(…, by=…)`; facts here cost nothing.

    Groups are disjoint people, so that finishing costs, the look included, exactly what the most expensive candidate
    chosen costs alone, however many groups there are, in one debit.

    Reference: common-mechanism, §7.5.
    """

    @property
    def by(self) -> tuple[str, ...]:
        """The attributes that make groups."""
        return self._first.by_names

    @cached_property
    def groups(self) -> Sequence[Any]:
        """Every group, row by row: its label, or a tuple of labels."""
        return groups_of(self._first.domain, self.by)

    def recommend(  # type: ignore[override]  # one verdict for each group
        self, *, share: float, snr: float, by: By = "estimate", workload: Workload | None = None
    ) -> Verdicts:
        """For each group, what to do so that a share of its queries has at least this signal-to-noise ratio.

        The rule is that of `Choice.recommend`, group by group: `finish(verdicts)` does what it says, and
        `step(verdicts)` looks further where that is worth it.

        Args:
            share: which share of a group's queries must be good enough, above 0 and up to 1.
            snr: the least signal-to-noise ratio that is good enough.
            by: judge by the "estimate", or by its "lower" or "upper" bound.
            workload: other queries within a group to judge by, than those of the first candidate.
        """
        asked = workload_of(self._members[0], next(iter(self._candidates))) if workload is None else workload
        check_rule(share, snr, by)
        found = self._shares(asked, snr)
        chosen, stepping, shares = judged(found, self._depths, share=share, by=by, chain=self.nested)
        return Verdicts(self.groups, tuple(self._candidates), chosen, stepping, shares)

    def finish(self, candidate: str | Plan | Mapping[Any, str | None] | Sequence[str | None]) -> Release:
        """Pays what is left of each group's candidate, all at once, and returns the release.

        Args:
            candidate: group → candidate (a group is its label, or a tuple of labels; groups left out stay at the
                look), a list with a candidate or None for each group, `Verdicts`, or one candidate for all.

        Raises:
            SessionError: a candidate of this choice was finished already.
            PlanError: not a group or a candidate.
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        if isinstance(candidate, str | Plan):
            return super().finish(candidate)
        chosen = self._chosen(candidate)
        if not (chosen >= 0).any():
            raise PlanError("no group has a candidate; choose one for some group, or stop the choice.")
        plan = grouped(self._members, self._first.by, chosen)
        told = ", ".join(f"{name!r} in {int((chosen == k).sum()):,}" for k, name in enumerate(self._candidates))
        return self._session.finish_groups(self._number, plan, f"finished {told} of {len(chosen):,} groups")

    def step(self, groups: Any = None, *, blind: bool = False) -> GroupChoice:
        """Looks further in some groups, at what the candidates after the first that stands have in common.

        Args:
            groups: `Verdicts`, or a list of groups; all if left out.
            blind: take even a look that answers no query of the next candidate.

        Raises:
            PlanError: the looks are not nested, only two candidates are left in a group, or no group is named.
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        if not self.nested:
            raise PlanError("the looks of these candidates are not nested, so that a step would waste budget; finish.")
        stepping = self._stepping(groups)
        if not stepping.any():
            raise PlanError("no group is to step; finish the choice.")
        if (self._depths[stepping] >= len(self._members) - 2).any():
            raise PlanError("only two candidates are left in some of these groups; finish them.")
        depth = np.where(stepping, self._depths, -1)
        look = grouped(self._looks, self._first.by, depth)  # looks[d] is what all after the first d + 1 share
        latest = grouped(self._members, self._first.by, np.where(stepping, len(self._members) - 1, -1))
        return cast("GroupChoice", self._session.look_in_groups(self._number, look, latest))

    @property
    def depths(self) -> Integers:
        """How many candidates were dropped in each group by stepping, (groups,)."""
        return self._depths

    # ---- plumbing

    @cached_property
    def _first(self) -> GroupPlan:
        return cast("GroupPlan", next(iter(self._candidates.values())))

    @cached_property
    def _members(self) -> list[Plan]:
        """The plan within a group of each candidate."""
        return [cast("GroupPlan", plan).members[0] for plan in self._candidates.values()]

    @cached_property
    def nested(self) -> bool:
        """Whether what all candidates share is within what all but the first share: then `step` wastes nothing."""
        plans = self._members
        return len(plans) > 2 and shared(plans[1:]).can_answer(shared(plans))

    @cached_property
    def _looks(self) -> list[Plan]:
        """What the candidates after the first d + 1 share, for every d that leaves two."""
        return [shared(self._members[d + 1 :]).scaled(1 - _CLOSE) for d in range(len(self._members) - 2)]

    @cached_property
    def _depths(self) -> Integers:
        known = cast("GroupPlan", self._known.plan)
        depth = np.zeros(len(known.members) + 1, dtype=np.int64)
        if self.nested:
            for k, plan in enumerate(known.members):
                looks = [look.scaled(1 - _CLOSE) for look in self._looks]
                depth[k] = next((d for d, look in enumerate(looks) if not plan.can_answer(look)), len(looks))
        return np.asarray(depth[known.chosen])

    def _shares(self, workload: Workload, snr: float) -> list[Shares]:
        """Of the queries within each group, from what is known and what each candidate would do."""
        known, reading = cast("GroupPlan", self._known.plan), cast("GroupReading", self._known.reading)
        noise = [np.sqrt(plan.variances(workload)) for plan in self._members]
        parts = list(known.parts(workload))
        kinds = [known.kinds_of(part) for part in parts]
        found: list[list[Shares]] = [[] for _ in noise]
        for some in batches(known.groups, max(workload.queries, 1), _SOME_CELLS):
            estimates = np.hstack([reading.within(part, some) for part in parts])
            bounds = np.hstack([REACH * np.sqrt(variances[kind[some]]) for kind, variances in kinds])
            for told, each in zip(found, noise, strict=True):
                told.append(shares_of(estimates, bounds, each, snr))
        bys: tuple[By, ...] = ("lower", "estimate", "upper")
        return [{by: np.concatenate([each[by] for each in told]) for by in bys} for told in found]

    def _chosen(self, given: Mapping[Any, str | None] | Sequence[str | None]) -> Integers:
        if isinstance(given, Verdicts):
            return given.chosen
        return chosen_of(self._first.domain, self.by, list(self._candidates), given)

    def _stepping(self, groups: Any) -> Booleans:
        if groups is None:
            return np.ones(self._first.groups, dtype=bool)
        if isinstance(groups, Verdicts):
            return groups.stepping
        first = next(iter(self._candidates))
        return self._chosen(dict.fromkeys(groups, first)) >= 0

    def __repr__(self) -> str:
        return f"GroupChoice({', '.join(self._candidates)}; {self._first.groups:,} groups of {', '.join(self.by)})"
