"""Making plans: the best noise for a budget, or the least privacy for a wanted accuracy, whatever is asked."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, cast, overload

from residua.bars import with_bar
from residua.domain import Domain
from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.forms import Form, Lattice, Matrix, Task
from residua.plans.lattice.plan import LatticePlan
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.noise import NOISES
from residua.plans.objectives import Effort, MaxVariance, Objective, TotalVariance, check_objective
from residua.plans.persons import reach_of
from residua.plans.planners.attended import attended, attends
from residua.plans.planners.crossed import plan_crossed
from residua.plans.planners.explicit import independent_explicit, plan_biased, plan_explicit
from residua.plans.planners.forecast import forecast
from residua.plans.planners.joint import blockwise_first, blockwise_if_better, blockwise_like, plan_joint
from residua.plans.planners.laplace import independent_pure, plan_pure
from residua.plans.planners.marginals import independent_marginals, plan_marginals
from residua.plans.planners.products import like_strategies, plan_products
from residua.plans.planners.structure import by_structure
from residua.plans.planners.tables import independent_pure_marginals, plan_pure_marginals
from residua.plans.planners.threads import with_few_threads
from residua.plans.saddle import Progress
from residua.plans.strategy import Strategy
from residua.plans.targets import Targets
from residua.plans.tolerances import MARGINAL_TOLERANCE, PRODUCT_TOLERANCE
from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, Guarantee, PureDP, Unit
from residua.workload import Workload

NoiseName = Literal["normal", "laplace"]
_RECORD = AddRemove()
_LEAST_COST = 1e-30
_LEAST_EPSILON = 1e-8
_ROUNDS_SAVED = 5  # by a baseline, which is written down and not searched for


class _Options(TypedDict, total=False):
    """What every overload of `plan` takes as well."""

    minimise: Objective | None
    targets: Targets | None
    at_most: float | None
    unit: Unit
    tolerance: float | None
    progress: Progress | bool | None


class _Old(TypedDict, total=False):
    """What `form` says now."""

    refined: bool
    bias: float
    like: Plan | None
    limit: int


Normal = ZCDP | GDP | ApproxDP | None


@overload
def plan(
    workload: Workload, guarantee: Guarantee | None = None, *, form: Matrix, **options: Unpack[_Options]
) -> MatrixPlan: ...


@overload
def plan(
    workload: Workload, guarantee: Normal = None, *, form: Lattice, **options: Unpack[_Options]
) -> LatticePlan: ...


@overload
def plan(
    workload: Workload,
    guarantee: Guarantee | None = None,
    *,
    noise: NoiseName | None = None,
    form: Form | None = None,
    **options: Unpack[_Options],
) -> Plan: ...


@with_bar("planning")
@with_few_threads
def plan(
    workload: Workload,
    guarantee: Guarantee | None = None,
    *,
    minimise: Objective | None = None,
    targets: Targets | None = None,
    at_most: float | None = None,
    unit: Unit = _RECORD,
    noise: NoiseName | None = None,
    form: Form | None = None,
    tolerance: float | None = None,
    progress: Progress | bool | None = None,
    **old: Unpack[_Old],
) -> Plan:
    """The best plan for a workload: least loss for a budget, or least privacy for a wanted accuracy.

    With a `guarantee`: the plan minimises the objective within it. Without one: `targets` asks for the least
    privacy at which every marginal meets its own target variance, and `at_most` for the least privacy at which the
    objective's loss is no larger.

    With `PureDP(epsilon)` the noise is Laplace: the plan is a `MatrixPlan` (marginals: `TablesPlan`; along many values:
    `RunsPlan` or `TreePlan`), its strategy is the best of those tried, and its `gap` is relative to a loose bound.
    With the class `PureDP` in place of a guarantee, targets are met with the least epsilon found.

    Guarantee: measuring the plan satisfies its `guarantee` for its `unit`; no linear Gaussian mechanism has a loss
    (or, without a budget, a privacy cost) smaller than this plan's by more than a factor `1 + gap`. (For products, none
    that measures the blocks of the plan's split one by one; `plan.gap_any` is about all mechanisms.)

    Args:
        workload: what is asked.
        guarantee: the budget, such as `ZCDP(rho=0.5)` or `PureDP(epsilon=1.0)`.
        minimise: the objective, `TotalVariance()` by default, `MaxVariance(targets)` where targets are given.
        targets: wanted variances: one number, a mapping from attribute sets (or query labels), or one for each query.
        at_most: the largest acceptable loss, instead of a budget.
        unit: whom the guarantee protects, by default one record added or removed.
        tolerance: stop when the gap is proven to be at most this; 1e-4 for marginals, 1e-3 for other queries.
        noise: `"normal"` or `"laplace"`; what the guarantee asks for if left out, else normal.
        form: `rs.Lattice(…)` or `rs.Matrix(…)`, with what can be said of that form alone; what the workload asks for if
            left out: a lattice for marginals and products, a matrix for explicit queries.
        progress: `True` draws a bar on a terminal or in a notebook; or a function, called
            with the round and its gap.

    Raises:
        PlanError: contradictory or missing arguments, bad targets.
        PrivacyError: a guarantee that Gaussian noise cannot give.

    Reference: residual-planner, Equations 1 and 2.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
        >>> round(plan.variance({"a": 0}), 3), plan.variance(["a", "b"]).shape
        (2.211, (10, 3))
        >>> least = rs.plan(rs.marginals(domain, ways=[1, 2]), targets=25.0)
        >>> least.guarantee
        ZCDP(rho=0.0448...)
    """
    shown = None if isinstance(progress, bool) else progress  # a bar has become a function
    if not isinstance(workload, Workload):
        raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals or rs.queries.")
    if form is not None and not isinstance(form, Form):
        raise PlanError(f"form={form!r} is not a form of plan; use one such as rs.Lattice() or rs.Matrix().")
    if old:
        form = _form_of(form, old)
    if isinstance(guarantee, type) and issubclass(guarantee, PureDP):
        _warn("plan(workload, PureDP)", 'plan(workload, noise="laplace")')
        guarantee, noise = None, "laplace"
    laplace = _is_laplace(guarantee, noise)
    objective = _objective(minimise, targets)
    loss = _accuracy(guarantee, targets, at_most)
    _check_unit(unit, workload.domain)
    usual = PRODUCT_TOLERANCE if workload.with_rows else MARGINAL_TOLERANCE
    limit = form.limit if isinstance(form, Lattice) else Lattice().limit
    effort = Effort(_tolerance(usual if tolerance is None else tolerance), _limit(limit), shown)
    task = Task(workload, guarantee, objective, loss, unit, tolerance, effort, laplace)
    if isinstance(guarantee, PureDP):
        _check_epsilon(guarantee)
    elif guarantee is not None:
        _allowed(guarantee)
    form = blockwise_like(form)
    made = form.plan(task) if form is not None else None
    if made is not None:
        return made
    if form is None and (structured := by_structure(task)) is not None:
        return structured
    check_objective(objective, workload, laplace=laplace, matrix=isinstance(form, Matrix))
    if isinstance(form, Matrix):
        workload = workload.listed()
    given = None
    if isinstance(form, Lattice) and form.like is not None and not laplace and workload.tabular:
        given = _given(form.like, workload)
        axes = [i for i, strategy in enumerate(given or ()) if strategy is not None and strategy.tells]
        if axes:
            return plan_crossed(workload, task, axes, given)
    if not laplace and not workload.tabular and blockwise_first(workload, task, form):
        return plan_joint(workload, task)
    ahead = forecast(workload, pure=laplace, maximum=isinstance(objective, MaxVariance))
    ahead.check()
    if attends(ahead):
        asked = {"minimise": minimise, "targets": targets, "at_most": at_most, "unit": unit, "tolerance": tolerance}
        again: Any = partial(plan, workload, guarantee, noise=noise, form=form, **asked)
        return attended(lambda told: cast("Plan", again(progress=told)), ahead, shown, (workload, workload.domain))
    if laplace:
        if form not in (None, Matrix(), Lattice(limit=limit)):
            raise PlanError("refined, bias and like are for Gaussian noise; leave them out, or give another guarantee.")
        return plan_pure_marginals(workload, task) if workload.plain else plan_pure(workload.listed(), task)
    if not workload.tabular:
        chosen = form if isinstance(form, Matrix) else Matrix()
        if chosen.bias:
            return plan_biased(workload, task, chosen.bias)
        return plan_explicit(workload, task, refined=chosen.refined)
    if workload.plain and given is None:
        return plan_marginals(workload, task)
    made = plan_products(workload, task, given)
    return blockwise_if_better(made, task) if form is None else made


def _form_of(form: Form | None, old: _Old) -> Form:
    """The form that options by their old names describe."""
    unknown = set(old) - set(_Old.__annotations__)
    if unknown:
        raise TypeError(f"plan() got an unexpected keyword argument {unknown.pop()!r}")
    if form is not None:
        raise PlanError(f"{next(iter(old))} is a part of form; give it there.")
    matrix, lattice = {"refined", "bias"} & set(old), {"like", "limit"} & set(old)
    if matrix and lattice:
        raise PlanError(f"{', '.join(matrix)} is for a matrix and {', '.join(lattice)} for a lattice; give one form.")
    name = f"plan(…, {', '.join(f'{key}=…' for key in old)})"
    _warn(name, f"plan(…, form=rs.{'Matrix' if matrix else 'Lattice'}({', '.join(f'{key}=…' for key in old)}))")
    if matrix:
        return Matrix(old.get("refined", False), old.get("bias", 0.0))
    return Lattice(old.get("like"), old.get("limit", Lattice().limit))


def _warn(before: str, now: str) -> None:
    warnings.warn(f"{before} is now {now}; the old way ends with version 0.2.", DeprecationWarning, stacklevel=3)


def _is_laplace(guarantee: Guarantee | None, noise: NoiseName | None) -> bool:
    if noise not in (None, *NOISES):
        raise PlanError(f"noise={noise!r} is not 'normal' or 'laplace'.")
    if guarantee is not None and noise is not None and (noise == "laplace") != isinstance(guarantee, PureDP):
        raise PlanError(
            f"noise={noise!r} cannot be priced as {guarantee!r}; normal noise goes with ZCDP, GDP and ApproxDP, "
            "Laplace noise with PureDP."
        )
    return noise == "laplace" or isinstance(guarantee, PureDP)


def independent(workload: Workload, guarantee: Guarantee, *, unit: Unit = _RECORD) -> Plan:
    """The baseline: equal independent noise on every asked cell, pooled into the best unbiased estimates.

    Its gap is that of its total variance.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3})
        >>> rs.independent(rs.marginals(domain, ways=2), rs.GDP(mu=1.0)).variance({"a": 0, "b": 0})
        1.0...
    """
    if not isinstance(workload, Workload):
        raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals or rs.queries.")
    _check_unit(unit, workload.domain)
    if not workload.tabular:
        ahead = forecast(workload)
        ahead.check()
        once = replace(ahead, seconds=ahead.seconds / _ROUNDS_SAVED)
        if attends(once):
            shared = (workload, workload.domain)
            return attended(lambda told: independent(workload, guarantee, unit=unit), once, None, shared)
    if isinstance(guarantee, PureDP):
        return _independent_pure(workload, guarantee, unit)
    allowed = _allowed(guarantee)
    if workload.plain:
        return independent_marginals(workload, guarantee, allowed, unit)
    return independent_explicit(workload.listed(), guarantee, unit)  # products only where their cells can be listed


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


def _given(like: Plan, workload: Workload) -> tuple[Strategy | None, ...] | None:
    """The strategies to measure by; None if they are those of every plan for marginals."""
    given = like_strategies(like, workload)
    plain = workload.plain and all(strategy is None or strategy.plain for strategy in given)
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
    if isinstance(at_most, bool) or not isinstance(at_most, int | float) or not 0 < at_most <= sys.float_info.max:
        raise PlanError(f"at_most={at_most!r} is not a positive finite loss; correct it.")
    return float(at_most)


def _allowed(guarantee: Guarantee) -> float:
    if isinstance(guarantee, type) or not isinstance(guarantee, Guarantee):
        raise PlanError(
            f"guarantee={guarantee!r} is not a guarantee; use ZCDP(rho=…), GDP(mu=…) or ApproxDP(epsilon=…, delta=…)."
        )
    allowed = guarantee.pcost_allowed()  # a fraction, which may be beyond all floats
    if not _LEAST_COST <= allowed <= 1 / _LEAST_COST:
        raise PlanError(f"guarantee={guarantee!r} is beyond what can be computed with; state a sensible budget.")
    return float(allowed)


def _independent_pure(workload: Workload, guarantee: PureDP, unit: Unit) -> Plan:
    _check_epsilon(guarantee)
    if workload.plain:
        return independent_pure_marginals(workload, guarantee, unit)
    return independent_pure(workload.listed(), guarantee, unit)


def _check_epsilon(guarantee: PureDP) -> None:
    if not _LEAST_EPSILON <= guarantee.epsilon <= 1 / _LEAST_EPSILON:
        raise PlanError(f"guarantee={guarantee!r} is beyond what can be computed with; state a sensible budget.")


def _check_unit(unit: Unit, domain: Domain) -> None:
    if isinstance(unit, type) or not isinstance(unit, Unit):
        raise PlanError(f"unit={unit!r} is not a unit of protection; use rs.AddRemove() or rs.ReplaceOne().")
    reach_of(unit, domain.names, domain.sizes)  # refuses limits on attributes that the domain lacks


def _tolerance(tolerance: float) -> float:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 1e-12 <= tolerance < math.inf:
        raise PlanError(f"tolerance={tolerance!r} cannot be proven in floating point; use a number from 1e-12.")
    return float(tolerance)


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise PlanError(f"limit={limit!r} is not a positive whole number of rounds.")
    return limit
