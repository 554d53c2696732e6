"""Approximate factorisation: queries close to those asked, answered more accurately; worth it when records are few."""

from __future__ import annotations

import math

import numpy as np

from residua.errors import PlanError
from residua.plans.matrix.integer_strategy import direct_integers
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.matrix.space import first_cells
from residua.privacy import Guarantee, ReplaceOne, Unit
from residua.workload import Explicit

_SLACK = 1.0 - 2.0**-40


def plan_biased(workload: Explicit, guarantee: Guarantee, bias: float, unit: Unit, tolerance: float) -> MatrixPlan:
    """The plan of least total variance among those whose answers are off by at most `bias` a record.

    Definition 2.5 allows `RM = F + E` with `‖E‖_{1→2} ≤ α √k`. The plan answers the nearby queries `F + E` without
    bias; they are its `workload`, under the labels of those asked. On a table of n records the root mean square, over
    the queries, of what answers are off by systematically is at most n times `plan.bias`.

    Reference: factorization-and-projection, Definition 2.5 and Theorem 2.6.
    """
    from scipy.sparse import csr_array

    from residua.plans.solver.approximate import approximate
    from residua.plans.solver.problem import prepare

    if isinstance(bias, bool) or not isinstance(bias, int | float) or not 0 < bias < math.inf:
        raise PlanError(f"bias={bias!r} is not a positive number; leave it out for unbiased answers.")
    if isinstance(unit, ReplaceOne):
        raise PlanError("bias is planned for records added or removed; use rs.AddRemove.")
    if (workload.weights != workload.weights[0]).any():
        raise PlanError("bias is a root mean square over all queries alike; give all queries the same weight.")
    found = approximate(workload.matrix, float(bias), tolerance)
    if not found.strategy.any():
        raise PlanError(f"bias={bias!r} is so large that nothing needs to be measured; lower it.")
    columns = prepare(workload.matrix, np.ones(workload.queries)).columns
    pcost = float(guarantee.pcost_allowed()) * _SLACK / float(unit.scaled(1))
    strategy, scale, step = direct_integers(found.strategy[:, first_cells(columns)], pcost)
    answered = (found.recovery * step) @ strategy  # what the integers answer exactly: F + E, rounding included
    nearby = np.where(columns >= 0, answered[:, np.maximum(columns, 0)], 0.0)
    error = nearby - workload.matrix.toarray()
    return MatrixPlan(
        domain=workload.domain,
        attributes=workload.attributes,
        columns=columns,
        strategy=strategy,
        scale=scale,
        guarantee=guarantee,
        unit=unit,
        workload=Explicit(workload.domain, workload.attributes, csr_array(nearby), workload.labels, workload.weights),
        objective=f"TotalVariance with bias {bias:g} (at most {np.abs(error).max():.3g} for one query)",
        gap=found.gap,
        bias=float(np.linalg.norm(error, axis=0).max() / math.sqrt(workload.queries)),
    )
