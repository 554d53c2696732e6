"""Which projection a plan's releases take: tables of a family of sets, or one histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.groups.plan import GroupPlan
from residua.plans.joint.plan import JointPlan
from residua.plans.lattice.plan import LatticePlan
from residua.plans.noise import LAPLACE
from residua.plans.operators.tree import nodes_of
from residua.plans.product.plan import ProductPlan
from residua.projection.axis import AxisProblem
from residua.projection.crossed_tables import CrossedProblem, PlainProblem
from residua.projection.fibres import FibreProblem, with_one_noise
from residua.projection.groups import GroupProblem
from residua.projection.joint import JointProblem
from residua.projection.matrix import MatrixProblem
from residua.projection.plain import ResidualProblem, TablesProblem
from residua.projection.problem import Metric, Problem, Terms
from residua.projection.tree import TreeProblem
from residua.workload.ordered import Prefixes

_OF_TABLES: tuple[Metric, ...] = ("margins", "covariance", "plain")
_OF_HISTOGRAMS: tuple[Metric, ...] = ("covariance", "plain")
_MANY_CELLS = 1e6
_LONGEST = 4096  # values of an axis that is written out as a matrix


def problem_of(plan: Plan, terms: Terms) -> Problem:
    """The projection of releases of a plan.

    Raises:
        PlanError: a form of plan that cannot be projected, or the terms are about tables the plan lacks.
    """
    own: Any = plan
    if plan.family is None:
        if isinstance(plan, ProductPlan):
            return _along(plan, terms)
        if isinstance(plan, GroupPlan):
            return GroupProblem(plan, terms)
        if isinstance(plan, JointPlan):
            return JointProblem(plan, terms)
        if plan.space is None:
            raise PlanError(
                f"releases of {type(plan).__name__} cannot be projected: they tell neither tables of a family nor "
                "one histogram; publish them as they are."
            )
        return MatrixProblem(plan.space, terms)
    if not plan.family.plain and terms.metric == "plain":
        return PlainProblem(plan.family, terms, 0 if _by_sums(plan.family) else _LONGEST)
    if not plan.family.plain:
        return CrossedProblem(plan.family, terms)
    return TablesProblem(plan.family, terms, own) if plan.noise == LAPLACE else ResidualProblem(plan.family, terms)


def _along(plan: ProductPlan, terms: Terms) -> Problem:
    """The projection of releases along one attribute: over a tree, of one attribute alone, or crossed with others."""
    if nodes_of(plan):
        return TreeProblem(plan, terms)
    if [*plan.parts] == [()]:
        return AxisProblem(plan, terms)
    one = with_one_noise(plan)
    return FibreProblem(one, terms, 0 if _by_sums(one) else _LONGEST, plan)


def _by_sums(plan: LatticePlan) -> bool:
    """Whether running sums serve axes of any length: prefixes alone are asked of them."""
    if not plan.axes or plan.workload is None:
        return False
    terms = plan.workload.terms()
    return all(asked == Prefixes(asked.size) for term in terms for i, asked in term if i in plan.axes)


def metric_of(plan: Plan, wanted: Metric | None) -> Metric:
    """The metric of a projection: the one wanted, or the usual one.

    Raises:
        PlanError: releases of this form cannot be projected in that sense.
    """
    if isinstance(plan, ProductPlan) and nodes_of(plan):
        if wanted not in (None, "plain"):
            raise PlanError(f"metric={wanted!r}: a tree is projected from the root down; leave metric out.")
        return "plain"
    if isinstance(plan, ProductPlan) and [*plan.parts] == [()]:
        if wanted not in (None, "plain"):
            raise PlanError(f"metric={wanted!r}: along an axis it is squares over prefixes; leave metric out.")
        return "plain"
    if isinstance(plan, ProductPlan) or (plan.family is not None and plan.family.axes):
        if wanted not in (None, "plain"):
            raise PlanError(f"metric={wanted!r}: with noise correlated along an axis, only metric='plain' is there.")
        return "plain"
    if isinstance(plan, GroupPlan | JointPlan):
        if wanted not in (None, "covariance"):
            what = "groups are" if isinstance(plan, GroupPlan) else "over many cells, queries that tie attributes are"
            raise PlanError(f"metric={wanted!r}: {what} projected by their covariance; leave metric out.")
        return "covariance"
    metrics = _OF_HISTOGRAMS if plan.family is None else _OF_TABLES
    if wanted is not None and wanted not in metrics:
        raise PlanError(
            f"metric={wanted!r}: releases of explicit queries are projected to one histogram, which has all its "
            f"margins at once; leave metric out, or say {' or '.join(map(repr, metrics))}."
        )
    return wanted or metrics[0]


def by_groups(plan: Plan) -> bool:
    """Whether each group of people is projected by itself, with a total of its own."""
    return isinstance(plan, GroupPlan)


def is_small(plan: Plan) -> bool:
    """Whether projecting releases of a plan takes seconds rather than minutes."""
    if isinstance(plan, ProductPlan) and (nodes_of(plan) or len(plan.parts) > 1):
        return plan.blocks.cells <= _MANY_CELLS
    if plan.family is None:
        return True
    cells: float = plan.family.lattice.products(plan.domain.sizes.astype(np.float64)).sum()
    return bool(cells <= _MANY_CELLS)


def is_bounded(plan: Plan) -> bool:
    """Whether a bound on the error of projections can be given: normal noise around unbiased answers."""
    return plan.noise.gaussian and not plan.bias and (not isinstance(plan, ProductPlan) or plan.correlated is not None)
