"""A choice: candidates, a look that none of them wastes, and then one of them is finished, or one for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Integers
from residua.linalg.lattice import batches
from residua.plans.contract import Plan
from residua.plans.strata.making import chosen_of, grouped, groups_of
from residua.plans.strata.plan import StrataEstimator, StrataPlan
from residua.release import Release, Table
from residua.session import recommend as rule
from residua.session.compatible import RADIUS, Compatible, compatible_answers
from residua.session.measuring import name_of, shared, workload_of
from residua.workload import Workload

if TYPE_CHECKING:
    from residua.session.session import Session


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Candidates after a look at what they have in common. Made by `Session.choose`; facts here cost nothing.

    Guarantee: finishing a candidate costs, the look included, exactly what the candidate alone would have cost, and
    the release has the same distribution; where the session had released something before, it is pooled as well, and
    the release is at least as accurate. Stopping here costs only the look.

    Args:
        _session: the session.
        number: the number of the choice within its session.
        candidates: the candidates by name, in their order: the first is the primary analysis.
        origins: what each candidate was made from, if that was noted when the choice was begun.
        release: everything the session has released so far, the look included.

    Reference: common-mechanism, §3.3, §5.3 and §6.
    """

    _session: Session
    number: int
    candidates: Mapping[str, Plan]
    origins: Mapping[str, str]
    release: Release

    def estimates(self, workload: Workload | None = None, *, confidence: float = 0.95) -> Table:
        """Estimates and confidence bounds of what is already answerable.

        Args:
            workload: the queries; those of all candidates if left out.
            confidence: how often an interval holds the truth.
        """
        asked = self._answerable(self._asked() if workload is None else workload)
        return self.release.answers(asked, confidence=confidence)

    def signal(
        self, candidate: str | Plan, workload: Workload | None = None, *, reach: float = rule.REACH
    ) -> rule.Signal:
        """Bounds on the signal-to-noise ratio of every query already answerable, under a candidate.

        Args:
            candidate: a candidate or its name.
            workload: the queries; those of the first candidate if left out.
            reach: how many standard deviations the bounds reach either side.
        """
        name = self._name(candidate)
        asked = self._answerable(self._primary() if workload is None else workload)
        return rule.signal_of(name, self.candidates[name], self.release, asked, reach)

    def compatible(
        self,
        candidate: str | Plan,
        workload: Workload | None = None,
        *,
        samples: int = 20,
        radius: float = RADIUS,
        directions: ArrayLike | None = None,
    ) -> Compatible:
        """How much the answers may vary over the datasets compatible with the look, beside a candidate's noise.

        For any candidates on up to 4,096 cells, nested or not.

        Args:
            candidate: a candidate or its name.
            workload: the queries; the candidate's own if left out.
            samples: how many datasets to sample, in random directions.
            radius: how far, in standard deviations summed, a dataset may be from the estimates.
            directions: the directions themselves instead, (samples, queries).
        """
        name = self._name(candidate)
        asked = workload_of(self.candidates[name], name) if workload is None else workload
        if directions is None:  # post-processing: any generator will do
            directions = np.random.default_rng().standard_normal((samples, asked.queries))
        return compatible_answers(self.release, self.candidates[name], asked, directions, radius)

    def recommend(
        self, *, share: float, snr: float, by: rule.By = "estimate", workload: Workload | None = None
    ) -> rule.Recommendation:
        """What to do so that at least a share of the queries has at least this signal-to-noise ratio.

        The queries are those of the first candidate, the primary analysis; later candidates offer more but are
        noisier, and one is recommended if it still serves them. In a chain of nested looks only the next candidate is
        judged: the recommendation is to finish the first, to step on, or to stop.

        Args:
            share: which share of the queries must be good enough, above 0 and up to 1.
            snr: the least signal-to-noise ratio that is good enough.
            by: judge by the "estimate", or by its "lower" or "upper" bound.
            workload: other queries to judge by.
        """
        signals = [self.signal(name, workload) for name in self.candidates]
        return rule.recommended(signals, share=share, snr=snr, by=by, chain=self.nested)

    @cached_property
    def nested(self) -> bool:
        """Whether what all candidates share is within what all but the first share: then `step` wastes nothing."""
        plans = self._members
        return len(plans) > 2 and shared(plans[1:]).can_answer(shared(plans))

    def step(self, *, blind: bool = False) -> Choice:
        """Drops the first candidate and looks further, at what the others have in common.

        Args:
            blind: as for `Session.choose`.

        Raises:
            PlanError: the looks are not nested, or only two candidates are left: finish one of them. Or the look would
                answer no query of the next candidate.
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        if len(self.candidates) < 3:
            raise PlanError("only two candidates are left, whose look is taken; finish one of them.")
        if not self.nested:
            raise PlanError(
                "the looks of these candidates are not nested, so that a step would waste budget; finish a candidate."
            )
        return self._session.look_further(self.number, dict(list(self.candidates.items())[1:]), blind=blind)

    def finish(self, candidate: str | Plan) -> Release:
        """Pays what is left of a candidate and returns the release, as if the candidate had been measured at once.

        Raises:
            SessionError: a candidate of this choice was finished already.
            PlanError: not a candidate.
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        name = self._name(candidate)
        words, what = f"finished {name!r}", f"the candidate {name!r}"
        return self._session.finish_choice(self.number, self.candidates[name], words, what)

    def stop(self) -> None:
        """Ends the choice here: nothing more is spent, and no candidate can be finished."""
        self._session.stop_choice(self.number)

    def __repr__(self) -> str:
        return f"Choice({', '.join(self.candidates)})"

    @cached_property
    def _members(self) -> list[Plan]:
        """The plan of each candidate, with groups within one of them."""
        return list(self.candidates.values())

    def _name(self, candidate: str | Plan) -> str:
        return name_of(candidate, self.candidates)

    def _primary(self) -> Workload:
        name = next(iter(self.candidates))
        return workload_of(self.candidates[name], name)

    def _asked(self) -> Workload:
        """Every query of every candidate that is answerable now, one workload."""
        whole: Workload | None = None
        for name, plan in self.candidates.items():
            part = rule.answerable(self.release.planned, workload_of(plan, name))
            if part is not None:
                whole = part if whole is None else whole + part
        if whole is None:
            raise PlanError("the look answers none of the candidates' queries; sample compatible datasets instead.")
        return whole

    def _answerable(self, workload: Workload) -> Workload:
        part = rule.answerable(self.release.planned, workload)
        if part is None:
            raise PlanError("the look answers none of these queries; ask others, or sample compatible datasets.")
        return part


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
        self, *, share: float, snr: float, by: rule.By = "estimate", workload: Workload | None = None
    ) -> rule.Verdicts:
        """For each group, what to do so that a share of its queries has at least this signal-to-noise ratio.

        The rule is that of `Choice.recommend`, group by group: `finish(verdicts)` does what it says, and
        `step(verdicts)` looks further where that is worth it.

        Args:
            share: which share of a group's queries must be good enough, above 0 and up to 1.
            snr: the least signal-to-noise ratio that is good enough.
            by: judge by the "estimate", or by its "lower" or "upper" bound.
            workload: other queries within a group to judge by, than those of the first candidate.
        """
        asked = workload_of(self._members[0], next(iter(self.candidates))) if workload is None else workload
        rule.check_rule(share, snr, by)
        each = self._shares(asked, snr)
        chosen, stepping, shares = rule.judged(each, self.depths, share=share, by=by, chain=self.nested)
        return rule.Verdicts(self.groups, tuple(self.candidates), chosen, stepping, shares)

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
        if isinstance(candidate, str) or not isinstance(candidate, Mapping | Sequence):
            return super().finish(candidate)
        chosen = self._chosen(candidate)
        if not (chosen >= 0).any():
            raise PlanError("no group has a candidate; choose one for some group, or stop the choice.")
        plan = grouped(self._members, self._first.by, chosen)
        each = ", ".join(f"{name!r} in {int((chosen == k).sum()):,}" for k, name in enumerate(self.candidates))
        words = f"finished {each} of {len(chosen):,} groups"
        return self._session.finish_choice(self.number, plan, words, "what the groups chose")

    def step(self, groups: Any = None, *, blind: bool = False) -> GroupChoice:
        """Looks further in some groups, at what the candidates after the first that stands have in common.

        Args:
            groups: `Verdicts`, or a list of groups; all if left out.
            blind: as for `Choice.step`; a look in groups is never refused.

        Raises:
            PlanError: the looks are not nested, only two candidates are left in a group, or no group is named.
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        if not self.nested:
            raise PlanError("the looks of these candidates are not nested, so that a step would waste budget; finish.")
        stepping = self._stepping(groups)
        if not stepping.any():
            raise PlanError("no group is to step; finish the choice.")
        if (self.depths[stepping] >= len(self._members) - 2).any():
            raise PlanError("only two candidates are left in some of these groups; finish them.")
        depth = np.where(stepping, self.depths, -1)
        look = grouped(self._looks, self._first.by, depth)  # looks[d] is what all after the first d + 1 share
        latest = grouped(self._members, self._first.by, np.where(stepping, len(self._members) - 1, -1))
        return cast("GroupChoice", self._session.look_in_groups(self.number, look, latest))

    # ---- plumbing

    @cached_property
    def _first(self) -> StrataPlan:
        return cast("StrataPlan", next(iter(self.candidates.values())))

    @cached_property
    def _members(self) -> list[Plan]:
        """The plan within a group of each candidate."""
        return [cast("StrataPlan", plan).members[0] for plan in self.candidates.values()]

    @cached_property
    def _looks(self) -> list[Plan]:
        """What the candidates after the first d + 1 share, for every d that leaves two."""
        return [shared(self._members[d + 1 :]).scaled(1 - _CLOSE) for d in range(len(self._members) - 2)]

    @cached_property
    def depths(self) -> Integers:
        """How many candidates were dropped in each group by stepping, (groups,)."""
        known = cast("StrataPlan", self.release.plan)
        depth = np.zeros(len(known.members) + 1, dtype=np.int64)
        if self.nested:
            for k, plan in enumerate(known.members):
                looks = [look.scaled(1 - _CLOSE) for look in self._looks]
                depth[k] = next((d for d, look in enumerate(looks) if not plan.can_answer(look)), len(looks))
        return np.asarray(depth[known.chosen])

    def _shares(self, workload: Workload, snr: float) -> list[rule.Shares]:
        """Of the queries within each group, from what is known and what each candidate would do."""
        known, estimator = cast("StrataPlan", self.release.plan), cast("StrataEstimator", self.release.estimator)
        noise = [np.sqrt(plan.variances(workload)) for plan in self._members]
        parts = list(known.parts(workload))
        kinds = [known.kinds_of(part) for part in parts]
        shares: list[list[rule.Shares]] = [[] for _ in noise]
        for some in batches(known.groups, max(workload.queries, 1), _SOME_CELLS):
            estimates = np.hstack([estimator.within(part, some) for part in parts])
            bounds = np.hstack([rule.REACH * np.sqrt(variances[kind[some]]) for kind, variances in kinds])
            for own, each in zip(shares, noise, strict=True):
                own.append(rule.shares_of(estimates, bounds, each, snr))
        bys: tuple[rule.By, ...] = ("lower", "estimate", "upper")
        return [{by: np.concatenate([each[by] for each in own]) for by in bys} for own in shares]

    def _chosen(self, given: Mapping[Any, str | None] | Sequence[str | None]) -> Integers:
        if isinstance(given, rule.Verdicts):
            return given.chosen
        return chosen_of(self._first.domain, self.by, list(self.candidates), given)

    def _stepping(self, groups: Any) -> Booleans:
        if groups is None:
            return np.ones(self._first.groups, dtype=bool)
        if isinstance(groups, rule.Verdicts):
            return groups.stepping
        return self._chosen(dict.fromkeys(groups, next(iter(self.candidates)))) >= 0

    def __repr__(self) -> str:
        return f"GroupChoice({', '.join(self.candidates)}; {self._first.groups:,} groups of {', '.join(self.by)})"
