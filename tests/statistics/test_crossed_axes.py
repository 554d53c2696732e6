"""2,000 releases of prefixes of 300 values crossed with three others: means, variances and covariances as stated,
rounded noise of the exact distribution, and neighbours that cannot be told apart better than claimed."""

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, norm

import residua as rs
from residua.noise.correlated import rounded_ordered
from residua.noise.normals import Normals
from residua.plans.verifier import priced
from residua.privacy import delta_of
from tests.statistics.copies import measured

RELEASES = 2_000
ALARM = 1e-6


def estimated(plan, measurements, found):
    """Estimates of many releases: they are linear in the measurements, so the reading is asked once per integer."""
    estimator = plan.estimator(measurements, found[0])
    unit = np.eye(measurements.cells)
    linear = [replace(estimator, noisy=row).marginal((0, 1)).ravel() for row in unit]
    assert estimator.marginal((0, 1)).ravel() == pytest.approx(found[0] @ np.array(linear))
    return found @ np.array(linear)


def crossed(n, weight):
    """Prefixes of n values by three regions, and the regions with some weight."""
    domain = rs.Domain({"minute": rs.Integers(0, n - 1), "region": ["a", "b", "c"]})
    workload = rs.prefixes(domain, "minute", by=["region"]) + weight * rs.marginals(domain, [("region",)])
    return rs.plan(workload, rs.GDP(1.0), form=rs.Axis())


@pytest.fixture(scope="module")
def plan():
    return crossed(300, 50)


@pytest.fixture(scope="module")
def tables(plan):
    """The errors of the estimated tables of 2,000 releases, (releases, minutes, regions)."""
    x = np.random.default_rng(0).integers(0, 30, (300, 3))
    measurements = plan.compile()
    return estimated(plan, measurements, measured(measurements, x, RELEASES)).reshape(RELEASES, 300, 3) - x


def test_prefixes_and_ranges_are_as_stated(plan, tables):
    rng = np.random.default_rng(1)
    sums = np.concatenate([np.zeros((RELEASES, 1, 3)), tables.cumsum(axis=1)], axis=1)
    picked = []  # prefixes and ranges of regions, and the tables without the axis
    for _ in range(60):
        first, last = np.sort(rng.choice(301, 2, replace=False))
        row = np.zeros((300, 3))
        row[(0 if rng.random() < 0.5 else first) : last, rng.integers(0, 3)] = 1.0
        picked.append(row)
    picked += [np.ones((300, 3)) * (np.arange(3) == k) for k in range(3)]
    answers = tables.reshape(RELEASES, -1) @ np.array([row.ravel() for row in picked]).T
    assert sums[:, -1, 0] == pytest.approx(answers[:, 60])
    domain = plan.domain
    listed = rs.explicit(domain, np.array([row.ravel() for row in picked]))
    stated = plan.covariance(listed)
    # mᵀ C⁻¹ m · N is chi-square; so is the trace of (S C⁻¹ − I)², nearly, with one degree of freedom per pair.
    values, U = np.linalg.eigh(stated)
    kept = values > 1e-9 * values.max()
    whitened = answers @ (U[:, kept] / np.sqrt(values[kept]))
    k = int(kept.sum())
    assert RELEASES * (whitened.mean(axis=0) ** 2).sum() < chi2.isf(ALARM, k)
    second = whitened.T @ whitened / RELEASES - np.eye(k)
    pairs = k * (k + 1) // 2
    distance = RELEASES * (second[np.triu_indices(k, 1)] ** 2).sum() + RELEASES * (np.diag(second) ** 2).sum() / 2
    assert distance < chi2.isf(ALARM, pairs) * 1.1
    assert distance > chi2.ppf(ALARM, pairs) * 0.9
    variances = answers.var(axis=0) / np.diag(stated)
    assert np.abs(variances - 1).max() < -NormalDist().inv_cdf(ALARM / 126) * math.sqrt(2 / RELEASES)


def test_rounded_correlated_noise_has_the_exact_distribution(plan):
    measurements = plan.compile()
    (noise,) = measurements.sampled(next(iter(measurements.along)))
    draws = rounded_ordered(noise, 1, 3_000)[:, [40, 250]]  # on the coarsest grid, where rounding shows
    for column, place in zip(draws.T, (40, 250), strict=True):
        deviation = np.sqrt(noise.variances()[0][place])
        edges = np.arange(-4, 6) - 0.5
        expected = np.diff(norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) / deviation)) * len(column)
        found = np.bincount(np.searchsorted(edges, column), minlength=len(expected))
        assert chisquare(found, expected).pvalue > ALARM


def breach(plan, runs):
    """How many standard errors the likelihood-ratio attack beats the claimed curve by, over a grid of ε."""
    mu = math.sqrt(priced(plan)[1])
    _, rows = plan.over_cells()
    gamma = rows.T @ rows
    cell = int(np.diag(gamma).argmax())
    shape = tuple(int(n) for n in plan.domain.sizes)
    added = np.zeros(math.prod(shape), dtype=np.int64)
    added[cell] = 1
    x, measurements = np.full(shape, 5), plan.compile()

    def scores(table):
        return (
            estimated(plan, measurements, measured(measurements, table, runs)) @ gamma[:, cell]
        )  # what is released tells no more than its estimates do

    more, fewer = scores(x + added.reshape(shape)), scores(x)
    middle = float(x.ravel() @ gamma[:, cell]) + gamma[cell, cell] / 2
    worst = -np.inf
    for p_scores, q_scores, sign in ((more, fewer, 1), (fewer, more, -1)):
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            p = (sign * (p_scores - middle) > epsilon).mean()
            q = (sign * (q_scores - middle) > epsilon).mean()
            p0, q0 = (NormalDist().cdf(half - epsilon / mu) for half in (mu / 2, -mu / 2))
            error = math.sqrt((p0 * (1 - p0) + math.exp(2 * epsilon) * q0 * (1 - q0)) / runs)
            worst = max(worst, (p - math.exp(epsilon) * q - delta_of(mu, epsilon)) / error)
    return worst


@pytest.fixture(scope="module")
def small():
    return crossed(24, 5)  # 300 values by `python -m benchmarks.axis_audit`


def test_neighbours_cannot_be_told_apart_better_than_claimed(small):
    found = breach(small, 10_000)
    assert found < -NormalDist().inv_cdf(ALARM / 8)
    assert found > -6  # nor is the claim loose


def test_half_the_noise_along_the_axis_is_caught(small, monkeypatch):
    normals = Normals.floats
    monkeypatch.setattr(Normals, "floats", lambda self, part: tuple(each / 2 for each in normals(self, part)))
    assert breach(small, 3_000) > 8
