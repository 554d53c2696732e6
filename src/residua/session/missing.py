"""What is still to be measured so that, pooled with what was measured before, a plan's accuracy is reached.

The measurement is chosen so that everything together costs what the plan alone would have cost, to the last bit, where
what was measured before lies within the plan: rounding to integers is against us on both sides, so that the noise is
raised by a few parts in 10^14 until the exact sum fits, and the plan's own exact price is debited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add

from residua.errors import PlanError
from residua.plans.algebra import common, top_up
from residua.plans.blocks import Blocks
from residua.plans.composition import composed_cost, priced
from residua.plans.contract import Plan
from residua.plans.groups.algebra import kinds_of
from residua.plans.groups.plan import GroupPlan
from residua.privacy import Guarantee
from residua.session.signal import answerable
from residua.workload import Workload

_CLOSE = Fraction(1, 2**16)
_LOWERED = (0.0, 2.0**-46, 2.0**-40, 2.0**-34, 2.0**-28, 2.0**-22, 2.0**-17)


@dataclass(frozen=True, eq=False)
class Missing:
    """A measurement that is still to be made.

    Args:
        plan: what to measure.
        blocks: what that comes down to.
        alone: what it costs alone, exactly.
        together: what it costs together with what is held, exactly.
        settled: whether that is what the wanted plan costs, or clearly more because other things are held too.
    """

    plan: Plan
    blocks: Blocks
    alone: Fraction
    together: Fraction
    settled: bool


def missing(wanted: Plan, held: Sequence[Plan]) -> Missing | None:
    """What is to be measured so that all together is as accurate as the wanted plan; None if nothing is.

    Args:
        wanted: the plan.
        held: what was measured already.

    Raises:
        PlanError: plans that cannot be combined.
        VerificationError: the plan is not what it promises.
    """
    blocks, whole = priced(wanted)
    if not held:
        return Missing(wanted, blocks, whole, whole, True)
    rest = promising(top_up(wanted, given=held), wanted.guarantee)
    if not rest.pcost:
        return None
    first: Missing | None = None
    for share in _LOWERED:
        plan = rest.scaled(1 - share) if share else rest
        blocks, alone = priced(plan)
        together = composed_cost([*held, plan])
        if together <= whole:
            return Missing(plan, blocks, alone, whole, True)
        first = first or Missing(plan, blocks, alone, together, together > whole * (1 + _CLOSE))
        if first.settled:
            break
    return first


def promising(plan: Plan, guarantee: Guarantee | None) -> Plan:
    """The same plan, with a guarantee to check against if it has none because its unit pays nothing for it.

    Replacing a record does not change the total. What is measured is then free, and the verifier says so; but it needs
    a promise to check.
    """
    if plan.guarantee is not None or not plan.pcost:
        return plan
    return plan.replaced(guarantee=guarantee)


Tell = Callable[[str, int, int | None], None]
_LOWERED_LOOKS = (0.0, 2.0**-30, 2.0**-24, 2.0**-18)


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
    for share in _LOWERED_LOOKS:
        look = missing(both.scaled(1 - share) if share else both, held)
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
    return missing(shared(candidates).scaled(1 - 2 * _LOWERED_LOOKS[-1]), held) is None


def require_telling(name: str, primary: Plan, known: Sequence[Plan]) -> None:
    """Refuses, before it is paid for, a look after which no query of the primary analysis could be estimated.

    Args:
        name: the first candidate's name.
        primary: the first candidate; one without a workload asks for nothing that could be missed.
        known: what will have been measured after the look.

    Raises:
        PlanError: none of its queries is answerable.
    """
    if primary.workload is None or any(_tells(plan, primary, primary.workload) for plan in known):
        return
    # What no part answers alone, several may answer together.
    if len(known) < 2 or answerable(reduce(add, known), primary.workload) is None:
        raise PlanError(
            f"the look would answer no query of {name!r}, so that nothing could be said of the candidates; nothing was "
            "spent: put another candidate first, or release one. In Python, blind=True looks nonetheless, for "
            "choice.compatible."
        )


def _tells(known: Plan, primary: Plan, workload: Workload) -> bool:
    """Whether some query is answerable; in the same groups, within one of them, whose queries are far fewer."""
    if isinstance(known, GroupPlan) and isinstance(primary, GroupPlan) and known.by == primary.by:
        met, _ = kinds_of([known, primary])
        return any(_tells(mine, own, own.workload) for mine, own in met if mine and own and own.workload is not None)
    return answerable(known, workload) is not None


def shared(plans: Sequence[Plan], progress: Callable[[int, float], None] | None = None) -> Plan:
    """What these plans have in common, ready to be measured."""
    return promising(common(list(plans), progress=progress), plans[0].guarantee)
