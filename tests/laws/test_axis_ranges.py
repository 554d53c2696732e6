"""The largest variance of all ranges of a long axis: bounds that hold, against matrices and the dense optimum."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.linalg.path import OrderedNoise, Path, cell_starts, ends_path
from residua.linalg.roots import InverseRoot, reciprocal_of
from residua.plans import ProductPlan
from residua.plans.solver.ranges import least_range
from tests.laws.test_axis import covariance_of, gram_of, noises


def range_variances(sigma):
    """The variance of the range between any two running sums, from that of nothing on, (n + 1, n + 1)."""
    n = len(sigma)
    running = np.tril(np.ones((n + 1, n)), -1)
    K = running @ sigma @ running.T
    return np.diag(K)[:, None] + np.diag(K) - 2 * K


def best_largest(n, rounds=400):
    """Bounds of the least largest variance × pcost of a range, by the dense fixed point over weights of every range."""
    running, pairs = np.tril(np.ones((n + 1, n)), -1), np.triu_indices(n + 1, 1)
    rows = running[pairs[1]] - running[pairs[0]]
    w, q, low, high = np.full(len(rows), 1 / len(rows)), np.full(n, 1 / n), 0.0, np.inf
    for _ in range(rounds):
        s = np.sqrt(q)
        values, U = np.linalg.eigh(s[:, None] * (rows.T * w @ rows) * s)
        roots = np.sqrt(np.maximum(values, 1e-200))
        f = roots.sum()
        costs = ((U * roots) * U).sum(axis=1) / (q * f)
        sigma = f * s[:, None] * ((U / roots) @ U.T) * s
        variances = range_variances(sigma)[pairs]
        low, high = max(low, f**2), min(high, variances.max() * costs.max())
        q, w = q * costs**1.9, w * (variances / f**2) ** 3
        q, w = q / q.sum(), w / w.sum()
    return low, high


@given(noises(), st.integers(4, 40))
@settings(max_examples=80, deadline=None)
def test_no_range_has_more_than_its_cells_say(noise, cells):
    exact = range_variances(covariance_of(noise)).max(axis=1)
    alone, starts = noise.largest_ranges()
    assert alone == pytest.approx(exact, rel=1e-7)
    assert len(starts) == noise.queries.size + 1
    bounds, starts = noise.largest_ranges(cells)
    assert (bounds >= np.maximum.reduceat(exact, starts) * (1 - 1e-9)).all()
    some, starts = noise.largest_ranges(cells, alone=True)
    assert (some <= exact[starts] * (1 + 1e-7)).all()


@given(st.integers(2, 10**7), st.integers(4, 4096))
@settings(max_examples=60, deadline=None)
def test_cells_hold_every_running_sum(nodes, cells):
    starts = cell_starts(nodes, cells)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert starts[-1] < nodes
    assert len(starts) <= max(cells, nodes if nodes <= cells else 0)


def test_weights_of_ends_are_those_of_ranges():
    ends = np.random.default_rng(0).uniform(0.2, 2, 8)
    first, last = np.triu_indices(8, 1)
    rows = ((np.arange(7) >= first[:, None]) & (np.arange(7) < last[:, None])).astype(float)
    assert gram_of(ends_path(ends)) == pytest.approx(rows.T * (ends[first] * ends[last]) @ rows)


def test_reciprocals_of_sums_of_poles():
    root = InverseRoot(np.array([0.1, 0.5, 7.0]), np.array([0.3, 1.0, 2.0]), 0.0)
    constant, slope, zeros, weights = reciprocal_of(root.poles, root.weights)
    x = np.geomspace(1e-3, 1e3, 20)
    found = constant + slope * x + (weights * x[:, None] / (x[:, None] + zeros)).sum(axis=1)
    assert found * root(x) == pytest.approx(np.ones(20), rel=1e-9)


@pytest.mark.parametrize("n", [2, 8, 21, 48])
def test_the_bound_is_below_the_dense_optimum_and_close(n):
    low, high = best_largest(n)
    found = least_range(n, tolerance=1e-3)
    assert high <= low * 1.002
    assert found <= high
    assert found >= low * (0.985 if n > 30 else 0.93)


def test_a_leak_that_takes_away_is_a_path_all_the_same():
    """The even half of the bound: the passes along a path with a negative conductance are those of its matrix."""
    path = Path(1 / np.array([0.2, 0.3, 0.1]), -1 / 1.8, 1 / 0.2)
    gram = gram_of(path)
    assert np.linalg.eigvalsh(gram).min() > 0
    q = np.array([0.1, 0.2, 0.1, 0.1])
    noise = OrderedNoise(path, q, np.array([0.01, 0.3]), np.array([1.0, 2.0]))
    sums = np.tril(np.ones((4, 4)))
    K = sums @ covariance_of(noise) @ sums.T
    row = np.array([0.2, 0.3, 0.1, 0.2])
    assert noise.variances()[0] == pytest.approx(np.diag(K))
    assert noise.combined_with_all(row) == pytest.approx(K @ row)
    assert path.gram_diagonal == pytest.approx(np.diag(gram))


@pytest.mark.parametrize("n", [20, 48])
def test_plans_are_nearly_as_good_as_the_dense_optimum_and_the_gap_is_true(n):
    domain = rs.Domain({"day": rs.Integers(0, n - 1)})
    ranges = rs.ranges(domain, "day")
    plan = rs.plan(ranges, rs.GDP(1.0), minimise=rs.MaxVariance(), form=rs.Axis())
    assert isinstance(plan, ProductPlan)
    assert plan.cost <= 1.0
    low, high = best_largest(n)
    ours = plan.variances(ranges).max()
    assert ours / (1 + plan.gap) <= low * (1 + 1e-9)
    assert ours <= high * 1.02
    assert plan.gap <= 0.03


def test_targets_of_all_ranges_and_of_kinds_are_met():
    domain = rs.Domain({"day": rs.Integers(0, 39)})
    ranges, prefixes = rs.ranges(domain, "day"), rs.prefixes(domain, "day")
    plan = rs.plan(ranges, targets=9.0, form=rs.Axis())
    assert 8.9 < plan.variances(ranges).max() <= 9.0
    both = rs.plan(ranges + prefixes, targets=[9.0] * ranges.queries + [2.0] * 40, form=rs.Axis())
    assert both.variances(ranges).max() <= 9.0
    assert both.variances(prefixes).max() <= 2.0
    assert both.gap >= 0


def test_long_axes_get_it_by_themselves_are_saved_measured_and_read(tmp_path):
    domain = rs.Domain({"minute": rs.Integers(0, 1_499)})
    ranges = rs.ranges(domain, "minute")
    plan = rs.plan(ranges, rs.GDP(1.0), minimise=rs.MaxVariance())
    assert isinstance(plan, ProductPlan)
    assert plan.gap < 0.015
    plan.save(tmp_path / "plan.json")
    loaded = rs.Plan.load(tmp_path / "plan.json")
    assert loaded.correlated.strategy == plan.correlated.strategy
    sums = loaded.variances(rs.prefixes(domain, "minute"))
    assert plan.correlated.factor * plan.correlated.strategy.noise.largest_ranges()[0].max() >= sums.max() * (1 - 1e-4)
    data = pa.table({"minute": np.repeat(np.arange(1_500), 3)})
    release = rs.measure(loaded, data, ledger=rs.Ledger(tmp_path / "l", rs.GDP(1.0)))
    found = release.count({"minute": rs.between(100, 1_400)})
    assert abs(float(found.estimate) - 3 * 1_301) < 6 * 4.0


def test_the_largest_variances_are_shown_of_every_term():
    """Of all ranges no less than the largest of them, and hardly more; of prefixes the largest itself."""
    domain = rs.Domain({"a": rs.Integers(0, 499)})
    asked = rs.ranges(domain, "a"), rs.prefixes(domain, "a")
    plan = rs.plan(asked[0] + asked[1], rs.GDP(1.0), form=rs.Axis(), minimise=rs.MaxVariance())
    ranges, prefixes = (float(plan.variances(each).max()) for each in asked)
    found = plan.largest_variances(asked[0] + asked[1])
    assert ranges * (1 - 1e-9) <= found[0] <= 1.001 * ranges
    assert found[1] == pytest.approx(prefixes)
    assert f"{np.sqrt(found[0]):,.3f}" in str(plan)
