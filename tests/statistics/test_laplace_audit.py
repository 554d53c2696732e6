"""Laplace noise: neighbours cannot be told apart better than epsilon, and intervals hold as often as stated.

The attacker knows the plan and both datasets. For pure DP every event has probabilities within a factor e^ε of each
other; the likelihood ratio's own level sets are the hardest events. 200,000 releases of each dataset.
"""

from __future__ import annotations

import importlib
import math
from statistics import NormalDist

import numpy as np
import pytest

import residua as rs
from residua.noise import rounded_laplace
from residua.plans.tails import reaches, single_reach
from residua.plans.verifier import priced
from residua.release import Release

RELEASES = 200_000
ALARM = 1e-6
EPSILON = 0.8
door = importlib.import_module("residua.measurement.noisy")


def _domain():
    return rs.Domain.of_sizes({"a": 3, "b": 2})


PLANS = {
    "queries": lambda: rs.plan(rs.explicit(_domain(), np.tril(np.ones((6, 6)))), rs.PureDP(EPSILON)),
    "marginals": lambda: rs.plan(rs.marginals(_domain(), [("a",), ("b",)]), rs.PureDP(EPSILON)),
}


def _tables(layout, x):
    parts = []
    for group in layout:
        for members in group.members:
            rest = tuple(i for i in range(x.ndim) if i not in members)
            parts.append(x.sum(axis=rest).ravel())
    return np.concatenate(parts).astype(np.int64)


def scores(plan, measurements, x, y):
    """The log-likelihood ratio of x against y in releases of x, all measurements: `Σ (|z − m_y| − |z − m_x|)/s`."""

    def quiet(scale, size, **kwargs):
        return np.zeros(size, dtype=np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(door._DRAWN_BY, "laplace", quiet)
        of_x, of_y = (door.noisy(measurements, lambda layout, t=t: _tables(layout, t), None) for t in (x, y))
    scales = np.concatenate(
        [
            np.repeat(np.broadcast_to(plan.scale, 1) if hasattr(plan, "scale") else plan.tables.scales[[k]], cells)
            for k, cells in _cells(plan, measurements)
        ]
    )
    total = np.zeros(RELEASES)
    for k in np.flatnonzero(of_x != of_y):
        z = of_x[k] + door._DRAWN_BY["laplace"](float(scales[k]), (RELEASES,))
        total += (np.abs(z - of_y[k]) - np.abs(z - of_x[k])) / scales[k]
    return total


def _cells(plan, measurements):
    if hasattr(plan, "scale"):
        return [(0, measurements.cells)]
    order = [int(np.flatnonzero(plan.tables.measured == n)[0]) for group in measurements.layout for n in group.numbers]
    sizes = [group.cells for group in measurements.layout for _ in group.numbers]
    return list(zip(order, sizes, strict=True))


def worst_breach(plan, epsilon):
    """How many standard errors some event beats `P ≤ e^ε P'` by, both ways round."""
    measurements, _ = priced(plan)
    x = np.array([[4, 0], [1, 2], [0, 9]])
    worst = -np.inf
    for cell in ((0, 0), (2, 1)):
        y = x.copy()
        y[cell] += 1
        forward, backward = scores(plan, measurements, x, y), -scores(plan, measurements, y, x)
        for level in np.linspace(-1.2, 1.2, 13) * epsilon:
            p, q = (forward >= level - 1e-9).mean(), (backward >= level - 1e-9).mean()
            error = math.sqrt((p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q)) / RELEASES + 1e-12)
            worst = max(worst, (p - math.exp(epsilon) * q) / error)
    return worst


@pytest.mark.parametrize("kind", PLANS)
def test_the_best_attack_does_not_beat_epsilon(kind):
    plan = PLANS[kind]()
    assert worst_breach(plan, EPSILON) < -NormalDist().inv_cdf(ALARM / 52)


@pytest.mark.parametrize("kind", PLANS)
def test_half_the_noise_is_caught(kind, monkeypatch):
    plan = PLANS[kind]()

    def halved(scale, size, **kwargs):
        return rounded_laplace(np.asarray(scale) / 2, size, **kwargs)

    monkeypatch.setitem(door._DRAWN_BY, "laplace", halved)
    assert worst_breach(plan, EPSILON) > 20


def test_intervals_of_sums_hold_as_often_as_stated():
    """Coverage within 6 standard errors of 90 % for equal, mixed and dominated coefficients; 1 in 10^9 each at most."""
    rng = np.random.default_rng(90)
    for a in ([1.0, 1.0], [1.0, 0.4, 0.1], [1.0] + [0.01] * 40, list(rng.random(60))):
        draws = (rounded_laplace(1000, (200_000, len(a))) * np.array(a)).sum(axis=1)
        reach = float(reaches(1000 * np.array([a]), 0.1)[0]) + sum(a) / 2
        missed = (np.abs(draws) > reach).mean()
        assert missed <= 0.1 + 6 * math.sqrt(0.09 / 200_000)
        assert missed >= 0.1 * 0.97 - 6 * math.sqrt(0.09 / 200_000)


def test_intervals_of_single_measurements_are_exact():
    for scale in (0.5, 3.0, 1234.5):
        for miss in (0.5, 0.05, 1e-6):
            k = single_reach(scale, miss)
            assert math.exp(-(k + 0.5) / scale) <= miss * (1 + 1e-9)
            assert k == 0 or math.exp(-(k - 0.5) / scale) > miss * (1 - 1e-9)


@pytest.mark.parametrize("kind", PLANS)
def test_releases_have_the_stated_variances_and_coverage(kind):
    plan = PLANS[kind]()
    measurements, _ = priced(plan)
    x = np.full((3, 2), 20)
    truth = np.array([40.0, 40.0, 40.0])
    errors, held, runs = [], 0, 400
    for _ in range(runs):
        release = Release(plan, measurements, door.noisy(measurements, lambda layout: _tables(layout, x), None))
        table = release.table(["a"], confidence=0.9)
        errors.append(table.estimates - truth)
        held += int((table.columns["lower"][0] <= 40) & (table.columns["upper"][0] >= 40))
    squares = np.array(errors)[:, 0] ** 2
    stated = float(np.ravel(plan.variance(["a"]))[0])
    # The fourth moment of a sum of Laplace variables is at most 6 times its squared variance. Squares are skewed: of
    # 750,000 simulated means of 400 Laplace squares one was beyond 6 standard errors; beyond 8, less than one in 10^7.
    assert abs(squares.mean() / stated - 1) < 8 * math.sqrt(5 / runs)
    assert abs(held / runs - 0.9) < 6 * math.sqrt(0.09 / runs)
