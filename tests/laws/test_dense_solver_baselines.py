"""Baselines: within the budget, honest variances, and never better than the optimum."""

import numpy as np
import pytest

import residua as rs
from benchmarks.paper.workloads import prefixes, random_ranges
from residua.analysis import baselines
from residua.errors import PlanError
from residua.plans.solver.solve import least_privacy, least_total
from residua.plans.verifier import priced


@pytest.mark.parametrize(
    "W", [prefixes(12), random_ranges(10, 1), np.eye(3)[:, [0, 0, 1, 2]]], ids=["prefix", "range", "id"]
)
def test_every_baseline_costs_what_it_may_and_is_no_better_than_the_optimum(W):
    workload = rs.explicit(rs.Domain({"x": rs.Integers(0, W.shape[1] - 1)}), W)
    plans = baselines(workload, rs.GDP(mu=1.0))
    assert len(plans) == 4
    for plan in plans.values():
        variances = plan.variances(workload)
        assert plan.pcost <= 1.0
        assert variances.max() >= least_privacy(W, tolerance=1e-6).bound * (1 - 1e-6)
        assert variances.sum() >= least_total(W, tolerance=1e-6).bound * (1 - 1e-6)


def test_the_best_branching_is_chosen():
    """Every tree is tried: none is better than the one that is kept, and for prefixes it beats noise on cells."""
    W, n = prefixes(64), 64
    workload = rs.explicit(rs.Domain({"x": rs.Integers(0, n - 1)}), W)
    plans = baselines(workload, rs.GDP(mu=1.0))
    losses = {}
    for b in range(2, 17):
        counts = [1]
        while counts[-1] < n:
            counts.append(min(counts[-1] * b, n))
        S = np.vstack([np.arange(n) * k // n == np.arange(k)[:, None] for k in counts]) / np.sqrt(len(counts))
        losses[f"hierarchical, branching {b}"] = ((W @ np.linalg.pinv(S)) ** 2).sum()
    best = min(losses, key=losses.get)
    assert plans[best].variances(workload).sum() == pytest.approx(losses[best], rel=1e-3)
    assert losses[best] < plans["identity"].variances(workload).sum()


DOMAIN = rs.Domain.of_sizes({"a": 4, "b": 3, "c": 2})
MARGINALS = rs.marginals(DOMAIN, ways=[1, 2])
ASKED = {
    "marginals": MARGINALS,
    "products": rs.product(DOMAIN, {"a": "prefixes"}, ways=[1, 2]),
    "explicit": rs.explicit(rs.Domain.of_sizes({"x": 8}), prefixes(8)),
}
MADE = ["on_cells", "hierarchical", "haar", "regularised", "kronecker_template", "marginal_template"]


@pytest.mark.parametrize("guarantee", [rs.GDP(mu=1.0), rs.PureDP(epsilon=1.0)], ids=["normal", "laplace"])
@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("name", MADE)
def test_every_baseline_is_priced_as_the_verifier_does_and_answers_all(name, kind, guarantee):
    """Within the budget and near it, every query answered; no better than what no mechanism goes below."""
    workload, make = ASKED[kind], getattr(rs.analysis, name)
    if (name == "marginal_template" and kind != "marginals") or (name == "kronecker_template" and kind == "explicit"):
        with pytest.raises(PlanError, match="template is for marginals"):
            make(workload, guarantee)
        return
    plan = make(workload, guarantee)
    _, cost = priced(plan)
    assert 1 - 1e-6 <= cost <= 1
    laplace = isinstance(guarantee, rs.PureDP)
    variances = plan.variances(workload)
    assert np.isfinite(variances).all()
    least = rs.analysis.factorisation_norm(workload.listed(), tolerance=1e-6) ** 2 * workload.queries
    assert variances.sum() >= (2 if laplace else 1) * least * (1 - 2e-6)
    if laplace:  # Proposition 4 of the matrix mechanism, from the integers; tables are pooled elsewhere
        assert plan.unit_epsilon <= 1.0


def test_templates_lie_between_independent_noise_and_the_optimum():
    budget = rs.GDP(mu=1.0)
    marginals, kronecker = (make(MARGINALS, budget).total_variance(MARGINALS) for make in (
        rs.analysis.marginal_template, rs.analysis.kronecker_template,
    ))  # fmt: skip
    best, plain = (make(MARGINALS, budget).total_variance(MARGINALS) for make in (rs.plan, rs.independent))
    assert best < marginals < plain
    assert best < kronecker < rs.analysis.on_cells(MARGINALS, budget).total_variance(MARGINALS)


def test_a_kronecker_template_of_one_product_is_the_crossed_optimum():
    """One product of prefixes and values: the best strategies of the attributes, crossed, are the best of all."""
    asked = rs.product(rs.Domain.of_sizes({"a": 5, "b": 3}), {"a": "prefixes"}, ways=2)
    plan = rs.analysis.kronecker_template(asked, rs.GDP(mu=1.0))
    assert plan.total_variance(asked) == pytest.approx(least_total(prefixes(5), tolerance=1e-8).achieved * 3, rel=1e-5)


def test_singular_values_bound_every_mechanism_and_are_met_by_marginals():
    bound = rs.analysis.singular_value_bound
    assert bound(MARGINALS) == pytest.approx(bound(MARGINALS.listed()), rel=1e-9)
    assert bound(MARGINALS) == pytest.approx(rs.plan(MARGINALS, rs.GDP(mu=1.0)).total_variance(MARGINALS), rel=1e-9)
    assert bound(ASKED["explicit"]) < least_total(prefixes(8), tolerance=1e-8).bound


def test_least_sensitivity_keeps_the_profile():
    haar = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]], dtype=float)
    profile = np.linalg.inv(haar.T @ haar)
    found = rs.analysis.least_sensitivity(profile)
    np.testing.assert_allclose(np.linalg.inv(found.T @ found), profile, atol=1e-9)
    assert np.abs(found).sum(axis=0).max() <= 2.2098  # 2.210 is printed
    for wrong in (np.ones((2, 3)), np.ones((2, 2)), [[1.0, 0.5], [0.0, 1.0]]):
        with pytest.raises(PlanError, match="profile must be"):
            rs.analysis.least_sensitivity(wrong)


