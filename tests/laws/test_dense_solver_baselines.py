"""Baselines: within the budget, honest variances, and never better than the optimum."""

import numpy as np
import pytest

import residua as rs
from residua.analysis import baselines
from residua.plans.solver.solve import least_privacy, least_total
from tests.papers.workloads import prefixes, random_ranges


@pytest.mark.parametrize(
    "W", [prefixes(12), random_ranges(10, 1), np.eye(3)[:, [0, 0, 1, 2]]], ids=["prefix", "range", "id"]
)
def test_every_baseline_costs_what_it_may_and_is_no_better_than_the_optimum(W):
    workload = rs.explicit(rs.Domain({"x": rs.Integers(0, W.shape[1] - 1)}), W)
    plans = baselines(workload, rs.GDP(mu=1.0))
    assert len(plans) == 3
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
