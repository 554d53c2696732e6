"""Laws of the search for Laplace strategies: hierarchies, descent over orthants, identity plus a few."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from residua.linalg.intervals import Intervals
from residua.plans.search.search import _loss as identity_plus_loss, descended, identity_plus, strategy_of
from residua.plans.search.strategies import Judged, hierarchy, level_counts, partition, sensitivity
from residua.plans.solver.queries import MatrixQueries


@pytest.mark.parametrize(("cells", "branching"), [(3, 2), (7, 2), (13, 3), (16, 4), (20, 20), (20, 7), (50, 2)])
def test_levels_are_nested_partitions(cells, branching):
    parts = [partition(cells, nodes) for nodes in level_counts(cells, branching)]
    for part in parts:
        assert (part.sum(axis=0) == 1).all()
        assert part.any(axis=1).all()
    for coarse, fine in pairwise(parts):
        assert ((coarse @ fine.T > 0).sum(axis=0) == 1).all()
    assert np.array_equal(hierarchy(cells, branching), np.vstack(parts))


def test_descent_stops_at_the_kinks():
    """The least `½‖x − y‖² + Σ t|x|` is y moved towards 0 by t, in closed form."""
    rng = np.random.default_rng(1)
    y, t = rng.normal(size=30), rng.random(30)

    def loss(x):
        return 1 + float(0.5 * ((x - y) ** 2).sum() + t @ np.abs(x)), x - y, t

    value, x = descended(loss, rng.normal(size=30), 1e-14, 200, 100.0)
    best = np.sign(y) * np.maximum(np.abs(y) - t, 0)
    np.testing.assert_allclose(x, best, atol=1e-6)
    assert ((x == 0) == (best == 0)).all()
    assert value == pytest.approx(loss(best)[0])
    _, capped = descended(loss, np.zeros(30), 1e-14, 200, 0.25)
    np.testing.assert_allclose(capped, np.clip(best, -0.25, 0.25), atol=1e-6)


@pytest.mark.parametrize("worst", [False, True])
def test_the_derivatives_of_identity_plus(worst):
    rng = np.random.default_rng(3)
    W, theta, step = rng.normal(size=(9, 7)), rng.normal(size=(3, 7)), 1e-6
    asked = Judged(MatrixQueries(W), worst)
    value, slope, toll = identity_plus_loss(asked, theta, 6.0)
    if not worst:
        assert value == pytest.approx(asked.loss(strategy_of(theta)))
    for k, i in ((0, 0), (1, 3), (2, 5)):
        up, down = theta.copy(), theta.copy()
        up[k, i] += step
        down[k, i] -= step
        numeric = (identity_plus_loss(asked, up, 6.0)[0] - identity_plus_loss(asked, down, 6.0)[0]) / (2 * step)
        assert slope[k, i] + np.sign(theta[k, i]) * toll[i] == pytest.approx(numeric, rel=1e-4)


@pytest.mark.parametrize(
    ("n", "kind", "known"), [(12, "prefix", 3.3503), (16, "prefix", 3.6368), (32, "range", 4.4990)]
)
def test_identity_plus_does_not_hang_on_rounding(n, kind, known):
    """The same workload with its last bits changed: the same error to 1e-3, and no worse than known."""
    queries = Intervals.every(n) if kind == "range" else MatrixQueries(np.tril(np.ones((n, n))))
    asked = Judged(queries, False)
    for seed in range(3):
        noise = 1e-13 * np.random.default_rng(seed).standard_normal((n, n))
        shaken = Judged(queries, False)
        shaken.__dict__["gram"] = asked.gram * (1 + noise + noise.T)
        found = asked.loss(identity_plus(shaken))
        assert math.sqrt(2 * found / queries.shape[0]) <= known * (1 + 1e-3)


def test_identity_plus_is_never_worse_than_identity():
    rng = np.random.default_rng(8)
    for n in (1, 2, 9):
        for W in (rng.normal(size=(n + 2, n)), np.ones((1, n)) + np.eye(n), np.eye(n)):
            for worst in (False, True):
                asked = Judged(MatrixQueries(W), worst)
                A = identity_plus(asked)
                assert sensitivity(A) == pytest.approx(1)
                assert asked.loss(A) <= asked.loss(np.eye(n)) * (1 + 1e-9)
