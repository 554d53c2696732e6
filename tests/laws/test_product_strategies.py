"""One attribute's strategies: the best for their problem, whatever rows are asked, and found in sight of the user."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import WorkloadError
from residua.plans.solver.attribute import SETTLED, Search, best_cells, weighed_gram
from tests.laws.product_plans import all_cells, dense_variances


def settled(A, B, rounds=300):
    search = Search(B)
    for _ in range(rounds):
        found = search.strategy()
        if search.advance(A, B) <= SETTLED:
            return found
    raise AssertionError("the search does not settle")


def loss_of(A, B, R):
    """`vᵀ A v + tr(B K)` of some rows of full rank, scaled to a largest column norm of 1."""
    R = R / np.sqrt((R**2).sum(axis=0).max())
    inverse = np.linalg.inv(np.vstack([np.ones(R.shape[1]), R]))
    v, F = inverse[:, 0], inverse[:, 1:]
    return v @ A @ v + np.trace(B @ F @ F.T)


def grams(seed, n):
    rng = np.random.default_rng(seed)
    W = np.vstack([rng.integers(0, 2, (n, n)), np.eye(n)])
    A = W.T @ W
    W = rng.standard_normal((n + 2, n))
    return A * rng.uniform(0.1, 10.0), W.T @ W + np.eye(n)


@given(st.integers(0, 10**6), st.integers(2, 7), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_small_change_of_a_strategy_makes_it_better(seed, n, mixed):
    A, B = grams(seed, n)
    if not mixed:
        A = B * 3.0
    found = settled(A, B)
    inverse = np.linalg.inv(np.vstack([np.ones(n), found.rows]))
    np.testing.assert_allclose(found.spread, inverse[:, 0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.inverse, inverse[:, 1:] @ inverse[:, 1:].T, rtol=1e-6, atol=1e-8)
    loss = loss_of(A, B, found.rows)
    rng = np.random.default_rng(seed)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            assert loss_of(A, B, found.rows + size * rng.standard_normal(found.rows.shape)) >= loss * (1 - 1e-5)


@given(st.integers(0, 10**6), st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_weights_on_values_prove_a_strategy_best_for_its_spread(seed, n):
    A, B = grams(seed, n)
    found = settled(A, B)
    best = np.sqrt(np.maximum(np.linalg.eigvalsh(weighed_gram(B, found.spread, found.cells)), 0)).sum() ** 2
    reached = np.trace(B @ found.inverse)
    assert best <= reached * (1 + 1e-9)
    assert best >= reached * (1 - 1e-4)
    cells = best_cells(B, found.spread, np.full(n, 1 / n))
    again = np.sqrt(np.maximum(np.linalg.eigvalsh(weighed_gram(B, found.spread, cells)), 0)).sum() ** 2
    assert best * (1 - 1e-4) <= again <= reached * (1 + 1e-9)


@pytest.mark.parametrize(
    "rows",
    [[[1, -1, 0, 0, 0]], [[1, 1, 1, 1, 1]], [[-1, -1, -1, 2, 1]], [[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]],
)
@pytest.mark.parametrize("over", [None, "queries", "terms"])
def test_rows_that_hardly_see_the_spread_are_answered_all_the_same(rows, over):
    """`wᵀv = 0` would leave the total without any noise, and rounding would then ask for it."""
    domain = rs.Domain.of_sizes({"a": 5, "b": 3})
    minimise = None if over is None else rs.MaxVariance(over=over)
    for workload in (rs.product(domain, {"a": rows}), rs.product(domain, {"a": rows, "b": "prefixes"})):
        plan = rs.plan(workload, rs.GDP(1.0), minimise=minimise)
        W = rs.explicit(domain, workload).over((0, 1)).toarray()
        assert plan.variances(workload) == pytest.approx(dense_variances(plan, W), rel=1e-6)
        if over is None:
            assert plan.gap < 1e-3


CONTRASTS = [[-1, 0, -1, 2]], [[0, 1, 1, -2]], [[2, 2, -1, -3]], [[2, 1, 2, -5]], [[1, -1, 0, 0], [2, 2, 0, -4]]


@pytest.mark.parametrize("objective", [rs.TotalVariance(), rs.MaxVariance(), rs.MaxVariance(over="terms")], ids=str)
@pytest.mark.parametrize("values", [1, 2, 3])
@pytest.mark.parametrize("rows", CONTRASTS, ids=str)
def test_rows_that_add_up_to_nothing_are_planned_beside_any_others(rows, values, objective):
    """An accelerated step, each entry of the spread cut off for itself, ended in a spread that adds up to 0."""
    domain = rs.Domain.of_sizes({"a": values, "b": 1, "c": 4})
    workload = rs.product(domain, {"a": "ranges", "b": "ranges", "c": rows}, ways=[0, 1, 2], weight=0.1)
    plan = rs.plan(workload, rs.ZCDP(0.5), form=rs.Lattice(), minimise=objective)
    assert plan.variances(workload) == pytest.approx(dense_variances(plan, all_cells(workload)), rel=1e-6)
    assert plan.gap < 2e-3


@pytest.mark.parametrize("rows", CONTRASTS, ids=str)
@pytest.mark.parametrize("worth", [1e-3, 1.0, 1e3])
def test_a_spread_adds_up_to_one_in_every_round(rows, worth):
    W = np.array(rows, dtype=float)
    total, rest = worth * (np.ones((4, 4)) + W.T @ W), np.ones((4, 4)) + W.T @ W
    search = Search(rest)
    for i in range(60):
        search.advance(total, rest * (1 + 0.1 * (i % 3)))  # what others make it worth changes on the way
        assert search.v.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.abs(search.v).max() < 10


def test_a_row_of_zeros_is_refused_by_name():
    domain = rs.Domain.of_sizes({"a": 3, "b": 1})
    for name, rows in {"a": [[1, -1, 0], [0, 0, 0]], "b": [[1], [0]]}.items():
        with pytest.raises(WorkloadError, match=f"row 1 of the matrix for '{name}' is zero; leave it out"):
            rs.product(domain, {name: rows})


@pytest.mark.parametrize("weight", [0.01, 0.3, 5.0])
def test_terms_on_one_attribute_are_proven_best_however_they_are_mixed(weight):
    """A sum of different Gram matrices is bounded as it is, not part by part (which left gaps of 10 %)."""
    domain = rs.Domain.of_sizes({"a": 9, "b": 2})
    mixed = rs.prefixes(domain, "a") + weight * rs.ranges(domain, "a") + rs.marginals(domain, [("a",)])
    assert rs.plan(mixed, rs.GDP(1.0)).gap < 1e-4
    both = rs.product(domain, {"a": "prefixes"}, ways=[1, 2]) + weight * rs.ranges(domain, "a", by=["b"])
    assert rs.plan(both, rs.GDP(1.0)).gap < 0.01


def test_long_searches_tell_that_they_go_on():
    told = []
    rs.plan(
        rs.prefixes(rs.Domain.of_sizes({"a": 120}), "a"),
        rs.GDP(1.0),
        progress=lambda rounds, gap: told.append((rounds, gap)),
    )
    assert [rounds for rounds, _ in told] == list(range(1, len(told) + 1))
    assert len(told) > 5
    assert all(gap == np.inf for _, gap in told)  # nothing is proven before the strategies are chosen
