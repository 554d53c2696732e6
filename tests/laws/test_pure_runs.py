"""Laws of Laplace noise over runs of ordered values: prices, variances, estimates and losses against matrices."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import FileError, PlanError, VerificationError
from residua.files import read_document, write_document
from residua.plans import ProductPlan
from residua.plans.operators import bucket_reaches as intervals
from residua.plans.operators.bucket_squares import BucketShape
from residua.plans.operators.buckets import NestedBuckets
from residua.plans.planners.pure_tree import _whole
from residua.plans.search.runs import RunsLoss, divisions, weighted_runs
from residua.plans.statements import KIND, VERSION
from residua.plans.tails import reaches
from residua.testing import LAWS, check_plan

# Runs of one size on every level; of two; a single run; four levels; one value per run at the end.
SHAPES = [(60, (3, 5, 4)), (50, (3, 5, 4)), (37, (5, 8)), (20, (20,)), (41, (2, 3, 3, 3)), (9, (2, 8))]


def some_rows(parts, seed=0):
    """Whole rows with signs, every part measured."""
    random = np.random.default_rng(seed)
    return tuple(
        np.vstack([np.diag(random.integers(50, 100, b)), random.integers(-20, 60, (2, b))]).astype(np.int64)
        for b in parts
    )


def made(size, parts, **options) -> ProductPlan:
    domain = rs.Domain({"x": rs.Integers(0, size - 1)})
    scales = np.array([300.0, 200.0, 250.0, 400.0])[: len(parts)]
    buckets = NestedBuckets(size, some_rows(parts), scales)
    return ProductPlan.along(domain, 0, {(): buckets}, guarantee=rs.PureDP(9.0), **options)


def strategy(plan):
    """Every measured row over the values, (rows, values), and the noise scale of each."""
    rows, scales, n = [], [], plan.size
    for level, R in enumerate(plan.parts[()].strategies):
        run, part = plan.parts[()].shape.places(np.arange(n))[level]
        for number in range(plan.parts[()].shape.counts[level]):
            here = run == number
            row = np.zeros((len(R), n), dtype=np.int64)
            row[:, here] = R[:, part[here]]
            rows.append(row)
            scales += [float(plan.parts[()].scales[level])] * len(R)
    return np.concatenate(rows), np.array(scales)


def listed(workload):
    return workload.listed().over((0,)).toarray()


@pytest.fixture(params=SHAPES, ids=str)
def plan(request):
    return made(*request.param)


def test_runs_hold_all_values_in_order_and_are_of_two_sizes(plan):
    shape = plan.parts[()].shape
    for level, (run, part) in enumerate(shape.places(np.arange(shape.size))):
        assert (np.diff(run) >= 0).all()
        assert part.max() < shape.parts[level]
        assert np.array_equal(np.bincount(run), shape.sizes[level])
        assert set(shape.sizes[level]) <= {shape.least[level], shape.least[level] + 1}
        assert set(shape.kind_of(level)) == set(shape.kinds(level))
    for parts in ((3,), (20, 2), ()):
        with pytest.raises(ValueError, match="runs"):
            BucketShape(20, parts)


def test_the_price_is_the_largest_l1_norm_there_is(plan):
    B, scales = strategy(plan)
    columns = [
        sum((abs(Fraction(int(b))) / Fraction(s) for b, s in zip(B[:, j], scales, strict=True)), Fraction(0))
        for j in range(plan.size)
    ]
    for records in (1, 3):
        found = plan.measurements.price(rs.AddRemove(records))
        assert found >= records * max(columns)
        assert float(found) <= records * sum(
            np.abs(R).sum(axis=0).max() / s
            for R, s in zip(plan.parts[()].strategies, plan.parts[()].scales, strict=True)
        ) * (1 + 1e-12)
        if plan.size == math.prod(plan.parts[()].shape.parts):  # every combination of columns is some value's
            assert float(found) == pytest.approx(records * float(max(columns)), rel=1e-14)
    moved = np.abs((B[:, :, None] - B[:, None, :]) / scales[:, None, None]).sum(axis=0).max()
    replaced = float(plan.measurements.price(rs.ReplaceOne()))
    assert replaced >= moved * (1 - 1e-12)
    if plan.size == math.prod(plan.parts[()].shape.parts):
        assert replaced == pytest.approx(moved, rel=1e-12)


def test_the_law_of_every_plan_holds(plan):
    asked = rs.prefixes(plan.domain, "x") + rs.marginals(plan.domain, [("x",)])
    asked = asked + rs.ranges(plan.domain, "x") if plan.size < 40 else asked
    made = plan.replaced(workload=asked, guarantee=rs.PureDP(plan.epsilon))
    # The price, never below the truth, is that of columns that need not meet in one value: see above.
    check_plan(made, laws=[law for law in LAWS if law != "is_priced"])


def test_coefficients_add_up_to_variances_and_bounds_hold(plan):
    B, scales = strategy(plan)
    deviations = np.sqrt(plan.noise.variance(scales))
    sigma = np.linalg.inv((B / deviations[:, None]).T @ (B / deviations[:, None]))
    W = listed(rs.prefixes(plan.domain, "x"))
    exact = W @ sigma @ B.T / deviations
    assert pytest.approx(exact, abs=1e-9) == intervals.coefficients(plan.parts[()].solved, W.T).T
    leverage = np.einsum("ij,jk,ik->i", B, sigma, B) / deviations**2
    assert intervals.largest_leverage(plan.parts[()].solved) == pytest.approx(min(leverage.max(), 1.0), rel=1e-6)
    own = np.linalg.solve(np.tril(np.ones((plan.size, plan.size))), exact) ** 2 / np.diag(sigma)[:, None]
    for share, all_shares in zip(intervals.own_shares(plan.parts[()].solved), own, strict=True):
        assert np.isclose(all_shares, share, rtol=1e-8).any()
    assert np.abs(exact).max() <= intervals.largest_coefficient(plan.parts[()].solved) <= 2 * np.abs(exact).max()


def test_intervals_hold_what_they_say_and_not_much_more(monkeypatch):
    plan = made(50, (3, 5, 4))
    estimator = plan.estimator(plan.measurements, np.zeros(plan.measurements.cells, dtype=np.int64))
    slack = math.sqrt(plan.measurements.cells / 8) / plan.parts[()].scales.min()
    prefixes, ranges = rs.prefixes(plan.domain, "x"), rs.ranges(plan.domain, "x")
    own = {}
    for workload in (prefixes, ranges, rs.marginals(plan.domain, [("x",)])):
        roots = np.abs(intervals.coefficients(plan.parts[()].solved, listed(workload).T)).T
        own[workload] = reaches(roots / math.sqrt(2), 0.05) / np.linalg.norm(roots, axis=1)
        found = estimator.widths(workload, 0.95, 1.0) - slack
        assert (found >= own[workload] / 1.002).all()
        assert (found <= 1.3 * own[workload]).all()
    assert estimator.widths({("x",): listed(prefixes)[30]}, 0.95, 1.0) - slack == pytest.approx(
        [own[prefixes][30]], rel=0.01
    )
    monkeypatch.setattr(intervals, "_MOST_COEFFICIENTS", 1)  # bounds, as for many values
    for workload, wanted in own.items():
        assert (estimator.widths(workload, 0.95, 1.0) - slack >= wanted / 1.002).all()


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.3, 2.0)])
def test_losses_are_those_of_matrices_and_slopes_their_differences(weights):
    parts, random = (3, 4, 2), np.random.default_rng(1)
    rows = [(random.uniform(0.5, 1, b), random.uniform(0, 1, (2, b))) for b in parts]
    loss = RunsLoss(parts, *weights)
    value, slopes = loss(rows)
    A, below = [], 1
    for (own, more), b in zip(rows, parts, strict=True):
        R = np.vstack([np.diag(own), more])
        A.append(np.kron(np.kron(np.eye(24 // (below * b)), R), np.ones((1, below))))
        below *= b
    sigma = 2 * np.linalg.inv(np.vstack(A).T @ np.vstack(A))
    domain = rs.Domain({"x": rs.Integers(0, 23)})
    asked = [rs.prefixes(domain, "x"), rs.ranges(domain, "x"), rs.marginals(domain, [("x",)])]
    exact = sum(
        w * np.einsum("ij,jk,ik->i", W, sigma, W).mean() for w, W in zip(weights, map(listed, asked), strict=True)
    )
    assert value == pytest.approx(exact, rel=1e-10)
    for level in range(3):
        for place in range(2):
            for entry in np.ndindex(rows[level][place].shape):
                moved = []
                for step in (1e-6, -1e-6):
                    there = [tuple(each.copy() for each in pair) for pair in rows]
                    there[level][place][entry] += step
                    moved.append(loss(there)[0])
                assert slopes[level][place][entry] == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-5, abs=1e-6)


def test_measured_releases_are_saved_read_tabled_and_projected(tmp_path):
    plan = made(50, (3, 5, 4))
    data = pa.table({"x": (np.random.default_rng(1).random(4000) ** 2 * 50).astype(int)})
    ledger = rs.Ledger(tmp_path / "ledger", rs.PureDP(9.0))
    release = rs.measure(plan, data, ledger=ledger)
    assert float(ledger.spent_exactly) == pytest.approx(plan.epsilon, rel=1e-12)
    release.save(tmp_path / "release")
    again = rs.Release.load(tmp_path / "release")
    prefixes = rs.prefixes(plan.domain, "x")
    estimates, variances = again.estimator.answers(prefixes)
    assert np.array_equal(estimates, release.estimator.answers(prefixes)[0])
    truth = np.cumsum(np.bincount(data["x"], minlength=50))
    assert np.abs((estimates - truth) / np.sqrt(variances)).max() < 12  # e^-17 for one Laplace variable
    table = again.table(["x"])
    assert len(table) == 50
    assert np.allclose(np.cumsum(table["estimate"]), estimates)
    assert float(again.estimates([])) == pytest.approx(estimates[-1])
    assert again.count({"x": rs.between(3, 40)}).estimate == pytest.approx(estimates[40] - estimates[2])
    projected = rs.project(again)
    assert projected.table(["x"])["estimate"].min() >= 0
    with pytest.raises(PlanError, match="leave metric out"):
        rs.project(again, metric="covariance")


def test_many_releases_have_the_stated_variances(tmp_path):
    """Means and variances of all prefixes over 3,000 releases: 5.7 deviations, 20 tests, false alarms below 1e-6."""
    plan, releases = made(20, (5, 4)), 3000
    random = np.random.default_rng()
    counts = np.arange(20) * 3
    exact = np.zeros(plan.measurements.cells, dtype=np.int64)
    for batch in plan.measurements.batches():
        plan.measurements.store(batch, plan.measurements.integers(batch, counts), exact)
    found, starts = np.empty((releases, 20)), plan.measurements.pieces[0].starts
    for k in range(releases):
        noise = np.concatenate(
            [
                np.rint(random.laplace(0, s, high - low))
                for low, high, s in zip(starts, starts[1:], plan.parts[()].scales, strict=False)
            ]
        ).astype(np.int64)
        found[k] = np.cumsum(plan.estimator(plan.measurements, exact + noise).marginal((0,)))
    stated = plan.variances(rs.prefixes(plan.domain, "x"))
    assert np.abs((found.mean(axis=0) - np.cumsum(counts)) / np.sqrt(stated / releases)).max() < 5.7
    # The kurtosis of a sum of Laplace variables is at most 6: a sample variance strays by √(5/N) of itself.
    assert np.abs(found.var(axis=0, ddof=1) / stated - 1).max() < 5.7 * math.sqrt(5 / releases)


def test_files_keep_the_plan_and_refuse_a_changed_one(tmp_path):
    plan = made(50, (3, 5, 4), workload=None)
    plan = plan.replaced(guarantee=rs.PureDP(plan.epsilon * (1 + 1e-12)))
    plan.save(tmp_path / "plan.json")
    again = rs.Plan.load(tmp_path / "plan.json")
    assert (again.epsilon, again.guarantee, again.gap) == (plan.epsilon, plan.guarantee, plan.gap)
    assert np.array_equal(again.variances(rs.ranges(plan.domain, "x")), plan.variances(rs.ranges(plan.domain, "x")))
    body = read_document(tmp_path / "plan.json", KIND, VERSION)
    own = body["parts"][0]["operator"]
    louder = [[[2 * entry for entry in row] for row in rows] for rows in own["strategies"]]
    nothing = [[[0 for _ in row] for row in own["strategies"][0]], *own["strategies"][1:]]
    wrong = {
        "smaller than what it costs": {"strategies": louder},
        "not whole": {"strategies": [[[0.5, 1, 2]], *own["strategies"][1:]]},
        "hold the values": {"strategies": own["strategies"][1:]},
        "not measured": {"strategies": nothing},
        "no matrix|inhomogeneous": {"strategies": [[[5, 6, 7], [5, 6]], *own["strategies"][1:]]},
        "noise": {"scales": [0.1, *own["scales"][1:]]},
        "do not fit": {"scales": own["scales"][:2]},
        "lacks": {"attribute": 3},
        "bound": {"lower_bound": -1.0},
    }
    for words, change in wrong.items():
        part = {**body["parts"][0], "operator": {**own, **change}}
        other = {**body, **change} if change.keys() <= body.keys() else {**body, "parts": [part]}
        write_document(tmp_path / "other.json", KIND, VERSION, other)
        with pytest.raises((FileError, VerificationError), match=words):
            rs.Plan.load(tmp_path / "other.json")
    ledger = rs.Ledger(tmp_path / "ledger", rs.PureDP(99.0))
    twice = replace(plan.parts[()], strategies=tuple(2 * R for R in plan.parts[()].strategies))
    changed = plan.with_parts({(): twice})  # after pricing
    with pytest.raises(VerificationError, match="more than PureDP"):
        rs.measure(changed, pa.table({"x": [0]}), ledger=ledger)
    assert not ledger.spent_exactly


def test_the_verifier_refuses_what_does_not_fit():
    measurements = made(50, (3, 5, 4)).measurements
    (piece,) = measurements.pieces
    R, scales = piece.operator.strategies, piece.operator.scales
    for change in (
        {"strategies": (R[0].astype(np.float64), *R[1:])},
        {"strategies": (R[0][:, :2], *R[1:])},
        {"strategies": (R[0] * 2**40, *R[1:])},
        {"strategies": R[:2]},
        {"scales": np.append(scales[:2], np.nan)},
        {"scales": np.append(scales[:2], 2.0**41)},
    ):
        altered = replace(measurements, pieces=(replace(piece, operator=replace(piece.operator, **change)),))
        with pytest.raises(VerificationError):
            altered.price(rs.AddRemove())


@pytest.fixture
def short_search(monkeypatch):
    for name, value in {"_STAGES": ((60, 1),), "_HATS": (5.0,), "_TILTS": (2.1,), "_MOST_LEVELS": 2}.items():
        monkeypatch.setattr(f"residua.plans.search.runs.{name}", value)


def test_whole_rows_are_as_good_and_cost_what_was_asked_for_at_any_epsilon(short_search):
    found = weighted_runs(96, 1.0, 0.0, 0.0)[0]
    domain = rs.Domain({"x": rs.Integers(0, 95)})
    for epsilon in (1e-8, 1e-3, 1.0, 1e3, 1e6):
        rows, scales = _whole(found.rows, epsilon)
        plan = ProductPlan.along(domain, 0, {(): NestedBuckets(96, rows, scales)})
        assert plan.epsilon == pytest.approx(epsilon, rel=1e-9)
        error = plan.variances(rs.prefixes(domain, "x")).mean() * epsilon**2
        assert error == pytest.approx(found.loss, rel=2e-3 if epsilon > 1e-6 else 0.1)
    assert len(divisions(96)) > 1


def test_long_axes_get_runs_that_beat_trees_and_meet_what_is_wanted(short_search):
    domain = rs.Domain({"x": rs.Integers(0, 599), "sex": ["f", "m"]})
    mixed = rs.prefixes(domain, "x") + 0.01 * rs.ranges(domain, "x") + 3 * rs.marginals(domain, [("x",)])
    tree = rs.plan(mixed, rs.PureDP(0.5), form=rs.Tree())
    plan = rs.plan(mixed, rs.PureDP(0.5))
    assert plan.parts[()].kind == "buckets"
    assert 0.5 * (1 - 1e-9) < plan.epsilon <= 0.5
    assert plan.total_variance(mixed) < 0.95 * tree.total_variance(mixed)
    assert plan.candidates[0].loss == pytest.approx(plan.total_variance(mixed), rel=1e-9)
    assert {each.name for each in tree.candidates} <= {each.name for each in plan.candidates}
    assert plan.lower_bound == pytest.approx(tree.lower_bound, rel=1e-12)
    assert plan.gap == pytest.approx(plan.total_variance(mixed) / plan.lower_bound - 1)
    assert np.isinf(plan.variances(rs.marginals(domain, [("sex",)]))).all()
    prefixes = rs.prefixes(domain, "x")
    wanted = rs.plan(prefixes, noise="laplace", at_most=1e6, unit=rs.AddRemove(2))
    assert wanted.parts[()].kind == "buckets"
    assert wanted.total_variance(prefixes) == pytest.approx(1e6, rel=1e-6)
    assert wanted.unit_epsilon <= wanted.guarantee.epsilon
    assert wanted.unit_epsilon == pytest.approx(2 * wanted.epsilon)
    assert wanted.candidates[0].loss == pytest.approx(1e6, rel=1e-6)


def test_rows_that_cannot_be_sampled_leave_the_tree():
    """The search gives a level next to no weight, and noise that is larger than can be drawn."""
    domain = rs.Domain({"x": rs.Integers(0, 599)})
    workload = 1e-3 * rs.prefixes(domain, "x") + rs.marginals(domain, [("x",)])
    assert rs.plan(workload, rs.PureDP(1e-6)).parts[()].kind == "tree"
