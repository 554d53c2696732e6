"""The pieces of Newton's and the interior-point method against finite differences and against each other."""

import numpy as np
import pytest

from benchmarks.paper.workloads import age_pyramid, pl94, prefixes, published_ranges, random_ranges
from residua.errors import PlanError
from residua.plans.solver import level
from residua.plans.solver.dense_response import (
    CholeskySystem,
    ConjugateGradientSystem,
    Responder,
    curvature,
    kernel_root,
)
from residua.plans.solver.queries import MatrixQueries, prepare


def state(W, seed=0):
    rng = np.random.default_rng(seed)
    problem = prepare(W, np.ones(len(W)))
    m, d = problem.queries.shape
    return problem, Responder(problem.queries, problem.rank), rng.uniform(0.5, 2, m), rng.uniform(0.5, 2, d)


WORKLOADS = {"prefixes": prefixes(6), "rank-deficient": random_ranges(7, 3)[:9], "wide": random_ranges(9, 1)[:4]}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_response_is_what_it_says(name):
    """y·x = p·v = f; S F = I; X⁻ answers every query; df/dy = x/2 and df/dp = v/2."""
    problem, responder, p, y = state(WORKLOADS[name])
    W = problem.queries.matrix
    response = responder.respond(p, y)
    x, v, f = response.costs, response.variances(problem.queries), response.value
    assert y @ x == pytest.approx(f, rel=1e-12)
    assert p @ v == pytest.approx(f, rel=1e-12)
    assert f == pytest.approx(np.linalg.svd(np.sqrt(p)[:, None] * W * np.sqrt(y), compute_uv=False).sum(), rel=1e-12)
    S, F = response.strategy, response.recovery
    np.testing.assert_allclose(S @ F, np.eye(problem.rank), atol=1e-12)
    np.testing.assert_allclose(W @ F @ S, W, atol=1e-11)
    np.testing.assert_allclose((S**2).sum(axis=0), x, rtol=1e-11)
    np.testing.assert_allclose(v, np.diagonal(W @ np.linalg.pinv(S.T @ S) @ W.T), rtol=1e-9)
    h = 1e-6
    for i in range(len(y)):
        step = h * (np.arange(len(y)) == i)
        slope = (responder.respond(p, y + step).value - responder.respond(p, y - step).value) / (2 * h)
        assert slope == pytest.approx(x[i] / 2, rel=1e-6)
    for j in range(len(p)):
        step = h * (np.arange(len(p)) == j)
        slope = (responder.respond(p + step, y).value - responder.respond(p - step, y).value) / (2 * h)
        assert slope == pytest.approx(v[j] / 2, rel=1e-6)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_gram_matrix_and_the_matrix_itself_agree(name):
    problem, responder, p, y = state(WORKLOADS[name])
    squared = responder.respond(p, y)
    responder.squared = False
    direct = responder.respond(p, y)
    np.testing.assert_allclose(squared.costs, direct.costs, rtol=1e-9)
    np.testing.assert_allclose(squared.variances(problem.queries), direct.variances(problem.queries), rtol=1e-9)


def test_an_ill_conditioned_gram_matrix_is_abandoned():
    _, responder, p, y = state(np.vander(np.linspace(0, 1, 12), 10))
    responder.respond(p, y)
    assert not responder.squared


@pytest.mark.parametrize("name", WORKLOADS)
def test_curvature_is_the_derivative_of_costs_and_variances(name):
    """[y dx; p dv] = −K [dlog y; dlog p], by finite differences; and K is positive semidefinite."""
    problem, responder, p, y = state(WORKLOADS[name])
    W, d = problem.queries.matrix, len(y)
    response = responder.respond(p, y)
    Z = np.sqrt(p)[:, None] * (W @ response.recovery) / np.sqrt(response.values)
    rows, s = np.vstack([response.basis, Z]), response.values
    T = np.multiply.outer(s, s) / np.add.outer(s, s)
    K = np.einsum("kl,ak,al,bk,bl->ab", T, rows, rows, rows, rows)
    K[:d, d:] *= -1
    K[d:, :d] *= -1

    def levels(e):
        at = responder.respond(p * np.exp(e[d:]), y * np.exp(e[:d]))
        return np.concatenate([at.costs, at.variances(problem.queries)])

    weights, h = np.concatenate([y, p]), 1e-5
    for k in range(len(weights)):
        e = h * (np.arange(len(weights)) == k)
        moved = weights * (levels(e) - levels(-e)) / (2 * h)
        np.testing.assert_allclose(moved, -K[:, k], atol=1e-7 * np.abs(K).max())
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()
    np.testing.assert_allclose(K @ np.ones(len(K)), 0.0, atol=1e-10 * np.abs(K).max())  # the null vector (1, 1)
    approximate = curvature(rows, s, d)
    assert np.abs(approximate - np.tril(K)).max() <= 0.05 * np.abs(K).max()


