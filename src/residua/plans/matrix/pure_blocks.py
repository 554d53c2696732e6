"""What a pure plan really measures, and the exact epsilon that costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from residua.errors import VerificationError
from residua.plans.contract import Currency
from residua.plans.matrix.blocks import StrategyBlocks, check_form, rounded_up
from residua.plans.matrix.laplace_price import column_norm, epsilon_of_unit, replacement_norm
from residua.plans.matrix.pure_plan import PurePlan
from residua.privacy import Guarantee, PureDP, Unit


@dataclass(frozen=True, eq=False)
class PureBlocks(StrategyBlocks):
    """Integer measurements `y = B x + round(s z)` of the merged cells of some attributes, z standard Laplace."""

    @property
    def currency(self) -> Currency:
        """Laplace noise is priced in epsilon."""
        return "epsilon"


def compile_pure(plan: PurePlan) -> PureBlocks:
    """The integer measurements of a pure plan: its own strategy."""
    return PureBlocks(plan.domain.sizes, plan.attributes, plan.columns, plan.strategy, plan.scale, plan.domain.drops)


def pure_cost(blocks: PureBlocks, guarantee: Guarantee | None, unit: Unit) -> Fraction:
    """The epsilon of measuring a block, for this unit of protection, never less than the truth.

    Raises:
        VerificationError: dearer than promised, not integer, noise outside the samplers' range, or overflow.
    """
    check_form(blocks)
    removable = bool((blocks.columns < 0).any()) or blocks.drops
    replaced = replacement_norm(blocks.strategy, removable=removable)
    norm = epsilon_of_unit(unit, column_norm(blocks.strategy), replaced)
    return within(rounded_up(norm / Fraction(blocks.scale)), guarantee)


def within(cost: Fraction, guarantee: Guarantee | None) -> Fraction:
    """The cost, if the guarantee is of pure DP and covers it.

    Raises:
        VerificationError: it does not.
    """
    if not isinstance(guarantee, PureDP) or cost > Fraction(guarantee.epsilon):
        raise VerificationError(
            f"what would be measured costs epsilon {float(cost):.6g}, more than {guarantee!r} allows; the plan was "
            "altered, plan again. Nothing was spent."
        )
    return cost
