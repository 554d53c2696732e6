"""The refined privacy order: exact where the answer is known, and as sequential semidefinite programs have it."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import block_diag

import residua as rs
from benchmarks.paper.workloads import prefixes, random_ranges
from residua.errors import GapWarning, PlanError
from residua.plans.solver.refined import refine
from residua.plans.solver.solve import least_privacy


@pytest.mark.parametrize("decades", [0.5, 4])
def test_separate_cells_have_the_least_cost_each(decades):
    c = np.logspace(-decades, decades, 24)
    found = refine(np.eye(24), c)
    np.testing.assert_allclose(found.profile, 1 / c, rtol=1e-9)
    np.testing.assert_allclose(found.variances, c, rtol=1e-9)


def test_separate_blocks_are_refined_separately():
    """Blocks that share no cell have nothing to do with each other; the plain optimum leaves the cheaper ones slack."""
    measurements = [prefixes(6), 0.5 * prefixes(9), 0.3 * random_ranges(8, 1), 0.01 * np.ones((1, 3))]
    W = block_diag(*measurements)
    found = refine(W)
    at = 0
    for block in measurements:
        alone = refine(block)
        np.testing.assert_allclose(found.profile[at : at + block.shape[1]], alone.profile, rtol=1e-6)
        assert alone.pcost == pytest.approx(least_privacy(block, tolerance=1e-9).pcost, rel=1e-8)
        at += block.shape[1]
    plain = least_privacy(W, tolerance=1e-9).profile
    assert plain[6:15].max() > found.profile[6:15].max() * 1.05


@pytest.mark.parametrize("W", [prefixes(32), random_ranges(32)], ids=["prefixes", "ranges"])
def test_a_unique_optimum_needs_one_stage_and_is_the_plain_one(W):
    found, plain = refine(W), least_privacy(W, tolerance=1e-9)
    assert found.iterations == 1
    np.testing.assert_allclose(found.profile, plain.profile, rtol=1e-5)


def by_sequential_programs(W, c, slack):
    """Least bound on the free cells, fix the cells whose constraint has a price, repeat. Errs like √slack."""
    d = W.shape[1]
    _, s, Vt = np.linalg.svd(W)
    r = int((s > 1e-9 * s[0]).sum())
    V, L = Vt[:r], W @ Vt[:r].T
    done: dict[int, float] = {}
    while len(done) < d:
        sigma, t = cp.Variable((r, r), PSD=True), cp.Variable()
        free = [i for i in range(d) if i not in done]
        bounds = [cp.matrix_frac(V[:, i], sigma) <= (done[i] * (1 + slack) if i in done else t) for i in range(d)]
        problem = cp.Problem(cp.Minimize(t), [cp.sum(cp.multiply(L @ sigma, L), axis=1) <= c, *bounds])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver=cp.CLARABEL)
        prices = {i: float(bounds[i].dual_value) for i in free}
        fixed = [i for i in free if prices[i] > 1e-3] or [max(prices, key=prices.__getitem__)]
        done |= dict.fromkeys(fixed, float(t.value))
    return np.array([done[i] for i in range(d)])


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_sequential_programs(seed):
    rng = np.random.default_rng(seed)
    W = random_ranges(6, seed)[:8]
    W = W[:, W.any(axis=0)]
    c = rng.uniform(1, 20, len(W))
    found = refine(W, c)
    coarse, fine = by_sequential_programs(W, c, 1e-6), by_sequential_programs(W, c, 1e-7)
    expected = fine + (fine - coarse) / (np.sqrt(10.0) - 1.0)  # extrapolated to no slack
    np.testing.assert_allclose(found.profile, expected, atol=5e-4 * expected.max())
    if np.abs(fine - coarse).max() > 1e-3 * fine.max():  # the relaxation is visible, and its limit is ours
        assert np.abs(found.profile - fine).max() > np.abs(found.profile - expected).max()


@pytest.mark.parametrize("seed", range(6))
def test_targets_over_six_decades_do_not_depend_on_the_tolerance(seed):
    W, c = random_ranges(40, seed), 10.0 ** np.random.default_rng(100 + seed).uniform(0, 6, 80)
    fine, coarse = refine(W, c, 1e-9), refine(W, c, 1e-8)  # a GapWarning would be an error
    np.testing.assert_allclose(fine.profile, coarse.profile, rtol=1e-3)
    assert fine.gap <= 1e-8
    assert (fine.variances <= c * (1 + 1e-9)).all()
    plain = least_privacy(W, c, 1e-9)
    ours, theirs = np.sort(fine.profile)[::-1], np.sort(plain.profile)[::-1]
    first = int(np.argmax(np.abs(ours - theirs) > 1e-4 * ours[0]))
    assert ours[first] <= theirs[first] + 1e-4 * ours[0]  # lexicographically no larger


def test_prefixes_with_targets_over_six_decades():
    found = refine(prefixes(32), np.logspace(-3, 3, 32))
    assert found.iterations > 5
    assert found.gap <= 1e-8
    assert found.profile.sum() < least_privacy(prefixes(32), np.logspace(-3, 3, 32), 1e-9).profile.sum()


def test_giving_up_is_not_silent(monkeypatch):
    from residua.plans.solver import refined

    monkeypatch.setattr(refined, "_consistent", lambda stage: None)
    with pytest.warns(GapWarning, match="refined order stopped"):
        found = refine(np.eye(3), [1.0, 2.0, 3.0])
    assert found.gap <= 1e-8  # still optimal


@pytest.mark.parametrize("tolerance", [0.0, 1e-2, 1e-13])
def test_bad_tolerance(tolerance):
    with pytest.raises(PlanError, match="tolerance"):
        refine(np.eye(2), 1.0, tolerance)


def test_a_plan_for_targets_advises_the_refined_order_where_it_costs_less():
    """One sentence where not all cells pay alike; none where they do, or where the order is refined already."""
    domain = rs.Domain.of_sizes({"x": 5})
    rng = np.random.default_rng(3)
    asked = rs.explicit(domain, rng.integers(0, 3, (6, 5)).astype(float))
    targets = np.random.default_rng(3).integers(1, 9, 6).astype(float)
    plan, refined = rs.plan(asked, targets=targets), rs.plan(asked, targets=targets, form=rs.Matrix(refined=True))
    assert "refined=True" in str(plan)
    assert "refined=True" not in str(refined)
    assert "in the refined order" in refined.objective
    assert refined.pcost == pytest.approx(plan.pcost, rel=2e-3)
    assert (refined.variances(asked) <= targets * (1 + 1e-6)).all()
    assert refined.profile.sum() < 0.9 * plan.profile.sum()
    alike = rs.plan(rs.explicit(domain, np.eye(5)), targets=1.0)
    assert "refined=True" not in str(alike)
