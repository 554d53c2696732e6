"""A choice: candidates, a look that none of them wastes, and then one of them is finished."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.release import Answers, Release
from residua.session.candidates import name_of, workload_of
from residua.session.compatible import RADIUS, Compatible, compatible_answers
from residua.session.missing import shared
from residua.session.recommend import By, Recommendation, recommended
from residua.session.signal import REACH, Signal, answerable, signal_of
from residua.session.state import Stored
from residua.workload import Workload

if TYPE_CHECKING:
    from residua.session.session import Session


class Choice:
    """Candidates after a look at what they have in common. Made by `Session.choose`; facts here cost nothing.

    Guarantee: finishing a candidate costs, the look included, exactly what the candidate alone would have cost, and
    the release has the same distribution; where the session had released something before, it is pooled as well, and
    the release is at least as accurate. Stopping here costs only the look.

    Reference: common-mechanism, §3.3, §5.3 and §6.
    """

    def __init__(self, session: Session, stored: Stored, known: Release) -> None:
        self._session, self._number, self._origins = session, stored.number, stored.origins
        self._candidates, self._known = dict(stored.candidates), known

    @property
    def number(self) -> int:
        """The number of the choice within its session."""
        return self._number

    @property
    def candidates(self) -> Mapping[str, Plan]:
        """The candidates by name, in their order: the first is the primary analysis."""
        return dict(self._candidates)

    @property
    def origins(self) -> Mapping[str, str]:
        """What each candidate was made from, if that was noted when the choice was begun."""
        return dict(self._origins)

    @property
    def release(self) -> Release:
        """Everything the session has released so far, the look included."""
        return self._known

    def estimates(self, workload: Workload | None = None, *, confidence: float = 0.95) -> Answers:
        """Estimates and confidence bounds of what is already answerable.

        Args:
            workload: the queries; those of all candidates if left out.
            confidence: how often an interval holds the truth.
        """
        asked = self._answerable(self._asked() if workload is None else workload)
        return self._known.answers(asked, confidence=confidence)

    def signal(self, candidate: str | Plan, workload: Workload | None = None, *, reach: float = REACH) -> Signal:
        """Bounds on the signal-to-noise ratio of every query already answerable, under a candidate.

        Args:
            candidate: a candidate or its name.
            workload: the queries; those of the first candidate if left out.
            reach: how many standard deviations the bounds reach either side.
        """
        name = self._name(candidate)
        asked = self._answerable(self._primary() if workload is None else workload)
        return signal_of(name, self._candidates[name], self._known, asked, reach)

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
        asked = workload_of(self._candidates[name], name) if workload is None else workload
        if directions is None:  # post-processing: any generator will do
            directions = np.random.default_rng().standard_normal((samples, asked.queries))
        return compatible_answers(self._known, self._candidates[name], asked, directions, radius)

    def recommend(
        self, *, share: float, snr: float, by: By = "estimate", workload: Workload | None = None
    ) -> Recommendation:
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
        signals = [self.signal(name, workload) for name in self._candidates]
        return recommended(signals, share=share, snr=snr, by=by, chain=self.nested)

    @cached_property
    def nested(self) -> bool:
        """Whether what all candidates share is within what all but the first share: then `step` wastes nothing."""
        plans = list(self._candidates.values())
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
        if len(self._candidates) < 3:
            raise PlanError("only two candidates are left, whose look is taken; finish one of them.")
        if not self.nested:
            raise PlanError(
                "the looks of these candidates are not nested, so that a step would waste budget; finish a candidate."
            )
        rest = dict(list(self._candidates.items())[1:])
        return self._session.look_further(self._number, rest, blind=blind)

    def finish(self, candidate: str | Plan) -> Release:
        """Pays what is left of a candidate and returns the release, as if the candidate had been measured at once.

        Raises:
            SessionError: a candidate of this choice was finished already.
            PlanError: not a candidate.
            LedgerError: the budget does not allow it. Nothing is spent.
        """
        name = self._name(candidate)
        return self._session.finish_choice(self._number, name)

    def stop(self) -> None:
        """Ends the choice here: nothing more is spent, and no candidate can be finished."""
        self._session.stop_choice(self._number)

    def __repr__(self) -> str:
        return f"Choice({', '.join(self._candidates)})"

    def _name(self, candidate: str | Plan) -> str:
        return name_of(candidate, self._candidates)

    def _primary(self) -> Workload:
        name = next(iter(self._candidates))
        return workload_of(self._candidates[name], name)

    def _asked(self) -> Workload:
        """Every query of every candidate that is answerable now, one workload."""
        whole: Workload | None = None
        for name, plan in self._candidates.items():
            part = answerable(self._known.planned, workload_of(plan, name))
            if part is not None:
                whole = part if whole is None else whole + part
        if whole is None:
            raise PlanError("the look answers none of the candidates' queries; sample compatible datasets instead.")
        return whole

    def _answerable(self, workload: Workload) -> Workload:
        part = answerable(self._known.planned, workload)
        if part is None:
            raise PlanError("the look answers none of these queries; ask others, or sample compatible datasets.")
        return part
