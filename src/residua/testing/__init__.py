"""One law over every plan: what a plan says of itself is what dense matrices say of what it really measures.

For forms of plan of your own, as for ours: `check_plan` measures one record in every cell through the plan's own
measurements, and compares every stated fact with ordinary linear algebra.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.verifier import require_plan
from residua.testing.case import Case
from residua.testing.laws import LAWS

__all__ = ["LAWS", "Case", "check_plan"]

MOST_CELLS = 2_048


def check_plan(plan: Plan, *, laws: Iterable[str] = tuple(LAWS)) -> None:
    """Checks that a plan says the truth of itself: every law, against dense matrices of what it really measures.

    Guarantee: it returns only if the price is not below the largest norm of what is measured (as fractions; where noise
    is correlated, by dense matrices) for records, persons and replacements; variances, covariances and estimates are
    those of generalised least squares; its file gives it back, and is refused when altered; and sums, common parts,
    residuals and top-ups are those of the matrices, or refused in a sentence.

    Args:
        plan: any plan without a bias, of any form, over a domain of at most 2,048 cells.
        laws: names of laws, as in `residua.testing.LAWS`; all by default.

    Raises:
        AssertionError: a law does not hold; the text says which, and where.
        PlanError: no plan, a plan with a bias, or too many cells.

    Example:
        >>> import residua as rs
        >>> from residua.testing import check_plan
        >>> domain = rs.Domain({"age": rs.Integers(0, 4), "sex": ["F", "M"]})
        >>> check_plan(rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.5)))
    """
    require_plan(plan)
    cells = math.prod(int(n) for n in plan.domain.sizes)
    if plan.bias or cells > MOST_CELLS:
        raise PlanError(
            f"laws are checked of plans without a bias over at most {MOST_CELLS:,} cells; this one is over {cells:,} "
            f"and has a bias of {plan.bias:g}."
        )
    case = Case(plan)
    for name in laws:
        try:
            LAWS[name](case)
        except AssertionError as problem:
            raise AssertionError(f"{plan!r}: {name}: {problem}.") from None
