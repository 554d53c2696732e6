"""Projection of tables with long axes, in running sums and waves: that with matrices, where that can be, in passes."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import isotonic_regression

import residua as rs
from residua.domain.facts import Fact
from residua.projection import problems, products
from residua.projection.axes import CosineBasis, PrefixSums
from residua.projection.axis_kernels import NO_ZEROS, nearest_rising
from residua.projection.problem import Terms
from residua.projection.products import PlainProblem

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
    apart = problem.squared(first.array - second.array)
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
    again = problem.solve(fit.array)
    np.testing.assert_allclose(again.array, fit.array, atol=1e-7)
    assert again.gap == 0.0


@pytest.mark.parametrize("floor", [0.0, 2.0])
def test_the_nearest_sums_that_do_not_fall_are_the_isotonic_regression(floor):
    random = np.random.default_rng(3)
    w, even = random.standard_normal((2, 3, 7, 2)).cumsum(axis=2), random.random((1, 3, 7, 2))
    found = nearest_rising(w, NO_ZEROS, even, floor, 2.5)
    order, weights = np.r_[1:7, 0], np.r_[np.ones(6), 2.5]
    for t, a, b in np.ndindex(2, 3, 2):
        lowest = floor * even[0, a, order, b]
        wanted = np.maximum(isotonic_regression(w[t, a, order, b] - lowest, weights=weights).x, 0.0) + lowest
        np.testing.assert_allclose(found[t, a, order, b], wanted, atol=1e-12)


@pytest.mark.parametrize("axis", [PrefixSums(6), PrefixSums(6, last=3.0), CosineBasis(6), CosineBasis(1)])
def test_coordinates_of_an_axis_are_as_long_as_its_running_sums(axis):
    n, random = axis.size, np.random.default_rng(0)
    x, g = random.standard_normal((2, n, 3)), random.standard_normal((2, n, 3))
    coordinates = np.concatenate([x.sum(axis=1, keepdims=True), axis.own(x, 1)], axis=1)
    np.testing.assert_allclose(axis.lifted(coordinates, 1), x)
    assert (axis.lowered(g, 1) * coordinates).sum() == pytest.approx((g * x).sum())
    np.testing.assert_allclose((axis.own(x, 1) ** 2).sum(axis=1), (x.cumsum(axis=1)[:, :-1] ** 2).sum(axis=1))
    kept = axis.lifted(np.eye(n), 0) if isinstance(axis, CosineBasis) else np.eye(n)
    gram, diagonal = kept.T @ np.diag(axis.cell_weights) @ kept, np.r_[axis.total_length, axis.lengths]
    assert np.linalg.eigvalsh((1 + axis.crossing) * np.diag(diagonal) - gram).min() >= -1e-12
    assert max(np.linalg.norm(axis.own(each, 0)) for each in np.eye(n)) == pytest.approx(axis.longest)


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


def test_structural_zeros_beside_a_long_axis_are_exactly_zero(tmp_path, monkeypatch):
    monkeypatch.setattr(products, "_LONGEST", 30)
    rules = [{"minute": rs.between(5, 14), "sex": "f"}, {"minute": [0, 39], "sex": "m"}]
    domain = rs.Domain({"minute": DOMAIN["minute"], "sex": ["f", "m"]}, impossible=rules)
    ranges = rs.product(domain, {"minute": "ranges", "sex": "identity"}) + rs.marginals(domain, [("sex",)])
    plan = rs.plan(ranges, rs.GDP(1.0), form=rs.Axis(), tolerance=0.1)
    data = pa.table({"minute": [20] * 60 + [30] * 40, "sex": ["f", "m"] * 50})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", rs.GDP(1.0)))
    projected = rs.project(release, simulations=0)
    assert isinstance(problems.problem_of(plan, projected.terms).long[0], PrefixSums)
    table = projected.estimates(["minute", "sex"])
    assert (table[5:15, 0] == 0).all()
    assert (table[[0, 39], 1] == 0).all()
    assert table.min() >= 0
    assert table.sum() == pytest.approx(float(projected.estimates([])))
    assert projected.gap <= 1e-6 * max(projected.distance, 1.0)
