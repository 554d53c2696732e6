"""The figures of the fitness-for-use paper that the numerical core alone must reproduce.

The paper's random range workloads are drawn as its authors' public program draws them, so that the instances are the
same. Table 4 (PL94) follows at the privacy cost at which SM-II stopped, which is not the optimum. Table 9 (age pyramid)
follows from that program too, whose queries are not those of the text; the optima of the text's are those of
`recomputed` in published.json. The tables are those of `python -m benchmarks.paper fitness-for-use`.
"""

import math

import numpy as np
import pytest

from benchmarks.paper import PUBLISHED
from benchmarks.paper.fitness_for_use import AT_AGES, AT_PL94, RATIOS, costs, fixed, ranges, signs
from benchmarks.paper.tables import EQUAL, UNKNOWN
from benchmarks.paper.workloads import (
    age_pyramid,
    age_pyramid_of_the_program,
    pl94,
    prefixes,
    random_ranges,
    random_targets,
)
from residua.plans.solver.solve import least_privacy, least_total

FIGURES = PUBLISHED["fitness_for_use"]
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


def test_table_2_prefix_privacy_costs():
    assert set(costs().verdicts) == {EQUAL}


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


def test_tables_4_and_9_at_the_privacy_costs_where_their_solver_stopped():
    """25.7 and 6.2 % above the optimum. Of Table 9, CA alone is not explained."""
    W, c = pl94()
    table = fixed("Table 4", "", W, c, 16, AT_PL94, RATIOS["PL94"], "")
    assert set(table.verdicts) == {EQUAL}
    assert AT_PL94 / least_privacy(W, c).pcost == pytest.approx(1.257, abs=2e-3)
    W, c = age_pyramid_of_the_program()
    ((_, entries),) = fixed("Table 9", "", W, c, 16, AT_AGES, RATIOS["age_pyramid"], "").rows
    assert [entry.verdict for entry in entries] == [EQUAL, EQUAL, UNKNOWN, EQUAL]
    assert AT_AGES / least_privacy(W, c).pcost == pytest.approx(1.062, abs=2e-3)


@pytest.mark.parametrize("random_targets", [False, True])
@pytest.mark.parametrize(("instance", "d"), [(signs, 64), (signs, 128), (signs, 256), (ranges, 64), (ranges, 256)])
def test_tables_5_to_8_up_to_the_one_factor_by_which_their_solver_stopped_above(instance, d, random_targets):
    """All three printed ratios at SM-II's privacy cost, which GM gives away: 0 to 2.6 % above the optimum."""
    keys = {
        signs: ("random_uniform_d", "random_random_targets_d"),
        ranges: ("range_uniform_d", "range_random_targets_d"),
    }
    printed = np.array(RATIOS[keys[instance][random_targets]][str(d)][:3])
    ours, pcost = instance(d, random_targets)
    stopped = ours[0] / printed[0]
    assert 1 - 5e-3 <= stopped / pcost <= 1.026
    np.testing.assert_allclose(ours[1:] / stopped, printed[1:], atol=0.012, rtol=4e-3)


def test_age_pyramid_with_the_voting_ages_and_all_targets_1():
    W, _ = age_pyramid()
    assert least_privacy(W, 1.0, tolerance=1e-4).pcost == pytest.approx(7.1153, rel=2e-4)


def test_table_5_on_the_published_instance_of_1024_cells():
    """Again one factor for all three. Random targets take a minute: `python -m benchmarks.paper fitness-for-use`."""
    ours, pcost = ranges(1024, False)
    stopped = ours[0] / RATIOS["range_uniform_d"]["1024"][0]
    assert 1.015 <= stopped / pcost <= 1.025
    np.testing.assert_allclose(ours[1:] / stopped, RATIOS["range_uniform_d"]["1024"][1:3], atol=0.006)


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
