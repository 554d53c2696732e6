"""What is still to be measured so that, pooled with what was measured before, a plan's accuracy is reached.

The measurement is chosen so that everything together costs what the plan alone would have cost, to the last bit, where
what was measured before lies within the plan: rounding to integers is against us on both sides, so that the noise is
raised by a few parts in 10^14 until the exact sum fits, and the plan's own exact price is debited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from residua.plans.algebra import top_up
from residua.plans.blocks import Blocks
from residua.plans.composition import composed_cost
from residua.plans.contract import Plan, priced
from residua.privacy import Guarantee

_CLOSE = Fraction(1, 2**16)
_QUIETER = (0.0, 2.0**-46, 2.0**-40, 2.0**-34, 2.0**-28, 2.0**-22, 2.0**-17)


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
    for share in _QUIETER:
        plan = rest.quieter(share) if share else rest
        blocks, alone = priced(plan)
        together = composed_cost([*held, plan])
        if together <= whole:
            return Missing(plan, blocks, alone, whole, True)
        first = first or Missing(plan, blocks, alone, together, together > whole * (1 + _CLOSE))
        if first.settled:
            break
    return first


def promising(plan: Plan, guarantee: Guarantee | None) -> Plan:
    """The same plan, with a promise to be held to if it has none because its unit pays nothing for it.

    Replacing a record does not change the total. What is measured is then free, and the verifier says so; but it wants
    to know what was promised.
    """
    if plan.guarantee is not None or not plan.pcost:
        return plan
    return plan.replaced(guarantee=guarantee)
