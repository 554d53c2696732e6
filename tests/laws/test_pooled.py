"""Pooled releases against generalised least squares by brute force; look and finish amount to the plan itself."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import PlanError
from residua.plans import MatrixPlan
from residua.plans.verifier import composed_cost
from residua.release import Release, pooled
from tests.laws import dense

DOMAIN = rs.Domain.of_sizes({"a": 3, "b": 2, "c": 2})
SIZES = DOMAIN.sizes.tolist()


def measured(plan):
    """The matrix over all cells of what a plan's blocks measure, and the variance of each measurement."""
    measurements = plan.compile()
    if isinstance(plan, MatrixPlan):
        own = [n if i in plan.attributes else 1 for i, n in enumerate(SIZES)]
        columns = np.broadcast_to(plan.columns.reshape(own), SIZES).ravel()
        rows = np.append(plan.strategy, np.zeros((len(plan.strategy), 1), dtype=np.int64), axis=1)[:, columns]
        return measurements, rows.astype(float), np.full(len(rows), plan.scale**2 + 1 / 12)
    rows, variances = [], []
    grids = dict(zip(measurements.measured, measurements.grids, strict=True))
    scales = dict(zip(measurements.measured, measurements.scales, strict=True))
    for group in measurements.layout:
        for number, members in zip(group.numbers, group.members, strict=True):
            cells = int(np.prod([SIZES[i] for i in members]))
            wide = dense.centring(SIZES, members) @ dense.marginal_matrix(SIZES, members)
            rows.append(np.rint(wide * cells) * grids[number])
            variances.append(np.full(cells, scales[number] ** 2 + 1 / 12))
    return measurements, np.vstack(rows), np.concatenate(variances)


def pretended(plan, x, rng):
    """A release of a plan with pseudo-random noise, its matrix and its variances."""
    measurements, rows, variances = measured(plan)
    y = np.rint(rows @ x + rng.normal(size=len(rows)) * np.sqrt(variances)).astype(np.int64)
    return Release(plan, measurements, y), rows, variances, y


def workloads():
    some = [[("a",)], [("a", "b")], [("b", "c"), ("a",)], [("a", "b", "c")], [()]]
    marginal = st.sampled_from(some).map(lambda sets: rs.marginals(DOMAIN, sets))
    explicit = st.one_of(
        marginal.map(lambda workload: workload.listed()),
        st.integers(0, 5).map(lambda seed: rs.explicit(DOMAIN, np.random.default_rng(seed).integers(-1, 2, (3, 12)))),
    )
    return st.one_of(marginal, explicit)


@given(st.lists(st.tuples(workloads(), st.floats(0.5, 4.0)), min_size=1, max_size=3), st.integers(0, 2**32))
@settings(max_examples=60)
def test_pooling_is_generalised_least_squares(asked, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 200, 12)
    parts = [pretended(rs.independent(workload, rs.GDP(mu)), x, rng) for workload, mu in asked]
    pool = pooled([part[0] for part in parts])
    B = np.vstack([rows / np.sqrt(variances)[:, None] for _, rows, variances, _ in parts])
    y = np.concatenate([values / np.sqrt(variances) for _, _, variances, values in parts])
    inverse = np.linalg.pinv(B, rcond=1e-9)
    for workload, _ in asked:
        W = (workload if not workload.tabular else workload.listed()).over((0, 1, 2))
        W = W.toarray()
        truth = W @ inverse @ y
        covariance = W @ inverse @ inverse.T @ W.T
        found = pool.answers(workload).columns
        spread = np.sqrt(np.diag(covariance)) + 1e-12
        # An empty query has no spread; it is answered with 0.
        assert np.abs((found["estimate"] - truth) / spread).max() < 1e-4
        assert np.allclose(found["stddev"], np.sqrt(np.diag(covariance)), rtol=1e-6, atol=1e-12)
        assert (found["stddev"] >= np.sqrt(np.diag(covariance)) * (1 - 1e-8)).all()
    plans = [part[0].planned for part in parts]
    assert pool.receipt["pcost"] >= composed_cost(plans)
    assert pool.receipt["pcost"] == pytest.approx(float(composed_cost(plans)), rel=1e-12)
    assert pool.planned.guarantee.pcost_allowed() >= composed_cost(plans)


