"""Which projection a plan's releases take: each plan names the problem that it poses, and each problem is here once."""

from __future__ import annotations

from residua.errors import PlanError, named
from residua.plans.contract import Plan
from residua.projection.blockwise import BlockwiseProblem
from residua.projection.family import FamilyProblem
from residua.projection.matrix import AxisProblem, MatrixProblem
from residua.projection.problem import Metric, ProjectionProblem, Terms
from residua.projection.products import NoisePerSetProblem, ProductProblem
from residua.projection.strata import StrataProblem
from residua.projection.tree import TreeProblem

PROBLEMS: dict[str, type[ProjectionProblem]] = {
    "marginals": FamilyProblem,
    "products": ProductProblem,
    "an axis": AxisProblem,
    "a tree": TreeProblem,
    "noise per set": NoisePerSetProblem,
    "strata": StrataProblem,
    "blocks": BlockwiseProblem,
    "a histogram": MatrixProblem,
}


def kind_of(plan: Plan) -> type[ProjectionProblem]:
    """The kind of problem that releases of a plan pose.

    Raises:
        PlanError: a form of plan that cannot be projected.
    """
    if plan.poses not in PROBLEMS:
        raise PlanError(
            f"releases of {type(plan).__name__} cannot be projected: they tell neither tables of a family nor "
            "one histogram; publish them as they are."
        )
    return PROBLEMS[plan.poses]


def problem_of(plan: Plan, terms: Terms) -> ProjectionProblem:
    """The projection of releases of a plan.

    Raises:
        PlanError: a form of plan that cannot be projected, or the terms are about tables the plan lacks.
    """
    return kind_of(plan).posed(plan, terms)


def metric_of(plan: Plan, wanted: Metric | None) -> Metric:
    """The metric of a projection: the one wanted, or the usual one.

    Raises:
        PlanError: releases of this form cannot be projected in that sense.
    """
    metrics, why = kind_of(plan).metrics(plan)
    if wanted is not None and wanted not in metrics:
        raise PlanError(f"metric={named(wanted)}: {why}")
    return wanted or metrics[0]
