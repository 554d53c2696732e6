"""Plans for records that are changed: the solver against CVXPY over all pairs, and the plans against their integers."""

import warnings
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

import residua as rs
from benchmarks.paper.workloads import prefixes, random_ranges
from residua.plans.solver import level as replacement
from residua.plans.solver.level import MOST_CELLS, least_replacement
from residua.plans.verifier import composed_cost, priced

RNG = np.random.default_rng(3)
WORKLOADS = {
    "prefixes": prefixes(6),
    "identity": np.eye(5),
    "ranges": random_ranges(8, 1),
    "signs": RNG.integers(-1, 2, (9, 6)).astype(float),
    "scaled": RNG.normal(size=(7, 4)) * np.logspace(-2, 2, 7)[:, None],
}


def optimum(W, total, removable):
    """The least largest cost over all pairs times the loss, by a general solver."""
    W = W if removable else W[:, 1:] - W[:, :1]
    n = W.shape[1]
    guarded = [*np.eye(n), *(np.eye(n)[i] - np.eye(n)[j] for i in range(n) for j in range(i))]
    sigma, t = cp.Variable((n, n), PSD=True), cp.Variable()
    unit = np.abs(W).max()
    variances = cp.sum(cp.multiply((W / unit) @ sigma, W / unit), axis=1)
    limits = [cp.sum(variances) <= 1] if total else [variances <= 1]
    problem = cp.Problem(cp.Minimize(t), limits + [cp.matrix_frac(u, sigma) <= t for u in guarded])
    with warnings.catch_warnings():  # on some processors its last step is short of its own tolerance; ours is far wider
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL)
    assert problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
    return problem.value * unit**2


def product(W, S, total, removable):
    """Largest cost of a replacement times the loss, from a strategy alone."""
    gamma = S.T @ S
    costs = np.diag(gamma)[:, None] + np.diag(gamma) - 2 * gamma
    cost = max(costs.max(), np.diag(gamma).max() if removable else 0.0)
    variances = ((W @ np.linalg.pinv(S, rcond=1e-13)) ** 2).sum(axis=1)
    return cost * (variances.sum() if total else variances.max())


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("removable", [False, True])
def test_a_general_solver_agrees(name, total, removable):
    W = WORKLOADS[name]
    found = least_replacement(W, 1e-5, total=total, removable=removable)
    least = optimum(W, total, removable)
    assert found.bound <= least * (1 + 1e-6)
    assert least * (1 - 1e-6) <= found.loss <= least * (1 + 1.2e-5)
    # The number of records is not known exactly but a thousand times better than all else.
    assert found.loss * (1 - 1e-9) <= product(W, found.plan, total, removable) <= found.loss * (1 + 5e-6)


@pytest.mark.parametrize("total", [False, True])
def test_what_stops_early_says_how_far_it_is(total, monkeypatch):
    W = prefixes(40)
    found = least_replacement(W, 1e-3, total=total, removable=False)
    assert found.loss <= found.bound * (1 + 1e-3)
    assert product(W, found.plan, total, False) == pytest.approx(found.loss, rel=1e-5)
    monkeypatch.setattr(replacement, "_ROUNDS", 2)
    stopped = least_replacement(W, 1e-3, total=total, removable=False)
    assert stopped.loss > stopped.bound * 1.001
    assert product(W, stopped.plan, total, False) == pytest.approx(stopped.loss, rel=1e-5)


def test_what_it_is_not_for():
    assert least_replacement(np.eye(MOST_CELLS + 1), 1e-3, total=False, removable=False) is None
    assert least_replacement(np.ones((3, 1)), 1e-3, total=False, removable=False) is None
    assert least_replacement(np.eye(4)[:2], 1e-3, total=False, removable=False) is None
    assert least_replacement(np.tile(np.eye(3), (9, 1)), 1e-3, total=False, removable=False) is None


def plans(workload):
    yield rs.plan(workload, targets=2.0, unit=rs.ReplaceOne()), 2.0, False
    yield rs.plan(workload, rs.ZCDP(0.5), minimise=rs.MaxVariance(), unit=rs.ReplaceOne()), 1.0, False
    yield rs.plan(workload, rs.ZCDP(0.5), unit=rs.ReplaceOne()), 1.0, True