def test_the_kernel_is_met_on_its_diagonal():
    s = np.logspace(-5, 3, 200)
    G = kernel_root(s, 1e-2)
    kernel = np.sqrt(np.multiply.outer(s, s)) / np.add.outer(s, s)
    assert np.abs(kernel - G @ G.T).max() <= 1e-2 + 1e-12
    assert G.shape[1] < 20
    np.testing.assert_allclose(kernel_root(s[:5], 1e-14) @ kernel_root(s[:5], 1e-14).T, kernel[:5, :5], atol=1e-10)


def test_conjugate_gradients_and_cholesky_solve_the_same_system():
    problem, responder, p, y = state(random_ranges(8, 3))
    assert isinstance(problem.queries, MatrixQueries)
    y = y / y.sum()
    response, d = responder.respond(p, y), len(y)
    damping = np.random.default_rng(1).uniform(0.1, 1, len(y) + len(p))
    a = np.concatenate([y, np.zeros(len(p))])
    free = ConjugateGradientSystem(problem.queries, response, p, damping, a)
    matrix = np.column_stack([free.apply(column) for column in np.eye(len(a))])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10 * np.abs(matrix).max())
    Z = np.sqrt(p)[:, None] * (problem.queries.matrix @ response.recovery) / np.sqrt(response.values)
    K = curvature(np.vstack([response.basis, Z]), response.values, d)
    dense = K + np.tril(K, -1).T + np.diag(damping) + response.value * np.outer(a, a)
    np.testing.assert_allclose(dense, matrix, atol=0.05 * np.abs(matrix).max())
    np.testing.assert_allclose(np.diagonal(matrix), free.diagonal, rtol=0.1)
    right = np.random.default_rng(2).normal(size=len(a))
    np.testing.assert_allclose(
        CholeskySystem(K, damping, a, response.value).solve(right), np.linalg.solve(dense, right)
    )
    solved = free.solve(right)
    assert np.linalg.norm(matrix @ solved - right) <= 0.05 * np.linalg.norm(right)


def test_a_hopeless_system_is_refused():
    with pytest.raises(PlanError, match="lost all its digits"):
        CholeskySystem(np.array([[1.0, 5.0], [5.0, 1.0]]), np.ones(2), None, 1.0)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_turned_mechanism_follows_the_weights_to_first_order(name):
    """Turned by h e it has the levels of the response at θ exp(h e), up to h²; and what it claims is what it has."""
    problem, responder, p, y = state(WORKLOADS[name])
    d = len(y)
    theta = np.concatenate([y / y.sum(), p / p.sum()])
    e = np.random.default_rng(4).normal(size=len(theta))

    def at(weights):
        return level.round_of(problem.queries, responder, weights)

    here, response = at(theta), responder.respond(theta[d:], theta[:d])
    np.testing.assert_allclose(here.f * here.levels[:d], response.costs, rtol=1e-10)
    np.testing.assert_allclose(here.f * here.levels[d:], response.variances(problem.queries), rtol=1e-10)
    misses = []
    for h in (1e-2, 1e-3):
        root = here.turn(h * e)
        levels, product = here.turned(root)
        turned = here.f * levels
        assert product == pytest.approx(turned[:d].max() * turned[d:].max())
        S = root.T @ response.strategy
        W = problem.queries.matrix
        np.testing.assert_allclose(turned[:d], (S**2).sum(axis=0), rtol=1e-10)
        np.testing.assert_allclose(turned[d:], np.diagonal(W @ np.linalg.pinv(S.T @ S, rcond=1e-10) @ W.T), rtol=1e-8)
        there = at(theta * np.exp(h * e))
        misses.append(np.abs(turned - there.f * there.levels).max())
    assert misses[1] < 0.02 * misses[0]
    assert misses[0] < 0.01 * here.f


FEW = {
    "prefixes": (prefixes(64), 1.0, 2, 3),
    "ranges": (random_ranges(64), 1.0, 4, 8),
    "ranges with targets": (*published_ranges(64, True), 5, 9),
    "PL94": (*pl94(), 5, 7),
    "age pyramid": (*age_pyramid(), 5, 7),
}


@pytest.mark.parametrize("name", FEW)
def test_newton_needs_few_rounds(name):
    """What makes the solver fast: rounds to 1e-3 and to 1e-6, as measured (one more where it was close)."""
    W, c, coarse, fine = FEW[name]
    problem = prepare(W, np.full(len(W), 1.0) / np.sqrt(c))
    for tolerance, most in ((1e-3, coarse), (1e-6, fine)):
        found = level.fit(problem, tolerance, 30)
        assert found.gap <= tolerance
        assert found.rounds <= most


@pytest.mark.parametrize("seed", [0, 1, 23, 51])
def test_newton_arrives_from_any_start(seed, monkeypatch):
    """From weights over six decades, where early steps go too far: the next ones bring them back."""
    W = random_ranges(12, seed)
    start = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, sum(W.shape))
    monkeypatch.setattr(level, "norms", lambda matrix: start[: sum(matrix.shape)])
    found = level.fit(prepare(W, np.ones(len(W))), 1e-6, 100)
    assert found.gap <= 1e-6
