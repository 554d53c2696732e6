"""Making plans: the best noise for a budget, or the least privacy for a wanted accuracy, whatever is asked."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TypedDict, Unpack, cast, overload

from residua.errors import PlanError
from residua.plans.attended import attended, attends
from residua.plans.base import Plan
from residua.plans.dense.plan import DensePlan
from residua.plans.forecast import forecast
from residua.plans.objectives import Effort, MaxVariance, Objective, Targets, TotalVariance
from residua.plans.product.plan import ProductPlan
from residua.plans.product.strategy import Strategy
from residua.plans.residual.plan import ResidualPlan
from residua.plans.residual.planner import MARGINAL_TOLERANCE, independent_marginals, plan_marginals
from residua.plans.saddle import Progress
from residua.privacy import AddRemove, Guarantee, PureDP, Unit
from residua.workload import Explicit, Marginals, Products, as_explicit, as_products

_RECORD = AddRemove()
_LEAST_COST = 1e-30
_LEAST_EPSILON = 1e-8
_ROUNDS_SAVED = 5  # by a baseline, which is written down and not searched for
PRODUCT_TOLERANCE = 1e-3  # of the noise for given strategies; the plan's own gap counts the strategies as well


class _Options(TypedDict, total=False):
    """What every overload of `plan` takes as well."""

    minimise: Objective | None
    targets: Targets | None
    at_most: float | None
    unit: Unit
    tolerance: float | None
    limit: int
    refined: bool
    bias: float
    progress: Progress | None


Budget = Guarantee | type[PureDP] | None


@overload
def plan(
    workload: Marginals | Products, guarantee: Budget = None, *, like: Plan, **options: Unpack[_Options]
) -> ResidualPlan | ProductPlan: ...


@overload
def plan(workload: Marginals, guarantee: Budget = None, **options: Unpack[_Options]) -> ResidualPlan: ...


@overload
def plan(workload: Products, guarantee: Budget = None, **options: Unpack[_Options]) -> ProductPlan: ...


@overload
def plan(workload: Explicit, guarantee: Budget = None, **options: Unpack[_Options]) -> DensePlan: ...


@overload
def plan(
    workload: Marginals | Products | Explicit,
    guarantee: Budget = None,
    *,
    like: Plan | None,
    **options: Unpack[_Options],
) -> Plan: ...


def plan(
    workload: Marginals | Products | Explicit,
    guarantee: Budget = None,
    *,
    minimise: Objective | None = None,
    targets: Targets | None = None,
    at_most: float | None = None,
    unit: Unit = _RECORD,
    tolerance: float | None = None,
    limit: int = 10_000,
    refined: bool = False,
    bias: float = 0.0,
    like: Plan | None = None,
    progress: Progress | None = None,
) -> Plan:
    """The best plan for a workload: least loss for a budget, or least privacy for a wanted accuracy.

    With a `guarantee`: the plan minimises the objective within it. Without one: `targets` asks for the least
    privacy at which every marginal meets its own target variance, and `at_most` for the least privacy at which the
    objective's loss is no larger.

    With `PureDP(epsilon)` the noise is Laplace: the plan is a `PurePlan` (or, for marginals, a `PureMarginalPlan`), its
    strategy is the best found of many that are tried, and its `gap` is relative to a loose bound on every strategy.
    With the class `PureDP` in place of a guarantee, targets are met with the least epsilon found.

    Guarantee: measuring the plan satisfies its `guarantee` for its `unit`; no linear Gaussian mechanism has a loss
    (or, without a budget, a privacy cost) smaller than this plan's by more than a factor `1 + gap`. (For products, none
    that measures the blocks of the plan's split one by one; `plan.gap_any` is about all mechanisms.)

    Args:
        workload: what is asked.
        guarantee: the budget, such as `ZCDP(rho=0.5)` or `PureDP(epsilon=1.0)`; or the class `PureDP`, with targets.
        minimise: the objective, `TotalVariance()` by default, `MaxVariance(targets)` where targets are given.
        targets: wanted variances: one number, a mapping from attribute sets (or query labels), or one for each query.
        at_most: the largest acceptable loss, instead of a budget.
        unit: whom the guarantee protects, by default one record added or removed.
        tolerance: stop when the gap is proven to be at most this; 1e-4 for marginals, 1e-3 for other queries.
        limit: most rounds of an iterative objective.
        refined: among plans that meet explicit targets equally well, the one with the lexicographically least
            privacy profile.
        bias: for explicit queries, how far off answers may be systematically, a record, as a root mean square over
            the queries; 0 for unbiased answers. See `plan.bias` and `plan.workload` of the result.
        like: a plan of products or marginals whose strategies to use, attribute by attribute, so that `common`,
            `residual`, `top_up` and sessions combine the two exactly over any number of cells. `gap` counts what its
            strategies cost; where that is much, plan the sum of the workloads first, and then each of them like that.
        progress: called with the round and its gap.

    Raises:
        PlanError: contradictory or missing arguments, bad targets.
        PrivacyError: a guarantee that Gaussian noise cannot give.

    Reference: residual-planner, Equations 1 and 2.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
        >>> round(plan.variance(["a"]), 3), round(plan.variance(["a", "b"]), 3)
        (2.211, 1.204)
        >>> least = rs.plan(rs.marginals(domain, ways=[1, 2]), targets=25.0)
        >>> least.guarantee
        ZCDP(rho=0.0448...)
    """
    if not isinstance(workload, Marginals | Products | Explicit):
        raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals or rs.queries.")
    objective = _objective(minimise, targets)
    budget = None if guarantee is PureDP else cast("Guarantee | None", guarantee)
    loss = _accuracy(budget, targets, at_most)
    _check_unit(unit)
    ahead = forecast(workload, pure=guarantee is PureDP or isinstance(budget, PureDP), maximum=_largest(objective))
    ahead.check()
    if attends(ahead):
        again = partial(plan, workload, guarantee, minimise=minimise, targets=targets, at_most=at_most, unit=unit)
        more = partial(again, tolerance=tolerance, limit=limit, refined=refined, bias=bias, like=like)
        shared = (workload, workload.domain)
        return attended(lambda told: cast("Plan", more(progress=told)), ahead, progress, shared)
    usual = PRODUCT_TOLERANCE if isinstance(workload, Products) else MARGINAL_TOLERANCE
    effort = Effort(_tolerance(usual if tolerance is None else tolerance), _limit(limit), progress)
    if guarantee is PureDP or isinstance(budget, PureDP):
        if refined or bias or like is not None:
            raise PlanError("refined, bias and like are for Gaussian noise; leave them out, or give another guarantee.")
        return _plan_pure(workload, cast("PureDP | None", budget), objective, loss, unit, tolerance, effort)
    allowed = None if budget is None else _allowed(budget)
    if like is not None and isinstance(workload, Explicit):
        raise PlanError("like is for marginals and products; plans of explicit queries have no strategies to share.")
    if isinstance(workload, Marginals | Products):
        if refined:
            raise PlanError("refined is for explicit queries; the plan of a marginal workload is unique already.")
        if bias:
            raise PlanError("bias is for explicit queries; marginals and products are answered without bias.")
        given = None if like is None else _given(like, workload)
        if isinstance(workload, Marginals) and given is None:
            return plan_marginals(workload, budget, allowed, objective, loss, unit, effort)
        from residua.plans.product.planner import plan_products

        return plan_products(as_products(workload), budget, allowed, objective, loss, unit, effort, given)
    from residua.plans.dense.planner import DENSE_TOLERANCE, plan_explicit

    if bias:
        from residua.plans.dense.biased_planner import plan_biased

        if budget is None or not isinstance(objective, TotalVariance):
            raise PlanError("bias needs a guarantee and the least total variance; remove targets and minimise.")
        return plan_biased(workload, budget, bias, unit, DENSE_TOLERANCE if tolerance is None else tolerance)
    return plan_explicit(workload, budget, objective, loss, unit, tolerance, refined=refined)


@overload
def independent(workload: Marginals, guarantee: Guarantee, *, unit: Unit = ...) -> ResidualPlan: ...


@overload
def independent(workload: Products | Explicit, guarantee: Guarantee, *, unit: Unit = ...) -> DensePlan: ...


def independent(workload: Marginals | Products | Explicit, guarantee: Guarantee, *, unit: Unit = _RECORD) -> Plan:
    """The baseline: equal independent noise on every asked cell, pooled into the best unbiased estimates.

    Its gap is that of its total variance.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3})
        >>> rs.independent(rs.marginals(domain, ways=2), rs.GDP(mu=1.0)).variance(["a", "b"])
        1.0...
    """
    _check_unit(unit)
    if isinstance(workload, Explicit):
        ahead = forecast(workload)
        ahead.check()
        once = replace(ahead, seconds=ahead.seconds / _ROUNDS_SAVED)
        if attends(once):
            shared = (workload, workload.domain)
            return attended(lambda told: independent(workload, guarantee, unit=unit), once, None, shared)
    if isinstance(guarantee, PureDP):
        return _independent_pure(workload, guarantee, unit)
    allowed = _allowed(guarantee)
    if isinstance(workload, Marginals):
        return independent_marginals(workload, guarantee, allowed, unit)
    if isinstance(workload, Products | Explicit):  # products only where their cells can be listed
        from residua.plans.dense.planner import independent_explicit

        return independent_explicit(as_explicit(workload), guarantee, unit)
    raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals or rs.queries.")


def _objective(minimise: Objective | None, targets: Targets | None) -> Objective:
    if minimise is not None and (isinstance(minimise, type) or not isinstance(minimise, Objective)):
        raise PlanError(f"minimise={minimise!r} is not an objective; use one such as rs.MaxVariance().")
    if targets is None:
        return TotalVariance() if minimise is None else minimise
    if minimise is not None and not isinstance(minimise, MaxVariance):
        raise PlanError("targets and minimise contradict each other; targets already means MaxVariance(targets).")
    if minimise is not None and minimise.targets is not None:
        raise PlanError("targets is given twice, also in MaxVariance; give it once.")
    return MaxVariance(targets)


def _largest(objective: Objective) -> bool:
    return isinstance(objective, MaxVariance)


def _given(like: Plan, workload: Marginals | Products) -> tuple[Strategy | None, ...] | None:
    """The strategies to measure by; None if they are those of every plan for marginals."""
    from residua.plans.product.like import like_strategies

    given = like_strategies(like, workload)
    plain = isinstance(workload, Marginals) and all(strategy is None or strategy.identity for strategy in given)
    return None if plain else given


def _accuracy(guarantee: Guarantee | None, targets: Targets | None, at_most: float | None) -> float:
    """The largest acceptable loss."""
    if guarantee is not None and at_most is not None:
        raise PlanError("guarantee and at_most both fix the plan; give one, or targets with the guarantee.")
    if guarantee is None and targets is None and at_most is None:
        raise PlanError(
            "say what to spend or how accurate to be: a guarantee such as ZCDP(rho=0.5), targets, or at_most."
        )
    if at_most is None:
        return 1.0
    if isinstance(at_most, bool) or not isinstance(at_most, int | float) or not 0 < at_most < math.inf:
        raise PlanError(f"at_most={at_most!r} is not a positive finite loss; correct it.")
    return float(at_most)


def _allowed(guarantee: Guarantee) -> float:
    if isinstance(guarantee, type) or not isinstance(guarantee, Guarantee):
        raise PlanError(
            f"guarantee={guarantee!r} is not a guarantee; use ZCDP(rho=…), GDP(mu=…) or ApproxDP(epsilon=…, delta=…)."
        )
    allowed = float(guarantee.pcost_allowed())
    if not _LEAST_COST <= allowed <= 1 / _LEAST_COST:
        raise PlanError(f"guarantee={guarantee!r} is beyond what can be computed with; state a sensible budget.")
    return allowed


def _plan_pure(
    workload: Marginals | Products | Explicit,
    guarantee: PureDP | None,
    objective: Objective,
    loss: float,
    unit: Unit,
    tolerance: float | None,
    effort: Effort,
) -> Plan:
    """Laplace noise: the best strategy found, or the best marginals to measure."""
    if guarantee is not None:
        _check_epsilon(guarantee)
    if isinstance(workload, Marginals):
        from residua.plans.pure_marginals.planner import plan_pure_marginals

        return plan_pure_marginals(workload, guarantee, objective, loss, unit, effort)
    from residua.plans.pure.planner import plan_pure

    return plan_pure(as_explicit(workload), guarantee, objective, loss, unit, tolerance, effort.progress)


def _independent_pure(workload: Marginals | Products | Explicit, guarantee: PureDP, unit: Unit) -> Plan:
    from residua.plans.pure.planner import independent_pure
    from residua.plans.pure_marginals.planner import independent_pure_marginals

    _check_epsilon(guarantee)
    if isinstance(workload, Marginals):
        return independent_pure_marginals(workload, guarantee, unit)
    if isinstance(workload, Products | Explicit):
        return independent_pure(as_explicit(workload), guarantee, unit)
    raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals or rs.queries.")


def _check_epsilon(guarantee: PureDP) -> None:
    if not _LEAST_EPSILON <= guarantee.epsilon <= 1 / _LEAST_EPSILON:
        raise PlanError(f"guarantee={guarantee!r} is beyond what can be computed with; state a sensible budget.")


def _check_unit(unit: Unit) -> None:
    if isinstance(unit, type) or not isinstance(unit, Unit):
        raise PlanError(f"unit={unit!r} is not a unit of protection; use rs.AddRemove() or rs.ReplaceOne().")


def _tolerance(tolerance: float) -> float:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 1e-12 <= tolerance < math.inf:
        raise PlanError(f"tolerance={tolerance!r} cannot be proven in floating point; use a number from 1e-12.")
    return float(tolerance)


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise PlanError(f"limit={limit!r} is not a positive whole number of rounds.")
    return limit
