"""Baselines: cost 1, honest variances, and never better than the optimum."""

import numpy as np
import pytest

from residua.plans.solver import least_privacy, least_total
from residua.plans.solver.baselines import (
    gaussian,
    gaussian_least_squares,
    hierarchical,
    identity,
    least_total_error,
)
from tests.papers.workloads import prefixes, random_ranges

ALL = [
    gaussian,
    gaussian_least_squares,
    identity,
    hierarchical,
    lambda W: hierarchical(W, weighted=True),
    lambda W: hierarchical(W, targets=2.0),
    least_total_error,
]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(
    "W", [prefixes(12), random_ranges(10, 1), np.eye(3)[:, [0, 0, 1, 2]]], ids=["prefix", "range", "id"]
)
def test_every_baseline_has_cost_one_and_its_own_variances(make, W):
    baseline = make(W)
    S = baseline.strategy
    assert (S**2).sum(axis=0).max() == pytest.approx(1.0, rel=1e-9)
    if baseline.name != "gaussian":  # answered as measured, not by least squares
        expected = ((W @ np.linalg.pinv(S)) ** 2).sum(axis=1)
        np.testing.assert_allclose(baseline.variances, expected, rtol=1e-6)
    assert baseline.max_ratio(1.0) >= least_privacy(W, tolerance=1e-6).bound * (1 - 1e-9)
    assert baseline.variances.sum() >= least_total(W, tolerance=1e-6).bound * (1 - 1e-9)
    assert baseline.rmse(4.0) == pytest.approx(baseline.rmse() / 2)
    assert baseline.max_ratio(2.0, 5.0) == pytest.approx(baseline.max_ratio(1.0) / 10)
    assert baseline.pcost(2.0) == pytest.approx(baseline.max_ratio(2.0))


def test_gaussian_noise_is_the_largest_column():
    W = prefixes(5)
    assert gaussian(W).variances.tolist() == [5.0] * 5
    assert gaussian(np.vstack([W, np.zeros(5)])).variances[-1] == 0
    assert (gaussian_least_squares(W).variances <= 5 + 1e-9).all()


def test_weights_help_a_hierarchy_and_branching_is_chosen():
    W = prefixes(64)
    plain, weighted = hierarchical(W), hierarchical(W, weighted=True)
    assert weighted.rmse() <= plain.rmse()
    assert "branching" in plain.name
    assert plain.rmse() < identity(W).rmse()
