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


def apart(v):
    return float(v.sum() + 3 * abs(v[0] - v[1]))


def spread(v):
    return float(6 * v.max() - 5 * v.min())


REGULAR = {
    "apart": (
        rs.ConvexLoss(
            apart, lambda v: 1 + 3 * np.sign(v[0] - v[1]) * ((np.arange(len(v)) == 0) * 1.0 - (np.arange(len(v)) == 1))
        ),
        lambda v: cp.sum(v) + 3 * cp.abs(v[0] - v[1]),
    ),
    "uneven": (
        rs.ConvexLoss(lambda v: float(v.sum() + len(v) * v.var()), lambda v: 1 + 2 * (v - v.mean())),
        lambda v: cp.sum(v) + cp.sum_squares(v - cp.sum(v) / v.shape[0]),
    ),
    "spread": (
        rs.ConvexLoss(
            spread, lambda v: 6.0 * (np.arange(len(v)) == v.argmax()) - 5.0 * (np.arange(len(v)) == v.argmin())
        ),
        lambda v: 6 * cp.max(v) - 5 * cp.min(v),
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


PAIRS = [(name, loss) for name in WORKLOADS for loss in [*LOSSES, *REGULAR] if (name, loss) != ("queries", "spread")]


@pytest.mark.parametrize(("name", "loss"), PAIRS)
def test_a_convex_loss_of_queries_is_as_small_as_proven(name, loss):
    workload = WORKLOADS[name]
    minimise, expression = REGULAR[loss] if loss in REGULAR else (LOSSES[loss][0](workload), LOSSES[loss][1])
    plan = rs.plan(workload, rs.GDP(mu=1.2), minimise=minimise)
    achieved = minimise.loss(workload.listed(), plan.variances(workload))
    least = optimum(workload, expression, 1.44)
    assert plan.gap <= 1e-3
    assert plan.measurements.cost(plan.unit) <= 1.44 * (1 + 1e-12)
    assert least * (1 - 1e-4) <= achieved
    assert achieved / (1 + plan.gap) <= least * (1 + 1e-4)
    if (name, loss) == ("prefixes", "spread"):
        return  # what it costs at most is found by solving it again and again: minutes
    enough = rs.plan(workload, minimise=minimise, at_most=achieved)
    assert enough.unit_pcost <= 1.44 * (1 + 2e-3)
    assert minimise.loss(workload.listed(), enough.variances(workload)) <= achieved * (1 + 1e-6)


@pytest.mark.parametrize("loss", REGULAR)
@pytest.mark.parametrize(("sizes", "ways"), [([2, 3, 4], [1, 2]), ([4, 3, 4, 5], [1, 2]), ([9, 2, 7, 3], [2, 3])])
def test_a_regular_loss_need_not_grow_with_every_variance(sizes, ways, loss):
    """The least loss over all noise on residuals, by a general solver; variances are read off plans of one residual."""
    workload = rs.marginals(rs.Domain.of_sizes(sizes), ways=ways)
    objective, expression = REGULAR[loss]
    plan = rs.plan(workload, rs.GDP(mu=1.2), minimise=objective)
    achieved = objective.loss(workload, plan.variances(workload, per="term"))
    kappa = plan.lattice.products(1.0 - 1.0 / np.array(sizes))
    matrix = np.array(
        [
            [
                kappa[k] / np.prod([sizes[i] for i in set(asked) - set(inside)]) ** 2.0 * (set(inside) <= set(asked))
                for k, inside in enumerate(map(plan.lattice.members, range(len(plan.lattice))))
            ]
            for asked in (workload.domain.positions(names) for names in workload.sets)
        ]
    )
    noise = cp.Variable(len(kappa), pos=True)
    problem = cp.Problem(cp.Minimize(expression(matrix @ noise)), [kappa @ cp.inv_pos(noise) <= 1.44])
    problem.solve(solver=cp.CLARABEL)
    assert np.allclose(matrix @ (1 / plan.precisions), plan.variances(workload, per="term"), rtol=1e-5)
    assert plan.gap <= 1e-3
    assert problem.value * (1 - 1e-4) <= achieved <= problem.value * (1 + 1e-3)
    assert achieved / (1 + plan.gap) <= problem.value * (1 + 1e-4)


CROSSED = rs.Domain.of_sizes({"a": 3, "b": 2})
LAPLACE = {
    **WORKLOADS,
    "product": rs.product(CROSSED, {"a": "prefixes", "b": "identity"}),
    "marginals": rs.marginals(CROSSED, ways=[1, 2]),
}


@pytest.mark.parametrize("loss", [*LOSSES, "apart", "uneven"])
@pytest.mark.parametrize("name", LAPLACE)
def test_with_laplace_noise_a_convex_loss_is_searched_for_and_bounded(name, loss):
    """No worse than the plan of least total variance; the bound is that of the best normal noise of pcost ε²/2."""
    workload = LAPLACE[name]
    if loss in REGULAR:
        minimise, expression = REGULAR[loss]
    elif loss == "stakeholders" and workload.plain:
        minimise = rs.Stakeholders([rs.marginals(CROSSED, ways=1), rs.marginals(CROSSED, ways=2)])
        expression = None
    else:
        minimise, expression = LOSSES[loss][0](workload), LOSSES[loss][1]
    listed, per = (workload, {"per": "term"}) if workload.plain else (workload.listed(), {})
    plan, total = (rs.plan(workload, rs.PureDP(1.5), minimise=each) for each in (minimise, None))
    lost, other = (minimise.loss(listed, each.variances(workload, **per)) for each in (plan, total))
    assert plan.measurements.cost(plan.unit) <= 1.5
    assert lost <= other * (1 + 1e-9)
    assert plan.lower_bound <= lost <= plan.lower_bound * (1 + plan.gap) * (1 + 1e-9)
    if not workload.plain:
        least = optimum(workload, expression, 1.5**2 / 2)
        assert least * (1 - 2e-3) <= plan.lower_bound <= least * (1 + 1e-5)