def test_thresholds_and_the_exponential_mechanism():
    totals, right = np.arange(1, 101), np.repeat([0, 1, 2], [30, 50, 20])
    cuts = rs.analysis.thresholds(totals, right)
    assert cuts.tolist() == [31, 81]
    assert (rs.analysis.counts_between(totals, cuts) == right).all()
    likely = rs.analysis.choice_probabilities([[3.0, 1.0, 0.0], [5.0, 5.0, 5.0]], epsilon=2.0, sensitivity=0.5)
    assert likely.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert likely[1] == pytest.approx([1 / 3] * 3)
    assert likely[0, 0] / likely[0, 1] == pytest.approx(np.exp(2.0 * 2.0 / (2 * 0.5)))
    for bad in (0.0, float("inf"), -1.0):
        with pytest.raises(PlanError, match="must be positive"):
            rs.analysis.choice_probabilities([1.0], epsilon=bad)
    with pytest.raises(PlanError, match="one number for each group"):
        rs.analysis.thresholds([1, 2], [0])
    with pytest.raises(PlanError, match="branching"):
        rs.analysis.hierarchical(MARGINALS, rs.GDP(1.0), 1)
    with pytest.raises(PlanError, match="regulariser"):
        rs.analysis.regularised(MARGINALS, rs.GDP(1.0), 0.0)
    with pytest.raises(PlanError, match="4,096 are the most"):
        rs.analysis.on_cells(rs.marginals(rs.Domain.of_sizes([100, 100]), ways=1), rs.GDP(1.0))
