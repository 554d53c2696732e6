"""What is missing of a plan, kept for the parts measured so far: it may take a while to find, and is asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from residua.plans.contract import Plan
from residua.session.candidates import same_plan
from residua.session.missing import Missing, missing

_MOST_KEPT = 8


class Memory:
    """What is missing of the latest few plans, for one state of a session: the numbers of its parts."""

    def __init__(self) -> None:
        # Replaced as one, so that no thread takes what was found beside other parts.
        self._state: tuple[tuple[int, ...], dict[Plan, Missing | None]] = ((), {})

    def note(self, parts: tuple[int, ...], found: Mapping[Plan, Missing | None]) -> None:
        """Keeps what was found beside these parts, and forgets what was found beside others."""
        self._state = (parts, dict(found))

    def find(
        self, plan: Plan, parts: tuple[int, ...], held: Sequence[Plan], begin: Callable[[], None]
    ) -> Missing | None:
        """What is missing of a plan.

        Args:
            plan: the plan, or one that measures the same.
            parts: the numbers of the parts that are there.
            held: what they measured.
            begin: called before it is worked out.
        """
        beside, known = self._state
        if beside != parts:
            known = {}
            self._state = (parts, known)
        for other in list(known):
            if other is plan or same_plan(other, plan):
                return known[other]
        begin()
        found = missing(plan, held)
        if len(known) < _MOST_KEPT:
            known[plan] = found
        return found
