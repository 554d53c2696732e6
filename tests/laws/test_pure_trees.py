"""Laws of Laplace noise over trees of many values: prices, variances and estimates against matrices, and intervals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError, VerificationError
from residua.plans import ProductPlan
from residua.plans.noise import NORMAL
from residua.plans.operators.nesting import AnyRows, Runs, branched
from residua.plans.operators.tree import TreeNodes
from residua.plans.search.regular_trees import OrderedLoss, branchings
from residua.plans.search.strategies import Judged, haar
from residua.plans.solver.queries import MatrixQueries
from residua.plans.tails import mixed_reach, reaches, ruled_reach
from residua.projection.problem import Terms
from residua.projection.problems import problem_of
from residua.testing import check_plan
from tests.laws.trees import measurements

SIZE = 96
ORDERED = rs.Domain({"x": rs.Integers(0, SIZE - 1)})
PREFIXES, RANGES = rs.prefixes(ORDERED, "x"), rs.ranges(ORDERED, "x")
NESTED = rs.Domain({"x": measurements(60), "sex": ["F", "M"]})
LEVELS = rs.hierarchy(NESTED, "x") + 2 * rs.product(NESTED, {"x": "state"})
CASES = {
    "prefixes": PREFIXES,
    "ranges": RANGES,
    "mixed": PREFIXES + 0.1 * RANGES + 3 * rs.marginals(ORDERED, [("x",)]),
    "levels": LEVELS,
}


def planned(workload, **options) -> ProductPlan:
    return rs.plan(workload, rs.PureDP(1.0), form=rs.Tree(), **options)


def strategy(plan):
    """Every measured count over the values, (nodes, values), and the noise scale of each."""
    (each,) = plan.measurements.pieces
    nesting = each.nesting
    rows, scales = [], []
    for level in range(each.start, nesting.root + 1):
        if len(each.scales[level - each.start]):
            nodes = nesting.sizes[level]
            rows.append(nesting.between(0, level) == np.arange(nodes)[:, None])
            scales += [float(each.scales[level - each.start][0])] * nodes
    return np.concatenate(rows).astype(np.int64) * each.grid, np.array(scales)


def listed(workload):
    """All queries over the values, (queries, values)."""
    return workload.listed().over((0,)).toarray()


@pytest.fixture(scope="module", params=CASES)
def case(request):
    workload = CASES[request.param]
    return workload, planned(workload)


SHORT = rs.Domain({"x": rs.Integers(0, 19)})
SHORT_NESTED = rs.Domain({"x": measurements(24), "sex": ["F", "M"]})
SMALL = {
    "prefixes": rs.prefixes(SHORT, "x"),
    "mixed": rs.prefixes(SHORT, "x") + 0.1 * rs.ranges(SHORT, "x") + 3 * rs.marginals(SHORT, [("x",)]),
    "levels": rs.hierarchy(SHORT_NESTED, "x") + 2 * rs.product(SHORT_NESTED, {"x": "state"}),
}


@pytest.mark.parametrize("unit", [rs.AddRemove(), rs.ReplaceOne()], ids=str)
@pytest.mark.parametrize("kind", SMALL)
def test_the_law_of_every_plan_holds_and_the_budget_is_spent(kind, unit):
    plan = planned(SMALL[kind], unit=unit)
    check_plan(plan)
    assert 1 - 1e-9 < plan.unit_epsilon <= 1.0


def test_estimates_are_least_squares_of_what_was_measured(case, tmp_path):
    workload, plan = case
    labels = pa.array([str(x) for x in workload.domain["x"].labels]) if workload is LEVELS else pa.array(range(SIZE))
    random = np.random.default_rng(1)
    places = (random.random(4000) ** 2 * len(labels)).astype(int)
    columns = {"x": labels.take(pa.array(places))}
    if workload is LEVELS:
        columns["sex"] = pa.array(["F", "M"]).take(pa.array(random.integers(0, 2, 4000)))
    ledger = rs.Ledger(tmp_path / "ledger", rs.PureDP(1.0))
    release = rs.measure(plan, pa.table(columns), ledger=ledger)
    assert float(ledger.spent_exactly) == pytest.approx(plan.epsilon, rel=1e-12)
    release.save(tmp_path / "release")
    release = rs.Release.load(tmp_path / "release")
    B, scales = strategy(plan)
    values = np.linalg.lstsq(B / scales[:, None], np.asarray(release.noisy) / scales, rcond=None)[0]
    W = listed(workload)
    estimates, variances = release.estimator.answers(workload)
    assert estimates == pytest.approx(W @ values, rel=1e-7, abs=1e-4)
    truth = W @ np.bincount(places, minlength=len(labels))
    assert np.abs((estimates - truth) / np.sqrt(variances)).max() < 12  # e^-17 for one Laplace variable
    table = release.table(["x"])
    assert len(table) == len(labels)
    assert rs.project(release).table(["x"])["estimate"].min() >= 0


def test_laplace_noise_is_verified_as_it_is_sampled():
    plan = planned(LEVELS)
    (each,) = plan.measurements.pieces
    several = replace(each, scales=(np.full(each.nesting.sizes[1], each.scales[0][0]), *each.scales[1:]))
    normal = replace(each, operator=replace(each.operator, noise=NORMAL))
    for pieces in ((several,), (each, replace(each, members=(1,), sizes=(2,))), (each, normal)):
        with pytest.raises(VerificationError):
            replace(plan.measurements, pieces=pieces).price(rs.AddRemove())
    assert replace(plan.measurements, pieces=(normal,)).price(rs.AddRemove()) != plan.measurements.price(rs.AddRemove())


def test_trees_are_nearly_as_good_as_any_strategy_and_never_worse_than_known_ones():
    few = rs.Domain({"x": rs.Integers(0, 39)})
    for kind, workload in (("prefixes", rs.prefixes(few, "x")), ("ranges", rs.ranges(few, "x"))):
        plan = planned(workload)
        loss = plan.total_variance(workload)
        asked = Judged(MatrixQueries(listed(workload)), False)
        for known in (np.eye(40), haar(40)):
            assert loss <= 2 * asked.loss(known) * (1 + 1e-9)
        dense = rs.plan(workload, rs.PureDP(1.0))
        assert not isinstance(dense, ProductPlan)
        assert dense.total_variance(workload) <= loss * 1.001, kind
        assert loss <= 1.35 * dense.total_variance(workload), kind  # 16 % more error
        assert plan.lower_bound == pytest.approx(dense.lower_bound, rel=0.08)
        assert plan.lower_bound <= dense.lower_bound * 1.001  # the bound of the other is not sharp, but as true
        assert plan.gap == pytest.approx(loss / plan.lower_bound - 1, rel=1e-6)
        assert plan.candidates[0].loss == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("kind", ["prefixes", "ranges", "values"])
def test_regular_trees_have_their_loss_in_closed_form(kind):
    loss = OrderedLoss(120, **{kind: 1.0})
    for counts in ((24, 6), (40,), (60, 30, 10, 2)):
        levels = np.array([120, *counts, 1])
        omega = np.random.default_rng(2).random(len(levels))
        found = loss.regular((levels[:-1] / levels[1:])[:, None], omega[:, None])[0]
        order = TreeNodes(branched(120, counts), 0, tuple(np.array([w**2 / 2]) for w in omega)).order
        sums = {"prefixes": lambda o: o.prefixes().sum(), "ranges": lambda o: o.sum_over_ranges()}
        exact = sums[kind](order) if kind in sums else order.solved.V[0] @ order.solved.tree.many
        assert found == pytest.approx(exact, rel=1e-9)


def test_weights_are_a_local_optimum():
    loss = OrderedLoss(SIZE, prefixes=1.0)
    for each in list(branchings(loss))[2:5]:
        assert each.weights.sum() == pytest.approx(1.0)
        levels = np.array([SIZE, *each.counts, 1])
        b = (levels[:-1] / levels[1:])[:, None]
        least = loss.regular(b, each.weights[:, None])[0]
        for i in range(len(levels)):
            for factor in (0.9, 1.1):
                other = each.weights.copy()
                other[i] *= factor
                assert loss.regular(b, (other / other.sum())[:, None])[0] >= least * (1 - 1e-6)


@pytest.mark.parametrize("counts", [(11, 4), (), (20, 20, 3), (48, 24, 12, 6, 3)])
def test_prefixes_and_ranges_over_any_ordered_tree_are_those_of_matrices(counts):
    random = np.random.default_rng(0)
    nesting = branched(50, counts) if counts != () else branched(9, ())
    n = nesting.sizes[0]
    for root in (0.0, 1.0):
        tau = [*random.uniform(0.1, 1.0, nesting.root), root]
        facts = TreeNodes(nesting, 0, tuple(np.array([t]) for t in tau))
        owners = [nesting.between(0, level) for level in range(nesting.root + 1)]
        sigma = np.linalg.inv(sum(t * (own[:, None] == own) for t, own in zip(tau, owners, strict=True)))
        for rows in (Runs(n, ranges=False), Runs(n, ranges=True)):
            W = rows.given
            wanted = np.einsum("ij,jk,ik->i", W, sigma, W)
            assert facts.variances_along(rows) == pytest.approx(wanted, rel=1e-9)
            assert facts.mean_along(rows) == pytest.approx(wanted.mean(), rel=1e-9)
        roots = facts.coefficients(AnyRows(W))
        assert (roots**2).sum(axis=0) == pytest.approx(wanted, rel=1e-9)
        assert (roots**2).max() <= facts.largest_coefficient * (1 + 1e-9)


def test_bounds_on_many_sums_are_at_least_their_own_quantiles():
    random = np.random.default_rng(5)
    rows = np.exp(random.normal(0, 1.5, (60, 12)))
    rows = np.concatenate([rows, np.eye(12)[:1], np.ones((1, 12))])
    stddev = np.sqrt(2 * (rows**2).sum(axis=1))
    shares = 2 * rows.max(axis=1) ** 2 / stddev**2
    for miss in (0.1, 0.05, 1e-4, 1e-9):
        own = reaches(rows, miss) / stddev
        mixed, ruled = mixed_reach(shares, miss), ruled_reach(shares, miss)
        assert (mixed >= own / 1.002).all()
        assert (ruled >= own / 1.002).all()
        assert (np.minimum(mixed, ruled) <= 1.3 * own).all()
        assert np.isinf(ruled[shares <= 0.5]).all()


def test_intervals_hold_what_they_say_and_not_much_more():
    plan = planned(PREFIXES)
    estimator = plan.estimator(plan.measurements, np.zeros(plan.measurements.cells, dtype=np.int64))
    W = listed(PREFIXES)
    B, scales = strategy(plan)
    weighted = B / scales[:, None] ** 2
    coefficients = np.abs(W @ np.linalg.solve(B.T @ weighted, weighted.T)) * scales
    own = reaches(coefficients, 0.05) / np.sqrt(2 * (coefficients**2).sum(axis=1))
    for asked in (PREFIXES, PREFIXES.listed()):
        found = estimator.widths(asked, 0.95, 1.0)
        assert (found >= own / 1.002).all()
        assert (found <= 1.2 * own).all()
    single = estimator.widths({("x",): W[30]}, 0.95, 1.0)
    assert single == pytest.approx([own[30]], rel=0.01)
    values = estimator.widths(("x",), 0.95, 1.0)
    assert (values >= estimator.widths(rs.marginals(ORDERED, [("x",)]).listed(), 0.95, 1.0) / 1.1).all()
    assert (values < -math.log(0.05) / math.sqrt(2) * 1.02).all()


def test_targets_are_met_with_the_epsilon_that_they_need():
    for workload in (PREFIXES, LEVELS):
        plan = rs.plan(workload, noise="laplace", targets=50.0, form=rs.Tree())
        variances = plan.variances(workload)
        assert variances.max() == pytest.approx(50.0, rel=1e-6)
        assert variances.max() <= 50.0 * (1 + 1e-9)
        assert plan.guarantee == rs.PureDP(plan.guarantee.epsilon)
        listed = rs.plan(workload, noise="laplace", targets=[50.0] * workload.queries, form=rs.Tree())
        assert listed.guarantee == plan.guarantee
        spread = rs.plan(workload, plan.guarantee, form=rs.Tree())
        assert spread.variances(workload).max() >= variances.max() * (1 - 1e-6)
        assert plan.gap > 0
    total = rs.plan(RANGES, noise="laplace", at_most=1e6, form=rs.Tree())
    assert total.total_variance(RANGES) == pytest.approx(1e6, rel=1e-6)


def test_long_axes_are_planned_by_themselves_and_what_has_no_form_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("residua.plans.search.runs._STAGES", ((20, 1),))
    monkeypatch.setattr("residua.plans.search.runs._HATS", (5.0,))
    x = rs.Integers(0, 1_999, levels={"ten": list(range(0, 2001, 10))})
    long, wide = rs.Domain({"x": x, "sex": ["f", "m"]}), rs.Domain({"x": x, "y": ["a", "b", "c"]})
    for workload, kind in ((rs.prefixes(long, "x"), "buckets"), (rs.hierarchy(long, "x"), "tree")):
        plan = rs.plan(workload, rs.PureDP(0.5))
        assert plan.parts[()].kind == kind
        assert plan.epsilon <= 0.5
        assert plan.candidates[0].loss < plan.candidates[-1].loss
    refused = {
        "not planned over many values": (rs.ranges(long, "x"), {"minimise": rs.MaxVariance()}),
        "it asks for 'x'": (rs.prefixes(long, "x"), {"targets": {("y",): 4.0}}),
        "differ between cells of 'x'": (rs.prefixes(long, "x"), {"targets": [4.0] * 1_999 + [5.0]}),
        "give one for each of the workload's 2,000": (rs.prefixes(long, "x"), {"targets": [4.0]}),
        "not a positive finite variance": (rs.prefixes(long, "x"), {"targets": 0.0}),
        "crossed with other attributes": (rs.product(long, {"x": "ten", "sex": "identity"}), {}),
        "matrix over all 6,000 cells": (rs.product(wide, {"x": "prefixes", "y": "identity"}), {}),
        "is not for pure DP": (rs.prefixes(long, "x"), {"minimise": rs.PNormVariance(4)}),
        "normal noise": (rs.prefixes(long, "x"), {"form": rs.Axis()}),
    }
    for words, (workload, options) in refused.items():
        with pytest.raises(PlanError, match=words):
            rs.plan(workload, rs.PureDP(1.0), **options)
    with pytest.raises(PlanError, match="levels"):
        rs.plan(rs.marginals(long, [("x",)]), rs.PureDP(1.0), form=rs.Tree())


def test_simulated_observations_have_the_stated_variances():
    """Errors of projections are forecast with Laplace noise; false alarm below 1e-6 (five standard errors)."""
    plan, random, draws = planned(LEVELS), np.random.default_rng(0), 400
    problem = problem_of(plan, Terms(metric="plain"))
    nothing = problem.fit_of(np.zeros(int(problem.cells)), 0.0, 0.0)
    seen = np.array([problem.unprojected(problem.simulated(nothing, random)).array for _ in range(draws)])
    leaves = plan.variances(rs.marginals(NESTED, [("x",)]))
    found = (seen[:, : len(leaves)] ** 2).mean()  # squares of Laplace noise have a kurtosis of 6
    assert abs(found / leaves.mean() - 1) < 5 * math.sqrt(5 / (draws * len(leaves)) * 4)


@pytest.mark.parametrize("records", [1, 4, 16])
def test_the_bound_holds_for_persons_with_few_records_of_each_value(records):
    """With one record in each value, all rows of a Hadamard matrix cost a person less than k times a record."""
    n = 16
    domain = rs.Domain({"x": rs.Integers(0, n - 1)})
    workload = rs.marginals(domain, [("x",)]) + 1e-4 * rs.prefixes(domain, "x")
    limited = rs.plan(workload, rs.PureDP(1.0), form=rs.Tree(), unit=rs.Person(records=records, one_per="x"))
    scale = min(records * n, (n + n**1.5) / 2)  # of all rows together
    hadamard = 2 * scale**2 / n * (n + 1e-4 * n * (n + 1) / 2)
    assert limited.lower_bound <= min(hadamard, limited.total_variance(workload))
    free = rs.plan(workload, rs.PureDP(1.0), form=rs.Tree(), unit=rs.Person(records=records))
    assert free.lower_bound == pytest.approx(planned(workload).lower_bound * (records / 0.98) ** 2, rel=1e-6)
    tables = rs.marginals(rs.Domain({"x": rs.Integers(0, n - 1), "sex": ["F", "M"]}), ways=[1, 2])
    by_tables = rs.plan(tables, rs.PureDP(1.0), unit=rs.Person(records=records, one_per="x"))
    assert by_tables.lower_bound == pytest.approx(rs.plan(tables, rs.PureDP(0.98)).lower_bound, rel=1e-6)
    matrix = rs.plan(workload.listed(), rs.PureDP(1.0), unit=rs.Person(records=records, one_per="x"))
    assert matrix.lower_bound <= hadamard
