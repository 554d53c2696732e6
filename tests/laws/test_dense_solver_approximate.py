"""Approximate factorisation: bias within what was allowed, total variance within what was proven."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from benchmarks.paper.workloads import prefixes
from residua.errors import GapWarning, PlanError
from residua.plans.solver.approximate import approximate, nearest
from residua.plans.solver.solve import least_total


def by_semidefinite_program(F, alpha):
    """k · γ_α² straight from Definition 2.5."""
    k, d = F.shape
    E, t = cp.Variable((k, d)), cp.Variable()
    S, X = cp.Variable((k, k), symmetric=True), cp.Variable((d, d), symmetric=True)
    constraints = [cp.bmat([[S, F + E], [(F + E).T, X]]) >> 0, cp.diag(X) <= t, cp.trace(S) <= t]
    constraints += [cp.norm(E[:, i]) <= alpha * np.sqrt(k) for i in range(d)]
    cp.Problem(cp.Minimize(t), constraints).solve(solver=cp.CLARABEL)
    return float(t.value) ** 2


def assert_valid(F, alpha, found):
    np.testing.assert_allclose(found.recovery @ found.strategy, F + found.error, atol=1e-9 * np.abs(F).max())
    assert np.linalg.norm(found.strategy, axis=0).max() <= 1 + 1e-12
    assert np.linalg.norm(found.error, axis=0).max() / np.sqrt(len(F)) == pytest.approx(found.bias, abs=1e-12)
    assert found.bias <= max(alpha, 1e-12 * np.abs(F).max())
    np.testing.assert_allclose((found.recovery**2).sum(axis=1), found.variances, rtol=1e-9)
    assert found.achieved == pytest.approx(found.variances.sum(), rel=1e-9)
    norm = np.linalg.norm(found.recovery) * np.linalg.norm(found.strategy, axis=0).max() / np.sqrt(len(F))
    assert found.factorisation_norm == pytest.approx(norm, rel=1e-9)


CASES = {
    "prefixes": prefixes(6),
    "normal": np.random.default_rng(0).normal(size=(5, 7)),
    "bits": np.random.default_rng(1).integers(0, 2, (9, 5)).astype(float),
    "wide": np.random.default_rng(2).integers(0, 2, (4, 10)).astype(float),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.3, 0.5])
def test_small_workloads_are_solved_exactly(name, alpha):
    F = CASES[name]
    found = approximate(F, alpha)  # a GapWarning would be an error
    assert_valid(F, alpha, found)
    assert found.gap <= 1e-3
    exact = by_semidefinite_program(F, alpha)
    assert found.bound <= exact * (1 + 1e-5)
    assert exact * (1 - 1e-5) <= found.achieved <= exact * (1 + 1e-3)


@pytest.mark.parametrize("name", CASES)
def test_no_bias_is_the_exact_plan(name):
    F = CASES[name]
    found, plain = approximate(F, 0.0), least_total(F)
    assert_valid(F, 0.0, found)
    assert found.achieved == pytest.approx(plain.achieved, rel=1e-9)
    assert found.bound == plain.bound


def test_a_hair_of_bias_is_nearly_the_exact_plan():
    F = CASES["prefixes"]
    exact = least_total(F, tolerance=1e-6).achieved
    assert approximate(F, 1e-6, 1e-4).achieved == pytest.approx(exact, rel=2e-4)


def test_more_bias_never_needs_more_noise():
    totals = [approximate(prefixes(8), alpha).achieved for alpha in (0.0, 0.05, 0.1, 0.2, 0.4)]
    assert all(later <= sooner * (1 + 1e-3) for sooner, later in pairwise(totals))


def test_answering_zero_when_that_is_accurate_enough():
    found = approximate(prefixes(4), 1.0)
    assert found.achieved == 0
    assert found.bias == pytest.approx(1.0)
    assert found.gap == 0


def test_the_example_of_nearly_equal_queries():
    """Equation 36: one query asked k times with small differences costs as much as one query."""
    rng = np.random.default_rng(0)
    F = np.ones((6, 5)) + 0.05 * rng.choice([-1.0, 1.0], (6, 5))
    biased, exact = approximate(F, 0.05), approximate(F, 0.0)
    assert biased.factorisation_norm <= 1.0 + 1e-3
    assert exact.factorisation_norm > 1.05


def test_merged_dropped_and_zero_parts():
    F = np.array([[1.0, 1, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]])
    found = approximate(F, 0.1)
    assert_valid(F, 0.1, found)
    assert found.variances[2] == 0
    np.testing.assert_array_equal(found.strategy[:, 0], found.strategy[:, 1])
    assert not found.strategy[:, 2].any()


def test_a_large_workload_states_the_bound_it_proved():
    with pytest.warns(GapWarning, match="proven within"):
        found = approximate(prefixes(24), 0.2, tolerance=1e-4, limit=50)
    assert_valid(prefixes(24), 0.2, found)
    assert 1e-4 < found.gap < 0.5


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2.0))
def test_trust_region(seed, beta):
    """No nearby point has less energy, and none that was allowed is outside."""
    rng = np.random.default_rng(seed)
    columns, energies = rng.normal(size=(4, 3)), 10.0 ** rng.uniform(-6, 0, 4)
    found = nearest(columns, energies, beta)
    assert (np.linalg.norm(found - columns, axis=0) <= beta * (1 + 1e-9)).all()
    loss = (found**2 / energies[:, None]).sum(axis=0)
    for _ in range(20):
        other = found + rng.normal(size=found.shape) * 10.0 ** rng.uniform(-6, 0)
        back = other - columns
        other = columns + back * np.minimum(1, beta / np.linalg.norm(back, axis=0))
        assert (loss <= (other**2 / energies[:, None]).sum(axis=0) * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf])
def test_bad_bias(alpha):
    with pytest.raises(PlanError, match="bias"):
        approximate(np.eye(2), alpha)


@pytest.mark.parametrize(("sizes", "ways"), [([3, 2], [1, 2]), ([2, 3, 4], [1]), ([2, 2, 2], [2])])
def test_the_approximate_norm_of_marginals_is_closed(sizes, ways):
    asked = rs.marginals(rs.Domain.of_sizes(sizes), ways=ways)
    for alpha in (0.05, 0.4):
        judge = approximate(asked.listed().matrix, alpha, 1e-4).factorisation_norm
        assert rs.analysis.factorisation_norm(asked, alpha=alpha) == pytest.approx(judge, rel=1e-4)
    assert rs.analysis.factorisation_norm(asked, alpha=100.0) == 0
    assert rs.analysis.factorisation_norm(asked, alpha=1e-12) == pytest.approx(rs.analysis.factorisation_norm(asked))


def test_the_norm_of_a_product_is_the_product_of_norms_and_several_say_what_to_do():
    asked = rs.product(rs.Domain.of_sizes([4, 5]), {"a0": "prefixes", "a1": "ranges"})
    each, whole = (rs.analysis.factorisation_norm(one, tolerance=1e-5) for one in (asked, asked.listed()))
    assert each == pytest.approx(whole, rel=1e-5)
    large = rs.product(rs.Domain.of_sizes([300, 300]), {"a0": "prefixes", "a1": "prefixes"})
    with pytest.raises(PlanError, match=r"several products.*rs\.plan"):
        rs.analysis.factorisation_norm(large + rs.product(large.domain, {"a0": "ranges"}))
    with pytest.raises(PlanError, match="alpha=-1"):
        rs.analysis.factorisation_norm(asked, alpha=-1)