@pytest.mark.parametrize("kinds", ["residual", "dense", "mixed"])
def test_common_and_residual_pool_to_the_plan_and_survive_the_disk(kinds, tmp_path):
    rng = np.random.default_rng(7)
    x = rng.integers(0, 200, 12)
    one, two = rs.marginals(DOMAIN, ways=1), rs.marginals(DOMAIN, ways=2)
    asked = [one.listed() if kinds != "residual" else one, two.listed()]
    asked[1] = asked[1] if kinds == "dense" else two
    candidates = [rs.plan(workload, rs.ZCDP(0.5)) for workload in asked]
    common = rs.common(candidates)
    for plan, workload in zip(candidates, (one, two), strict=True):
        left = rs.residual(plan, given=common)
        pool = pooled([pretended(part, x, rng)[0] for part in (common, left)], workload)
        direct = pretended(plan, x, rng)[0].plan
        stddevs = pool.answers(workload).columns["stddev"]
        assert np.allclose(stddevs**2, direct.variances(workload), rtol=1e-6)
        assert composed_cost([common, left]) <= composed_cost([plan])
        pool.save(tmp_path / str(workload.queries))
        again = rs.Release.load(tmp_path / str(workload.queries))
        assert np.array_equal(again.estimates(("a",)), pool.estimates(("a",)))
        assert again.asked_cells == workload.queries


def test_what_cannot_be_pooled_is_refused():
    rng, x = np.random.default_rng(0), np.zeros(12, dtype=int)
    release = pretended(rs.plan(rs.marginals(DOMAIN, ways=1), rs.GDP(1.0)), x, rng)[0]
    replacing = pretended(rs.plan(rs.marginals(DOMAIN, ways=1), rs.GDP(1.0), unit=rs.ReplaceOne()), x, rng)[0]
    for given_, message in [([], "empty"), (release, "one release"), (["x"], "cannot be pooled")]:
        with pytest.raises(PlanError, match=message):
            pooled(given_)
    with pytest.raises(PlanError, match="different units"):
        pooled([release, replacing])
    paid = release.__class__(release.planned, release.measurements, release.noisy, {"digest": "one debit"})
    with pytest.raises(PlanError, match="given twice"):  # it would state half the variance
        pooled([paid, paid])


def test_a_pool_knows_its_parts(tmp_path):
    rng, x = np.random.default_rng(0), np.full(12, 9)
    drawn = [pretended(rs.plan(rs.marginals(DOMAIN, ways=1), rs.GDP(1.0)), x, rng)[0] for _ in range(3)]
    receipts = [{"digest": f"{k:064x}", "pcost": 1.0} for k in range(3)]
    one, two, three = (
        each.__class__(each.planned, each.measurements, each.noisy, receipt)
        for each, receipt in zip(drawn, receipts, strict=True)
    )
    first, second = pooled([one, two]), pooled([two, three])
    with pytest.raises(PlanError, match="given twice"):  # `two` would count twice
        pooled([first, second])
    for last in (one, second):
        with pytest.raises(PlanError, match="share one"):
            rs.change(first, last, by=["a"])
    moved = rs.change(first, three, by=["a"])
    assert (moved.stddev > 0).all()
    label = moved.axes[0][1][1]
    assert moved.at(a=label).columns["relative"] == moved.columns["relative"][1:2]  # a row has all its columns
    first.save(tmp_path / "pool")
    with pytest.raises(PlanError, match="share one"):
        rs.change(two, rs.Release.load(tmp_path / "pool"), by=["a"])
