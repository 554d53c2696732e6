"""Neighbouring datasets cannot be told apart better than claimed: 200,000 releases of each, all measurements.

The attacker knows the plan and both datasets and uses the likelihood ratio of everything released, which is the best
test there is; its (ε, δ) curve must not lie above the claimed one by more than sampling error.
"""

import importlib
import math
from statistics import NormalDist

import numpy as np
import pytest

import residua as rs
from residua.linalg.lattice import centre
from residua.noise import rounded_normal
from residua.plans.verifier import priced
from residua.privacy import delta_of
from tests.statistics.copies import measured, tables_of

RELEASES = 200_000
ALARM = 1e-6
door = importlib.import_module("residua.measurement.noisy")


@pytest.fixture(scope="module")
def plan():
    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    return rs.plan(rs.marginals(domain, ways=[1, 2]), rs.GDP(mu=1.0))


def scores(plan, x, added):
    """The likelihood-ratio score of 200,000 releases from the table x: `Σ y · (t Ĉ e) / s²` over all blocks."""
    measurements = plan.compile()
    change = tables_of(measurements, added)
    direction = np.empty(measurements.cells)
    for group in measurements.layout:
        for number, moved in zip(group.numbers, group.view(change), strict=True):
            block, start = int(np.flatnonzero(measurements.measured == number)[0]), measurements.layout.starts[number]
            centre(moved[None])
            moves = moved.ravel() * float(measurements.grids[block]) / measurements.scales[block] ** 2
            direction[start : start + group.cells] = moves
    return measured(measurements, x, RELEASES) @ direction


def worst_breach(plan):
    """How many standard errors the best attack beats the claimed curve by, over a grid of ε, both ways round."""
    cost = priced(plan)[1]
    mu = math.sqrt(cost)
    x = np.array([[4, 0], [1, 2], [0, 9]])
    added = np.zeros((3, 2), dtype=np.int64)
    added[1, 0] = 1
    more, fewer = scores(plan, x + added, added), scores(plan, x, added)
    middle = (more.mean() + fewer.mean()) / 2
    worst = -np.inf
    for p_scores, q_scores, sign in ((more, fewer, 1), (fewer, more, -1)):
        for epsilon in (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0):
            # δ(ε) is attained on the event that the log-likelihood ratio, score − middle, exceeds ε.
            p = (sign * (p_scores - middle) > epsilon).mean()
            q = (sign * (q_scores - middle) > epsilon).mean()
            # Standard error under the claim, so that it does not depend on what was drawn.
            p0, q0 = (NormalDist().cdf(half - epsilon / mu) for half in (mu / 2, -mu / 2))
            error = math.sqrt((p0 * (1 - p0) + math.exp(2 * epsilon) * q0 * (1 - q0)) / RELEASES)
            worst = max(worst, (p - math.exp(epsilon) * q - delta_of(mu, epsilon)) / error)
    return worst


def test_the_best_attack_does_not_beat_the_claim(plan):
    breach = worst_breach(plan)
    assert breach < -NormalDist().inv_cdf(ALARM / 14)
    assert breach > -6  # nor is the claim loose: the attack comes up to it


def test_half_the_noise_is_caught(plan, monkeypatch):
    def halved(scale, size, **kwargs):
        return rounded_normal(np.asarray(scale) / 2, size, **kwargs)

    monkeypatch.setitem(door._DRAWN_BY, "normal", halved)
    assert worst_breach(plan) > 20


def test_forgetting_one_residual_in_the_price_is_caught(plan):
    """A cheaper claim than the truth (the 2-way residual left out of the cost) does not pass the audit."""
    measurements = plan.compile()
    shares = plan.precisions * plan.costs
    cheaper = plan.replaced(guarantee=rs.GDP(mu=math.sqrt(1.01 - shares[-1])))
    with pytest.raises(rs.ResiduaError, match="costs"):
        measurements.noise.promised(measurements.price(cheaper.unit), cheaper.guarantee)
