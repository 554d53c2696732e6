"""How releases of each kind of plan are projected, registered once: one row a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.kinds import kind_of
from residua.plans.lattice.plan import ProductPlan
from residua.plans.lattice.residual_plan import ResidualPlan
from residua.plans.tables.plan import PureMarginalPlan
from residua.projection.dense import DenseProblem, observed_coordinates
from residua.projection.problem import Metric, Problem, Terms
from residua.projection.product import observed_estimates, product_problem
from residua.projection.pure import PureProblem, observed_pooled, pure_marginal_problem
from residua.projection.residual import ResidualProblem, observed_residuals
from residua.release.base import Release

Floats = NDArray[np.float64]
_MANY_CELLS = 1e6


@dataclass(frozen=True)
class ProjectionKind:
    """How releases of one kind of plan are projected.

    Args:
        problem: the projection of releases of a plan, under some terms.
        observed: a release's unbiased estimates in the form the problem takes.
        metrics: in which senses tables can be nearest; the first is the usual one.
        bounded: whether the noise is normal with a known spectrum, so that a bound can be given.
    """

    problem: Callable[[Any, Terms], Problem]
    observed: Callable[[Any, Any], Floats]
    metrics: tuple[Metric, ...] = ("covariance", "plain")
    bounded: bool = True


_OF_TABLES: tuple[Metric, ...] = ("margins", "covariance", "plain")
_KINDS = {
    "residual": ProjectionKind(ResidualProblem, observed_residuals, metrics=_OF_TABLES),
    "dense": ProjectionKind(DenseProblem, observed_coordinates),
    "product": ProjectionKind(product_problem, observed_estimates, metrics=_OF_TABLES),
    "pure": ProjectionKind(PureProblem, observed_coordinates, bounded=False),
    "pure marginals": ProjectionKind(pure_marginal_problem, observed_pooled, metrics=_OF_TABLES, bounded=False),
}


def problem_of(plan: Plan, terms: Terms) -> Problem:
    """The projection of releases of a plan.

    Raises:
        PlanError: releases of this kind cannot be projected, or the terms are about tables the plan lacks.
    """
    return _kind(plan).problem(plan, terms)


def observed_of(problem: Problem, release: Release) -> Floats:
    """A release's unbiased estimates in the form the problem takes."""
    return _kind(release.planned).observed(problem, release)


def metric_of(plan: Plan, wanted: Metric | None) -> Metric:
    """The metric of a projection: the one wanted, or the usual one of the kind.

    Raises:
        PlanError: releases of this kind cannot be projected in that sense.
    """
    metrics = _kind(plan).metrics
    if wanted is not None and wanted not in metrics:
        raise PlanError(
            f"metric={wanted!r}: releases of {kind_of(plan).name} plans are projected to one histogram, which has all "
            f"its margins at once; leave metric out, or say {' or '.join(map(repr, metrics))}."
        )
    return wanted or metrics[0]


def is_small(plan: Plan) -> bool:
    """Whether projecting releases of a plan takes seconds rather than minutes."""
    if not isinstance(plan, ResidualPlan | ProductPlan | PureMarginalPlan):
        return True
    return bool(plan.lattice.products(plan.domain.sizes.astype(np.float64)).sum() <= _MANY_CELLS)


def is_bounded(plan: Plan) -> bool:
    """Whether a bound on the error of projections can be given: normal noise around unbiased answers."""
    return _kind(plan).bounded and not plan.bias


def _kind(plan: Plan) -> ProjectionKind:
    name = kind_of(plan).name
    if name not in _KINDS:
        raise PlanError(f"releases of {name} plans cannot be projected yet; there is a way for {', '.join(_KINDS)}.")
    return _KINDS[name]
