"""Releases of blockwise plans and of plans by group: stated covariances, and no attack beats the claimed privacy.

Through the door's own measuring function and noise. Each test's false-alarm rate is below one in a million.
"""

import importlib
import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import chi2

import residua as rs
from residua.noise import rounded_normal
from residua.plans.verifier import priced
from residua.privacy import delta_of
from tests.statistics.copies import measured, tables_of, unlike

RUNS, ATTACKS = 20_000, 100_000
ALARM = 1e-6
door = importlib.import_module("residua.measurement.noisy")
DOMAIN = rs.Domain({"a": rs.Integers(0, 2), "b": rs.Integers(0, 2), "c": ["x", "y"]})
X = np.random.default_rng(1).integers(0, 30, (3, 3, 2))


def blockwise():
    asked = rs.queries(DOMAIN, ["a < b", "a = b", "b = 2 and c = 'x'"]) + rs.prefixes(DOMAIN, "a")
    return rs.plan(asked, rs.GDP(1.0), form=rs.Blockwise())


def by_group():
    one = rs.plan(rs.marginals(DOMAIN, [("a",), ("b",)]), rs.GDP(1.0))
    tied = rs.plan(rs.queries(DOMAIN, ["a < b", "a = b", "a = 0"]), rs.GDP(1.0), form=rs.Blockwise())
    return rs.by_group({"one": one, "tied": tied}, by=["c"], chosen={"x": "one", "y": "tied"})


@pytest.fixture(scope="module", params=[blockwise, by_group], ids=["blockwise", "by group"])
def plan(request):
    return request.param()


def without_noise(measurements, x):
    """What is measured of a table, and the noise scale of each number."""
    tables, found, scales = tables_of(measurements, x), np.zeros(measurements.cells), np.zeros(measurements.cells)
    for batch in measurements.batches():
        exact = measurements.integers(batch, tables.copy())
        measurements.store(batch, exact, found)
        measurements.store(batch, np.broadcast_to(np.asarray(batch.scales)[:, None], exact.shape), scales)
    return found, scales


def answered(plan):
    """Queries that are answered, as the workload and as rows over all cells."""
    if plan.workload is not None:
        return plan.workload
    return rs.queries(DOMAIN, ["a < b and c = 'y'", "a = 1 and c = 'x'", "b >= 1 and c = 'x'", "c = 'y'", "a = 0"])


def test_answers_have_the_covariances_stated(plan):
    measurements, asked = plan.compile(), answered(plan)
    unit = np.eye(measurements.cells, dtype=np.int64)
    linear = np.array([plan.estimator(measurements, row).answers(asked)[0] for row in unit])  # answers are linear
    estimator = plan.estimator(measurements, unit[0])
    draws = measured(measurements, X, RUNS) @ linear - asked.over((0, 1, 2)) @ X.ravel()
    stated = estimator.plan.covariance(asked)
    few = np.linalg.qr(stated, mode="r").diagonal()  # some queries are sums of others
    kept = np.abs(few) > 1e-6 * np.abs(few).max()
    distance, freedom = unlike(draws[:, kept], stated[np.ix_(kept, kept)])
    assert kept.sum() >= 4
    assert distance < chi2.isf(ALARM / 2, freedom) * 1.02  # kurtosis of rounded noise: next to nothing
    mean = draws.mean(axis=0) / np.sqrt(np.diag(stated) / RUNS)
    assert np.abs(mean).max() < -NormalDist().inv_cdf(ALARM / 4 / len(mean))
    assert np.diag(stated) == pytest.approx(plan.variances(asked), rel=1e-6)


def worst_breach(plan):
    """How many standard errors the best attack beats the claimed curve by, one record more in the costliest cell."""
    measurements, cost = priced(plan)
    mu, found = math.sqrt(cost), []
    for place in range(X.size):
        added = np.zeros(X.size, dtype=np.int64)
        added[place] = 1
        moved, scales = without_noise(measurements, added.reshape(X.shape))
        found.append((float(((moved / scales) ** 2).sum()), place, moved / scales**2))
    most, place, direction = max(found, key=lambda one: one[0])
    assert most == pytest.approx(float(cost), rel=1e-9)  # some record costs what is claimed
    added = np.zeros(X.size, dtype=np.int64)
    added[place] = 1
    with_it, without = (measured(measurements, x, ATTACKS) @ direction for x in (X + added.reshape(X.shape), X))
    middle = (with_it.mean() + without.mean()) / 2
    worst = -np.inf
    for p_scores, q_scores, sign in ((with_it, without, 1), (without, with_it, -1)):
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            p = (sign * (p_scores - middle) > epsilon).mean()
            q = (sign * (q_scores - middle) > epsilon).mean()
            p0, q0 = (NormalDist().cdf(half - epsilon / mu) for half in (mu / 2, -mu / 2))
            error = math.sqrt((p0 * (1 - p0) + math.exp(2 * epsilon) * q0 * (1 - q0)) / ATTACKS)
            worst = max(worst, (p - math.exp(epsilon) * q - delta_of(mu, epsilon)) / error)
    return worst


def test_the_best_attack_does_not_beat_the_claim(plan):
    breach = worst_breach(plan)
    assert breach < -NormalDist().inv_cdf(ALARM / 8)
    assert breach > -6  # nor is the claim loose: the attack comes up to it


def test_less_noise_is_caught(monkeypatch):
    monkeypatch.setitem(door._DRAWN_BY, "normal", lambda s, n, **k: rounded_normal(np.asarray(s) * 0.8, n, **k))
    assert worst_breach(by_group()) > 10
