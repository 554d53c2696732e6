"""Releases have the variances, covariances and coverage that were promised: 20,000 of them, through the real noise.

Every statistic is compared with its own sampling error; each test's false-alarm rate is below one in a million
(a union bound over the comparisons it makes, each at its stated number of standard errors).
"""

import math
from statistics import NormalDist

import numpy as np
import pytest

import residua as rs
from residua.linalg.lattice import layout_of, rebuild
from tests.statistics.copies import measured

RELEASES = 20_000
ALARM = 1e-6


def errors_allowed(comparisons: int) -> float:
    """Standard errors that none of so many normal statistics exceeds, but for one run in a million."""
    return -NormalDist().inv_cdf(ALARM / comparisons / 2)


@pytest.fixture(scope="module")
def sampled():
    """20,000 releases of one plan on one small dataset: estimates of a 3-way marginal, (releases, cells)."""
    domain = rs.Domain.of_sizes({"a": 2, "b": 3, "c": 2})
    workload = rs.marginals(domain, ways=[1, 2, 3]) + 5 * rs.marginals(domain, [("b",)])
    plan = rs.plan(workload, rs.ZCDP(rho=0.5))
    measurements = plan.compile()
    x = np.arange(12).reshape(2, 3, 2) * 7 + 3
    return plan, x, _estimates(measurements, x)


def _estimates(measurements, x):
    """What 20,000 releases estimate: the door's own noise and the release's own rebuilding, on copies at once."""
    lower, starts = np.empty(0), {}
    integers = measured(measurements, x, RELEASES)
    for size in range(4):
        found, places, at = [], {}, 0
        for group in (g for g in measurements.layout if len(g.shape) == size):
            for number, members in zip(group.numbers, group.members, strict=True):
                block = int(np.flatnonzero(measurements.measured == number)[0])
                start = measurements.layout.starts[number]
                copies = integers[:, start : start + group.cells].reshape(RELEASES, *group.shape)
                facets = [starts[tuple(np.delete(members, j))] for j in range(size)]
                facets = np.stack(facets, axis=1) if size else np.empty((RELEASES, 0), dtype=np.int64)
                out = np.empty(copies.shape)
                rebuild(copies, np.full(RELEASES, 1.0 / measurements.units[block]), lower, facets, out)
                places[tuple(members)] = at + group.cells * np.arange(RELEASES)
                at += out.size
                found.append(out.ravel())
        lower, starts = np.concatenate(found), places
    return lower.reshape(RELEASES, 12)


def marginal_map(names):
    """The matrix that sums the 3-way cells down to a marginal's cells."""
    sizes = {"a": 2, "b": 3, "c": 2}
    rows = np.ones((1, 1))
    for name, n in sizes.items():
        rows = np.kron(rows, np.eye(n) if name in names else np.ones((1, n)))
    return rows


def test_estimates_are_unbiased(sampled):
    plan, x, draws = sampled
    sigma = np.sqrt(plan.variance(("a", "b", "c"))).ravel()
    z = (draws.mean(axis=0) - x.ravel()) / (sigma / math.sqrt(RELEASES))
    assert abs(z).max() < errors_allowed(12)


def test_variances_and_covariances_are_those_of_the_plan(sampled):
    plan, x, draws = sampled
    for first in ((), ("a",), ("b",), ("a", "c"), ("a", "b", "c")):
        for second in ((), ("b",), ("b", "c"), ("a", "b", "c")):
            p = (draws - x.ravel()) @ marginal_map(first).T
            q = (draws - x.ravel()) @ marginal_map(second).T
            found = p.T @ q / RELEASES
            planned = plan.covariance(first, second)
            v = np.outer(np.diag(plan.covariance(first)), np.diag(plan.covariance(second)))
            error = np.sqrt((v + planned**2) / RELEASES)  # of a product of jointly normal numbers
            # Products are skewed: a fifth more than the normal number of standard errors.
            assert (abs(found - planned) / error).max() < 1.2 * errors_allowed(20 * 144)


def test_intervals_cover_as_often_as_they_say(sampled):
    plan, x, draws = sampled
    from residua.plans.tails import width

    sigma = np.sqrt(plan.variance(("a", "b", "c"))).ravel()
    for confidence in (0.5, 0.95, 0.99):
        covered = (abs(draws - x.ravel()) <= width(confidence) * sigma).mean(axis=0)
        error = math.sqrt(confidence * (1 - confidence) / RELEASES)
        assert (abs(covered - confidence) / error).max() < errors_allowed(36)


def test_simultaneous_intervals_hold_together_at_least_as_often_and_not_much_more(sampled):
    plan, x, draws = sampled
    from residua.plans.tails import width

    sigma = np.sqrt(plan.variance(("a", "b", "c"))).ravel()
    together = (abs(draws - x.ravel()) <= width(0.95, together=12) * sigma).all(axis=1).mean()
    error = math.sqrt(0.95 * 0.05 / RELEASES)
    assert together > 0.95 - errors_allowed(1) * error
    assert together < 0.97  # the cells are nearly independent here, so that the bound is nearly exact
    pointwise = (abs(draws - x.ravel()) <= width(0.95) * sigma).all(axis=1).mean()
    assert pointwise < 0.7


def test_releases_through_the_whole_door_have_the_same_spread(tmp_path):
    """100 complete releases, ledger and all."""
    import pyarrow as pa

    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
    data = pa.table({"a": [0, 1, 2, 1] * 50, "b": [0, 1, 1, 0] * 50})
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(rho=200.0))
    truth = np.array([[50, 0], [50, 50], [0, 50]])
    z = []
    for _ in range(100):
        release = rs.measure(plan, data, ledger=ledger)
        z.append(((release.estimates(("a", "b")) - truth) / np.sqrt(plan.variance(("a", "b")))).ravel())
    z = np.array(z)
    assert abs(z.mean(axis=0) * math.sqrt(100)).max() < errors_allowed(12)
    # Chi-square with 100 degrees of freedom, Wilson–Hilferty.
    cube = ((z**2).mean(axis=0)) ** (1 / 3)
    assert (abs(cube - (1 - 2 / (9 * 100))) / math.sqrt(2 / (9 * 100))).max() < errors_allowed(12)
    assert ledger.spent_exactly <= 200 * 2
    assert layout_of(plan.lattice, domain.sizes).cells == len(release.noisy)
