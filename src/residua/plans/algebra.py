"""The algebra of plans: what they share, what is left of one, what is missing, and which answers which.

                        privacy cost matrices       product plans
    run both            Γ₁ + Γ₂                     τ₁ + τ₂             `p + q`
    can p answer q?     Γ_q ⪯ Γ_p                   τ_q ≤ τ_p           `p.can_answer(q)`
    what they share     a maximal lower bound       min τ               `common([p, q, …])`
    what is left        Γ_p − Γ_q                   τ_p − τ_q           `residual(p, given=q)`
    what is missing     least Δ, Γ_q + Δ ⪰ Γ_p      max(0, τ_p − τ_q)   `top_up(p, given=q)`

Under pure DP a measured row with Laplace noise has the precision τ = ε². A coarser answer can be computed from a finer
one, exactly (with probability ε²/ε'² as it is, else with Laplace noise added), so that the algebra is the same row by
row (`matrix/laplace.py`). Only prices differ: ε and what is left of it, √(ε'² − ε²), add up to more than ε', and
`p + q` is one plan as precise as both, √(ε² + ε'²), which costs less than running both, ε + ε'.

Product plans that measure every attribute by one strategy have closed forms for any number of attributes
(`product/algebra.py`), and so have plans over one tree with one strategy (`product/algebra.py`). Plans for any queries,
products measured by different strategies, and other mixtures go through matrices over cells, on small domains
(`matrix/algebra.py`).

Reference: common-mechanism, Theorems 3.5 and 5.4 and Eq. 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar, cast

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.combining import Progress, algebra_of
from residua.plans.contract import Plan
from residua.plans.estimator import require_workload
from residua.plans.noise import guarantee_like
from residua.plans.tolerances import ORDER_TOLERANCE
from residua.showing import with_bar
from residua.workload import Workload


@with_bar("combining")
def common(plans: Sequence[Plan], *, serving: Workload | None = None, progress: Progress | bool | None = None) -> Plan:
    """The most that all these plans release, whichever of them is chosen: run it first, and nothing is wasted.

    For plans for marginals it is unique. For others there may be several maximal ones; this one has the least total
    variance over an orthonormal basis of what the candidates all answer, or that of the queries that it is to serve.

    Guarantee: every one of the plans answers the common plan. For two plans, or plans for marginals, no plan that all
    of them answer answers it as well (up to rounding to integers); for more, its total variance is certified to be
    within `gap` of the least.

    Args:
        plans: the candidates, over one domain and with one unit of protection.
        serving: queries that every candidate answers: where there are several maximal common plans, the one in which
            their total variance is least (by their weights).
        progress: `True` draws a bar on a terminal or in a notebook; or a function, called
            with the round and its gap, where rounds are needed.

    Raises:
        PlanError: no plans, plans over different domains or units, plans of which some have Laplace noise and
            others not, or too many cells; queries to serve that not every candidate answers.

    Reference: common-mechanism, Theorem 5.4 and Eq. 1.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"age": 101, "gender": 2})
        >>> one = rs.independent(rs.marginals(domain, ways=1), rs.GDP(mu=1))
        >>> two = rs.independent(rs.marginals(domain, ways=2), rs.GDP(mu=1))
        >>> round(rs.common([one, two]).pcost, 4)  # half the budget can be spent before choosing
        0.505
    """
    if isinstance(plans, Plan):
        raise PlanError("plans is one plan; give a list of plans, such as [p, q].")
    listed = list(plans)
    if not listed:
        raise PlanError("plans is empty; give at least one plan.")
    if serving is not None:
        require_workload(serving)
    report = None if isinstance(progress, bool) else progress
    return cast("Plan", algebra_of(listed).common(listed, serving, report))


def residual(plan: Plan, *, given: Plan) -> Plan:
    """What is left of a plan once `given` is known: measuring both amounts to the plan.

    Guarantee: together they cost no more than the plan, in whole numbers; with Laplace noise they do, for epsilons
    add up (by at most a factor of √2 where everything is measured in both).

    Raises:
        PlanError: the plan does not answer `given`, so that some of it would be wasted; or as for `common`.

    Reference: common-mechanism, Lemma 3.11 and Algorithm 3.
    """
    return cast("Plan", algebra_of([plan, given]).residual(plan, given))


def top_up(plan: Plan, *, given: Plan | Sequence[Plan]) -> Plan:
    """The least to measure so that, pooled with `given`, everything is at least as accurate as the plan says.

    Args:
        plan: the accuracy wanted.
        given: what is known already: one plan, or several that were run.

    Raises:
        PlanError: as for `common`.
    """
    held = list(given) if isinstance(given, Sequence) else [given]
    if not held:
        raise PlanError("given is empty; give at least one plan.")
    return cast("Plan", algebra_of([plan, *held]).top_up(plan, held))


P = TypeVar("P", bound=Plan)


def _left(wanted: Floats, have: Floats) -> Floats:
    """`max(0, τ_wanted − τ_have)`, less than ORDER_TOLERANCE being nothing.

    Noise scales are rounded up when plans are compiled; giving up 2^-44 of the precision makes sure that what is left
    and what was known never cost more together than the plan itself.
    """
    left = wanted * (1.0 - 2.0**-44) - have
    return np.where(left > ORDER_TOLERANCE * wanted, left, 0.0)


@dataclass(frozen=True)
class ElementwiseAlgebra(Generic[P]):
    """What plans by the same rows release, together and apart.

    Args:
        aligned: plans brought to the same rows: what has these, and everyone's precisions.
        plan_of: a plan by these rows with other precisions; what it is, in words, and what is asked, if anything.
        lacking: what precisions lack of those wanted, 0 where that is nothing.
    """

    aligned: Callable[[Sequence[P]], tuple[Any, list[Floats]]]
    plan_of: Callable[[Any, Floats, str, Workload | None], P]
    lacking: Callable[[Floats, Floats], Floats] = _left

    def compose(self, first: P, second: P) -> P:
        """The plan that is as precise as both, pooled; with normal noise it is what running both comes to."""
        like, (a, b) = self.aligned([first, second])
        workload = first.workload + second.workload if first.workload and second.workload else None
        return self.plan_of(like, a + b, "as precise as both plans together", workload)

    def can_answer(self, plan: P, other: P) -> bool:
        """Whether what `other` releases can be computed from what `plan` releases."""
        _, (have, wanted) = self.aligned([plan, other])
        return not self.lacking(wanted, have).any()

    def common(self, plans: Sequence[P], serving: Workload | None = None, progress: Progress | None = None) -> P:
        """The most that all these plans release, whichever of them is chosen: one plan, whatever it shall serve."""
        like, precisions = self.aligned(plans)
        return self.plan_of(like, reduce(np.minimum, precisions), "common to all candidates", None)

    def residual(self, plan: P, given: P) -> P:
        """What is left of a plan once `given` is known.

        Raises:
            PlanError: the plan does not answer `given`, so that some of it would be wasted.
        """
        like, (wanted, have) = self.aligned([plan, given])
        if self.lacking(have, wanted).any():
            raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
        return self.plan_of(like, self.lacking(wanted, have), "what is left", plan.workload)

    def top_up(self, plan: P, given: Sequence[P]) -> P:
        """The least to measure so that, pooled with all given, everything is at least as accurate as the plan says."""
        like, (wanted, *have) = self.aligned([plan, *given])
        return self.plan_of(like, self.lacking(wanted, np.sum(have, axis=0)), "what is missing", plan.workload)


def priced(
    with_precisions: Callable[[P, Floats, Workload | None], P],
) -> Callable[[P, Floats, str, Workload | None], P]:
    """What makes a plan like another with other precisions, and lets it promise what it costs."""

    def plan_of(like: P, precisions: Floats, objective: str, workload: Workload | None) -> P:
        bare = with_precisions(like.replaced(objective=objective, gap=np.inf, guarantee=None), precisions, workload)
        return bare.replaced(guarantee=guarantee_like(like.guarantee, bare.unit_pcost))

    return plan_of
