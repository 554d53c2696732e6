"""Plans along one ordered axis: against dense matrices, against the dense optimum, exact, and refused when altered."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_array
from scipy.stats import chi2

import residua as rs
from residua.errors import PlanError, VerificationError
from residua.linalg.path import OrderedNoise, Path, over_running_sums, prefix_path, range_path
from residua.linalg.roots import inverse_root
from residua.noise.correlated import rounded_ordered
from residua.plans import ProductPlan
from residua.plans.operators.correlated_price import costs, reciprocal
from residua.plans.operators.path import CorrelatedPath
from residua.release.folder import privacy_statement
from tests.statistics.copies import unlike


def gram_of(path: Path):
    laplacian = np.diag(np.append(path.links, 0) + np.append(0, path.links))
    laplacian -= np.diag(path.links, 1) + np.diag(path.links, -1)
    laplacian[0, 0] += path.left
    laplacian[-1, -1] += path.right
    return np.linalg.inv(laplacian) + path.values * np.eye(path.size)


def price(noise):
    """What one record costs in the most expensive cell, never less than the truth."""
    each, error = costs(noise)
    return Fraction(float(each.max())) * (1 + error)


def covariance_of(noise: OrderedNoise):
    gram = gram_of(noise.queries)
    pairs = zip(noise.poles, noise.weights, strict=True)
    return sum(a * np.linalg.inv(gram + p * np.diag(1 / noise.q)) for p, a in pairs)


@st.composite
def noises(draw):
    n = draw(st.integers(2, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        path = replace(prefix_path(rng.uniform(0.1, 3, n)), values=draw(st.sampled_from([0.0, 0.7])))
    else:
        path = range_path(n, *rng.uniform(0.1, 2, 2), values=draw(st.sampled_from([0.0, 2.0])))
    parts = draw(st.integers(1, 4))
    poles = np.sort(10 ** rng.uniform(-3, 3, parts))
    return OrderedNoise(path, rng.dirichlet(np.full(n, 3.0)), poles, rng.uniform(0.1, 2, parts))


@given(noises(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_passes_along_the_axis_are_the_matrices(noise, seed):
    n, rng = noise.queries.size, np.random.default_rng(seed)
    sigma, gram = covariance_of(noise), gram_of(noise.queries)
    assert noise.queries.gram_diagonal == pytest.approx(np.diag(gram), rel=1e-8)
    root = np.diag(np.sqrt(noise.q))
    S = root @ gram @ root
    pairs = zip(noise.poles, noise.weights, strict=True)
    shares = sum(a * np.diag(S @ np.linalg.inv(S + p * np.eye(n))) for p, a in pairs)
    assert noise.queries.shares(noise.q, noise.poles, noise.weights) == pytest.approx(shares, rel=1e-8)
    running = np.tril(np.ones((n, n)))
    sums, single = noise.variances()
    assert sums == pytest.approx(np.diag(running @ sigma @ running.T), rel=1e-8)
    assert single == pytest.approx(np.diag(sigma), rel=1e-8)
    first, second = rng.integers(-1, 2, (5, n)).astype(float), rng.normal(size=(3, n))
    one, other = over_running_sums(csr_array(first)), over_running_sums(csr_array(second))
    assert one @ running == pytest.approx(first)
    assert noise.row_variances(one) == pytest.approx(np.diag(first @ sigma @ first.T), rel=1e-7, abs=1e-12)
    assert noise.covariance(one, other) == pytest.approx(first @ sigma @ second.T, rel=1e-6, abs=1e-9)
    start, stop = np.triu_indices(n)
    ranges = ((start[:, None] <= np.arange(n)) & (np.arange(n) <= stop[:, None])).astype(float)
    assert noise.sum_of_range_variances() == pytest.approx(np.einsum("ri,ij,rj->", ranges, sigma, ranges), rel=1e-7)


@given(noises())
@settings(max_examples=60, deadline=None)
def test_the_price_is_the_largest_diagonal_entry_and_never_less(noise):
    cost = np.linalg.inv(covariance_of(noise))
    largest = np.diag(cost).max()
    assert float(price(noise)) == pytest.approx(largest, rel=1e-7)
    constant, slope, zeros, weights = reciprocal(noise.poles, noise.weights)
    for x in (Fraction(1, 1000), Fraction(3), Fraction(10**5)):
        r = sum(
            Fraction(a) / (x + Fraction(p)) for p, a in zip(noise.poles.tolist(), noise.weights.tolist(), strict=True)
        )
        terms = zip(zeros.tolist(), weights.tolist(), strict=True)
        bound = Fraction(constant) + Fraction(slope) * x + sum(Fraction(d) * x / (x + Fraction(z)) for z, d in terms)
        assert 1 / r <= bound <= (1 + Fraction(1, 10**9)) / r
    assert cost.min() >= -1e-9 * largest  # which is why a replacement costs twice as much at most


@given(st.floats(1e-6, 1), st.floats(2, 1e9), st.sampled_from([1e-2, 1e-4, 1e-6]))
@settings(max_examples=40, deadline=None)
def test_inverse_roots_are_as_close_as_they_say(least, ratio, error):
    root = inverse_root(least, least * ratio, error)
    x = np.exp(np.linspace(np.log(least), np.log(least * ratio), 5000))
    off = np.abs(root(x) * np.sqrt(x) - 1).max()
    assert (root.weights > 0).all()
    assert root.error <= error
    assert off <= root.error * (1 + 1e-6) + 1e-12


def axis(n):
    return rs.Domain({"minute": rs.Integers(0, n - 1), "sex": ["F", "M"]})


@pytest.mark.parametrize("asked", ["prefixes", "ranges", "both", "with values"])
def test_it_is_as_good_as_the_dense_optimum(asked):
    domain = axis(96)
    workload = {
        "prefixes": rs.prefixes(domain, "minute"),
        "ranges": rs.ranges(domain, "minute"),
        "both": 5 * rs.prefixes(domain, "minute") + rs.ranges(domain, "minute"),
        "with values": rs.prefixes(domain, "minute") + 3 * rs.marginals(domain, [("minute",)]),
    }[asked]
    made = rs.plan(workload, rs.ZCDP(0.5), form=rs.Axis())
    dense = rs.plan(workload, rs.ZCDP(0.5), form=rs.Matrix(), tolerance=1e-4)
    assert isinstance(made, ProductPlan)
    assert made.gap <= 1.1e-3
    ours, theirs = made.total_variance(workload), dense.total_variance(workload)
    assert theirs / (1 + dense.gap) <= ours * (1 + 1e-9)
    assert ours <= theirs * (1 + made.gap + 1e-6)
    assert made.cost <= 1.0


def test_the_largest_variance_is_as_small_as_the_dense_optimum():
    domain = axis(64)
    workload = rs.prefixes(domain, "minute")
    made = rs.plan(workload, rs.ZCDP(0.5), minimise=rs.MaxVariance(), form=rs.Axis())
    dense = rs.plan(workload, rs.ZCDP(0.5), minimise=rs.MaxVariance(), form=rs.Matrix())
    ours, theirs = made.variances(workload).max(), dense.variances(workload).max()
    assert theirs / (1 + dense.gap) <= ours * (1 + 1e-9)
    assert ours <= theirs * (1 + made.gap + 1e-6)
    target = rs.plan(workload, targets=25.0, form=rs.Axis())
    assert target.variances(workload).max() == pytest.approx(25.0, rel=1e-3)
    assert target.variances(workload).max() <= 25.0
    assert target.unit_pcost == pytest.approx(made.unit_pcost * ours / 25.0, rel=1e-3)


def test_published_figures_of_long_axes():
    domain = axis(1024)
    for asked, rmse in ((rs.prefixes, 2.95545), (rs.ranges, 3.51508)):
        workload = asked(domain, "minute")
        made = rs.plan(workload, rs.ZCDP(0.5))
        assert isinstance(made, ProductPlan)
        found = np.sqrt(made.total_variance(workload) / workload.queries)
        assert rmse * (1 - 1e-5) <= found <= rmse * np.sqrt(1 + made.gap) * (1 + 1e-5)


DOMAIN = axis(40)
PLAN = rs.plan(rs.prefixes(DOMAIN, "minute") + rs.ranges(DOMAIN, "minute"), rs.ZCDP(0.5), form=rs.Axis())


def test_drawn_noise_has_the_stated_covariances():
    (piece,) = PLAN.measurements.pieces
    draws = rounded_ordered(piece.sampled, piece.grid, 4000) / piece.grid
    stated = PLAN.covariance(rs.prefixes(DOMAIN, "minute"))
    distance, pairs = unlike(draws, stated)
    assert chi2.ppf(1e-6, pairs) * 0.9 < distance < chi2.isf(1e-6, pairs) * 1.1
    # 40 means: 6 standard errors are exceeded once in ten million runs
    assert np.abs(draws.mean(axis=0) / np.sqrt(np.diag(stated) / len(draws))).max() < 6


def test_rounded_noise_has_the_exact_distribution():
    from scipy.stats import chisquare, norm

    noise = PLAN.measurements.pieces[0].sampled
    sums, _ = noise.variances()
    draws = rounded_ordered(noise, 1, 6000)[:, 17]  # on the coarsest grid, where rounding shows
    deviation = np.sqrt(sums[17])
    edges = np.arange(-4, 6) - 0.5
    expected = np.diff(norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) / deviation)) * len(draws)
    found = np.bincount(np.searchsorted(edges, draws), minlength=len(expected))
    assert chisquare(found, expected).pvalue > 1e-6


def test_a_release_says_what_is_true(tmp_path):
    values = np.repeat(np.arange(40), np.arange(40) * 5)
    data = pa.table({"minute": values, "sex": ["F"] * len(values)})
    ledger = rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5))
    release = rs.measure(PLAN, data, ledger=ledger)
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    truth = np.cumsum(np.arange(40) * 5)
    answers = again.answers(rs.prefixes(DOMAIN, "minute"))
    assert np.array_equal(again.estimates(["minute"]).cumsum().round(6), answers.estimates.round(6))
    assert np.abs(answers.estimates - truth).max() < 6 * answers.stddev.max()
    half = again.count({"minute": rs.between(10, 29)})
    assert abs(half.estimate - truth[29] + truth[9]) < 6 * half.stddev
    assert half.stddev == pytest.approx(np.sqrt(PLAN.variance({"minute": rs.between(10, 29)})))
    with pytest.raises(PlanError, match="sex"):
        again.estimates(["sex"])
    assert ledger.spent.rho <= 0.5


@pytest.mark.parametrize("change", ["pole", "weight", "q", "factor"])
def test_a_plan_that_was_altered_after_pricing_is_refused(change, tmp_path):
    path, own = PLAN.correlated, PLAN.correlated.strategy
    changed = {
        "pole": {"poles": np.append(own.poles[:-1], own.poles[-1] * 1.5)},
        "weight": {"weights": own.weights * 0.999},
        "q": {"q": np.append(own.q[:-1], own.q[-1] * 0.8)},
        "factor": {},
    }[change]
    factor = path.factor * (0.999 if change == "factor" else 1.0)
    altered = PLAN.with_parts({(): CorrelatedPath(replace(own, **changed), factor)})
    data = pa.table({"minute": [1], "sex": ["F"]})
    ledger = rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5))
    with pytest.raises(VerificationError):
        rs.measure(altered, data, ledger=ledger)
    assert not ledger.entries
    assert PLAN.cost <= 1


def test_files_hold_the_plan_exactly(tmp_path):
    PLAN.save(tmp_path / "plan.json")
    again = rs.Plan.load(tmp_path / "plan.json")
    assert again.correlated.strategy == PLAN.correlated.strategy
    assert again.correlated.factor == PLAN.correlated.factor
    assert again.cost == PLAN.cost
    assert json.loads((tmp_path / "plan.json").read_text())


def test_what_is_not_along_one_axis_is_said():
    domain = axis(20)
    with pytest.raises(PlanError, match="of an attribute"):
        rs.plan(rs.marginals(domain, ways=2), rs.ZCDP(0.5), form=rs.Axis())
    assert np.isinf(PLAN.variances(rs.marginals(DOMAIN, [("sex",)]))).all()
    assert PLAN.supports({"minute": rs.between(3, 9), "sex": ["F", "M"]})
    assert not PLAN.supports(["sex"])
    assert PLAN.supports(["minute"])


def test_a_projection_does_not_fall_and_is_the_nearest(tmp_path):
    cvxpy = pytest.importorskip("cvxpy")
    data = pa.table({"minute": [3, 3, 20] * 10, "sex": ["F"] * 30})
    release = rs.measure(PLAN, data, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    observed = np.cumsum(release.estimates(["minute"]))
    for options, total in (({"total": 30}, 30.0), ({"total": "free"}, None)):
        projected = rs.project(release, **options)
        found = np.cumsum(projected.estimates(["minute"]))
        x = cvxpy.Variable(40, nonneg=True)
        facts = [] if total is None else [cvxpy.sum(x) == total]
        best = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(cvxpy.cumsum(x) - observed)), facts).solve()
        assert projected.estimates(["minute"]).min() >= 0
        assert ((found - observed) ** 2).sum() == pytest.approx(best, rel=1e-4, abs=1e-4)
    projected.save(tmp_path / "projected")
    again = rs.Projected.load(tmp_path / "projected")
    assert np.array_equal(again.estimates(["minute"]), projected.estimates(["minute"]))


def test_noise_that_cannot_be_sampled_is_refused_before_anything_is_spent(tmp_path):
    domain = rs.Domain({"age": rs.Integers(0, 99)})
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1.0))
    plan = rs.plan(rs.prefixes(domain, "age"), rs.ZCDP(1e-28), form=rs.Axis())
    with pytest.raises(VerificationError, match="larger than can be sampled"):
        rs.measure(plan, pa.table({"age": [1, 2]}), ledger=ledger)
    assert not ledger.entries


def test_an_axis_that_is_no_attribute_is_refused():
    domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 99)})
    body = rs.plan(rs.prefixes(domain, "age"), rs.ZCDP(0.5), form=rs.Axis()).to_body()
    for attribute in (-1, 2):
        with pytest.raises(ValueError, match="attribute"):
            ProductPlan.of_body({**body, "attribute": attribute})


def test_quantiles_and_the_largest_are_read_off_an_axis(tmp_path):
    data = pa.table({"minute": [3, 3, 20] * 100, "sex": ["F"] * 300})
    release = rs.measure(PLAN, data, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    median = release.median("minute")
    assert median.lower == median.estimate == median.upper == 3
    assert PLAN.assuming(1_000).quantile("minute", [0.11, 0.88]).estimate.tolist() == [4, 35]
    assert release.top(["minute"], 2).columns["minute"] == [3, 20]


def test_records_left_out_are_estimated_beside_an_axis(tmp_path):
    unit = rs.Person(records=2)
    plan = rs.plan(rs.prefixes(axis(40), "minute"), rs.ZCDP(0.5), unit=unit, form=rs.Axis())
    people = pa.table({"minute": [3] * 90, "sex": ["F"] * 90, "who": [i // 3 for i in range(90)]})
    source = rs.Source.frame(people, person="who")
    ledger = rs.Ledger(tmp_path / "ledger", rs.ZCDP(1.0), unit=unit)
    release = rs.measure(plan, source, ledger=ledger, left_out=0.5, left_out_most=1)
    said = release.left_out.count()
    assert abs(said.estimate - 30) < 6 * said.stddev < 30  # one false alarm in 5·10⁸
    assert plan.guarantee == rs.ZCDP(0.49)  # 2 % are kept for what is left out; here it gets as much as the plan
    assert ledger.spent_exactly == pytest.approx(2 * 0.98)  # a pcost is twice rho
    assert "Guarantee: ZCDP(rho=0.98)" in privacy_statement(release)
    (written,) = release.export(tmp_path / "tables", "jsonstat")
    assert "ZCDP(rho=0.98)" in written.read_text()
    release.report(tmp_path / "report.html")
    assert "ZCDP(rho=0.49)" not in (tmp_path / "report.html").read_text()


def test_quoting_along_an_axis_is_as_wide_as_its_variances_say(tmp_path):
    domain = rs.Domain({"minute": rs.Integers(0, 2_999)})
    plan = rs.plan(rs.prefixes(domain, "minute"), rs.ZCDP(0.5))
    data = pa.table({"minute": np.arange(6_000) % 3_000})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    shown = release.median("minute", confidence=1 - 1e-7)  # one false alarm in ten million
    assert shown.lower <= 1_499 <= shown.upper
    assert shown.upper - shown.lower < 40
    total = release.sum("minute")
    spread = plan.combination_variance({("minute",): np.arange(3_000.0)}) ** 0.5
    assert total.stddev == pytest.approx(spread)
    assert total.upper - total.lower == pytest.approx(2 * 1.959964 * spread, rel=1e-6)


def test_what_a_bound_leaves_out_is_published_beside_an_axis(tmp_path):
    domain = rs.Domain({"minute": rs.Integers(0, 999)})
    plan = rs.plan(rs.prefixes(domain, "minute"), rs.ZCDP(0.5), unit=rs.Person(records=2))
    people = pa.table({"minute": [1, 2, 3, 4], "who": ["a", "a", "a", "b"]})
    source = rs.Source.frame(people, person="who")
    ledger = rs.Ledger(tmp_path / "ledger", rs.ZCDP(1.0), unit=plan.unit)
    release = rs.measure(plan, source, ledger=ledger)
    assert ledger.spent_exactly == pytest.approx(2 * 0.5)  # of both, as promised: a pcost is twice rho
    said = release.left_out.count()
    assert abs(said.estimate - 1) < 8 * said.stddev
    with pytest.raises(PlanError, match=r"left_out=.* is not a share of what is spent; say 0\.02"):
        rs.measure(plan, source, ledger=ledger, left_out=rs.PureDP(0.1))
    assert len(ledger.entries) == 1


def test_no_gap_is_stated_where_a_person_is_priced_too_dearly():
    domain = rs.Domain({"minute": rs.Integers(0, 99)})
    unit = rs.Person(records=50, one_per="minute")
    plan = rs.plan(rs.prefixes(domain, "minute"), rs.ZCDP(0.5), unit=unit, form=rs.Axis())
    _, rows = plan.over_cells()
    cost = rows.T @ rows  # no entry is negative: a person with 50 different minutes costs no more than
    most = 50 * np.sort(cost, axis=1)[:, -50:].sum(axis=1).max()
    assert most < plan.unit_pcost / 1.5  # so that the same plan with less noise would keep the promise
    assert plan.gap > 0.5
    assert rs.plan(plan.workload, rs.ZCDP(0.5), unit=rs.Person(records=50), form=rs.Axis()).gap < 1e-3


def test_the_axis_form_is_not_chosen_by_itself_where_limits_make_it_dear(monkeypatch):
    from residua.plans.planners import axis

    monkeypatch.setattr(axis, "LONG", 32)
    monkeypatch.setattr(axis, "LONG_WITH_LIMITS", 65)
    workload = rs.prefixes(rs.Domain({"minute": rs.Integers(0, 63)}), "minute")
    limited = rs.Person(records=64, one_per="minute")
    chosen = rs.plan(workload, rs.ZCDP(0.5), unit=limited)
    along = rs.plan(workload, rs.ZCDP(0.5), unit=limited, form=rs.Axis())
    assert 2 * chosen.total_variance(workload) < along.total_variance(workload)
    assert isinstance(rs.plan(workload, rs.ZCDP(0.5), unit=rs.Person(records=64)), ProductPlan)


def test_long_axes_are_combined_and_read_together_where_they_share_their_noise(tmp_path):
    domain = rs.Domain({"minute": rs.Integers(0, 4_999), "sex": ["F", "M"]})
    workload, crossed = rs.prefixes(domain, "minute"), rs.prefixes(domain, "minute", by=["sex"])
    plan = rs.plan(workload, rs.ZCDP(0.5))
    assert isinstance(plan, ProductPlan)
    finer = rs.plan(crossed, rs.ZCDP(0.5), form=rs.Lattice(like=plan))
    assert finer.gap < 2e-3
    shared = rs.common([plan, finer])
    assert plan.can_answer(shared)
    assert finer.can_answer(shared)
    rest = rs.residual(finer, given=shared)
    assert shared.pcost + rest.pcost == pytest.approx(finer.pcost, rel=1e-6)
    missing = rs.top_up(finer, given=[plan])
    assert (plan + missing).can_answer(finer)
    other = rs.plan(rs.ranges(domain, "minute"), rs.ZCDP(0.5))
    with pytest.raises(PlanError, match=r"too long|at most 4,096"):
        rs.common([plan, other])
    data = pa.table({"minute": [1, 2] * 50, "sex": ["F", "M"] * 50})
    session = rs.Session(data, rs.ZCDP(2.0), ledger=tmp_path / "ledger")
    session.release(plan)
    spent = session.ledger.spent_exactly
    session.release(finer)
    assert float(session.ledger.spent_exactly - spent) == pytest.approx(missing.pcost, rel=1e-6)
    spent = session.ledger.spent_exactly
    with pytest.raises(PlanError, match="at most 4,096"):
        session.release(other)
    assert session.ledger.spent_exactly == spent
    pool = session.known.answers(crossed)
    truth = np.outer(np.arange(5_000) >= 1, [50, 0]) + np.outer(np.arange(5_000) >= 2, [0, 50])
    assert np.abs((pool.estimates - truth.ravel()) / pool.stddev).max() < 7
    assert pool.stddev == pytest.approx(np.sqrt((plan + missing).variances(crossed)), rel=1e-4)


def test_a_price_that_is_a_bound_alone_is_said_to_be_one():
    workload = rs.prefixes(DOMAIN, "minute")
    units = (rs.ReplaceOne(), rs.Person(records=5, one_per="minute"))
    for unit in units:
        plan = rs.plan(workload, rs.ZCDP(0.5), unit=unit, form=rs.Axis())
        assert plan.slack == np.inf
        assert plan.details == {"price_slack": None}
        assert "a bound" in dict(plan.remarks)["Price"]
    assert PLAN.slack == 0
    assert "Price" not in dict(PLAN.remarks)
