"""Any convex loss of single queries, explicit or rows of attributes: against CVXPY over all mechanisms."""

import cvxpy as cp
import numpy as np
import pytest

import residua as rs

DOMAIN = rs.Domain.of_sizes({"a": 4})
WORKLOADS = {
    "queries": rs.queries(DOMAIN, ["a < 2", "a = 1", "a in (0, 2)", "a > 0", "a = 3"]),
    "prefixes": rs.prefixes(DOMAIN, "a"),
}
LOSSES = {
    "p-norm": (lambda _: rs.PNormVariance(2.0), lambda v: cp.norm(v, 2)),
    "largest": (lambda _: rs.LargestVariances(2), lambda v: cp.sum_largest(v, 2)),
    "squares": (lambda _: rs.ConvexLoss(lambda v: float(v @ v), lambda v: 2 * v), cp.sum_squares),
    "stakeholders": (
        lambda workload: rs.Stakeholders([workload.listed().some([0, 1]), workload.listed().some([2, 3])]),
        lambda v: cp.maximum(v[0] + v[1], v[2] + v[3]),
    ),
}


def optimum(workload, loss, pcost):
    """The least loss of any unbiased mechanism with normal noise, by a general solver over covariances of cells."""
    W = workload.listed().matrix.toarray()
    n = W.shape[1]
    sigma = cp.Variable((n, n), PSD=True)
    variances = cp.sum(cp.multiply(W @ sigma, W), axis=1)
    paid = [cp.matrix_frac(np.eye(n)[i], sigma) <= pcost for i in range(n)]
    problem = cp.Problem(cp.Minimize(loss(variances)), paid)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_convex_loss_of_queries_is_as_small_as_proven(name, loss):
    workload, (objective, expression) = WORKLOADS[name], LOSSES[loss]
    minimise = objective(workload)
    plan = rs.plan(workload, rs.GDP(mu=1.2), minimise=minimise)
    achieved = minimise.loss(workload.listed(), plan.variances(workload))
    least = optimum(workload, expression, 1.44)
    assert plan.gap <= 1e-3
    assert plan.measurements.cost(plan.unit) <= 1.44 * (1 + 1e-12)
    assert least * (1 - 1e-4) <= achieved
    assert achieved / (1 + plan.gap) <= least * (1 + 1e-4)
    enough = rs.plan(workload, minimise=minimise, at_most=achieved)
    assert enough.unit_pcost <= 1.44 * (1 + 2e-3)
    assert minimise.loss(workload.listed(), enough.variances(workload)) <= achieved * (1 + 1e-6)
