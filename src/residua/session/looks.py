"""The look: what candidates have in common, so that any of them can be finished after it at its own price."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add

from residua.errors import PlanError
from residua.plans.algebra import common
from residua.plans.contract import Plan
from residua.session.missing import Missing, missing, promising
from residua.session.signal import answerable

Tell = Callable[[str, int, int | None], None]
_QUIETER = (0.0, 2.0**-30, 2.0**-24, 2.0**-18)


def look_at(
    candidates: Mapping[str, Plan], held: Sequence[Plan], tell: Tell
) -> tuple[Missing | None, dict[str, Missing]]:
    """The look to take, None if it is known, and what would then be left of each candidate that it does not answer.

    Args:
        candidates: the candidates by name.
        held: what was measured already.
        tell: called with the step, how much is done, and of how much if known.

    Raises:
        PlanError: nothing in common, or candidates that cannot be compared.
    """
    tell("comparing", 0, None)
    plans = list(candidates.values())
    both = shared(plans, lambda rounds, gap: tell("comparing", rounds, None))
    if both.pcost == 0:
        raise PlanError("the candidates have nothing in common, so that there is nothing to look at; release one.")
    for share in _QUIETER:
        look = missing(both.quieter(share) if share else both, held)
        after = held if look is None else [*held, look.plan]
        left: dict[str, Missing] = {}
        for done, (name, plan) in enumerate(candidates.items()):
            tell("pricing", done, len(candidates))
            found = missing(plan, after)
            if found is not None:
                left[name] = found
        if all(found.settled for found in left.values()):
            break
    return look, left


def was_taken(candidates: Sequence[Plan], held: Sequence[Plan]) -> bool:
    """Whether what was measured holds the look at these candidates."""
    return missing(shared(candidates).quieter(_QUIETER[-1] * 2), held) is None


def require_telling(name: str, primary: Plan, known: Sequence[Plan]) -> None:
    """Refuses, before it is paid for, a look after which no query of the primary analysis could be estimated.

    Args:
        name: the first candidate's name.
        primary: the first candidate; one without a workload asks for nothing that could be missed.
        known: what will have been measured after the look.

    Raises:
        PlanError: none of its queries is answerable.
    """
    if primary.workload is None or any(answerable(plan, primary.workload) is not None for plan in known):
        return
    # What no part answers alone, several may answer together.
    if len(known) < 2 or answerable(reduce(add, known), primary.workload) is None:
        raise PlanError(
            f"the look would answer no query of {name!r}, so that nothing could be said of the candidates; nothing was "
            "spent: put another candidate first, or release one. In Python, blind=True looks nonetheless, for "
            "choice.compatible."
        )


def shared(plans: Sequence[Plan], progress: Callable[[int, float], None] | None = None) -> Plan:
    """What these plans have in common, ready to be measured."""
    return promising(common(list(plans), progress=progress), plans[0].guarantee)
