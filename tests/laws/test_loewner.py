"""The numerics under the algebra: ranks and intersections of ill-conditioned mechanisms, and certificates."""

import cvxpy as cp
import numpy as np
import pytest

from residua.plans.matrix import loewner
from residua.plans.matrix.algebra import covariances, intersection, least_above, least_above_two, rows_of, shared_space
from residua.plans.matrix.integers import integer_rows
from residua.plans.matrix.loewner import stack, standardise
from tests.laws.dense import recreate


def orthonormal(rng, rows, cells):
    return np.linalg.qr(rng.normal(size=(cells, rows)))[0].T


def mechanism(rng, space, decades):
    """Rows that span a space, with strengths over some decades, mixed."""
    strengths = 10.0 ** -np.linspace(0, decades, len(space))
    return orthonormal(rng, len(space), len(space)) @ (strengths[:, None] * space)


@pytest.mark.parametrize("decades", [0, 3, 6, 9])
@pytest.mark.parametrize("seed", range(3))
def test_rank_decisions_hold_for_ill_conditioned_rows(seed, decades):
    rng = np.random.default_rng(seed)
    Q = orthonormal(rng, 12, 20)
    first, second = (standardise(mechanism(rng, space, decades)) for space in (Q[:8], Q[4:12]))
    assert (first.rank, second.rank) == (8, 8)
    shared = shared_space([first, second])
    # Weak directions are known to 1e-16 over their strength: beyond SINE_TOLERANCE they are no longer told apart.
    assert len(shared) == 4
    assert np.linalg.norm(shared - shared @ Q[4:8].T @ Q[4:8], 2) < 1e-15 * 10 ** (decades + 2)
    Sigma = least_above_two(*covariances([first, second], shared))
    common = rows_of(shared, Sigma)
    common = common / np.sqrt(max(1.0, *(loewner.gain(one, common) for one in (first, second))))
    assert all(loewner.answers(one, common) for one in (first, second))
    for one in (first, second):
        left = loewner.remainder(one, common)
        both = standardise(np.vstack([common, left]))
        assert loewner.answers(both, one.rows)
        assert loewner.answers(one, both.rows)
        assert loewner.answers(one, both.rows)


@pytest.mark.parametrize(("angle", "shared"), [(1e-2, 3), (1e-5, 3), (1e-6, 3), (1e-9, 4), (0.0, 4)])
def test_sines_tell_apart_what_cosines_cannot(angle, shared):
    # cos(1e-5) is 1 − 5e-11: an eigenvalue test on cosines calls these directions equal.
    rng = np.random.default_rng(1)
    Q = orthonormal(rng, 9, 14)
    turned = np.cos(angle) * Q[3] + np.sin(angle) * Q[8]
    assert len(intersection(Q[:5], np.vstack([Q[:3], turned, Q[6:8]]))) == shared


def test_a_weak_direction_is_not_lost_to_a_tolerance():
    # Precision 1e-8 of the strongest: absolute tolerances on Γ would call it nothing.
    plan = standardise(np.diag([1.0, 1e-4]))
    given = np.array([[1.0, 0.0]])
    left = loewner.remainder(plan, given)
    assert np.allclose(left.T @ left, np.diag([0.0, 1e-8]), atol=1e-16)
    assert not loewner.answers(standardise(given), plan.rows)
    assert loewner.answers(plan, given)
    for way in loewner.lacking(plan, given)[:1]:
        assert np.allclose(way.T @ way, np.diag([0.0, 1e-8]), atol=1e-16)


def test_measurements_that_mix_in_unknown_queries_say_nothing_alone():
    wanted, have = standardise(np.array([[1.0, 0.0]])), np.array([[1.0, 1.0]])
    within, least = loewner.lacking(wanted, have)
    assert np.allclose(within.T @ within, [[1.0, 0.0], [0.0, 0.0]])
    for way in (within, least):
        assert np.linalg.eigvalsh(have.T @ have + way.T @ way - np.diag([1.0, 0.0]))[0] >= -1e-12
    assert np.trace(least.T @ least) <= np.trace(within.T @ within)


