"""Product releases have the variances, covariances and coverage that were promised, and no more privacy loss.

Through the door's own measuring function and the release's own estimates, from plans with strategies of their own.
Every statistic is compared with its own sampling error; each test's false-alarm rate is below one in a million.
"""

import importlib
import math
from statistics import NormalDist

import numpy as np
import pytest

import residua as rs
from residua.noise import rounded_normal
from residua.plans.tails import width
from residua.plans.verifier import priced
from residua.privacy import delta_of
from residua.release import Release
from tests.laws.product_plans import block_matrix, gamma
from tests.statistics.copies import measured

RELEASES = 1_500
ATTACKS = 100_000
ALARM = 1e-6
door = importlib.import_module("residua.measurement.noisy")
X = np.array([[40, 3], [0, 12], [7, 7], [25, 1]])


def errors_allowed(comparisons):
    """Standard errors that none of so many normal statistics exceeds, but for one run in a million."""
    return -NormalDist().inv_cdf(ALARM / comparisons / 2)


@pytest.fixture(scope="module")
def plan():
    halves = {"half": {"lower": [0, 1], "upper": [2, 3]}}
    domain = rs.Domain({"age": rs.Integers(0, 3, levels=halves), "sex": ["F", "M"]})
    workload = rs.prefixes(domain, "age", by=["sex"]) + rs.hierarchy(domain, "age")
    return rs.plan(workload, rs.GDP(mu=1.0))


def counted(layout):
    """What a source would count of X."""
    tables = [X.sum(axis=tuple({0, 1} - set(row.tolist()))).ravel() for g in layout for row in g.members]
    return np.concatenate(tables).astype(np.int64)


@pytest.fixture(scope="module")
def sampled(plan):
    """1,500 releases: answers to everything asked, (releases, queries), with one of the releases."""
    measurements = plan.compile()
    draws = []
    for _ in range(RELEASES):
        release = Release(plan, measurements, door.noisy(measurements, counted, None))
        marginal = release.estimator.marginal((0, 1))
        draws.append(marginal.ravel())
    W = plan.workload.listed().over((0, 1)).toarray()
    return release, np.array(draws) @ W.T, W @ X.ravel(), W


def test_estimates_are_unbiased(sampled):
    release, draws, truth, _ = sampled
    sigma = np.sqrt(release.plan.variances(release.planned.workload))
    assert (abs(draws.mean(axis=0) - truth) / (sigma / math.sqrt(RELEASES))).max() < errors_allowed(len(truth))


def test_variances_and_covariances_are_those_of_the_plan(sampled):
    release, draws, truth, W = sampled
    plan = release.plan
    planned = np.empty((len(W), len(W)))
    for i, first in enumerate(W):
        for j, second in enumerate(W[: i + 1]):
            plus = plan.combination_variance({("age", "sex"): (first + second).reshape(4, 2)})
            minus = plan.combination_variance({("age", "sex"): (first - second).reshape(4, 2)}) if i != j else 0.0
            planned[i, j] = planned[j, i] = (plus - minus) / 4
    np.testing.assert_allclose(np.diag(planned), plan.variances(plan.workload), rtol=1e-9)
    found = (draws - truth).T @ (draws - truth) / RELEASES
    v = np.diag(planned)
    error = np.sqrt((np.outer(v, v) + planned**2) / RELEASES)
    # Products of normal numbers are skewed: a fifth more than the normal number of standard errors.
    assert (abs(found - planned) / error).max() < 1.2 * errors_allowed(len(W) ** 2)


def test_intervals_cover_as_often_as_they_say(sampled):
    release, draws, truth, _ = sampled
    sigma = np.sqrt(release.plan.variances(release.planned.workload))
    for confidence in (0.5, 0.95, 0.99):
        covered = (abs(draws - truth) <= width(confidence) * sigma).mean(axis=0)
        error = math.sqrt(confidence * (1 - confidence) / RELEASES)
        # Misses at 99 % are few, their number is skewed: a fifth more.
        assert (abs(covered - confidence) / error).max() < 1.2 * errors_allowed(3 * len(truth))


def test_a_plan_that_states_too_little_variance_is_caught(sampled):
    """The tests above have teeth: three tenths off would show."""
    release, draws, truth, _ = sampled
    v = release.plan.variances(release.planned.workload) * 0.7
    found = ((draws - truth) ** 2).mean(axis=0)
    assert (abs(found - v) / (v * math.sqrt(2 / RELEASES))).max() > 1.2 * errors_allowed(len(truth))


def scores(plan, x, added):
    """The likelihood-ratio score of many releases from the table x: `Σ y · (t R e) / s²` over all blocks."""
    measurements = plan.compile()
    direction = np.empty(measurements.cells)
    rows = list(plan.lattice)
    for number, t, s in zip(measurements.measured, measurements.grids, measurements.scales, strict=True):
        e = block_matrix(plan, rows[number], scaled=False) @ added.ravel()
        start = measurements.layout.starts[number]
        direction[start : start + len(e)] = e * float(t) / s**2
    return measured(measurements, x, ATTACKS) @ direction


def worst_breach(plan):
    """How many standard errors the best attack beats the claimed curve by, over a grid of ε, both ways round."""
    mu = math.sqrt(priced(plan)[1])
    worst = -np.inf
    heaviest = np.unravel_index(int(np.argmax(profile(plan))), X.shape)
    added = np.zeros_like(X)
    added[heaviest] = 1
    more, fewer = scores(plan, X + added, added), scores(plan, X, added)
    middle = (more.mean() + fewer.mean()) / 2
    for p_scores, q_scores, sign in ((more, fewer, 1), (fewer, more, -1)):
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            p = (sign * (p_scores - middle) > epsilon).mean()
            q = (sign * (q_scores - middle) > epsilon).mean()
            p0, q0 = (NormalDist().cdf(half - epsilon / mu) for half in (mu / 2, -mu / 2))
            error = math.sqrt((p0 * (1 - p0) + math.exp(2 * epsilon) * q0 * (1 - q0)) / ATTACKS)
            worst = max(worst, (p - math.exp(epsilon) * q - delta_of(mu, epsilon)) / error)
    return worst


def profile(plan):
    """What each cell costs."""
    return np.diag(gamma(plan))


def test_the_best_attack_does_not_beat_the_claim(plan):
    breach = worst_breach(plan)
    assert breach < -NormalDist().inv_cdf(ALARM / 8)
    assert breach > -6  # nor is the claim loose: on the dearest cell the attack comes up to it


def test_half_the_noise_is_caught(plan, monkeypatch):
    monkeypatch.setitem(door._DRAWN_BY, "normal", lambda scale, size: rounded_normal(np.asarray(scale) / 2, size))
    assert worst_breach(plan) > 20
