"""Projection of tables with long axes, in running sums: the projection with matrices where that can be, in passes."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import isotonic_regression

import residua as rs
from residua.errors import PlanError
from residua.projection import problems
from residua.projection.crossed_tables import PlainProblem
from residua.projection.facts import Fact
from residua.projection.problem import Terms
from residua.projection.running import Running
from residua.projection.running_kernels import nearest_rising

SIZES = {"minute": 40, "day": 24, "region": 3, "sex": 2}
DOMAIN = rs.Domain(
    {"minute": rs.Integers(0, 39), "day": rs.Integers(0, 23), "region": ["a", "b", "c"], "sex": ["f", "m"]}
)
ASKED = {
    "one table": [("minute", "region", "sex"), ("minute",), ("region", "sex")],
    "two tables": [("minute", "region"), ("minute", "sex"), ("region", "sex")],
    "two axes apart": [("minute", "region"), ("day", "sex"), ("region", "sex")],
    "two axes crossed": [("minute", "day"), ("minute", "sex")],
}


def observed_of(kind, seed=0):
    """A plan for prefixes along the axes, and what a release of few records would observe."""
    names = {name for each in ASKED[kind] for name in each}
    domain = rs.Domain({name: DOMAIN[name] for name in SIZES if name in names})
    ways = {name: "prefixes" if name in ("minute", "day") else "identity" for name in domain.names}
    workload = rs.product(domain, ways, sets=ASKED[kind])
    axes = tuple(name for name in ("minute", "day") if name in names)
    plan = rs.plan(workload, rs.GDP(1.0), form=rs.Axis(axes))
    random = np.random.default_rng(seed)
    counts = random.poisson(80 / np.prod(domain.sizes), domain.sizes)
    problem = PlainProblem(
        plan, Terms(facts=(Fact((), np.asarray(float(counts.sum()))),), metric="plain", tolerance=1e-7), 0
    )
    truth = np.empty(problem.layout.cells)
    for group in problem.layout:
        for k, members in enumerate(group.members.tolist()):
            table = counts.sum(axis=tuple(i for i in range(counts.ndim) if i not in members)).astype(float)
            for axis in range(table.ndim):
                table = table - table.mean(axis=axis, keepdims=True)
            group.view(truth)[k] = table
    fit = problem.fit_of(truth, 0.0, 0.0)
    return problem, problem.simulated(fit, random)


@pytest.mark.parametrize("kind", ["one table", "two tables", "two axes apart"])
def test_in_running_sums_it_is_the_projection_with_matrices(kind):
    problem, observed = observed_of(kind)
    dense = dataclasses.replace(problem, longest=4096)
    assert problem.long
    assert not dense.long
    first, second = problem.solve(observed), dense.solve(observed)
    assert problem.moved(observed, first) == pytest.approx(dense.moved(observed, first), rel=1e-9)
    assert problem.size(first) == pytest.approx(dense.size(first), rel=1e-9)
    assert problem.cells == dense.cells
    assert problem.noise_sums == pytest.approx(dense.noise_sums, rel=1e-6)
    assert problem.error(first, second) == pytest.approx(dense.error(first, second))
    best = max(problem.moved(observed, first) - first.gap, dense.moved(observed, second) - second.gap)
    assert problem.moved(observed, first) <= best + 1e-6 * best
    assert problem.moved(observed, second) >= problem.moved(observed, first) - first.gap - 1e-9 * best
    # Strongly convex: two points whose distances differ by δ from the least are at most 2 √δ apart in the metric.
    apart = problem._squared(first.residuals, second.residuals)
    assert apart <= 4.1 * (first.gap + second.gap) + 1e-6


@pytest.mark.parametrize("kind", sorted(ASKED))
def test_counts_are_not_negative_tables_add_up_and_projecting_again_changes_nothing(kind):
    problem, observed = observed_of(kind, seed=1)
    raw, fit = problem.unprojected(observed), problem.solve(observed)
    largest = [problem.lattice.members(int(k)) for k in np.flatnonzero(problem.lattice.is_maximal)]
    assert min(raw.marginal(members).min() for members in largest) < -0.5  # there is something to do
    for members in largest:
        assert fit.marginal(members).min() >= -1e-9
        for other in largest:
            shared = tuple(i for i in members if i in other)
            table = fit.marginal(members).sum(axis=tuple(k for k, i in enumerate(members) if i not in other))
            np.testing.assert_allclose(table, fit.marginal(shared), atol=1e-8)
    assert float(fit.marginal(())) == pytest.approx(float(problem.terms.facts[0].values), rel=1e-12)
    again = problem.solve(fit.residuals)
    np.testing.assert_allclose(again.residuals, fit.residuals, atol=1e-7)
    assert again.gap == 0.0


def test_a_gap_that_was_not_reached_is_still_a_proof_where_two_axes_are_crossed():
    """Along the second axis steps are cautious: few rounds leave a gap, which must be true."""
    problem, observed = observed_of("two axes crossed")
    assert sorted(axis.second for axis in problem.long.values()) == [False, True]
    fit = problem.solve(observed)
    best = dataclasses.replace(problem, longest=4096).solve(observed)
    moved, least = problem.moved(observed, fit), problem.moved(observed, best)
    assert moved - fit.gap <= least * (1 + 1e-9)
    assert least - best.gap <= moved * (1 + 1e-9)


@pytest.mark.parametrize("floor", [0.0, 2.0])
def test_the_nearest_sums_that_do_not_fall_are_the_isotonic_regression(floor):
    random = np.random.default_rng(3)
    w, even = random.standard_normal((2, 3, 7, 2)).cumsum(axis=2), random.random((3, 7, 2))
    found = nearest_rising(w, even, floor)
    order = np.r_[1:7, 0]
    for t, a, b in np.ndindex(2, 3, 2):
        lowest = floor * even[a, order, b]
        wanted = np.maximum(isotonic_regression(w[t, a, order, b] - lowest).x, 0.0) + lowest
        np.testing.assert_allclose(found[t, a, order, b], wanted, atol=1e-12)


@pytest.mark.parametrize("second", [False, True])
def test_coordinates_of_an_axis_are_its_running_sums(second):
    axis, x = Running(6, second), np.random.default_rng(0).standard_normal((2, 6, 3))
    coordinates = np.concatenate([x.sum(axis=1, keepdims=True), axis.own(x, 1)], axis=1)
    np.testing.assert_allclose(axis.lifted(coordinates, 1), x)
    g = np.random.default_rng(1).standard_normal((2, 6, 3))
    assert (axis.lowered(g, 1) * coordinates).sum() == pytest.approx((g * x).sum())
    up = axis.lifted(np.eye(6), 0)
    gram, diagonal = (up.T @ up, np.r_[1.0, axis.lengths]) if second else (np.eye(6), np.r_[1.0, axis.lengths])
    assert np.linalg.eigvalsh((1 + axis.crossing) * np.diag(diagonal) - gram).min() >= -1e-12
    assert max(np.linalg.norm(axis.own(each, 0)) for each in np.eye(6)) == pytest.approx(axis.longest)


def test_a_release_with_a_long_axis_is_projected_saved_and_read(tmp_path):
    """5,000 minutes by sex, with all ranges asked: more than is written out as a matrix."""
    domain = rs.Domain({"minute": rs.Integers(0, 4999), "sex": ["f", "m"]})
    workload = rs.product(domain, {"minute": "ranges", "sex": "identity"}) + rs.marginals(domain, [("sex",)])
    plan = rs.plan(workload, rs.GDP(1.0), tolerance=0.01)
    random = np.random.default_rng(0)
    data = pa.table(
        {"minute": random.integers(0, 5000, 3000), "sex": pa.array(["f", "m"]).take(random.integers(0, 2, 3000))}
    )
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", rs.GDP(1.0)))
    projected = rs.project(release, known={("sex",): [1600, 1500]}, simulations=0)
    table = projected.estimates(["minute", "sex"])
    assert table.min() >= 0
    np.testing.assert_allclose(table.sum(axis=0), [1600, 1500], atol=1e-6)
    assert projected.gap <= 1e-6 * projected.distance
    assert projected.bound is not None
    projected.save(tmp_path / "saved")
    np.testing.assert_array_equal(rs.Projected.load(tmp_path / "saved").estimates(["minute", "sex"]), table)


def test_structural_zeros_beside_a_long_axis_are_refused(monkeypatch):
    monkeypatch.setattr(problems, "_LONGEST", 30)
    domain = rs.Domain({"minute": DOMAIN["minute"], "sex": ["f", "m"]}, impossible=[{"minute": 3, "sex": "f"}])
    plan = rs.plan(rs.prefixes(domain, "minute", by=["sex"]), rs.GDP(1.0), form=rs.Axis())
    with pytest.raises(PlanError, match="structural zeros"):
        problems.problem_of(plan, Terms(metric="plain"))