@pytest.mark.parametrize("seed", range(4))
def test_the_certificate_of_three_or_more_holds_and_the_trace_is_the_solvers(seed):
    rng = np.random.default_rng(seed)
    size, count = (3, 5, 8, 6)[seed], (3, 3, 4, 6)[seed]
    matrices = [X @ X.T / size + 0.1 * np.eye(size) for X in rng.normal(size=(count, size, size))]
    found = least_above(matrices, 1e-7)
    assert found.gap <= 1e-7
    assert all(np.linalg.eigvalsh(found.covariance - S)[0] >= -1e-12 for S in matrices)
    above = cp.Variable((size, size), symmetric=True)
    problem = cp.Problem(cp.Minimize(cp.trace(above)), [above - S >> 0 for S in matrices])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    assert found.bound <= problem.value * (1 + 1e-6)
    assert np.trace(found.covariance) == pytest.approx(problem.value, rel=1e-6)
    rounds = []
    stopped = least_above(matrices, 1e-15, lambda *at: rounds.append(at), limit=30)
    assert stopped.iterations == 30
    assert stopped.bound <= problem.value * (1 + 1e-6) <= np.trace(stopped.covariance) * (1 + 2e-6)
    assert [at for at, _ in rounds] == [10, 20, 30]


def test_dominated_candidates_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 4))
    S = X @ X.T + np.eye(4)
    found = least_above([S, 0.5 * S, 0.9 * S, S])
    assert found.iterations == 0
    assert np.array_equal(found.covariance, S)


def test_the_basis_is_a_choice_when_the_difference_is_indefinite():
    # Turning an orthonormal basis changes nothing; stretching coordinates gives another maximal common part.
    first, second = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[1.5, 0.4], [0.4, 1.6]])
    c, s = np.cos(0.7), np.sin(0.7)
    turn, stretch = np.array([[c, -s], [s, c]]), np.diag([1.0, 5.0])
    plain = least_above_two(first, second)
    turned = turn.T @ least_above_two(turn @ first @ turn.T, turn @ second @ turn.T) @ turn
    assert np.allclose(turned, plain, atol=1e-14)
    back = np.linalg.inv(stretch)
    other = back @ least_above_two(stretch @ first @ stretch, stretch @ second @ stretch) @ back
    assert all(np.linalg.eigvalsh(other - S)[0] > -1e-12 for S in (first, second))
    assert np.linalg.eigvalsh(other - plain)[0] < -1e-3 < 1e-3 < np.linalg.eigvalsh(other - plain)[1]


@pytest.mark.parametrize("seed", range(5))
def test_recreation_has_the_targets_mean_and_covariance(seed):
    rng = np.random.default_rng(seed)
    target, root = rng.normal(size=(4, 7)), rng.normal(size=(4, 4))
    covariance = root @ root.T + np.eye(4)
    plan = standardise(np.linalg.solve(np.linalg.cholesky(covariance), target))
    look = 0.6 * plan.rows[:2] + 0.1 * plan.rows[2:]
    left = loewner.remainder(plan, look)
    parts = [(look, np.eye(2)), (left, np.eye(len(left)))]
    matrices = recreate(target, covariance, parts)
    mean = sum(A @ rows for A, (rows, _) in zip(matrices, parts, strict=True))
    assert np.allclose(mean, target, atol=1e-10)
    assert np.allclose(sum(A @ A.T for A in matrices), covariance, atol=1e-10)  # rows of full rank: no noise is lost
    pooled = stack([look, left])
    x = rng.normal(size=7)
    assert np.allclose(pooled.coordinates(np.concatenate([look @ x, left @ x])) @ pooled.space @ target.T, target @ x)


def test_whole_numbers_are_recognised_and_never_invented():
    rng = np.random.default_rng(0)
    for _ in range(30):
        rows = rng.integers(-2, 3, (3, 7))
        found = integer_rows(rows.astype(float) + 0.0)
        if found is None:
            continue
        assert np.linalg.matrix_rank(np.vstack([found, rows])) == np.linalg.matrix_rank(rows) == len(found)
    assert integer_rows(rng.normal(size=(3, 7))) is None
    assert integer_rows(np.array([[1.0, np.sqrt(2.0)]])) is None