@pytest.mark.parametrize("unasked", [False, True])
def test_plans_are_certified_by_their_integers(unasked):
    domain = rs.Domain({"x": rs.Integers(0, 8)})
    W = np.hstack([prefixes(8), np.zeros((8, 1))]) if unasked else prefixes(9)
    workload = rs.explicit(domain, W)
    for plan, target, total in plans(workload):
        asked = plan.columns >= 0
        S = plan.strategy[:, plan.columns[asked]] / plan.scale
        reached = product(W[:, asked], S, total, unasked) / target
        least = optimum(W[:, asked], total, unasked) / target
        cost = plan.unit_pcost
        assert plan.gap <= 1.1e-3
        assert reached <= least * (1 + plan.gap) * (1 + 1e-6)
        assert reached >= least * (1 - 1e-6)
        variances = plan.variances(workload)
        assert cost * (variances.sum() if total else (variances / target).max()) == pytest.approx(reached, rel=1e-6)
        assert float(plan.guarantee.pcost_allowed()) >= cost * (1 - 1e-12)
        if target == 2.0:
            assert (variances <= 2.0).all()


def test_it_beats_plans_for_records_added_or_removed():
    domain = rs.Domain({"x": rs.Integers(0, 15)})
    workload = rs.explicit(domain, prefixes(16))
    plan, other = (rs.plan(workload, targets=1.0, unit=unit) for unit in (rs.ReplaceOne(), rs.AddRemove()))
    assert plan.unit_pcost < 0.75 * float(other.measurements.cost(rs.ReplaceOne()))
    few = rs.explicit(domain, np.arange(16.0)[None] ** 2)  # one query of many cells is not solved for, and says so
    assert np.isinf(rs.plan(few, targets=1.0, unit=rs.ReplaceOne()).gap)


def exactly(plans):
    """The largest cost of a replacement under several plans on the same cells, in fractions."""
    cost = Fraction(0)
    for i in range(plans[0].strategy.shape[1]):
        for j in range(i):
            parts = [[int(a) - int(b) for a, b in plan.strategy[:, [i, j]]] for plan in plans]
            both = [
                sum(a * a for a in part) / Fraction(plan.scale) ** 2 for part, plan in zip(parts, plans, strict=True)
            ]
            cost = max(cost, sum(both, Fraction(0)))
    return cost


def test_prices_are_exact_though_the_number_of_records_is_known():
    """One row of a strategy is thousands of times larger than all else, and costs nothing."""
    domain = rs.Domain({"x": rs.Integers(0, 7)})
    both = [rs.plan(rs.explicit(domain, W), rs.ZCDP(0.5), unit=rs.ReplaceOne()) for W in (prefixes(8), np.eye(8))]
    for plan in both:
        assert plan.pcost > 1e5
        assert (
            exactly([plan])
            <= priced(plan)[1]
            <= min(plan.guarantee.pcost_allowed(), exactly([plan]) * (1 + Fraction(1, 10**12)))
        )
        assert exactly([plan]) <= composed_cost([plan]) <= exactly([plan]) * (1 + Fraction(1, 10**12))
    assert exactly(both) <= composed_cost(both) <= exactly(both) * (1 + Fraction(1, 10**12))


def test_plans_that_know_the_number_of_records_can_be_combined():
    domain = rs.Domain({"x": rs.Integers(0, 7)})
    fine, coarse = (
        rs.plan(rs.explicit(domain, W), rs.ZCDP(0.5), unit=rs.ReplaceOne()) for W in (prefixes(8), np.eye(8))
    )
    look = rs.common([fine, coarse])
    for plan in (fine, coarse):
        left = rs.residual(plan, given=look)
        assert composed_cost([look, left]) <= composed_cost([plan])
        assert ((look + left).variances(plan.workload) <= plan.variances(plan.workload) * (1 + 2e-6)).all()
    missing = rs.top_up(fine, given=coarse)
    assert ((coarse + missing).variances(fine.workload) <= fine.variances(fine.workload) * (1 + 2e-6)).all()
    assert (coarse.variances(fine.workload) > 1.2 * fine.variances(fine.workload)).any()


def test_independent_noise_is_within_its_budget_after_rounding():
    domain = rs.Domain.of_sizes({"a": 6})
    for seed in range(30):
        W = np.random.default_rng(seed).normal(size=(1 + seed % 7, 6))
        _, cost = priced(rs.independent(rs.explicit(domain, W), rs.GDP(1.0), unit=rs.ReplaceOne()))
        assert 1 - 1e-9 <= cost <= 1


@pytest.mark.parametrize("total", [True, False])
def test_prefixes_of_an_attribute_are_planned_as_well_as_the_same_queries_listed(total):
    domain = rs.Domain.of_sizes({"a": 6})
    workload, objective = rs.prefixes(domain, "a"), rs.TotalVariance() if total else rs.MaxVariance()
    plan = rs.plan(workload, rs.GDP(1.0), unit=rs.ReplaceOne(), minimise=objective)
    variances = plan.variances(workload)
    least = optimum(prefixes(6), total, False)
    assert plan.gap <= 1e-3
    assert least * (1 - 1e-5) <= (variances.sum() if total else variances.max()) <= least * (1 + 1e-3)
