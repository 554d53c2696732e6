"""The kinds of plan, registered once: how each is compiled to integer measurements, priced, and kept in files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from residua.errors import PlanError
from residua.plans.contract import Blocks, Plan
from residua.plans.lattice.blocks import compile_product
from residua.plans.lattice.body import product_of_body, product_to_body
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.price import most_product_records, product_cost
from residua.plans.lattice.residual_blocks import compile_blocks
from residua.plans.lattice.residual_body import residual_of_body, residual_to_body
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.lattice.residual_verify import most_records, verified_cost
from residua.plans.matrix.blocks import most_strategy_records
from residua.plans.matrix.dense_blocks import compile_dense, dense_cost
from residua.plans.matrix.dense_body import dense_of_body, dense_to_body
from residua.plans.matrix.plan import DensePlan
from residua.plans.matrix.pure_blocks import compile_pure, pure_cost
from residua.plans.matrix.pure_body import pure_of_body, pure_to_body
from residua.plans.matrix.pure_plan import PurePlan
from residua.plans.tables.blocks import (
    compile_pure_marginals,
    most_pure_marginal_records,
    pure_marginals_cost,
)
from residua.plans.tables.body import pure_marginals_of_body, pure_marginals_to_body
from residua.plans.tables.plan import PureMarginalPlan
from residua.privacy import Guarantee, Unit


@dataclass(frozen=True)
class Kind:
    """One kind of plan.

    Args:
        name: what files call it.
        plan: its class.
        compile: the integer measurements that realise a plan.
        price: the verifier: what measuring the blocks costs, exactly, rounded up, and within the guarantee.
        most_records: how many records the blocks can count before a number could leave 64 bits.
        to_body: the plan as plain values.
        of_body: the plan that plain values describe.
    """

    name: str
    plan: type[Plan]
    compile: Callable[[Any], Blocks]
    price: Callable[[Any, Guarantee | None, Unit], Fraction]
    most_records: Callable[[Any], int]
    to_body: Callable[[Any], dict[str, Any]]
    of_body: Callable[[dict[str, Any]], Plan]


KINDS = (
    Kind("residual", ResidualPlan, compile_blocks, verified_cost, most_records, residual_to_body, residual_of_body),
    Kind("dense", DensePlan, compile_dense, dense_cost, most_strategy_records, dense_to_body, dense_of_body),
    Kind(
        "product",
        ProductPlan,
        compile_product,
        product_cost,
        most_product_records,
        product_to_body,
        product_of_body,
    ),
    Kind("pure", PurePlan, compile_pure, pure_cost, most_strategy_records, pure_to_body, pure_of_body),
    Kind(
        "pure marginals",
        PureMarginalPlan,
        compile_pure_marginals,
        pure_marginals_cost,
        most_pure_marginal_records,
        pure_marginals_to_body,
        pure_marginals_of_body,
    ),
)


def kind_of(plan: object) -> Kind:
    """The kind of a plan.

    Raises:
        PlanError: when it is no plan.
    """
    for kind in KINDS:
        if isinstance(plan, kind.plan):
            return kind
    raise PlanError(f"plan={plan!r} is not a plan; make one with rs.plan.")


def kind_named(name: str) -> Kind:
    """The kind that files call by this name; KeyError if there is none."""
    return {kind.name: kind for kind in KINDS}[name]


def priced(plan: Plan) -> tuple[Blocks, Fraction]:
    """What measuring a plan comes down to, and what that costs, by the verifier.

    Raises:
        VerificationError: dearer than the plan promises, or not measurable.
    """
    kind = kind_of(plan)
    blocks = kind.compile(plan)
    return blocks, kind.price(blocks, plan.guarantee, plan.unit)
