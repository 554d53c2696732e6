"""Making plans: the best noise for a budget, or the smallest budget for a wanted accuracy, whatever is asked."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypedDict, TypeVar, Unpack, overload

from residua.domain import Domain
from residua.errors import PlanError, named
from residua.machine import threads_for
from residua.plans.contract import Plan
from residua.plans.estimator import require_workload
from residua.plans.noise import NOISES
from residua.plans.objectives import MaxVariance, Objective, TotalVariance, described
from residua.plans.planners.axis import Axis
from residua.plans.planners.blockwise import Blockwise
from residua.plans.planners.explicit import independent_explicit
from residua.plans.planners.forecast import attended, attends, forecast
from residua.plans.planners.lattice import Lattice, independent_marginals, independent_pure_marginals
from residua.plans.planners.matrix import Matrix, independent_pure
from residua.plans.planners.offers import UNBEATABLE, Forecast, Offer, Planner, Task, register, registered
from residua.plans.planners.tree import Tree
from residua.plans.saddle import Effort, Progress
from residua.plans.targets import Targets, as_variances
from residua.plans.tolerances import MARGINAL_TOLERANCE, PRODUCT_TOLERANCE
from residua.privacy import AddRemove, Guarantee, Person, PureDP, Unit
from residua.privacy.costs import reach_of
from residua.privacy.guarantees import for_tables
from residua.showing import with_bar
from residua.workload import Workload

P = TypeVar("P", bound=Plan)
for _planner in (Lattice(), Matrix(), Blockwise(), Axis(), Tree()):
    register(_planner)

NoiseName = Literal["normal", "laplace"]
_RECORD = AddRemove()
_LEAST_COST = 1e-30
_LEAST_EPSILON = 1e-8
_ROUNDS_SAVED = 5  # by a baseline, which is written down and not searched for


class _Options(TypedDict, total=False):
    """What every overload of `plan` takes as well."""

    minimise: Objective | str | None
    targets: Targets | None
    stddev: Targets | None
    margin: Targets | None
    confidence: float | None
    at_most: float | None
    unit: Unit
    noise: NoiseName | None
    tolerance: float | None
    progress: Progress | bool | None


@overload
def plan(
    workload: Workload, guarantee: Guarantee | None = None, *, form: Planner[P], **options: Unpack[_Options]
) -> P: ...


@overload
def plan(
    workload: Workload,
    guarantee: Guarantee | None = None,
    *,
    form: Planner[Plan] | None = None,
    **options: Unpack[_Options],
) -> Plan: ...


@with_bar("planning")
def plan(
    workload: Workload,
    guarantee: Guarantee | None = None,
    *,
    minimise: Objective | str | None = None,
    targets: Targets | None = None,
    stddev: Targets | None = None,
    margin: Targets | None = None,
    confidence: float | None = None,
    at_most: float | None = None,
    unit: Unit = _RECORD,
    noise: NoiseName | None = None,
    form: Planner[Plan] | None = None,
    tolerance: float | None = None,
    progress: Progress | bool | None = None,
) -> Plan:
    """The best plan for a workload: least loss for a budget, or smallest budget for a wanted accuracy.

    With a `guarantee`: the plan minimises the objective within it. Without one: `stddev`, `margin` or `targets` asks
    for the smallest budget at which every marginal meets its own standard deviation, margin of error or variance, and
    `at_most` for the smallest budget at which the objective's loss is no larger.

    With `PureDP(epsilon)` the noise is Laplace: the plan is a `MatrixPlan` (marginals, and along many values: a
    `ProductPlan`), its strategy is the best of those tried, and its `gap` is relative to a loose bound.
    With `noise="laplace"` and no guarantee, targets are met with the least epsilon found.

    Guarantee: measuring the plan satisfies its `guarantee` for its `unit`; no linear Gaussian mechanism has a loss
    (or, without a budget, a privacy cost) smaller than this plan's by more than a factor `1 + gap`. (For products, none
    that measures the blocks of the plan's split one by one; `plan.gap_any` is about all mechanisms.)

    Args:
        workload: what is asked.
        guarantee: the budget, such as `ZCDP(rho=0.5)` or `PureDP(epsilon=1.0)`.
        minimise: the objective, `TotalVariance()` by default, `MaxVariance(targets)` where targets are given.
        targets: wanted variances (of sums of amounts, in their unit): one number, a mapping from attribute sets (or
            query labels), or one for each query.
        stddev: wanted standard deviations, in place of targets: `stddev=5.0` is `targets=25.0`.
        margin: wanted margins of error, in place of targets: each number is within its margin of the truth with this
            `confidence`; for normal noise alone.
        confidence: of a margin, 0.95 if left out.
        at_most: the largest acceptable loss, instead of a budget.
        unit: whom the guarantee protects, by default one record added or removed. For `rs.Person` the plan has 98 % of
            a guarantee: the rest is for measuring how many records the bound leaves out (docs/persons.md).
        tolerance: stop when the gap is proven to be at most this; 1e-4 for marginals, 1e-3 for other queries.
        noise: `"normal"` or `"laplace"`; what the guarantee asks for if left out, else normal.
        form: a planner, such as `rs.Lattice(…)` or `rs.Matrix(…)`, with what can be said of that form alone; if left
            out, all are asked, and the best offer is taken: see the table in `docs/choosing.md`.
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
        >>> least = rs.plan(rs.marginals(domain, ways=[1, 2]), stddev=5.0)
        >>> least.guarantee
        ZCDP(rho=0.0448...)
    """
    require_workload(workload)
    if form is not None and not isinstance(form, Planner):
        raise PlanError(f"form={named(form)} is not a form of plan; use one such as rs.Lattice() or rs.Matrix().")
    laplace = _is_laplace(guarantee, noise)
    accuracy = (targets, stddev, margin, confidence)
    if any(each is not None for each in accuracy):
        targets = as_variances(*accuracy, laplace=laplace)
    objective = _objective(minimise, targets)
    if getattr(objective, "targets", None) is not None:
        workload = workload.as_read  # what is wanted of sums is wanted in their own unit
    loss = _accuracy(guarantee, targets, at_most)
    _check_unit(unit, workload.domain)
    usual = PRODUCT_TOLERANCE if workload.with_rows else MARGINAL_TOLERANCE
    shown = None if isinstance(progress, bool) else progress  # a bar has become a function
    effort = Effort(_tolerance(usual if tolerance is None else tolerance), progress=shown)
    if guarantee is not None:
        _check_budget(guarantee)
        guarantee = for_tables(guarantee) if isinstance(unit, Person) else guarantee
    task = Task(workload, guarantee, objective, loss, unit, tolerance, effort, laplace, form is not None)
    return _best_offer(task, registered() if form is None else (form,))


def _best_offer(task: Task, planners: Sequence[Planner[Plan]]) -> Plan:
    """The plan of the planner with the best offer; of the next best, where that one leaves it to others.

    Raises:
        PlanError: none accepts the task, or it does not fit into memory.
    """
    for offer, planner in _offers(task, planners):
        with threads_for(offer.side):
            offer.forecast.check()
            plan = _beside(planner.plan, offer.task, offer.forecast) if offer.attended else planner.plan(offer.task)
        if plan is not None:
            return plan
    raise PlanError(f"no planner accepts this workload with {described(task.objective)}; see docs/choosing.md.")


def _offers(task: Task, planners: Sequence[Planner[Plan]]) -> Iterator[tuple[Offer, Planner[Plan]]]:
    """The offers, best first, and of equals that of the planner asked first; one that none can beat ends the asking."""
    others = []
    for planner in planners:
        offer = planner.offer(task)
        if offer is not None and offer.order == UNBEATABLE:
            yield offer, planner
        elif offer is not None:
            others.append((offer, planner))
    yield from sorted(others, key=lambda both: both[0].order)


def _beside(make: Callable[[Task], Plan | None], task: Task, ahead: Forecast) -> Plan | None:
    """The plan, made beside the caller where that takes long."""
    if not attends(ahead):
        return make(task)

    def work(progress: Progress | None) -> Plan:
        plan = make(replace(task, effort=replace(task.effort, progress=progress)))
        assert plan is not None  # who leaves it to others does so soon
        return plan

    return attended(work, ahead, task.effort.progress, (task.workload, task.workload.domain))


def _is_laplace(guarantee: Guarantee | None, noise: NoiseName | None) -> bool:
    if noise not in (None, *NOISES):
        raise PlanError(f"noise={named(noise)} is not 'normal' or 'laplace'.")
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
    require_workload(workload)
    _check_unit(unit, workload.domain)
    _check_budget(guarantee)
    guarantee = for_tables(guarantee) if isinstance(unit, Person) else guarantee
    laplace = isinstance(guarantee, PureDP)
    listed = workload if workload.plain else workload.listed()  # products only where their cells can be listed
    ahead = forecast(listed)
    ahead.check()
    of_marginals, of_queries = (independent_marginals, independent_explicit)
    if laplace:
        of_marginals, of_queries = (independent_pure_marginals, independent_pure)
    task = Task(listed, guarantee, unit=unit, laplace=laplace)
    once = replace(ahead, seconds=ahead.seconds / _ROUNDS_SAVED)
    plan = _beside(of_marginals if workload.plain else of_queries, task, once)
    assert plan is not None
    return plan


_BY_NAME: dict[str, type[TotalVariance | MaxVariance]] = {"total": TotalVariance, "max": MaxVariance}


def _objective(minimise: Objective | str | None, targets: Targets | None) -> Objective:
    if isinstance(minimise, str) and minimise in _BY_NAME:
        minimise = _BY_NAME[minimise]()
    if minimise is not None and (isinstance(minimise, type) or not isinstance(minimise, Objective)):
        raise PlanError(f"minimise={named(minimise)} is not an objective; use one such as rs.MaxVariance() or 'max'.")
    if targets is None:
        return TotalVariance() if minimise is None else minimise
    if minimise is not None and not isinstance(minimise, MaxVariance):
        raise PlanError("targets and minimise contradict each other; targets already means MaxVariance(targets).")
    if minimise is not None and minimise.targets is not None:
        raise PlanError("targets is given twice, also in MaxVariance; give it once.")
    return MaxVariance(targets)


def _accuracy(guarantee: Guarantee | None, targets: Targets | None, at_most: float | None) -> float:
    """The largest acceptable loss."""
    if guarantee is not None and at_most is not None:
        raise PlanError("guarantee and at_most both fix the plan; give one, or targets with the guarantee.")
    if guarantee is None and targets is None and at_most is None:
        raise PlanError(
            "say what to spend or how accurate to be: a guarantee such as ZCDP(rho=0.5), stddev, margin, targets "
            "(variances), or at_most."
        )
    if at_most is None:
        return 1.0
    if isinstance(at_most, bool) or not isinstance(at_most, int | float) or not 0 < at_most <= sys.float_info.max:
        raise PlanError(f"at_most={named(at_most)} is not a positive finite loss; correct it.")
    return float(at_most)


def _check_budget(guarantee: Guarantee) -> None:
    if isinstance(guarantee, type) or not isinstance(guarantee, Guarantee):
        raise PlanError(
            f"guarantee={named(guarantee)} is not a guarantee; use ZCDP(rho=…), GDP(mu=…) or ApproxDP(epsilon, delta)."
        )
    if isinstance(guarantee, PureDP):
        sensible = _LEAST_EPSILON <= guarantee.epsilon <= 1 / _LEAST_EPSILON
    else:
        sensible = _LEAST_COST <= guarantee.pcost_allowed() <= 1 / _LEAST_COST  # a fraction, maybe beyond all floats
    if not sensible:
        raise PlanError(f"guarantee={guarantee!r} is beyond what can be computed with; state a sensible budget.")


def _check_unit(unit: Unit, domain: Domain) -> None:
    if isinstance(unit, type) or not isinstance(unit, Unit):
        raise PlanError(f"unit={named(unit)} is not a unit of protection; use rs.AddRemove() or rs.ReplaceOne().")
    reach_of(unit, domain.names, domain.sizes)  # refuses limits on attributes that the domain lacks


def _tolerance(tolerance: float) -> float:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 1e-12 <= tolerance < math.inf:
        raise PlanError(f"tolerance={tolerance!r} cannot be proven in floating point; use a number from 1e-12.")
    return float(tolerance)
